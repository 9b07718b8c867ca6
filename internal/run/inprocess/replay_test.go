package inprocess

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/timers"
)

// tape records the transactions that a region's load generator sent in a run, and the answers that it received. With a
// tape, the load generator can be replayed without the database.
type tape struct {
	calls   []call
	answers []answer
	numbers map[txn.ID]int // by transaction, the index in calls
	real    workload.Generator
}

// call is a transaction from a workload's generator.
type call struct {
	t txn.Transaction
	r workload.Request
}

// answer is an outcome that a client received.
type answer struct {
	at     time.Duration
	number int // index of the transaction in calls
	o      txn.Outcome
}

// recorded is a workload that records its generators on tapes, one for each region.
type recorded struct {
	workload.Workload
	tapes map[geo.Region]*tape
}

func (w recorded) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	x := &tape{numbers: map[txn.ID]int{}, real: w.Workload.NewGenerator(c)}
	w.tapes[c.Region] = x
	return tapeWriter{x.real, x}
}

type tapeWriter struct {
	workload.Generator
	tape *tape
}

func (w tapeWriter) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	r := w.Generator.Next(client, elapsed, t)
	w.tape.numbers[t.ID] = len(w.tape.calls)
	w.tape.calls = append(w.tape.calls, call{*t, r})
	return r
}

// listener records on a tape the answers that a client receives.
type listener struct {
	protocol.Client
	env  protocol.ClientEnv
	tape *tape
}

func (l listener) Complete(o txn.Outcome) {
	l.tape.answers = append(l.tape.answers, answer{l.env.Now(), l.tape.numbers[o.ID], o})
	l.Client.Complete(o)
}

// taped is a recorded run: its document, its facts, the tapes of its regions, and the hashes of the transactions that
// its clients sent.
type taped struct {
	document   *result.Document
	facts      judge.Facts
	tapes      map[geo.Region]*tape
	population population
}

// record simulates a plan and records the run.
func record(t *testing.T, p *plan.Plan) *taped {
	t.Helper()
	x := &taped{tapes: map[geo.Region]*tape{}, population: population{}}
	with := *p
	with.Workload = recorded{p.Workload, x.tapes}
	var err error
	x.document, err = simulateWith(t.Context(), &with, nil, func(r geo.Region, m *load.Machine) attach {
		return func(env protocol.ClientEnv) protocol.Client {
			return listener{m.Attach(counted{env, r, x.population}), env, x.tapes[r]}
		}
	}, func(f *judge.Facts) (*result.Document, error) {
		f.Plan, x.facts = p, *f
		return judge.Document(f)
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// replayed is a workload whose generators return the transactions of a tape in order. It uses the ledgers of the
// recorded run, because a replay does not change that run's database: removing an answer does not undo a commit.
type replayed struct {
	workload.Workload
	tape *tape
}

func (w replayed) NewGenerator(workload.GeneratorConfig) workload.Generator {
	return &tapeReader{tape: w.tape}
}

type tapeReader struct {
	tape *tape
	next int
}

func (r *tapeReader) Next(_ int, _ time.Duration, t *txn.Transaction) workload.Request {
	c := &r.tape.calls[r.next]
	r.next++
	id, home := t.ID, t.Home
	*t = c.t
	t.ID, t.Home = id, home
	return c.r
}
func (*tapeReader) Done(int, txn.Outcome)        {}
func (*tapeReader) Late(txn.Outcome)             {}
func (r *tapeReader) Ledger() workload.Ledger    { return r.tape.real.Ledger() }
func (r *tapeReader) Realised() []workload.Count { return r.tape.real.Realised() }

// stage runs a load generator in virtual time. It delivers the answers of a tape and has no database.
type stage struct {
	now     time.Duration
	timers  timers.Queue
	sent    []txn.ID
	answers []answer // ordered by time
}

func (s *stage) Now() time.Duration                          { return s.now }
func (s *stage) After(d time.Duration, timer protocol.Timer) { s.timers.Push(s.now+d, timer) }
func (s *stage) Submit(t *txn.Transaction)                   { s.sent = append(s.sent, t.ID) }

// play returns the report that a region's load generator produces after it has received the given answers.
func play(t *testing.T, p *plan.Plan, r geo.Region, x *tape, answers []answer) *result.Report {
	t.Helper()
	with := *p
	with.Workload = replayed{p.Workload, x}
	machines, err := load.Machines(workerConfig(&with, r, settle, 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	m, s := machines[0], &stage{answers: answers}
	c := m.Attach(s)
	c.Start()
	for !m.Finished() || len(s.answers) > 0 {
		at, ok := s.timers.Next()
		if len(s.answers) > 0 && (!ok || s.answers[0].at <= at) {
			a := s.answers[0]
			s.answers, s.now = s.answers[1:], a.at
			a.o.ID = s.sent[a.number]
			c.Complete(a.o)
			continue
		}
		if !ok {
			t.Fatal("the load generator waits for nothing, and has not finished")
		}
		s.now = at
		timer, _ := s.timers.PopDue(at)
		c.Fire(timer)
	}
	if len(s.sent) != len(x.calls) {
		t.Fatalf("region %d: %d transactions were sent, and %d are recorded", r, len(s.sent), len(x.calls))
	}
	return m.Report()
}

// replay returns the document of the recorded run with the objectives of p and with changed answers. The function spoil
// changes a recorded answer, or returns false to remove it.
func (x *taped) replay(t *testing.T, p *plan.Plan, spoil func(answer) (answer, bool)) *result.Document {
	t.Helper()
	f := x.facts
	f.Plan, f.Reports = p, nil
	for r := range geo.Region(len(p.Topology.Regions)) {
		var answers []answer
		for _, a := range x.tapes[r].answers {
			if a, ok := spoil(a); ok {
				answers = append(answers, a)
			}
		}
		slices.SortStableFunc(answers, func(a, b answer) int { return cmp.Compare(a.at, b.at) })
		f.Reports = append(f.Reports, play(t, p, r, x.tapes[r], answers))
	}
	d, err := judge.Document(&f)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// population contains, for each region, a hash of the transactions that its clients sent and of the times at which they
// sent them.
type population map[geo.Region]uint64

// counted is a client environment that adds the transactions of its clients to a population.
type counted struct {
	protocol.ClientEnv
	region geo.Region
	all    population
}

func (c counted) Submit(t *txn.Transaction) {
	h := fnv.New64a()
	for _, v := range []uint64{c.all[c.region], uint64(c.Now()), uint64(t.Proc), uint64(len(t.Args))} {
		var b [8]byte
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		_, _ = h.Write(b[:])
	}
	_, _ = h.Write(t.Args)
	c.all[c.region] = h.Sum64()
	c.ClientEnv.Submit(t)
}

// sameBytes checks that a run and its replay with the same answers have identical documents.
func sameBytes(t *testing.T, name string, run, again *result.Document) {
	t.Helper()
	var a, b bytes.Buffer
	if err := run.Write(&a); err != nil {
		t.Fatal(err)
	}
	if err := again.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatalf("%s: the replay of a run with its own answers gives another document:\n%s\n%s", name, a.Bytes(), b.Bytes())
	}
}
