package inprocess

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// deaf is a client for which a function changes all answers after a given time.
type deaf struct {
	protocol.Client
	env  protocol.ClientEnv
	from time.Duration
	lose func(answer) (answer, bool)
}

func (d *deaf) Complete(o txn.Outcome) {
	if a, ok := spoiling(d.from, d.lose)(answer{at: d.env.Now(), o: o}); ok {
		d.Client.Complete(a.o)
	}
}

// spoiling returns a function that applies lose to all answers from the time from on, and leaves earlier answers
// unchanged.
func spoiling(from time.Duration, lose func(answer) (answer, bool)) func(answer) (answer, bool) {
	return func(a answer) (answer, bool) {
		if a.at < from {
			return a, true
		}
		return lose(a)
	}
}

// losses are functions that replace an answer with a worse answer, or remove it.
var losses = map[string]func(answer) (answer, bool){
	"nothing": func(answer) (answer, bool) { return answer{}, false },
	"refusal": func(a answer) (answer, bool) {
		a.o = txn.Outcome{ID: a.o.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: "overloaded"}
		return a, true
	},
	"lost connection": func(a answer) (answer, bool) {
		a.o = txn.Outcome{ID: a.o.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: "connection"}
		return a, true
	},
}

// windowFrom and windowTo are the start and the end of the measured window in the metamorphic runs.
const windowFrom, windowTo = settle + 500*time.Millisecond, settle + 2500*time.Millisecond

// stalls are functions that delay an answer. Only replays use them: in a running database, a delayed answer would
// change the clients' further transactions.
var stalls = map[string]func(answer) (answer, bool){
	"stall until just before the end": func(a answer) (answer, bool) { return delayed(a, windowTo-time.Microsecond) },
	"stall beyond the end":            func(a answer) (answer, bool) { return delayed(a, windowTo+time.Millisecond) },
}

func delayed(a answer, until time.Duration) (answer, bool) {
	a.at = max(a.at, until)
	return a, true
}

// metamorphicWorkloads are the workloads of the test, by name. By default the test uses only the simplest workload,
// with all engines. In thorough mode it uses all workloads.
var metamorphicWorkloads = map[string]string{
	"rmw":       "rmw: {records: 10000}",
	"smallbank": "smallbank: {customers: 10000, multiHomePercent: 25}",
	"tpcc":      "tpcc: {warehousesPerPartition: 2, rowsPercent: 10}",
	"ycsb":      "ycsb: {preset: B, records: 4000, fieldCount: 2, fieldBytes: 4}",
	"micro":     "micro: {itemsPerPartition: 1000}",
	"social":    "social: {usersPerPartition: 1000}",
}

// tallied counts the cases of the metamorphic test.
type tallied struct {
	runs     int // recorded runs for which a replay with the original answers gave the same document
	replayed int // replays with changed answers; by construction, they send the same transactions as the run
	repeated int // simulations with changed answers that sent the same transactions at the same times as the run
	unequal  int // simulations with changed answers that sent other transactions; only the verdict is compared
	fallen   int // percentiles that decreased, by at most lateFallPercent, in replays with late answers
}

func (c *tallied) add(o tallied) {
	c.runs, c.replayed, c.repeated, c.unequal = c.runs+o.runs, c.replayed+o.replayed, c.repeated+o.repeated, c.unequal+o.unequal
	c.fallen += o.fallen
}

func (c tallied) String() string {
	return fmt.Sprintf("%d runs; %d replays and %d simulations with lost answers, none improves; %d simulations with another population; %d percentiles fell by at most %d%% when answers were late",
		c.runs, c.replayed, c.repeated, c.unequal, c.fallen, lateFallPercent)
}

// TestNoFigureImproves compares open-loop runs with variants in which some answers are missing, refused or late. The
// due transactions are the same, and so are all earlier observations. So no percentile may decrease in any region, and
// no verdict or objective may improve.
//
// Each run is recorded. A replay runs the load generators again with the recorded transactions and changed answers, and
// passes their reports to the estimator and the judge. A replay therefore sends the same transactions at the same times
// as the run. A replay with the original answers must yield the same document, byte for byte.
//
// In addition, a second simulation with changed answers covers the whole path, including the database. Its percentiles
// are compared only if the clients sent the same transactions at the same times.
//
// GEOBENCH_METAMORPHIC=N uses N seeds of all workloads. By default, the test uses one seed of the simplest workload.
func TestNoFigureImproves(t *testing.T) {
	t.Parallel()
	thorough, seeds, percents := false, 1, []time.Duration{10}
	if n, err := strconv.Atoi(os.Getenv("GEOBENCH_METAMORPHIC")); err == nil {
		thorough, seeds, percents = true, n, []time.Duration{2, 10, 50}
	}
	var mu sync.Mutex
	var all tallied
	engineCases := 0
	t.Cleanup(func() { t.Logf("%d engines: %s", engineCases, all) })
	for _, engine := range engines.Names() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			var played tallied
			for _, name := range slices.Sorted(maps.Keys(metamorphicWorkloads)) {
				if !thorough && name != "rmw" {
					continue
				}
				for seed := 1; seed <= seeds; seed++ {
					for _, timeout := range []string{"300ms", "30s"} {
						c := metamorphic{engine: engine, workload: name, timeout: timeout, seed: seed}
						played.add(c.play(t, percents))
					}
				}
				if thorough {
					t.Logf("%s, up to %s: %s", engine, name, played)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(played)
			engineCases++
		})
	}
}

// metamorphic is a run that is compared with variants in which answers are lost or late.
type metamorphic struct {
	engine, workload, timeout string
	seed                      int
}

func (c *metamorphic) String() string {
	return fmt.Sprintf("%s, %s, seed %d, timeout %s", c.engine, c.workload, c.seed, c.timeout)
}

// play compares the run with all its variants. In some variants, the answers in the last percents of the window are
// affected. In the others, the same share of all answers is affected at random.
func (c *metamorphic) play(t *testing.T, percents []time.Duration) (played tallied) {
	t.Helper()
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: "+c.engine+"}",
		"{arrival: Poisson, ratePerSecond: 100, clientsPerRegion: 1000, warmup: 500ms, duration: 2s, requestTimeout: "+c.timeout+"}", c.seed)
	text = strings.Replace(text, "smallbank: {customers: 10000, multiHomePercent: 25}", metamorphicWorkloads[c.workload], 1)
	text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", "objectives: []", 1)
	p := planOf(t, text)
	run := record(t, p)
	sameBytes(t, c.String(), run.document, run.replay(t, p, func(a answer) (answer, bool) { return a, true }))
	played.runs++

	// Set each limit a microsecond below the measured percentile, so that an objective is met only if its percentile
	// decreases.
	var limits []string
	was := run.document.Summary.LatencyMicroseconds
	for metric, q := range map[string]v1alpha1.Quantile{"P50": was.P50, "P90": was.P90, "P99": was.P99} {
		limits = append(limits, fmt.Sprintf("{metric: latency%s, max: %dus}", metric, q.Least()-1))
	}
	slices.Sort(limits)
	p = planOf(t, strings.Replace(text, "objectives: []", "objectives: ["+strings.Join(limits, ", ")+"]", 1))
	for _, percent := range percents {
		from := windowFrom + (windowTo-windowFrom)*(100-percent)/100
		for loss, lose := range losses {
			where := fmt.Sprintf("%s, %s in the last %d%%", c, loss, percent)
			notBetter(t, "replay: "+where, run.document, run.replay(t, p, spoiling(from, lose)), false)
			played.replayed++
			c.simulate(t, where, p, run, &deaf{from: from, lose: lose}, &played)
		}
		for stall, delay := range stalls {
			played.fallen += notBetter(t, fmt.Sprintf("replay: %s, %s in the last %d%%", c, stall, percent), run.document, run.replay(t, p, spoiling(from, delay)), true)
			played.replayed++
		}
		for late, some := range map[bool]map[string]func(answer) (answer, bool){false: losses, true: stalls} {
			for loss, lose := range some {
				rng := rand.New(rand.NewPCG(uint64(c.seed), uint64(percent)))
				after := run.replay(t, p, func(a answer) (answer, bool) {
					if rng.IntN(100) >= int(percent) || a.at < windowFrom {
						return a, true
					}
					return lose(a)
				})
				played.fallen += notBetter(t, fmt.Sprintf("replay: %s, %s in %d%% of the window", c, loss, percent), run.document, after, late)
				played.replayed++
			}
		}
	}
	return played
}

// simulate simulates the run again, with clients that lose answers in the same way as like.
func (c *metamorphic) simulate(t *testing.T, name string, p *plan.Plan, run *taped, like *deaf, played *tallied) {
	t.Helper()
	sent := population{}
	after, err := simulateWith(t.Context(), p, nil, func(r geo.Region, m *load.Machine) attach {
		return func(env protocol.ClientEnv) protocol.Client {
			return &deaf{m.Attach(counted{env, r, sent}), env, like.from, like.lose}
		}
	}, judge.Document)
	if err != nil {
		t.Fatal(err)
	}
	if maps.Equal(sent, run.population) {
		played.repeated++
		notBetter(t, "simulated: "+name, run.document, after, false)
		return
	}
	played.unequal++
	if after.Verdict == v1alpha1.VerdictPassed {
		t.Errorf("simulated: %s: Passed", name)
	}
}

// lateFallPercent is the maximum decrease of a percentile, in percent, that late answers may cause. The product-limit
// estimate gives an observation a weight that depends on the number of transactions still at risk. A delayed answer is
// observed at the end of the window, where few transactions are at risk, so its weight increases. Higher percentiles
// may therefore decrease.
const lateFallPercent = 3

// notBetter checks that no figure and no objective is better in after than in before. If late is set, answers were
// delayed rather than lost, and a percentile may decrease by at most lateFallPercent. notBetter returns the number of
// such decreases.
func notBetter(t *testing.T, name string, before, after *result.Document, late bool) (fallen int) {
	t.Helper()
	if after.Verdict == v1alpha1.VerdictPassed {
		t.Errorf("%s: Passed", name)
	}
	compare := func(where string, was, is result.Latency) {
		for what, q := range map[string][2]v1alpha1.Quantile{"p50": {was.P50, is.P50}, "p90": {was.P90, is.P90}, "p95": {was.P95, is.P95}, "p99": {was.P99, is.P99}, "max": {was.Max, is.Max}} {
			v, known := q[1].Value() // a lower bound is never better than a value
			lower := v < q[0].Least()
			switch {
			case !known || !lower && !q[0].IsBound():
			case what == "max" && !lower: // the largest observed latency may exceed the longest wait in before
			case late && what != "max" && !q[0].IsBound() && v*100 >= q[0].Least()*(100-lateFallPercent):
				fallen++
			default:
				t.Errorf("%s: %s of %s was %s and is %s", name, what, where, result.FormatQuantile(q[0]), result.FormatQuantile(q[1]))
			}
		}
	}
	compare("all", before.Summary.LatencyMicroseconds, after.Summary.LatencyMicroseconds)
	for _, o := range after.Objectives {
		if o.Holds && fallen == 0 { // the limit is a microsecond below the percentile in before
			t.Errorf("%s: %s holds: %s", name, o.Name, o.Measured)
		}
	}
	for i := range before.Regions {
		compare(before.Regions[i].Name, before.Regions[i].LatencyMicroseconds, after.Regions[i].LatencyMicroseconds)
	}
	return fallen
}

// TestStallsDoNotPass plays runs whose figures would look good if unanswered transactions were ignored.
func TestStallsDoNotPass(t *testing.T) {
	t.Parallel()
	const far = "links: [{from: us-west-2, to: ap-northeast-1, rtt: 100ms%s}]"
	cut := func(from, lasts string) string {
		return "\n  faults: [{name: cut, at: " + from + ", duration: " + lasts + ", networkPartition: {from: {regions: [us-west-2]}, to: {regions: [ap-northeast-1]}}}]"
	}
	for name, c := range map[string]struct {
		link, load, more string
		objectives       string
		verdict          v1alpha1.Verdict
		says             string // substring of one of the verdict's reasons
	}{
		"timeouts shorter than the slow half": {", lossPPM: 50000", "{clientsPerRegion: 20, warmup: 1s, duration: 5s, requestTimeout: 140ms}", "",
			"{metric: latencyP99, max: 150ms}", v1alpha1.VerdictInvalid, "Unanswered: ap-northeast-1: "},
		"the same, and a limit that the timeout reaches": {", lossPPM: 50000", "{clientsPerRegion: 20, warmup: 1s, duration: 5s, requestTimeout: 140ms}", "",
			"{metric: latencyP99, max: 140ms}, {metric: unknownPPM, max: 1000000}", v1alpha1.VerdictFailed, "ObjectiveMissed: latencyP99 <= 140ms: measured > 140.0ms"},
		"arrivals that nobody sent": {"", "{arrival: Poisson, ratePerSecond: 500, clientsPerRegion: 10, warmup: 1s, duration: 5s}", "",
			"", v1alpha1.VerdictInvalid, "DriverBound: driver-bound: "},
		"a percentile of few": {"", "{clientsPerRegion: 1, warmup: 1s, duration: 5s}", "",
			"{metric: latencyP99, region: ap-northeast-1, max: 1s}", v1alpha1.VerdictInvalid, "TooFewSamples: latencyP99(ap-northeast-1) <= 1s: measured "},
		"a cut until the end, few clients": {"", "{clientsPerRegion: 5, warmup: 1s, duration: 20s}", cut("16s", "4s"),
			"{metric: latencyP99, max: 500ms}", v1alpha1.VerdictFailed, "Unanswered: all 5 clients in ap-northeast-1 had been waiting for an answer"},
		"a cut until the end, nothing may be unknown": {"", "{clientsPerRegion: 5, warmup: 1s, duration: 12s}", cut("8s", "4s"),
			"{metric: unknownPPM, max: 0}", v1alpha1.VerdictFailed, "ObjectiveMissed: unknownPPM <= 0"},
		"a cut until the end, open loop": {"", "{arrival: Constant, ratePerSecond: 50, clientsPerRegion: 500, warmup: 1s, duration: 12s}", cut("8s", "4s"),
			"{metric: latencyP99, region: ap-northeast-1, max: 500ms}", v1alpha1.VerdictFailed, "ObjectiveMissed: latencyP99(ap-northeast-1) <= 500ms: measured > "},
		"a shorter cut that ends": {"", "{clientsPerRegion: 5, warmup: 1s, duration: 12s}", cut("8s", "1s"),
			"{metric: latencyP50, max: 500ms}", v1alpha1.VerdictPassed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin, parameters: {ordering: leader, batch: 5ms}}", c.load, 7)
			text = strings.Replace(text, "profileRef: {name: smallbank-two-regions}", "profile: {"+fmt.Sprintf(far, c.link)+"}", 1)
			text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", "objectives: ["+c.objectives+"]", 1)
			d := simulate(t, text+strings.TrimPrefix(c.more, "\n")+"\n")
			said := ""
			for _, r := range d.Reasons {
				said += r.Reason + ": " + r.Message + "\n"
			}
			if d.Verdict != c.verdict || !strings.Contains(said, c.says) {
				t.Errorf("%s:\n%swant %s with %q", d.Verdict, said, c.verdict, c.says)
			}
		})
	}
}

// A region that does not answer for half of the run is detected, although another region commits twenty times as many
// transactions.
func TestDarkRegionIsSeen(t *testing.T) {
	t.Parallel()
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin, parameters: {ordering: leader, batch: 5ms}}", "{clientsPerRegion: 5, warmup: 1s, duration: 20s}", 1)
	text = strings.Replace(text, "smallbank: {customers: 10000, multiHomePercent: 25}", "smallbank: {customers: 1000, mix: {balance: 100}, multiHomePercent: 0}", 1)
	d := simulate(t, text+"  faults: [{name: cut, at: 5s, duration: 10s, networkPartition: {from: {regions: [us-west-2]}, to: {regions: [ap-northeast-1]}}}]\n")
	whole := d.Faults[0].Availability
	regions := d.WorstRegions(0)
	if len(regions) != 1 || regions[0].Region != "ap-northeast-1" {
		t.Fatalf("worst in %+v", regions)
	}
	worst := regions[0]
	if worst.RPPM > 50_000 || worst.OutageMicroseconds < 9_000_000 || worst.TPPM == nil || *worst.TPPM > 500_000 {
		t.Errorf("worst in %s: %s", worst.Region, worst.Availability)
	}
	if whole.RPPM < 900_000 || whole.OutageMicroseconds > 0 {
		t.Errorf("of all regions: %s", whole)
	}
	var table strings.Builder
	if err := result.Table(&table, d, false); err != nil || !strings.Contains(table.String(), "worst in ap-northeast-1: ") {
		t.Errorf("the table does not name the region (%v):\n%s", err, table.String())
	}
}
