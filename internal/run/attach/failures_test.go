package attach_test

import (
	"bytes"
	"context"
	"fmt"
	"k8s.io/apimachinery/pkg/util/intstr"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// answered is a Database which checks that its sessions return exactly one answer to each transaction.
type answered struct {
	target.Database
	t    *testing.T
	open sync.WaitGroup
	// worked is called for each answer after the clients of all regions have received answers for the time undisturbed.
	worked func()

	mu      sync.Mutex
	waiting map[geo.Region]int       // number of unanswered transactions
	first   map[geo.Region]time.Time // time of the first answer to a client of the region
}

// undisturbed is the time for which clients of each region must have received answers before the database is disturbed.
// It is longer than the warm-up.
const undisturbed = 800 * time.Millisecond

// answer records an answer to a client of a region, and calls worked if clients of all regions have received answers
// for long enough.
func (a *answered) answer(region geo.Region) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first[region].IsZero() {
		a.first[region] = time.Now()
	}
	for r := range a.waiting {
		if first := a.first[r]; first.IsZero() || time.Since(first) < undisturbed {
			return
		}
	}
	a.worked()
}

// Describe implements target.Described.
func (a *answered) Describe() result.Target { return a.Database.(target.Described).Describe() }

func (a *answered) Clients(region geo.Region) target.Target {
	a.count(region, 0)
	return answeredTarget{a.Database.Clients(region), region, a}
}

func (a *answered) count(region geo.Region, more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[region] += more
}

// losePatience waits until clients of every region have started new transactions although previous transactions are
// still unanswered.
func (a *answered) losePatience() {
	await(a.t, "clients lose patience", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, n := range a.waiting {
			if n <= impatientClients {
				return false
			}
		}
		return true
	})
}

type answeredTarget struct {
	target.Target
	region geo.Region
	a      *answered
}

func (c answeredTarget) Open(ctx context.Context, sink target.Sink) (target.Session, error) {
	s := &answeredSession{of: c, asked: map[txn.ID]bool{}}
	var err error
	s.Session, err = c.Target.Open(ctx, func(outcomes []txn.Outcome) {
		s.answer(outcomes)
		sink(outcomes)
	})
	if err != nil {
		return nil, err
	}
	c.a.open.Add(1)
	return s, nil
}

type answeredSession struct {
	target.Session
	of    answeredTarget
	mu    sync.Mutex
	asked map[txn.ID]bool // unanswered transactions
	all   int
}

func (s *answeredSession) Submit(t *txn.Transaction) {
	s.mu.Lock()
	s.asked[t.ID] = true
	s.all++
	s.mu.Unlock()
	s.of.a.count(s.of.region, 1)
	s.Session.Submit(t)
}

func (s *answeredSession) answer(outcomes []txn.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.a.count(s.of.region, -len(outcomes))
	s.of.a.answer(s.of.region)
	for _, o := range outcomes {
		if !s.asked[o.ID] {
			s.of.a.t.Errorf("transaction %v was answered twice, or never asked", o.ID)
		}
		delete(s.asked, o.ID)
	}
}

func (s *answeredSession) Close() error {
	defer s.of.a.open.Done()
	err := s.Session.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 || s.all == 0 {
		s.of.a.t.Errorf("%d of %d transactions have no answer", len(s.asked), s.all)
	}
	return err
}

// failed is the outcome of a run whose database was disturbed.
type failed struct {
	document *result.Document
	// closing is the error of closing the database.
	closing error
}

// nothingIsLeft counts goroutines and file descriptors. It returns a function that waits until both numbers have
// returned to these values.
func nothingIsLeft(t *testing.T) func() {
	t.Helper()
	descriptorsBefore, goroutinesBefore := descriptors(t), runtime.NumGoroutine()
	return func() {
		t.Helper()
		await(t, "descriptors are those of before", func() bool { return descriptors(t) <= descriptorsBefore })
		await(t, "goroutines are those of before", func() bool { return runtime.NumGoroutine() <= goroutinesBefore })
	}
}

// failing plays a plan on a database at s, and calls fail once clients have received answers for the time undisturbed.
// fail may wait until clients lose patience. The test fails unless every transaction has exactly one answer and every
// session is closed. If runs are consecutive, the numbers of goroutines and descriptors must also return to their
// initial values after mend.
func failing(t *testing.T, p *plan.Plan, s sqltarget.Server, fail func(losePatience func()), mend func()) (f failed) {
	t.Helper()
	// Allow unanswered transactions, so that the run cannot be Failed because of them.
	all := intstr.FromInt32(1_000_000)
	p.Run.Spec.Objectives = []v1alpha1.Objective{{Metric: v1alpha1.MetricUnknownPPM, Max: &all}}
	if inARow(t) > 0 {
		left := nothingIsLeft(t)
		defer left()
	}
	db, err := catalog.Targets{}.Open(t.Context(), p.Engine.Name, &p.Topology, s, p.Params, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	begun, over := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	clients := &answered{Database: db, t: t, worked: begin, waiting: map[geo.Region]int{}, first: map[geo.Region]time.Time{}}
	go func() {
		defer close(over)
		f.document, err = inprocess.On(t.Context(), p, clients, func(inprocess.Progress) {})
	}()
	select {
	case <-begun:
		fail(clients.losePatience)
		<-over
	case <-over:
		t.Error("the run was over before anything happened to the database")
	}
	clients.open.Wait()
	f.closing = db.Close()
	mend()
	if err != nil {
		t.Fatal(err)
	}
	d := f.document
	t.Logf("verdict %s %v: %d committed, %d refused, %d unknown, %d of them timeouts, causes %v", d.Verdict, d.Reasons, d.Summary.Committed, d.Summary.Refused, d.Summary.Unknown, d.Summary.Timeouts, d.Summary.Causes)
	return f
}

// mustBe fails the test unless the run has this verdict and, if reason is not empty, this reason. Clients must also
// have received errors.
func (f failed) mustBe(t *testing.T, verdict v1alpha1.Verdict, reason string) {
	t.Helper()
	d := f.document
	if d.Verdict != verdict || reason != "" && !slices.ContainsFunc(d.Reasons, func(r result.Reason) bool { return r.Reason == reason && r.Message != "" }) {
		t.Errorf("verdict %s %v, not %s %s", d.Verdict, d.Reasons, verdict, reason)
	}
	if verdict != v1alpha1.VerdictInvalid && f.closing != nil {
		t.Errorf("the database is back, and could not be closed: %v", f.closing)
	}
	if d.Summary.Causes["node"]+d.Summary.Causes["client"] == 0 {
		t.Errorf("no client was told of it: %v", d.Summary.Causes)
	}
}

// patience is the request timeout of the clients in these tests. impatientClients is the number of clients in each
// region. interrupted is the load of runs whose database is disturbed; it uses these two values.
const (
	patience         = 300 * time.Millisecond
	impatientClients = 8
	interrupted      = "{clientsPerRegion: 8, thinkTime: 10ms, requestTimeout: 300ms, warmup: 500ms, duration: 4s}"
)

// failuresVariable is the environment variable that sets the number of consecutive runs of these tests. Without it,
// each failure is played once.
const failuresVariable = "GEOBENCH_FAILURES"

// inARow returns the number of consecutive runs that the environment variable requests, or 0 if it is not set.
func inARow(t *testing.T) int {
	t.Helper()
	text := os.Getenv(failuresVariable)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %q is no number of runs: %v", failuresVariable, text, err)
	}
	return n
}

// inTurn runs the test once for each name. If consecutive runs are requested, it cycles through the names until it has
// done that many runs.
func inTurn(t *testing.T, names []string, run func(t *testing.T, name string)) {
	t.Helper()
	for i := range max(len(names), inARow(t)) {
		name := names[i%len(names)]
		t.Run(fmt.Sprintf("%d %s", i, name), func(t *testing.T) { run(t, name) })
	}
}

// passing are the failures that mend repairs as soon as clients have lost patience. With these, the run may pass.
var passing = map[string]bool{"hangs for a while": true, "answers after the timeout": true}

// someOf returns a function that decides the fate of messages. Of the messages that are selects, every twentieth meets
// fate; all other messages are delivered.
func someOf(fate postgrestest.Fate, are func(sent []byte) bool) func(sent []byte) postgrestest.Fate {
	const every = 20
	var n atomic.Int64
	return func(sent []byte) postgrestest.Fate {
		if are(sent) && n.Add(1)%every == 0 {
			return fate
		}
		return postgrestest.Delivered
	}
}

// Each database fails in the middle of a run. By default, the databases fail concurrently, because the tests mostly
// wait, and the test checks at the end that all resources are released. With consecutive runs, they fail one after
// another, and each run must release its resources.
func TestDatabaseFailsInTheMiddleOfARun(t *testing.T) {
	left := nothingIsLeft(t)
	t.Run("at once", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){"postgres": postgresFails, "mysql": mysqlFails, "etcd": etcdFails, "galera": galeraLosesItsQuorum} {
			t.Run(name, func(t *testing.T) {
				if inARow(t) == 0 {
					t.Parallel()
				}
				test(t)
			})
		}
	})
	left()
}

// A PostgreSQL server dies, hangs, becomes slow, restarts or loses its connections in the middle of a run. The run
// finishes with a verdict that states the reason, every transaction is answered, and no connection or goroutine
// remains.
func postgresFails(t *testing.T) {
	s := postgrestest.Start(t, "log_statement=none")
	const commit, rollback = "geobench_commit", "geobench_rollback" // names of prepared statements, which the client prepares in the same message
	cut := func(fate postgrestest.Fate) func(*postgrestest.Proxy) {
		return func(p *postgrestest.Proxy) {
			p.Judge(someOf(fate, func(sent []byte) bool {
				return bytes.Contains(sent, []byte(commit)) && !bytes.Contains(sent, []byte(rollback))
			}))
		}
	}
	nothing := func(*postgrestest.Proxy) {}
	failures := map[string]struct {
		fail, mend func(*postgrestest.Proxy)
		verdict    v1alpha1.Verdict
		reason     string
		// uncertain is set if answers to commits are lost before clients lose patience, so that outcomes are unknown.
		uncertain bool
	}{
		"dies": {func(*postgrestest.Proxy) { s.Stop(t) }, func(*postgrestest.Proxy) { s.Restart(t) }, v1alpha1.VerdictInvalid, result.ReasonTargetFailed, false},
		"restarts": {func(*postgrestest.Proxy) {
			s.Stop(t)
			s.Restart(t)
		}, nothing, v1alpha1.VerdictInvalid, result.ReasonTargetFailed, false},
		"hangs":                             {func(*postgrestest.Proxy) { s.Pause(t) }, func(*postgrestest.Proxy) { s.Continue(t) }, v1alpha1.VerdictInvalid, result.ReasonNotAudited, false},
		"hangs for a while":                 {func(*postgrestest.Proxy) { s.Pause(t) }, func(*postgrestest.Proxy) { s.Continue(t) }, v1alpha1.VerdictPassed, "", false},
		"is unreachable":                    {func(p *postgrestest.Proxy) { p.Close() }, nothing, v1alpha1.VerdictInvalid, result.ReasonTargetFailed, false},
		"drops its connections":             {func(p *postgrestest.Proxy) { p.Break() }, nothing, v1alpha1.VerdictPassed, "", false},
		"answers after the timeout":         {func(p *postgrestest.Proxy) { p.Delay(patience) }, func(p *postgrestest.Proxy) { p.Delay(0) }, v1alpha1.VerdictPassed, "", false},
		"never gets some commits":           {cut(postgrestest.Lost), nothing, v1alpha1.VerdictPassed, "", true},
		"commits and some answers are lost": {cut(postgrestest.Unanswered), nothing, v1alpha1.VerdictPassed, "", true},
	}
	inTurn(t, slices.Sorted(maps.Keys(failures)), func(t *testing.T, name string) {
		tc := failures[name]
		proxy := postgrestest.NewProxy(t, s.Address)
		defer proxy.Close()
		p := planned(t, own{address: proxy.Address, workload: "{smallbank: {customers: 500}}", verify: "[Invariants, Isolation]", load: interrupted}.text())
		to := at(p, sqltarget.Server{Database: "postgres", User: postgrestest.User, Password: postgrestest.Password}, proxy.Address)
		f := failing(t, p, to, func(losePatience func()) {
			tc.fail(proxy)
			if passing[name] {
				losePatience()
				tc.mend(proxy)
			}
		}, func() {
			proxy.Close()
			if !passing[name] {
				tc.mend(proxy)
			}
		})
		f.mustBe(t, tc.verdict, tc.reason)
		if d := f.document; tc.uncertain && d.Summary.Unknown-d.Summary.Timeouts < 10 {
			t.Errorf("%d outcomes are unknown, not those of the commits that lost their answers", d.Summary.Unknown)
		}
		s.AwaitNoSessions(t, "geobench-")
		s.Query(t, "postgres", "drop schema if exists geobench cascade")
	})
}

// at returns the server s with an endpoint for each region of the plan. The regions use the addresses in order. If
// there are more regions than addresses, the remaining regions use the last address.
func at(p *plan.Plan, s sqltarget.Server, addresses ...string) sqltarget.Server {
	for i, r := range p.Topology.Regions {
		s.Endpoints = append(s.Endpoints, sqltarget.Endpoint{Region: r, Address: addresses[min(i, len(addresses)-1)]})
	}
	return s
}

// A MariaDB server that fails in the middle of a run is reported in the same way as a PostgreSQL server.
func mysqlFails(t *testing.T) {
	s := mysqltest.Start(t)
	failures := map[string]struct {
		fail    func(*postgrestest.Proxy)
		mend    func()
		verdict v1alpha1.Verdict
		reason  string
	}{
		"drops its connections": {func(p *postgrestest.Proxy) { p.Break() }, func() {}, v1alpha1.VerdictPassed, ""},
		"hangs for a while":     {func(*postgrestest.Proxy) { s.Pause(t) }, func() { s.Continue(t) }, v1alpha1.VerdictPassed, ""},
		"hangs":                 {func(*postgrestest.Proxy) { s.Pause(t) }, func() { s.Continue(t) }, v1alpha1.VerdictInvalid, result.ReasonNotAudited},
		"is unreachable":        {func(p *postgrestest.Proxy) { p.Close() }, func() {}, v1alpha1.VerdictInvalid, result.ReasonTargetFailed},
		"commits and some answers are lost": {func(p *postgrestest.Proxy) {
			p.Judge(someOf(postgrestest.Unanswered, func(sent []byte) bool { return bytes.Contains(sent, []byte("\x03commit")) }))
		}, func() {}, v1alpha1.VerdictPassed, ""},
	}
	inTurn(t, slices.Sorted(maps.Keys(failures)), func(t *testing.T, name string) {
		tc := failures[name]
		proxy := postgrestest.NewProxy(t, s.Address)
		defer proxy.Close()
		o := ownMySQL{servers: []*mysqltest.Server{s}, isolation: "Serializable", workload: "{smallbank: {customers: 500}}", load: interrupted, verify: "[Invariants, Isolation]"}
		p := planned(t, o.text())
		to := at(p, sqltarget.Server{Database: mysqltest.Database, User: mysqltest.User, Password: mysqltest.Password}, proxy.Address)
		failing(t, p, to, func(losePatience func()) {
			tc.fail(proxy)
			if passing[name] {
				losePatience()
				tc.mend()
			}
		}, func() {
			proxy.Close()
			if !passing[name] {
				tc.mend()
			}
		}).mustBe(t, tc.verdict, tc.reason)
		s.AwaitNoSessions(t)
		s.Query(t, mysqltest.Database, "drop table if exists geobench_rows")
	})
}

// A Galera node that has lost its quorum accepts no further transactions, and the outcomes of its last transactions are
// unknown. The run is therefore Invalid.
func galeraLosesItsQuorum(t *testing.T) {
	nodes := mysqltest.StartGalera(t, 3)
	o := ownMySQL{servers: nodes[:1], isolation: "SnapshotIsolation", workload: "{smallbank: {customers: 500}}", load: "{clientsPerRegion: 8, thinkTime: 10ms, requestTimeout: 300ms, warmup: 200ms, duration: 8s}", verify: "[Invariants, Isolation]"}
	p := planned(t, o.text())
	to := at(p, sqltarget.Server{Database: mysqltest.Database, User: mysqltest.User, Password: mysqltest.Password}, nodes[0].Address)
	f := failing(t, p, to, func(func()) {
		nodes[1].Stop(t)
		nodes[2].Stop(t)
	}, func() {})
	f.mustBe(t, v1alpha1.VerdictInvalid, result.ReasonNotAudited)
}

// If an etcd cluster loses its leader, it elects a new one, and the run continues. If the cluster loses its majority,
// or a region loses its member, the run is Invalid.
func etcdFails(t *testing.T) {
	failures := map[string]struct {
		fail    func(members []*etcdtest.Member)
		verdict v1alpha1.Verdict
		reason  string
	}{
		"loses its leader":   {func(members []*etcdtest.Member) { members[2].Stop(t) }, v1alpha1.VerdictPassed, ""},
		"loses its majority": {func(members []*etcdtest.Member) { members[1].Pause(t); members[2].Stop(t) }, v1alpha1.VerdictInvalid, result.ReasonNotAudited},
		"is gone":            {func(members []*etcdtest.Member) { members[0].Stop(t) }, v1alpha1.VerdictInvalid, result.ReasonTargetFailed},
	}
	inTurn(t, slices.Sorted(maps.Keys(failures)), func(t *testing.T, name string) {
		tc := failures[name]
		members := etcdtest.Start(t, 3)
		members[2].Lead(t)
		p := planned(t, etcdText(members[:2], "Linearizable", "{smallbank: {customers: 500}}", "{clientsPerRegion: 8, thinkTime: 10ms, requestTimeout: 300ms, warmup: 200ms, duration: 4s}", "[Invariants, Isolation]"))
		failing(t, p, at(p, sqltarget.Server{}, members[0].Address, members[1].Address), func(func()) { tc.fail(members) }, func() {}).mustBe(t, tc.verdict, tc.reason)
	})
}
