package experiment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/experimenttest"
)

func TestClaims(t *testing.T) {
	// With 2 and 4 clients, near has a throughput of 1000 and 2000 transactions/s, and far has 500 and 2500.
	figures := []float64{1000, 2000, 500, 2500}
	tests := map[string]struct {
		expression, measured, answer, shows string
	}{
		"holds":                  {"max(tput('near')) <= 2000", "", "holds", "2000 <= 2000"},
		"differs":                {"min(tput('near')) > max(tput('far'))", "", "differs", "1000 > 2500"},
		"at a value":             {"tput('near', 4) == 2000.0 && tput('far', 2) < tput('near', 2)", "", "holds", "2000 == 2000; 500 < 1000"},
		"by name":                {"tput('near', {'clientsPerRegion': 4}) == 2000.0", "", "holds", "2000 == 2000"},
		"by path":                {"tput('near', {'spec.load.clientsPerRegion': 2}) == 1000.0", "", "holds", "1000 == 1000"},
		"series":                 {"series('p90', 'near', {'clientsPerRegion': 4})[0] == 4.0", "", "holds", "4 == 4"},
		"by region":              {"tputIn('b', 'near', 2) < tputIn('a', 'near', 2)", "", "holds", "333 < 500"},
		"latency in ms":          {"p50In('b', 'near') == [2.0, 4.0] && p99('near', 2) == 4.0", "", "holds", "2, 4 == 2, 4; 4 == 4"},
		"all systems":            {"systems.all(s, grows(tput(s)))", "", "holds", ""},
		"falls":                  {"falls(tput('near')) || falls([100.0, 104.0, 50.0], 0.05)", "", "holds", ""},
		"ratios":                 {"ratio(tput('near'), tput('far')) == [2.0, 0.8]", "", "holds", "2, 0.8 == 2, 0.8"},
		"share":                  {"share(ratio(tput('near'), tput('far')).map(r, r >= 1.0)) >= 0.5", "", "holds", "0.5 >= 0.5"},
		"crossing":               {"crossing(values('clientsPerRegion'), tput('far'), tput('near')) == 3.0", "", "holds", "3 == 3"},
		"no crossing":            {"crossing(values('clientsPerRegion'), tput('near'), tput('near')) <= 100.0", "", "differs", "infinite <= 100"},
		"scalability":            {"scalability(tput('far'), values('clientsPerRegion')) == [0.4]", "", "holds", "0.4 == 0.4"},
		"sizes that shrink":      {"scalability(tput('far'), [4.0, 2.0])[0] > 0.0", "", "no result", ""},
		"spread":                 {"spread(tput('near')) == 2.0 && median(bytes('near')) == 1500.0", "", "holds", "2 == 2; 1500 == 1500"},
		"aborts in percent":      {"max(aborts('near')) < 9.1 && min(aborts('near')) > 9.0", "", "holds", "9.091 < 9.1; 9.091 > 9"},
		"pooled and by regions":  {"p50('near', 2) == 1.0 && p50In('b', 'near', 2) == 2.0 && p50OfRegions('near') == [1.5, 3.0]", "", "holds", "1 == 1; 2 == 2; 1.5, 3 == 1.5, 3"},
		"cost of an hour":        {"costPerHour('near') == [0.0036, 0.0144]", "", "holds", "0.0036, 0.0144 == 0.0036, 0.0144"},
		"bytes on the wire":      {"wireBytes('near', 2) == 4000.0 && sentBytes('near', 2) == 3000.0 && sentPerMinute('near', 2) == 180.0 && sentCostPerHour('near', 2) == 0.001", "", "holds", ""},
		"cost":                   {"cost('near', 2) == 0.001", "", "holds", "0.001 == 0.001"},
		"measured":               {"avg(tput('near')) > 1.0", "{'near': max(tput('near')), 'far': max(tput('far'))}", "holds", "far: 2500, near: 2000"},
		"measured in words":      {"avg(tput('near')) > 1.0", "'near ' + text(ratio(10.0, 3.0))", "holds", "near 3.333"},
		"counters":               {"counter('batches', 'near') == [3000.0, 6000.0] && counter('batches', 'far', 4) == 7500.0", "", "holds", ""},
		"not reported":           {"counter('void_batches', 'near', 2) > 1.0", "", "no result", ""},
		"lists of unlike length": {"ratio(tput('near'), [1.0])[0] > 1.0", "", "no result", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			claim := fmt.Sprintf("expression: %q", tc.expression)
			if tc.measured != "" {
				claim += fmt.Sprintf(", measured: %q", tc.measured)
			}
			e := mustRead(t, replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"", claim))
			f := judge(t, e, invented(e, figures...))
			if f.Answer() != tc.answer || f.Measured != tc.shows && tc.shows != "" {
				t.Errorf("%s (%s) measured %q, want %s, %q", f.Answer(), f.Error, f.Measured, tc.answer, tc.shows)
			}
		})
	}
}

// The figures of nodes are the same in complete documents and in the operator's extracts. A claim about nodes refers to
// a single point of a sweep.
func TestClaimsOfNodes(t *testing.T) {
	for name, tc := range map[string]struct{ expression, answer, shows string }{
		"one point":    {"ofNodes('operations', 'near', 4) == [2000.0, 4000.0]", "holds", "2000, 4000 == 2000, 4000"},
		"by name":      {"ofNodes('operations', 'far', {'clientsPerRegion': 2}) == [500.0, 1000.0]", "holds", ""},
		"box":          {"box(ofNodes('dataBytes', 'near', 2)) == [1000.0, 1250.0, 1500.0, 1750.0, 2000.0]", "holds", ""},
		"a sweep":      {"[2, 4].all(n, spread(ofNodes('dataBytes', 'near', n)) == 2.0)", "holds", ""},
		"none is idle": {"ofNodes('rows', 'near', 2).exists(n, n > 0.0)", "differs", ""},
		"counters":     {"counter('batches', 'near', 2) == 3000.0", "holds", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"", fmt.Sprintf("expression: %q", tc.expression)))
			full := experimenttest.WithTypes(t, e, invented(e, 1000, 2000, 500, 2500))
			for kept, r := range map[string]*experiment.Results{"whole documents": full, "figures only": experimenttest.WithFiguresOnly(t, e, full)} {
				if f := judge(t, e, r); f.Answer() != tc.answer || f.Measured != tc.shows && tc.shows != "" {
					t.Errorf("%s: %s (%s) measured %q, want %s, %q", kept, f.Answer(), f.Error, f.Measured, tc.answer, tc.shows)
				}
			}
		})
	}
	e := mustRead(t, replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"", "expression: \"max(ofNodes('rows', 'near', 2)) > 1.0\""))
	r := invented(e, 1000)
	each(t, e, r, func(d *result.Document) {
		d.Nodes = nil
	})
	if f := judge(t, e, r); f.Answer() != "no result" || !strings.Contains(f.Error, "rows of nodes of near clientsPerRegion=2: calvin tells nothing of its nodes") {
		t.Errorf("a database that tells nothing: %+v", f)
	}
}

// If the pods of a database have different configurations at different points, the report says so.
func TestConfigurationsOfPointsDiffer(t *testing.T) {
	e := mustRead(t, small)
	full := invented(e, 1000)
	for i, run := range e.Runs() {
		d, err := full.Document(run)
		if err != nil {
			t.Fatal(err)
		}
		// The last point of far has a different configuration.
		d.Manifests = &result.Manifests{ConfigMaps: map[string]string{"c": fmt.Sprint(i / 3)}}
	}
	for where, r := range map[string]*experiment.Results{"in this process": full, "by the operator": experimenttest.WithFiguresOnly(t, e, full)} {
		doubtful := experiment.NewReport(t.Context(), []*experiment.Experiment{e}, r).Doubtful
		if len(doubtful) != 1 || !strings.Contains(doubtful[0], "far clientsPerRegion=4: ConfigMap c, which pods of far mount, was another one than for far clientsPerRegion=2") {
			t.Errorf("%s: in doubt are %q", where, doubtful)
		}
	}
}

// each calls change for the documents of all runs of an experiment.
func each(t *testing.T, e *experiment.Experiment, r *experiment.Results, change func(*result.Document)) {
	t.Helper()
	for _, run := range e.Runs() {
		d, err := r.Document(run)
		if err != nil {
			t.Fatal(err)
		}
		change(d)
	}
}

// If part of the nodes' traffic, resource usage or work was not counted, a claim about it has no result. This is the
// case with complete documents and with the operator's extracts.
func TestClaimsOfWhatNobodyCounted(t *testing.T) {
	restarted := func(d *result.Document) { d.Uncounted = []string{"a/0/0"} }
	program := func(d *result.Document) {
		d.Engine, d.Target, d.Nodes = "postgres", &result.Target{}, nil
		d.Summary.BytesPerTransaction, d.Summary.Wire, d.Summary.Cost = 0, nil, result.Cost{}
	}
	const least, silent = "a/0/0 had sent and used before", "postgres does not tell what its nodes send and use"
	for expression, says := range map[string][2]string{
		"bytes('near', 2) < 100000.0":                       {least, silent},
		"wanBytes('near', 2) < 100000.0":                    {least, silent},
		"wireBytes('near', 2) < 100000.0":                   {least, silent},
		"cost('near', 2) < 100000.0":                        {least, silent},
		"costPerHour('near', 2) < 100000.0":                 {least, silent},
		"cpu('near', 2) < 100000.0":                         {least, silent},
		"counter('batches', 'near', 2) > 0.0":               {least, "engine postgres has no counter batches"},
		"max(ofNodes('operations', 'near', 2)) > 0.0":       {least, "postgres tells nothing of its nodes"},
		"max(ofNodes('dataBytes', 'near', 2)) == 2000.0":    {"", "postgres tells nothing of its nodes"},
		"tput('near', 2) == 1000.0 && p50('near', 2) > 0.0": {"", ""},
	} {
		for i, change := range []func(*result.Document){restarted, program} {
			e := mustRead(t, claimed(t, expression))
			full := invented(e, 1000)
			each(t, e, full, change)
			for where, r := range map[string]*experiment.Results{"in this process": full, "by the operator": experimenttest.WithFiguresOnly(t, e, full)} {
				answer := "no result"
				if says[i] == "" {
					answer = "holds"
				}
				if f := judge(t, e, r); f.Answer() != answer || !strings.Contains(f.Error, says[i]) {
					t.Errorf("%s: %s: %s (%s), want %s (%s)", where, expression, f.Answer(), f.Error, answer, says[i])
				}
			}
		}
	}
}

// If a fault ended together with the window, it is unknown whether the throughput recovered. So claims about the
// recovery have no result.
func TestClaimsOfRecoveriesThatNobodySaw(t *testing.T) {
	for _, expression := range []string{"recovery('near', 2) > 0.0", "recovery('near', 2) <= 1.0", "recoverySeconds('near', 2) > 5.0", "recoverySeconds('near', 2) < 5.0"} {
		e := mustRead(t, withFault(t, claimed(t, expression)))
		full := invented(e, 1000)
		each(t, e, full, func(d *result.Document) {
			d.Faults = []result.Fault{
				{Name: "cut", Availability: &result.Availability{TPPM: new(int64(900_000)), RecoverMicroseconds: new(int64(100_000))}}, {Name: "last", Availability: &result.Availability{}},
			}
		})
		for where, r := range map[string]*experiment.Results{"in this process": full, "by the operator": experimenttest.WithFiguresOnly(t, e, full)} {
			if f := judge(t, e, r); f.Answer() != "no result" || !strings.Contains(f.Error, "nobody knows when the throughput recovered from fault last") {
				t.Errorf("%s: %s: %s (%s)", where, expression, f.Answer(), f.Error)
			}
		}
	}
}

// TestClaimsByType uses results in which half of the transactions have the type balance, with a latency in milliseconds
// of a thousandth of the throughput. The transactions of type amalgamate are all in region a and take three times as
// long.
func TestClaimsByType(t *testing.T) {
	figures := []float64{1000, 2000, 500, 2500}
	tests := map[string]struct{ expression, answer, shows string }{
		"throughput":               {"tputOf('balance', 'near', 4) == 1000.0", "holds", "1000 == 1000"},
		"count":                    {"committedOf('balance', 'near') == [500.0, 1000.0] && committed('near', 2) == 1000.0", "holds", "500, 1000 == 500, 1000; 1000 == 1000"},
		"percentiles":              {"p99Of('balance', 'near') == [1.0, 2.0] && p50Of('amalgamate', 'near', 2) == 3.0", "holds", "1, 2 == 1, 2; 3 == 3"},
		"mean":                     {"meanOf('amalgamate', 'far', 4) == 7.5", "holds", "7.5 == 7.5"},
		"aborts in percent":        {"abortsOf('amalgamate', 'near', 2) == 20.0", "holds", "20 == 20"},
		"of a region":              {"tputOfIn('balance', 'b', 'near', 2) == 250.0", "holds", "250 == 250"},
		"none in a region":         {"p99OfIn('amalgamate', 'b', 'near', 2) < 1000000.0", "differs", "infinite < 1000000"},
		"none at all":              {"tputOf('writeCheck', 'near', 2) > 0.0", "differs", "0 > 0"},
		"series":                   {"seriesOf('p99', 'balance', 'near', {'clientsPerRegion': 4}) == [2.0]", "holds", "2 == 2"},
		"confidence interval":      {"ciOf('tput', 'balance', 'near', 2) == 0.0", "no result", ""},
		"differs":                  {"p99Of('balance', 'near', 2) > p99Of('amalgamate', 'near', 2)", "differs", "1 > 3"},
		"of all systems and types": {"systems.all(s, ['balance', 'amalgamate'].all(t, grows(p99Of(t, s))))", "holds", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"", fmt.Sprintf("expression: %q", tc.expression)))
			full := experimenttest.WithTypes(t, e, invented(e, figures...))
			small := experimenttest.WithFiguresOnly(t, e, full)
			for where, r := range map[string]*experiment.Results{"in this process": full, "by the operator": small} {
				f := judge(t, e, r)
				if f.Answer() != tc.answer || f.Measured != tc.shows && tc.shows != "" {
					t.Errorf("%s: %s (%s) measured %q, want %s, %q", where, f.Answer(), f.Error, f.Measured, tc.answer, tc.shows)
				}
			}
		})
	}
}

// The number of aborted attempts by reason is the same in complete documents and in the operator's extracts.
func TestClaimsOfAbortReasons(t *testing.T) {
	e := mustRead(t, replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"",
		"expression: \"[['stale-footprint', 100.0 / 7.0], ['no-customer', 200.0 / 7.0], ['no-account', 0.0]].all(r, "+
			"math.abs(abortedFor(string(r[0]), 'near', 2) - double(r[1])) < 0.1)\""))
	full := experimenttest.WithTypes(t, e, invented(e, 1000, 2000))
	// The invented results contain abort reasons of another engine and workload, so rename the reasons.
	each(t, e, full, func(d *result.Document) {
		for i := range d.Transactions {
			aborted := d.Transactions[i].Attempts.Aborted
			aborted["stale-footprint"], aborted["no-customer"] = aborted["certification"], aborted["wounded"]
			delete(aborted, "certification")
			delete(aborted, "wounded")
		}
	})
	for kept, r := range map[string]*experiment.Results{"whole documents": full, "figures only": experimenttest.WithFiguresOnly(t, e, full)} {
		if f := judge(t, e, r); f.Answer() != "holds" {
			t.Errorf("%s: %+v", kept, f)
		}
	}
}

// Claims about faults and counters have the same outcome with complete documents and with the operator's extracts.
func TestClaimsOfFaultsAndCounters(t *testing.T) {
	for _, expression := range []string{
		"outageSeconds('near', 2) == 0.5 && recoverySeconds('near', 2) == 2.0 && resilience('near', 2) == 0.25",
		"counter('batches', 'near', 2) == 3000.0",
		"gauge('log_position', 'near', 2) == 70.0 && gauge('log_position', 'near') == [70.0, 70.0] && gauge('log_term', 'near', 2) == -3.0",
	} {
		e := mustRead(t, withFault(t, claimed(t, expression)))
		full := invented(e, 1000)
		each(t, e, full, func(d *result.Document) {
			d.Nodes[0].Gauges = map[string]int64{"log_position": 70, "log_term": -4}
			d.Nodes[1].Gauges = map[string]int64{"log_position": 20, "log_term": -3}
			d.Faults = []result.Fault{{Name: "cut", Availability: &result.Availability{RPPM: 250_000, TPPM: new(int64(333_333)), OutageMicroseconds: 500_000, RecoverMicroseconds: new(int64(2_000_000))}}}
		})
		for where, r := range map[string]*experiment.Results{"in this process": full, "by the operator": experimenttest.WithFiguresOnly(t, e, full)} {
			if f := judge(t, e, r); f.Answer() != "holds" {
				t.Errorf("%s: %s: %s (%s) measured %q", where, expression, f.Answer(), f.Error, f.Measured)
			}
		}
	}
}
