package inprocess

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// deaf is a client that takes its answers another way from an instant on.
type deaf struct {
	protocol.Client
	env  protocol.ClientEnv
	from time.Duration
	// hears returns the answer that the client receives instead, or false if it receives none.
	hears func(txn.Outcome) (txn.Outcome, bool)
}

func (d *deaf) Complete(o txn.Outcome) {
	if d.env.Now() >= d.from {
		var ok bool
		if o, ok = d.hears(o); !ok {
			return
		}
	}
	d.Client.Complete(o)
}

// losses are ways not to answer.
var losses = map[string]func(txn.Outcome) (txn.Outcome, bool){
	"nothing": func(txn.Outcome) (txn.Outcome, bool) { return txn.Outcome{}, false },
	"refusal": func(o txn.Outcome) (txn.Outcome, bool) {
		return txn.Outcome{ID: o.ID, Status: txn.Refused, Cause: txn.CauseNode, Reason: "overloaded"}, true
	},
	"lost connection": func(o txn.Outcome) (txn.Outcome, bool) {
		return txn.Outcome{ID: o.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: "connection"}, true
	},
}

// TestNoFigureImproves plays runs in an open loop twice: unchanged, and without the answers of the last part of the
// window. All earlier observations are the same, so no percentile may fall in any region, and no verdict may improve.
// GEOBENCH_METAMORPHIC=N plays N seeds of all workloads; without it, one of the simplest.
func TestNoFigureImproves(t *testing.T) {
	t.Parallel()
	workloads, seeds, percents := map[string]string{"rmw": "rmw: {records: 10000}"}, 1, []time.Duration{10}
	if n, err := strconv.Atoi(os.Getenv("GEOBENCH_METAMORPHIC")); err == nil {
		seeds, percents = n, []time.Duration{2, 10, 50}
		workloads["smallbank"] = "smallbank: {customers: 10000, multiHomePercent: 25}"
		workloads["tpcc"] = "tpcc: {warehousesPerPartition: 2, rowsPercent: 10}"
		workloads["ycsb"] = "ycsb: {preset: B, records: 4000, fieldCount: 2, fieldBytes: 4}"
		workloads["micro"] = "micro: {}"
		workloads["social"] = "social: {}"
	}
	for _, engine := range engines.Names() {
		t.Run(engine, func(t *testing.T) {
			played := 0
			for name, workload := range workloads {
				for seed := 1; seed <= seeds; seed++ {
					for _, timeout := range []string{"300ms", "30s"} {
						what := fmt.Sprintf("%s, seed %d, timeout %s", name, seed, timeout)
						played += loseAnswers(t, what, openLoop(engine, workload, timeout, seed), percents)
					}
				}
			}
			t.Logf("%d runs with lost answers: none improves", played)
		})
	}
}

// openLoop returns the manifest of a run of two seconds in an open loop.
func openLoop(engine, workload, timeout string, seed int) string {
	load := "{arrival: Poisson, ratePerSecond: 100, clientsPerRegion: 1000, warmup: 500ms, duration: 2s, requestTimeout: " + timeout + "}"
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: "+engine+"}", load, seed)
	text = strings.Replace(text, "smallbank: {customers: 10000, multiHomePercent: 25}", workload, 1)
	return strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", "objectives: []", 1)
}

// loseAnswers plays a run with all answers, and with each kind of loss in the last percents of the window. It returns the number of runs
// with losses.
func loseAnswers(t *testing.T, name, text string, percents []time.Duration) (played int) {
	t.Helper()
	before := simulate(t, text)
	// The measured percentile misses this limit by a microsecond: a lower percentile would hold it.
	most := before.Summary.LatencyMicroseconds.P99.Least() - 1
	text = strings.Replace(text, "objectives: []", fmt.Sprintf("objectives: [{metric: latencyP99, max: %dus}]", most), 1)
	for loss, hears := range losses {
		for _, percent := range percents {
			from := settle + 500*time.Millisecond + 2*time.Second*(100-percent)/100
			after, err := simulateWith(t.Context(), planOf(t, text), nil, func(_ geo.Region, m *load.Machine) attach {
				return func(env protocol.ClientEnv) protocol.Client { return &deaf{m.Attach(env), env, from, hears} }
			})
			if err != nil {
				t.Fatal(err)
			}
			played++
			notBetter(t, fmt.Sprintf("%s, %s in the last %d%%", name, loss, percent), before, after)
		}
	}
	return played
}

// notBetter compares a run with lost answers with the same run with all answers.
func notBetter(t *testing.T, name string, before, after *result.Document) {
	t.Helper()
	if after.Verdict == v1alpha1.VerdictPassed {
		t.Errorf("%s: Passed", name)
	}
	compare := func(where string, was, is result.Latency) {
		for what, q := range map[string][2]v1alpha1.Quantile{"p50": {was.P50, is.P50}, "p90": {was.P90, is.P90}, "p95": {was.P95, is.P95}, "p99": {was.P99, is.P99}, "max": {was.Max, is.Max}} {
			if v, ok := q[1].Value(); ok && v < q[0].Least()-q[0].Least()/1000 {
				t.Errorf("%s: %s of %s was %s and is %s", name, what, where, result.FormatQuantile(q[0]), result.FormatQuantile(q[1]))
			}
		}
	}
	for i := range before.Regions {
		if was, is := before.Regions[i].Due, after.Regions[i].Due; was != is || was == 0 {
			t.Errorf("%s: in %s %d transactions are due with all answers and %d without: the runs cannot be compared",
				name, before.Regions[i].Name, was, is)
		}
	}
	compare("all", before.Summary.LatencyMicroseconds, after.Summary.LatencyMicroseconds)
	for i := range before.Regions {
		compare(before.Regions[i].Name, before.Regions[i].LatencyMicroseconds, after.Regions[i].LatencyMicroseconds)
	}
}

// TestStallsDoNotPass plays runs with figures that looked fine when they omitted unanswered transactions.
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
		says             string // one of its reasons
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

// A region without commits for half of the run is detected, although another region commits twenty times as much.
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
