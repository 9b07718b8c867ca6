package experiment_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/experimenttest"
)

const small, sweepLine = experimenttest.Small, experimenttest.SweepLine

var read, mustRead, replaced, invented = experimenttest.Read, experimenttest.MustRead, experimenttest.Replaced, experimenttest.Invented

func TestExpansion(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // labels of the runs
	}{
		"one parameter": {small, []string{
			"near clientsPerRegion=2", "near clientsPerRegion=4", "far clientsPerRegion=2", "far clientsPerRegion=4"}},
		"no sweep": {replaced(t, "  sweep:\n    "+sweepLine+"\n", ""), []string{"near", "far"}},
		"cross product, the last fastest": {
			replaced(t, sweepLine, sweepLine+"\n    - {path: \"database.spec.network.profile.links[0].rtt\", values: [10ms, 50ms]}"), []string{
				"near clientsPerRegion=2 rtt=10ms", "near clientsPerRegion=2 rtt=50ms", "near clientsPerRegion=4 rtt=10ms", "near clientsPerRegion=4 rtt=50ms",
				"far clientsPerRegion=2 rtt=10ms", "far clientsPerRegion=2 rtt=50ms", "far clientsPerRegion=4 rtt=10ms", "far clientsPerRegion=4 rtt=50ms"}},
		"repetitions": {replaced(t, "values: [2, 4]", "values: [2]", "  sweep:", "  repetitions: 2\n  sweep:"), []string{
			"near clientsPerRegion=2 (repetition 1 of 2)", "near clientsPerRegion=2 (repetition 2 of 2)",
			"far clientsPerRegion=2 (repetition 1 of 2)", "far clientsPerRegion=2 (repetition 2 of 2)"}},
		"an engine's parameter": {replaced(t, sweepLine, "- {path: database.spec.engine.parameters.batch, values: [1ms, 5ms]}"), []string{
			"near batch=1ms", "near batch=5ms", "far batch=1ms", "far batch=5ms"}},
		"a database that is there": {replaced(t, "  databases:\n", "  databaseRefs: [{name: other}]\n  databases:\n") + `---
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: other}
spec: {engine: {name: calvin}, regions: [{name: us-west-2}, {name: ap-northeast-1}], network: {profileRef: {name: smallbank-two-regions}}}
`, []string{
			"near clientsPerRegion=2", "near clientsPerRegion=4", "far clientsPerRegion=2", "far clientsPerRegion=4",
			"other clientsPerRegion=2", "other clientsPerRegion=4"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, tc.text)
			var got []string
			names := map[string]bool{}
			for _, r := range e.Runs() {
				got = append(got, r.Label)
				names[r.Run.Name] = true
				if len(r.Run.Name) > 32 {
					t.Errorf("the name %s of a run is too long for a BenchmarkRun", r.Run.Name)
				}
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("runs:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if e.MostRuns != len(got) {
				t.Errorf("there are said to be at most %d runs, and %d are", e.MostRuns, len(got))
			}
			if len(names) != len(got) {
				t.Errorf("%d runs have %d names", len(got), len(names))
			}
		})
	}
}

// searched returns Small with an open loop that starts at 50/s, and with the given search for the rate.
func searched(t *testing.T, search string) string {
	return replaced(t, "clientsPerRegion: 2,", "arrival: Poisson, ratePerSecond: 50,", sweepLine, "- {path: spec.workload.smallbank.hotPercent, values: [0]}\n  search: "+search)
}

// MostRuns counts all probes that searches may need, whereas Runs initially returns only one probe for each search.
func TestMostRunsOfSearches(t *testing.T) {
	e := mustRead(t, searched(t, "{maxRatePerSecond: 100, maxProbes: 7, peakPercents: [75, 100]}"))
	if e.MostRuns != 2*(7+2) || len(e.Runs()) != 2 {
		t.Errorf("at most %d runs, and %d to begin with; want %d and 2", e.MostRuns, len(e.Runs()), 2*(7+2))
	}
}

// With sharedBy, the points with 50% hot rows run at shares of the peak that was found with 0% hot rows. Their own peak
// is different.
func TestSharedPeaks(t *testing.T) {
	ended := func(run *experiment.Run) (experiment.Ended, bool, error) {
		most := int64(100)
		if run.Run.Spec.Workload.SmallBank.HotPercent == 50 {
			most = 60
		}
		e := experiment.Ended{Verdict: v1alpha1.VerdictPassed, ThroughputPerSecond: 1, OfferedPerSecond: 1}
		if run.Run.Spec.Load.RatePerSecond > most {
			e = experiment.Ended{Verdict: v1alpha1.VerdictFailed, Reason: result.ReasonObjectiveMissed, Message: "too slow"}
		}
		return e, true, nil
	}
	const path = "spec.workload.smallbank.hotPercent"
	for name, tc := range map[string]struct {
		shared   string
		searches int
		rates    []int64 // rates of the points of near
	}{
		"each its own": {"", 4, []int64{50, 100, 30, 60}},
		"shared":       {", sharedBy: [" + path + "]", 2, []int64{50, 100, 50, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, strings.Replace(searched(t, "{maxRatePerSecond: 200, tolerancePercent: 1, peakPercents: [50, 100]"+tc.shared+"}"), "values: [0]", "values: [0, 50]", 1)).Advance(ended)
			var rates []int64
			hot := map[int32]bool{}
			for _, p := range e.Points[:4] {
				rates = append(rates, p.Runs[0].Run.Spec.Load.RatePerSecond)
				hot[p.Runs[0].Run.Spec.Workload.SmallBank.HotPercent] = true
			}
			if len(e.Searches) != tc.searches || !slices.Equal(rates, tc.rates) || len(hot) != 2 {
				t.Errorf("%d searches, the rates of near are %v at the shares %v; want %d, %v, at 0 and 50", len(e.Searches), rates, hot, tc.searches, tc.rates)
			}
		})
	}
}

func TestSweptValuesArriveInTheManifests(t *testing.T) {
	e := mustRead(t, replaced(t, sweepLine, sweepLine+"\n    - {path: \"database.spec.network.profile.links[0].rtt\", values: [10ms, 50ms]}",
		"  sweep:", "  repetitions: 2\n  sweep:"))
	run := e.Points[3].Runs[1]
	if got := run.Run.Spec.Load.ClientsPerRegion; got != 4 {
		t.Errorf("clientsPerRegion %d, want 4", got)
	}
	if got := run.Profile.Links[0].RTT.String(); got != "50ms" {
		t.Errorf("rtt %s, want 50ms", got)
	}
	if got := run.Run.Spec.Seed; got != 2 {
		t.Errorf("seed %d of the second repetition, want 2", got)
	}
}

// Companions change together with their parameter, in runs and databases, and are not parameters themselves.
func TestCompanionsOfSweptValues(t *testing.T) {
	e := mustRead(t, replaced(t, sweepLine, sweepLine[:len(sweepLine)-1]+", with: [{path: spec.workload.smallbank.hotPercent, values: [30, 30]},"+
		" {path: \"database.spec.network.profile.links[0].rtt\", values: [10ms, 50ms]}]}\n    - {path: spec.workload.smallbank.multiHomePercent, values: [0, 100]}"))
	var got []string
	for _, p := range e.Points[:4] {
		run := p.Runs[0]
		bank := run.Run.Spec.Workload.SmallBank
		got = append(got, fmt.Sprintf("%s: %d hot, %s", p.Label, bank.HotPercent, run.Profile.Links[0].RTT))
	}
	want := []string{
		"near clientsPerRegion=2 multiHomePercent=0: 30 hot, 10ms", "near clientsPerRegion=2 multiHomePercent=100: 30 hot, 10ms",
		"near clientsPerRegion=4 multiHomePercent=0: 30 hot, 50ms", "near clientsPerRegion=4 multiHomePercent=100: 30 hot, 50ms",
	}
	if !slices.Equal(got, want) || len(e.Points) != 8 || len(e.Parameters) != 2 {
		t.Errorf("%d points with %d parameters, the first of which are\n%s\nwant 8, 2 and\n%s", len(e.Points), len(e.Parameters), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestBadInput(t *testing.T) {
	with := func(companion string) string {
		return replaced(t, sweepLine, sweepLine[:len(sweepLine)-1]+", with: ["+companion+"]}")
	}
	claim := "expression: \"min(tput('near')) > max(tput('far'))\""
	measured := func(expression string) string { return "expression: \"" + expression + "\"" }
	big := make([]string, 1000)
	for i := range big {
		big[i] = fmt.Sprint(i + 1)
	}
	tests := map[string]struct {
		text, field, want string
	}{
		"misspelt field": {replaced(t, "path: spec.load.clientsPerRegion", "path: spec.load.clientPerRegion"),
			"spec.sweep[0].path", "did you mean clientsPerRegion?"},
		"field at another place": {replaced(t, "path: spec.load.clientsPerRegion", "path: spec.multiHomePercent"),
			"spec.sweep[0].path", "did you mean spec.workload.smallbank.multiHomePercent?"},
		"misspelt field of the database": {replaced(t, "path: spec.load.clientsPerRegion", "path: database.spec.partitionPerRegion"),
			"spec.sweep[0].path", "did you mean partitionsPerRegion?"},
		"neither spec nor database": {replaced(t, "path: spec.load.clientsPerRegion", "path: load.clientsPerRegion"),
			"spec.sweep[0].path", "begin with spec."},
		"an object": {replaced(t, "path: spec.load.clientsPerRegion", "path: spec.load"),
			"spec.sweep[0].path", "is an object: name one of its fields"},
		"below a value": {replaced(t, "path: spec.load.clientsPerRegion", "path: spec.load.clientsPerRegion.x"),
			"spec.sweep[0].path", "has no fields"},
		"an element that is not there": {replaced(t, "path: spec.load.clientsPerRegion", "path: \"database.spec.network.profile.links[3].lossPPM\""),
			"spec.sweep[0].path", "has 1 elements, counted from 0"},
		"a list without an index": {replaced(t, "path: spec.load.clientsPerRegion", "path: database.spec.network.profile.links.lossPPM"),
			"spec.sweep[0].path", "name one of its elements, as spec.network.profile.links[0].lossPPM"},
		"a broken index": {replaced(t, "path: spec.load.clientsPerRegion", "path: \"database.spec.network.profile.links[x].rtt\""),
			"spec.sweep[0].path", "counted from 0"},
		"no values":     {replaced(t, "values: [2, 4]", "values: []"), "spec.sweep[0].values", "values is empty, and so is the cross product"},
		"a value twice": {replaced(t, "values: [2, 4]", "values: [2, 2]"), "spec.sweep[0].values[1]", "listed twice"},
		"value out of bounds": {replaced(t, "values: [2, 4]", "values: [2, 0]"), "spec.sweep[0].values[1]",
			"spec.load.clientsPerRegion: 0 must be greater than or equal to 1"},
		"value of another type":   {replaced(t, "values: [2, 4]", "values: [2, many]"), "spec.sweep[0].values[1]", "must be a whole number"},
		"duration without a unit": {replaced(t, sweepLine, "- {path: spec.load.thinkTime, values: [5]}"), "spec.sweep[0].values[0]", "duration"},
		"truth value":             {replaced(t, "values: [2, 4]", "values: [true]"), "spec.sweep[0].values[0]", "must be"},
		"rule between fields": {replaced(t, sweepLine, "- {path: spec.load.warmup, values: [100ms, 5s]}"),
			"spec.run.spec.load.duration", "is not longer than warmup"},
		"unknown engine": {replaced(t, "name: calvin}", "name: clavin}"), "spec.databases[0].template.spec.engine.name", "did you mean calvin?"},
		"engine that is swept": {replaced(t, sweepLine, "- {path: database.spec.engine.name, values: [calvin, nonesuch]}"),
			"spec.sweep[0].values[1]", "nonesuch"},
		"companion with another number of values": {with("{path: spec.workload.smallbank.hotPercent, values: [1]}"), "spec.sweep[0].with",
			"list one value for each of its values"},
		"misspelt companion":       {with("{path: spec.workload.smallbank.hotPercents, values: [1, 2]}"), "spec.sweep[0].with[0].path", "did you mean hotPercent?"},
		"companion out of bounds":  {with("{path: spec.workload.smallbank.hotPercent, values: [1, 200]}"), "spec.sweep[0].with[0].values[1]", "less than or equal to 100"},
		"companion of nothing":     {with("{path: workload.smallbank.hotPercent, values: [1, 2]}"), "spec.sweep[0].with[0].path", "begin with spec."},
		"companion that is swept":  {with("{path: spec.load.clientsPerRegion, values: [1, 2]}"), "spec.sweep[0].with[0].path", "already changes at spec.sweep[0]"},
		"companion in two entries": {strings.Replace(with("{path: spec.workload.smallbank.hotPercent, values: [1, 2]}"), "\n  claims:", "\n    - {path: spec.seed, values: [1], with: [{path: spec.workload.smallbank.hotPercent, values: [3]}]}\n  claims:", 1), "spec.sweep[1].with[0].path", "already changes at spec.sweep[0].with[0]"},
		"companion of a database that exists": {replaced(t, "  run:\n", "  databaseRefs: [{name: other}]\n  run:\n", sweepLine,
			sweepLine[:len(sweepLine)-1]+", with: [{path: database.spec.partitionsPerRegion, values: [1, 2]}]}"), "spec.databaseRefs", "write them as templates"},
		"companion of a search that is a rate": {strings.Replace(searched(t, "{maxRatePerSecond: 100}"), "values: [0]}", "values: [0], with: [{path: spec.load.ratePerSecond, values: [10]}]}", 1),
			"spec.sweep", "which search chooses"},
		"too many points": {replaced(t, sweepLine, sweepLine+"\n    - {path: spec.seed, values: ["+strings.Join(big, ",")+"]}",
			"  sweep:", "  repetitions: 3\n  sweep:"), "spec.sweep", "an experiment has at most 10000"},
		"search in a closed loop": {replaced(t, sweepLine, "- {path: spec.workload.smallbank.hotPercent, values: [0]}\n  search: {maxRatePerSecond: 100}"),
			"spec.run.spec.load.arrival", "set arrival to Constant or Poisson"},
		"search below its least rate":        {searched(t, "{maxRatePerSecond: 20}"), "spec.search.maxRatePerSecond", "maxRatePerSecond 20 is not more than ratePerSecond of the run (50)"},
		"search without an end":              {searched(t, "{}"), "spec.search.maxRatePerSecond", "required"},
		"search for nothing":                 {searched(t, "{maxRatePerSecond: 100, committedPercent: 0}"), "spec.search.committedPercent", "every rate would do: list objectives"},
		"search by an even number":           {searched(t, "{maxRatePerSecond: 100, bestOf: 2}"), "spec.search.bestOf", "1, 3, 5"},
		"search with a probe":                {searched(t, "{maxRatePerSecond: 100, maxProbes: 1}"), "spec.search.maxProbes", "greater than or equal to 2"},
		"search without tolerance":           {searched(t, "{maxRatePerSecond: 100, tolerancePercent: 0}"), "spec.search.tolerancePercent", "greater than or equal to 1"},
		"search beyond the peak":             {searched(t, "{maxRatePerSecond: 100, peakPercents: [100, 120]}"), "spec.search.peakPercents[1]", "less than or equal to 100"},
		"search of the same share":           {searched(t, "{maxRatePerSecond: 100, peakPercents: [75, 75]}"), "spec.search.peakPercents[1]", "twice"},
		"search shared by what is not swept": {searched(t, "{maxRatePerSecond: 100, sharedBy: [spec.workload.smallbank.hotPercents]}"), "spec.search.sharedBy[0]", "is not swept; did you mean spec.workload.smallbank.hotPercent?"},
		"search of no share":                 {searched(t, "{maxRatePerSecond: 100, peakPercents: []}"), "spec.search.peakPercents", "at least 1"},
		"search of more probes than points":  {strings.Replace(searched(t, "{maxRatePerSecond: 100, maxProbes: 100}"), "values: [0]", "values: ["+strings.Join(big[:100], ",")+"]", 1), "spec.sweep", "(100 probes + 1 shares of the peak x 1 repetitions)"},
		"search for the least throughput": {strings.Replace(searched(t, "{maxRatePerSecond: 100}"), "verify: [Invariants]", "verify: [Invariants]\n      objectives: [{metric: throughput, min: 10}]", 1),
			"spec.run.spec.objectives", "give every objective a max, and set search.committedPercent for throughput"},
		"search over a sweep of rates": {strings.Replace(searched(t, "{maxRatePerSecond: 100}"), "spec.workload.smallbank.hotPercent, values: [0]", "spec.load.ratePerSecond, values: [10]", 1),
			"spec.sweep", "which search chooses"},
		"search of a rate that nobody sends": {strings.Replace(searched(t, "{maxRatePerSecond: 100}"), "ratePerSecond: 50", "ratePerSecond: 0", 1), "spec.run.spec.load.ratePerSecond", "arrival Poisson is an open loop"},
		"share of a peak that is not measured": {strings.Replace(searched(t, "{maxRatePerSecond: 100, peakPercents: [75]}"), claim, measured("tput('near', {'peakPercent': 50}) > 1.0"), 1),
			"spec.claims[0].expression", "peakPercent does not take the value 50: its values are 75"},
		"gate without claims":      {replaced(t, small[strings.Index(small, "  claims:"):], "  gate: Claims\n"), "spec.gate", "list claims, or leave gate out"},
		"gate of another kind":     {replaced(t, "  run:\n", "  gate: Points\n  run:\n"), "spec.gate", "Claims"},
		"time to live of its runs": {replaced(t, "      workload:", "      ttlSecondsAfterFinished: {passed: 60}\n      workload:"), "spec.run.spec.ttlSecondsAfterFinished", "unknown field"},
		"no databases": {replaced(t, small[strings.Index(small, "  databases:"):strings.Index(small, "  run:")], ""),
			"spec", "databases and databaseRefs are both missing"},
		"missing database": {replaced(t, "  run:\n", "  databaseRefs: [{name: nera}]\n  run:\n"), "spec.databaseRefs[0].name", "there is no GeoDatabase nera"},
		"sweeping a database that exists": {replaced(t, "  run:\n", "  databaseRefs: [{name: other}]\n  run:\n",
			sweepLine, "- {path: database.spec.partitionsPerRegion, values: [1, 2]}"), "spec.databaseRefs", "write them as templates"},
		"run with a database": {replaced(t, "      workload:", "      databaseRef: {name: near}\n      workload:"), "spec.run.spec.databaseRef", "unknown field"},
		"long name":           {replaced(t, "name: small", "name: a-name-of-an-experiment-that-is-long"), "metadata.name", "at most 23"},

		"claim that does not compile":    {replaced(t, claim, measured("min(tput('near') >")), "spec.claims[0].expression", "line 1, column"},
		"claim with an unknown function": {replaced(t, claim, measured("throughput('near')[0] > 1.0")), "spec.claims[0].expression", "nothing is called throughput"},
		"claim that is no statement":     {replaced(t, claim, measured("tput('near')")), "spec.claims[0].expression", "a claim must be true or false"},
		"claim about an unknown system":  {replaced(t, claim, measured("min(tput('neer')) > 1.0")), "spec.claims[0].expression", "no system is called neer; did you mean near?"},
		"unknown system behind an or":    {replaced(t, claim, measured("true || max(tput('nowhere')) > 1.0")), "spec.claims[0].expression", "no system is called nowhere"},
		"unknown system in a list":       {replaced(t, claim, measured("['near', 'fra'].all(s, max(tput(s)) > 1.0)")), "spec.claims[0].expression", "no system is called fra; did you mean far?"},
		"unknown counter":                {replaced(t, claim, measured("counter('batch', 'near', 2) > 1.0")), "spec.claims[0].expression", "engine calvin has no counter batch; did you mean batches?"},
		"unknown gauge":                  {replaced(t, claim, measured("gauge('log_pos', 'near', 2) > 1.0")), "spec.claims[0].expression", "engine calvin has no gauge log_pos"},
		"gauge as a counter":             {replaced(t, claim, measured("max(counter('log_position', 'near')) > 1.0")), "spec.claims[0].expression", "log_position of engine calvin is a gauge and not a counter; write gauge('log_position', ...)"},
		"counter as a gauge":             {replaced(t, claim, measured("gauge('batches', 'far', 4) > 1.0")), "spec.claims[0].expression", "batches of engine calvin is a counter and not a gauge; write counter('batches', ...)"},
		"unknown value":                  {replaced(t, claim, measured("tput('near', 3) > 1.0")), "spec.claims[0].expression", "its values are 2, 4"},
		"unknown parameter":              {replaced(t, claim, measured("tput('near', {'clients': 2}) > 1.0")), "spec.claims[0].expression", "does not sweep clients"},
		"unknown parameter's values":     {replaced(t, claim, measured("max(values('hotPercent')) > 1.0")), "spec.claims[0].expression", "does not sweep hotPercent"},
		"unknown region":                 {replaced(t, claim, measured("max(p50In('c', 'near')) > 1.0")), "spec.claims[0].expression", "no region of near is called c"},
		"nodes of a whole sweep":         {replaced(t, claim, measured("max(ofNodes('operations', 'near')) > 1.0")), "spec.claims[0].expression", "operations of nodes of near is 2 points, not one: fix all of clientsPerRegion"},
		"unknown figure of nodes":        {replaced(t, claim, measured("max(ofNodes('operation', 'near', 2)) > 1.0")), "spec.claims[0].expression", "nodes have no figure operation; did you mean operations?"},
		"unknown type":                   {replaced(t, claim, measured("max(p50Of('balanse', 'near')) > 1.0")), "spec.claims[0].expression", "no transaction of near is of type balanse; did you mean balance? (there is"},
		"unknown type in a list":         {replaced(t, claim, measured("['balance', 'global'].all(t, max(p99Of(t, 'near')) > 1.0)")), "spec.claims[0].expression", "no transaction of near is of type global (there is"},
		"unknown region of a type":       {replaced(t, claim, measured("max(p50OfIn('balance', 'c', 'near')) > 1.0")), "spec.claims[0].expression", "no region of near is called c"},
		"unknown type of a search": {strings.Replace(searched(t, "{maxRatePerSecond: 100, peakPercents: [75]}"), claim, measured("max(p50Of('local', 'near')) > 1.0"), 1),
			"spec.claims[0].expression", "no transaction of near is of type local"},
		"figure that types have not": {replaced(t, claim, measured("max(seriesOf('cost', 'balance', 'near')) > 1.0")), "spec.claims[0].expression", "cost is not told by type of transaction"},
		"type that never runs": {replaced(t, "smallbank: {customers: 1000}", "smallbank: {customers: 1000, mix: {balance: 100}}", claim, measured("tputOf('amalgamate', 'near', 2) > 1.0")),
			"spec.claims[0].expression", "no transaction of type amalgamate runs at near clientsPerRegion=2: its share in spec.workload.smallbank.mix is 0"},
		"unknown figure":                 {replaced(t, claim, measured("max(series('speed', 'near')) > 1.0")), "spec.claims[0].expression", "there is no figure speed"},
		"index behind the end":           {replaced(t, claim, measured("tput('near')[2] > 1.0")), "spec.claims[0].expression", "index out of bounds"},
		"measured that does not compile": {replaced(t, claim, claim+", measured: \"tput('nowhere')\""), "spec.claims[0].measured", "no system is called nowhere"},
		"table of what there is not":     {small + table("txn/s", "tput('nowhere', 2)"), "spec.tables[0].columns[0].value", "table t, column \"txn/s\": no system is called nowhere"},
		"table of an unknown region":     {small + table("p50", "max(p50In('c', system))"), "spec.tables[0].columns[0].value", "no region of near is called c"},
		"table that does not compile":    {small + table("p50", "max(p50(sistem))"), "spec.tables[0].columns[0].value", "nothing is called sistem; did you mean system?"},
		"tables that take too long":      {small + endless(), "spec.tables[0].columns[5].value", "all tables together is 100000000"},
		"row's system in a claim":        {replaced(t, claim, measured("max(tput(system)) > 1.0")), "spec.claims[0].expression", "nothing is called system"},
		"one value for two parameters": {replaced(t, sweepLine, sweepLine+"\n    - {path: spec.seed, values: [1, 2]}", claim, measured("tput('near', 2) > 1.0")),
			"spec.claims[0].expression", "name them, as {'clientsPerRegion': 2}"},
		"one parameter of two": {replaced(t, sweepLine, sweepLine+"\n    - {path: spec.seed, values: [1, 2]}", claim, measured("tput('near', {'seed': 2}) > 1.0")),
			"spec.claims[0].expression", "is 2 points, not one"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := read(tc.text)
			ps, ok := check.As(err)
			if !ok {
				t.Fatalf("the error is %v, not Problems", err)
			}
			t.Log(ps)
			for _, p := range ps {
				if p.Field == tc.field && strings.Contains(p.String(), tc.want) {
					if !strings.HasPrefix(p.Object, "Experiment ") || p.Source == "" {
						t.Errorf("the problem does not say where it is: %s", p)
					}
					return
				}
			}
			t.Errorf("want field %s with %q", tc.field, tc.want)
		})
	}
}

// judge returns the finding for the only claim of the experiment.
func judge(t *testing.T, e *experiment.Experiment, r *experiment.Results) experiment.Finding {
	t.Helper()
	all := e.Judge(t.Context(), r)
	if len(all) != 1 {
		t.Fatalf("%d findings, want 1", len(all))
	}
	return all[0]
}

// table returns a table with one column, to append to small.
func table(title, value string) string {
	return fmt.Sprintf("  tables: [{name: t, title: side by side, columns: [{title: %q, value: %q}]}]\n", title, value)
}

// endless returns a table, to append to small, whose evaluation would keep the operator busy if there were no limit on
// the steps.
func endless() string {
	loop := "1 == 1"
	for i := range 3 {
		loop = fmt.Sprintf("[%s].all(x%d, %s)", strings.TrimSuffix(strings.Repeat("1,", 55), ","), i, loop)
	}
	text := "  tables:\n    - name: t\n      columns:\n"
	for i := range 24 {
		text += fmt.Sprintf("        - {title: c%d, value: %q}\n", i, loop)
	}
	return text
}

// TestTables: a table has a row for each database. If a cell has no value, the table states the reason.
func TestTables(t *testing.T) {
	for name, tc := range map[string]struct {
		value, near, far, missing string
	}{
		"a number":      {"tput(system, 4)", "2000", "", "far, x: it broke"},
		"words":         {"text(tput(system, 2)) + ' of ' + text(max(tput('near')))", "1000 of 2000", "500 of 2000", ""},
		"of the engine": {"isolation(system) + ', ' + survives(system)", "strict-serializable, b, except for data in flight", "strict-serializable, no region", ""},
		"of a region":   {"p50In('b', system, 2)", "2", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, small+table("x", tc.value))
			full := invented(e, 1000, 2000, 500, 2500)
			full.Add(e.Points[3].Runs[0], nil, errors.New("it broke"))
			report := experiment.NewReport(t.Context(), []*experiment.Experiment{e}, full)
			d := report.Experiments[0].Tables[0]
			want := []experiment.TableRow{{System: "near", Cells: []string{tc.near}}, {System: "far", Cells: []string{tc.far}}}
			if diff := cmp.Diff(want, d.Rows); diff != "" || strings.Join(d.Missing, "\n") != tc.missing {
				t.Errorf("rows (-want +got):\n%s\nmissing %q, want %q", diff, d.Missing, tc.missing)
			}
			var shown strings.Builder
			if err := report.Table(&shown); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(shown.String(), "table small: t: side by side\n  system  x\n  near    "+tc.near+"\n") {
				t.Errorf("the table is not shown:\n%s", shown.String())
			}
			if want := "side by side (simulated)\n\n| system | x |\n|---|---|\n| near | " + tc.near + " |\n"; !strings.HasPrefix(d.Markdown(true), want) {
				t.Errorf("the page has\n%s\nand not\n%s", d.Markdown(true), want)
			}
		})
	}
}

// A figure of faults has no value if a run has no fault or a fault was not measured. Otherwise an infinite value or a 0
// could make a claim true.
func TestFaultFiguresNeedAFault(t *testing.T) {
	for _, figure := range []string{"resilience", "recovery", "recoverySeconds", "detectSeconds", "outageSeconds", "faultTput", "fullStrengthSeconds"} {
		none := "figure " + figure + " is of faults, and near clientsPerRegion=2 has none: add spec.faults to the run, or leave the point out of the claim"
		for _, expression := range []string{figure + "('near', 2) > 1.0", "max(" + figure + "('near')) > 1.0", "series('" + figure + "', 'near')[0] > 1.0"} {
			_, err := read(claimed(t, expression))
			if err == nil || !strings.Contains(err.Error(), "spec.claims[0].expression") || !strings.Contains(err.Error(), "claim c-1: "+none) {
				t.Errorf("%s of an experiment without faults: %v, want %q", expression, err, none)
			}
		}
		// The result of a run may lack faults although the run's manifest declares them.
		e := mustRead(t, withFault(t, claimed(t, figure+"('near', 2) > 1.0")))
		for want, faults := range map[string][]result.Fault{
			none: nil,
			"figure " + figure + " of near clientsPerRegion=2: there is none of fault late": {{Name: "cut", Availability: &result.Availability{}}, {Name: "late"}},
		} {
			full := invented(e, 1000)
			each(t, e, full, func(d *result.Document) {
				d.Faults = faults
			})
			for where, r := range map[string]*experiment.Results{"in this process": full, "by the operator": experimenttest.WithFiguresOnly(t, e, full)} {
				if f := judge(t, e, r); f.Answer() != "no result" || f.ID != "c-1" || !strings.Contains(f.Error, want) {
					t.Errorf("%s: %s of a run with faults %+v %s (%s), want %q", where, figure, faults, f.Answer(), f.Error, want)
				}
			}
		}
	}
}

// claimed returns the small experiment with expression as its claim. withFault adds a fault to the runs of an
// experiment.
func claimed(t *testing.T, expression string) string {
	return replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"", fmt.Sprintf("expression: %q", expression))
}

func withFault(t *testing.T, text string) string {
	t.Helper()
	const before, fault = "      verify: [Invariants]\n", "      faults: [{name: cut, at: 500ms, duration: 200ms, networkPartition: {from: {regions: [a]}}}]\n"
	if !strings.Contains(text, before) {
		t.Fatalf("there is no %q", before)
	}
	return strings.Replace(text, before, fault+before, 1)
}

// TestReportsByType: if several transaction types occurred, the points of a report have figures for each type.
func TestReportsByType(t *testing.T) {
	e := mustRead(t, small)
	report := experiment.NewReport(t.Context(), []*experiment.Experiment{e}, experimenttest.WithTypes(t, e, invented(e, 1000, 2000, 0, 2500)))
	points := report.Experiments[0].Points
	want := map[string]map[string]float64{
		"balance":    {"tput": 500, "committed": 500, "p50": 1, "mean": 1, "p99": 1, "aborts": 19.871794871794872},
		"amalgamate": {"tput": 500, "committed": 500, "p50": 3, "mean": 3, "p99": 3, "aborts": 20},
	}
	if d := cmp.Diff(want, points[0].Types); d != "" {
		t.Errorf("the first point (-want +got):\n%s", d)
	}
	if points[2].Types != nil {
		t.Errorf("a point without transactions has %v", points[2].Types)
	}
	report.LeaveOutTypes()
	if points[0].Types != nil {
		t.Error("types are left out and there")
	}
}

func TestAClaimOverARunThatFailedHasNoResult(t *testing.T) {
	e := mustRead(t, small)
	r := invented(e, 1000, 2000, 500, 2500)
	r.Add(e.Points[1].Runs[0], nil, errors.New("it broke"))
	report := experiment.NewReport(t.Context(), []*experiment.Experiment{e}, r)
	if got := report.Claims[0]; got.Answer() != "no result" || !strings.Contains(got.Error, "it broke") {
		t.Errorf("the finding is %+v", got)
	}
	if len(report.Wrong) != 1 || report.Err() == nil {
		t.Errorf("the report is %+v", report)
	}
	var table strings.Builder
	if err := report.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no result", "it broke", "SIMULATED", "0 of 1 claim hold"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, table.String())
		}
	}
}

func TestNothingCommittedIsNoLatency(t *testing.T) {
	for _, figure := range []string{"p50", "p50OfRegions", "cost", "costPerHour"} {
		e := mustRead(t, replaced(t, "min(tput('near')) > max(tput('far'))", "max("+figure+"('near')) < 1000000.0"))
		if f := judge(t, e, invented(e, 0, 2000)); f.Holds || f.Measured != "infinite < 1000000" {
			t.Errorf("the finding of %s is %+v", figure, f)
		}
	}
}

// TestShippedExperiments expands every experiment in the folder experiments of the repository.
func TestShippedExperiments(t *testing.T) {
	entries, err := os.ReadDir("../../../experiments")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		path := filepath.Join("../../../experiments", entry.Name())
		t.Run(entry.Name(), func(t *testing.T) {
			abilities, plays := check.Simulator(nil), check.Simulator(nil)
			cluster := check.Default(nil)
			abilities.Pods, abilities.Clients = cluster.Pods, cluster.Clients // postgres.yaml needs them
			switch n := entry.Name(); {
			case strings.HasPrefix(n, "own-"), n == "isolation": // these experiments are for geobench run and geobench isolation
				abilities = check.Process(nil)
			case n == "dike-vendors.yaml": // needs a cluster with images of the vendors
				abilities, plays = cluster, cluster
			}
			b, err := manifest.Load(nil, abilities, path)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range b.Experiments {
				if _, err := experiment.New(t.Context(), b, object, plays); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestRunsThatAreEqual: two notations of the same swept value yield equal runs, but the runs must have distinct names.
func TestRunsThatAreEqual(t *testing.T) {
	e := mustRead(t, replaced(t, sweepLine, "- {path: spec.load.duration, values: [60s, 1m]}"))
	seen := map[string]bool{}
	for _, run := range e.Runs() {
		if seen[run.Run.Name] || len(run.Run.Name) != len("small-")+8 {
			t.Errorf("%s is called %s", run.Label, run.Run.Name)
		}
		seen[run.Run.Name] = true
	}
	runs := e.Runs()
	if runs[0].DatabaseHash != runs[1].DatabaseHash || runs[0].DatabaseHash == runs[2].DatabaseHash {
		t.Errorf("databases %s, %s of near and %s of far", runs[0].DatabaseHash, runs[1].DatabaseHash, runs[2].DatabaseHash)
	}
	if runs[0].Database != runs[1].Database || runs[0].Profile != runs[1].Profile || runs[0].Database == runs[2].Database {
		t.Error("runs on equal databases have one each, which takes most of the memory of an experiment")
	}
}

func TestFigures(t *testing.T) {
	e := mustRead(t, small)
	r := experiment.NewResults("in a cluster")
	for i, run := range e.Runs() {
		d := &result.Document{}
		d.Summary.Committed, d.Summary.ThroughputPerSecond = 1000, int64(1234+i)
		d.Summary.LatencyMicroseconds.P50 = v1alpha1.Observed(5678)
		if i == 3 {
			r.Add(run, nil, errors.New("it could not run"))
			continue
		}
		r.Add(run, d, nil)
	}
	report := experiment.NewReport(t.Context(), []*experiment.Experiment{e}, r)
	report.Round(3)
	var b strings.Builder
	if err := errors.Join(report.Table(&b), report.Figures(&b)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in real time, in a cluster", "near   2                 1230  5.68", "far    4                 -"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
}

// An object to which an experiment refers may be applied later, so a missing object is reported as NotFound. No other
// problem is.
func TestReferencesThatMayCome(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"database": {replaced(t, "  run:\n", "  databaseRefs: [{name: nera}]\n  run:\n"), true},
		"profile":  {replaced(t, "network: {profile: {intraRegion: {rtt: 400us}, links: [{from: a, to: b, rtt: 20ms}]}}", "network: {profileRef: {name: nowhere}}"), true},
		"engine":   {replaced(t, "name: calvin}", "name: clavin}"), false},
	} {
		_, err := read(tc.text)
		ps, ok := check.As(err)
		if !ok || ps.NotFound() != tc.want {
			t.Errorf("%s: %v: NotFound is %v, want %v", name, err, ps.NotFound(), tc.want)
		}
	}
}
