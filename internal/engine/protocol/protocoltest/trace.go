package protocoltest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// Traces runs the scripts in the package's testdata. A script defines a small database and shows the messages between
// its nodes. It consists of blocks: a command, its input, a line of four dashes, its output, and an empty line.
//
//	database regions=2 partitions=1 replicas=1 rtt=100ms rows=4 value=10     and the engine's parameters
//	run for=100ms [hide=regexp]     the input lists what clients do: "at 3ms a: a1+5 r2" is a client in region a
//	cut a=a b=b, heal a=a b=b, crash node=0, replace node=0
//	rows                            the data of every node
//	counters node=0
//
// Regions are a, b, c and so on. rtt is the round trip between each two regions; inside a region it is 400us. Node
// a/1/0 is replica 0 of partition 1 in region a. Row n belongs to partition n mod partitions, and region (n div
// partitions) mod regions is its home.
//
// The row operations are defined in simload.Procedures. CPU time is free. Sends are shown as ->, and arrivals as <-;
// messages from a node to itself are not shown. Transactions are called t<region>.<number>. The simulator identifies
// timers by numbers, but the output shows their names.
func Traces(t *testing.T, engine *protocol.Engine, timers map[uint8]string) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		// testdata/fuzz contains inputs of fuzz tests, which are not scripts.
		if strings.Contains(path, "fuzz") {
			return
		}
		var e *traceEnv
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "database" {
				// If the empty line after database is missing, datadriven takes the script's next command as input and never runs
				// it.
				if d.Input != "" {
					d.Fatalf(t, "database has no input; a command of its own begins a block: %q", d.Input)
				}
				e = newTraceEnv(t, d, engine, timers)
				return fmt.Sprintf("%d nodes\n", e.topology.Nodes())
			}
			return e.do(t, d)
		})
	})
}

type traceEnv struct {
	topology *geo.Topology
	timers   map[uint8]string
	sim      *sim.Sim
	out      strings.Builder
	clients  []*scripted
	hide     *regexp.Regexp
}

var fire = regexp.MustCompile(`fire (\d+)/\d+$`)

func newTraceEnv(t *testing.T, d *datadriven.TestData, engine *protocol.Engine, timers map[uint8]string) *traceEnv {
	e := &traceEnv{timers: timers}
	regions, partitions, replicas, rows, value := 2, 1, 1, 4, 10
	rtt := "100ms"
	d.MaybeScanArgs(t, "regions", &regions)
	d.MaybeScanArgs(t, "partitions", &partitions)
	d.MaybeScanArgs(t, "replicas", &replicas)
	given := map[string]string{}
	for _, p := range engine.Parameters {
		value := p.Default
		d.MaybeScanArgs(t, p.Name, &value)
		given[p.Name] = value
	}
	d.MaybeScanArgs(t, "rtt", &rtt)
	d.MaybeScanArgs(t, "rows", &rows)
	d.MaybeScanArgs(t, "value", &value)
	round, err := time.ParseDuration(rtt)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	delays := make([][]float64, regions)
	for i := range delays {
		for range regions {
			// The delay is half of the round trip, converted from nanoseconds to milliseconds. Topology ignores the delay of a
			// region to itself.
			delays[i] = append(delays[i], float64(round)/2e6)
		}
	}
	e.topology = simload.Topology(partitions, replicas, delays)
	params := Params(t, engine, given)
	mustAccept(t, engine, e.topology, params)
	e.sim = sim.New(sim.Config{
		Topology: e.topology, Engine: engine, Figures: Figures(t), Procedures: simload.Procedures, Seed: 1, CheckCodec: true,
		Params: params,
		Trace:  func(o sim.Observation) { e.line(o.String()) },
	})
	simload.FillLayout(engine.Layout(e.topology, params), uint64(rows), int64(value), e.sim.Store)
	for r := range regions {
		// AddClient creates the client immediately, so e.clients is in the order of the regions.
		e.sim.AddClient(geo.Region(r), func(env protocol.ClientEnv) protocol.Client {
			c := &scripted{e: e, env: env, region: e.topology.Regions[r], stream: uint32(r)}
			e.clients = append(e.clients, c)
			return c
		})
	}
	return e
}

func (e *traceEnv) line(l string) {
	if m := fire.FindStringSubmatch(l); m != nil {
		if kind, err := strconv.Atoi(m[1]); err == nil && e.timers[uint8(kind)] != "" {
			l = strings.Replace(l, m[0], e.timers[uint8(kind)], 1)
		}
	}
	// Scripts name transactions by region instead of by stream.
	for r, name := range e.topology.Regions {
		l = regexp.MustCompile(`\bt`+strconv.Itoa(r)+`\.`).ReplaceAllString(l, "t"+name+".")
	}
	if e.hide != nil && e.hide.MatchString(l) {
		return
	}
	e.out.WriteString(l + "\n")
}

func (e *traceEnv) do(t *testing.T, d *datadriven.TestData) string {
	e.out.Reset()
	switch d.Cmd {
	case "run":
		// The filter of an earlier run does not apply to this run.
		e.hide = nil
		var length, hide string
		d.ScanArgs(t, "for", &length)
		if d.HasArg("hide") {
			d.ScanArgs(t, "hide", &hide)
			e.hide = regexp.MustCompile(hide)
		}
		span, err := time.ParseDuration(length)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		for line := range strings.Lines(d.Input) {
			when, ops, _ := strings.Cut(strings.TrimSpace(line), ": ")
			var at, region string
			if _, err := fmt.Sscanf(when, "at %s %s", &at, &region); err != nil {
				d.Fatalf(t, "%q: %v", line, err)
			}
			after, err := time.ParseDuration(at)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			// Times in the input are relative to the start of this run command.
			c := e.clients[e.topology.Index(region)]
			e.sim.At(e.sim.Now()+after, func() { c.submit(ops) })
		}
		e.sim.Run(e.sim.Now() + span)
	case "cut", "heal":
		var a, b string
		d.ScanArgs(t, "a", &a)
		d.ScanArgs(t, "b", &b)
		if d.Cmd == "cut" {
			e.sim.Cut(e.topology.Index(a), e.topology.Index(b))
		} else {
			e.sim.Heal(e.topology.Index(a), e.topology.Index(b))
		}
	case "crash":
		var n int
		d.ScanArgs(t, "node", &n)
		e.sim.Crash(geo.NodeID(n))
	case "replace":
		var n int
		d.ScanArgs(t, "node", &n)
		e.sim.Replace(geo.NodeID(n))
	case "rows":
		for n := range e.topology.Nodes() {
			var rows []string
			e.sim.Store(geo.NodeID(n)).Each(func(k txn.Key, r store.Record) {
				v := int64(0)
				// simload stores a value as a big-endian integer.
				for _, c := range r.Value {
					v = v<<8 | int64(c)
				}
				rows = append(rows, fmt.Sprintf("%d=%d", k.Shard(), v))
			})
			slices.Sort(rows)
			fmt.Fprintf(&e.out, "%s: %s\n", e.topology.NodeName(geo.NodeID(n)), strings.Join(rows, " "))
		}
		fmt.Fprintf(&e.out, "pending: %d\n", e.sim.Pending())
	case "counters":
		var n int
		d.ScanArgs(t, "node", &n)
		for _, c := range e.sim.Readings(geo.NodeID(n)) {
			if c.Value != 0 {
				fmt.Fprintf(&e.out, "%s %d\n", c.Name, c.Value)
			}
		}
	default:
		d.Fatalf(t, "unknown command")
	}
	if e.out.Len() == 0 {
		return "ok\n"
	}
	return e.out.String()
}

// scripted represents the clients of a region.
type scripted struct {
	e      *traceEnv
	env    protocol.ClientEnv
	region string
	stream uint32
	n      uint64
}

func (c *scripted) submit(ops string) {
	c.n++
	id := txn.MakeID(c.stream, c.n)
	c.e.line(fmt.Sprintf("%11.3fms client in %s calls t%v: %s", float64(c.env.Now())/1e6, c.region, id, ops))
	c.env.Submit(simload.Txn(id, ops))
}

func (c *scripted) Start()              {}
func (c *scripted) Fire(protocol.Timer) {}

func (c *scripted) Complete(o txn.Outcome) {
	text := o.Status.String()
	if o.Reason != "" {
		text += " (" + o.Reason + ")"
	}
	if len(o.Result) > 0 {
		text += " " + string(o.Result)
	}
	c.e.line(fmt.Sprintf("%11.3fms client in %s hears t%v: %s", float64(c.env.Now())/1e6, c.region, o.ID, text))
}
