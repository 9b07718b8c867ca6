package attach_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/run/explore"
)

// realDatabase is a database of real servers, one for each region. The clients of a region use the server of the next
// region, through a proxy that emulates the link between the two regions. If there is only one server, all regions use
// it.
type realDatabase struct {
	topology *geo.Topology
	proxies  []*postgrestest.Proxy // by region of the clients
	servers  []realServer
	down     []bool // by server
	stops    int    // number of times that a server was stopped
}

// realServer is a server process. stop and start are called alternately.
type realServer struct{ stop, start func() }

func newRealDatabase(t *testing.T, regions []string, addresses []string, servers []realServer) *realDatabase {
	d := &realDatabase{topology: &geo.Topology{Regions: regions, Partitions: 1, Replicas: 1}, servers: servers, down: make([]bool, len(servers))}
	for r := range regions {
		d.topology.Links = append(d.topology.Links, make([]geo.Link, len(regions)))
		d.proxies = append(d.proxies, postgrestest.NewProxy(t, addresses[d.serves(r)]))
	}
	return d
}

// serves returns the server that a region's clients use.
func (d *realDatabase) serves(region int) int { return (region + 1) % len(d.servers) }

// addresses returns the addresses of the proxies, by region.
func (d *realDatabase) addresses() (out []string) {
	for _, p := range d.proxies {
		out = append(out, p.Address)
	}
	return out
}

// apply establishes the conditions of all active faults. If a link is cut, it holds back all data, as a network
// partition does for clients that keep their connections. If a message is lost, its connection breaks.
func (d *realDatabase) apply(c *fault.Conditions) {
	for s := range d.servers {
		switch down := c.Nodes[s].Down; {
		case down && !d.down[s]:
			d.servers[s].stop()
			d.down[s] = true
			d.stops++
		case !down && d.down[s]:
			d.servers[s].start()
			d.down[s] = false
		}
	}
	for r, p := range d.proxies {
		s := d.serves(r)
		there, back := c.Links[r][s], c.Links[s][r]
		p.Delay(there.Delay + there.Jitter + back.Delay + back.Jitter)
		p.Judge(lossy(there.LossPPM, back.LossPPM))
		if c.Cut(geo.NodeID(r), geo.NodeID(s)) || c.Cut(geo.NodeID(s), geo.NodeID(r)) {
			p.Freeze()
		} else {
			p.Thaw()
		}
	}
}

// lossy returns a function that loses a share of messages, and a share of answers, at regular intervals.
func lossy(messagesPPM, answersPPM int64) func([]byte) postgrestest.Fate {
	if messagesPPM+answersPPM == 0 {
		return nil
	}
	var n atomic.Int64
	every := func(n, ppm int64) bool { return n*ppm/1e6 > (n-1)*ppm/1e6 }
	return func([]byte) postgrestest.Fate {
		switch i := n.Add(1); {
		case every(i, messagesPPM):
			return postgrestest.Lost
		case every(i, answersPPM):
			return postgrestest.Unanswered
		}
		return postgrestest.Delivered
	}
}

// realDatabase implements fault.Injector. Its changes take effect immediately.
var _ fault.Injector = (*realDatabase)(nil)

func (d *realDatabase) Roles(context.Context) (fault.Roles, error) { return nil, nil }

func (d *realDatabase) Setup(context.Context, *fault.Life) error { return nil }

func (d *realDatabase) Inject(_ context.Context, _ *fault.Life, c *fault.Conditions) error {
	d.apply(c)
	return nil
}

func (d *realDatabase) Propagated(context.Context, *fault.Life, *fault.Conditions) (bool, error) {
	return true, nil
}

func (d *realDatabase) Recover(_ context.Context, _ *fault.Life, c *fault.Conditions) error {
	d.apply(c)
	return nil
}

func (d *realDatabase) Recovered(context.Context, *fault.Life, *fault.Conditions) (bool, error) {
	return true, nil
}

func (d *realDatabase) Cleanup(context.Context, *fault.Life) error { return nil }

// play plays the explorer's timeline for a seed until all faults of the timeline are over.
func (d *realDatabase) play(t *testing.T, seed uint64) {
	// A single server has no links to servers of other regions, but it has links to clients.
	kinds := []string{fault.NetworkDelay, fault.NetworkLoss, fault.NetworkPartition, fault.NodeShutdown}
	const until = 1500 * time.Millisecond
	faults := explore.Timeline(seed, d.topology, kinds, until)
	for i := range faults {
		t.Logf("seed %d: %s", seed, explore.Describe(&faults[i]))
	}
	timeline := fault.NewTimeline(fault.NewPlan(faults, d.topology, seed), time.Millisecond, time.Minute)
	for start := time.Now(); !timeline.Over(); {
		next, err := timeline.Step(t.Context(), time.Since(start), d, false)
		if err != nil {
			t.Fatal(err)
		}
		if next != fault.Forever {
			<-time.After(next - time.Since(start))
		}
	}
	for _, l := range timeline.Lives {
		if l.Problem != "" || l.Injected == nil || l.Recovered == nil {
			t.Errorf("seed %d: fault %s was not injected and removed: %q", seed, l.Fault.Name, l.Problem)
		}
		// Overlapping shutdowns stop a server only once. With a single server, a shutdown in another region has no effect.
		if l.Fault.Kind == fault.NodeShutdown && d.stops == 0 && len(d.servers) == len(d.proxies) {
			t.Errorf("seed %d: fault %s stopped no server", seed, l.Fault.Name)
		}
	}
	if slices.Contains(d.down, true) {
		t.Errorf("seed %d: servers %v are still down", seed, d.down)
	}
}

// wrong lists the reasons that neither a fault nor a busy machine can explain. Faults make these databases slow,
// unreachable or impossible to audit, but they never make them return wrong answers.
var wrong = []string{result.ReasonCheckFailed, result.ReasonWorkloadBroken, result.ReasonEvidenceMissing}

// explored plays a plan on a real database, with the faults of the explorer's timeline for a seed. Every transaction
// must have exactly one answer. The checks of invariants and isolation must pass or be impossible.
func (d *realDatabase) explored(t *testing.T, p *plan.Plan, s sqltarget.Server, seed uint64) {
	f := failing(t, p, at(p, s, d.addresses()...), func(func()) { d.play(t, seed) }, func() {})
	for _, r := range f.document.Reasons {
		if slices.Contains(wrong, r.Reason) {
			t.Errorf("seed %d: %s: %s", seed, r.Reason, r.Message)
		}
	}
}

// Timelines that the explorer draws for simulated databases are applied to real databases. In these timelines, links
// between clients and servers are cut, slow or lossy, and servers stop for a while. PostgreSQL is killed and recovers
// from its log; all other servers are paused. By default, each database plays one timeline. With consecutive runs, it
// plays one timeline per run.
func TestTimelinesOnRealDatabases(t *testing.T) {
	const load = "{clientsPerRegion: 8, thinkTime: 10ms, requestTimeout: 300ms, warmup: 500ms, duration: 4s}"
	const accounts = "{smallbank: {customers: 500}}"
	const verify = "[Invariants, Isolation]"
	// Start each server when it is first used, so that a database that skips the test does not skip it for the others.
	postgres := func(t *testing.T) func(seed uint64) {
		s := postgrestest.Start(t, "log_statement=none")
		return func(seed uint64) {
			p := planned(t, own{address: s.Address, workload: accounts, verify: verify, load: load}.text())
			d := newRealDatabase(t, p.Topology.Regions, []string{s.Address}, []realServer{{func() { s.Stop(t) }, func() { s.Restart(t) }}})
			d.explored(t, p, sqltarget.Server{Database: "postgres", User: postgrestest.User, Password: postgrestest.Password}, seed)
			s.AwaitNoSessions(t, "geobench-")
			s.Query(t, "postgres", "drop schema if exists geobench cascade")
		}
	}
	maria := func(t *testing.T, servers []*mysqltest.Server, isolation string) func(seed uint64) {
		var addresses []string
		var processes []realServer
		for _, s := range servers {
			addresses = append(addresses, s.Address)
			processes = append(processes, realServer{func() { s.Pause(t) }, func() { s.Continue(t) }})
		}
		o := ownMySQL{servers: servers, isolation: isolation, workload: accounts, load: load, verify: verify}
		return func(seed uint64) {
			p := planned(t, o.text())
			d := newRealDatabase(t, p.Topology.Regions, addresses, processes)
			d.explored(t, p, sqltarget.Server{Database: mysqltest.Database, User: mysqltest.User, Password: mysqltest.Password}, seed)
			for _, s := range servers {
				s.AwaitNoSessions(t)
			}
			servers[0].Query(t, mysqltest.Database, "drop table if exists geobench_rows")
		}
	}
	databases := map[string]func(t *testing.T) func(seed uint64){
		"postgres": postgres,
		"mariadb": func(t *testing.T) func(uint64) {
			return maria(t, []*mysqltest.Server{mysqltest.Start(t)}, "Serializable")
		},
		"galera": func(t *testing.T) func(uint64) { return maria(t, mysqltest.StartGalera(t, 3), "SnapshotIsolation") },
		"etcd": func(t *testing.T) func(uint64) {
			members := etcdtest.Start(t, 3)
			var addresses []string
			var processes []realServer
			for _, m := range members {
				addresses = append(addresses, m.Address)
				processes = append(processes, realServer{func() { m.Pause(t) }, func() { m.Continue(t) }})
			}
			return func(seed uint64) {
				p := planned(t, etcdText(members, "Linearizable", accounts, load, verify))
				newRealDatabase(t, p.Topology.Regions, addresses, processes).explored(t, p, sqltarget.Server{}, seed)
			}
		},
	}
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			if inARow(t) == 0 {
				t.Parallel()
			}
			explored := start(t)
			for seed := range uint64(max(1, inARow(t))) {
				explored(seed + 1)
			}
		})
	}
}
