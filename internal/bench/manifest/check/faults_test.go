package check_test

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// TestFaults checks timelines with at most one error, on Calvin over regions a and b with two partitions, measured for
// 60 s.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct{ faults, want string }{
		"fine": {"[{name: f, at: 1s, duration: 59s, networkDelay: {between: {from: [a]}, delay: 5ms}}, {name: g, at: 1s, duration: 3s, networkPartition: {from: {role: leader}}}]", ""},
		"begins after measuring": {"[{name: f, at: 60s, podKill: {target: {}}}]",
			"spec.faults[0].at: at 1m is not before the end of measuring, which lasts 1m"},
		"ends after measuring": {"[{name: f, at: 50s, duration: 11s, cpuStress: {target: {}}}]",
			"spec.faults[0].duration: duration 11s from 50s on is past the end of measuring at 1m"},
		"unknown region of a link": {"[{name: f, at: 1s, duration: 1s, networkLoss: {between: {from: [a], to: [bb]}, lossPPM: 5}}]",
			"spec.faults[0].networkLoss.between.to[0]: region bb is not in GeoDatabase db (did you mean b?); its regions are a, b"},
		"unknown region of a target": {"[{name: f, at: 1s, podKill: {target: {regions: [c]}}}]",
			"spec.faults[0].podKill.target.regions[0]: region c is not in GeoDatabase db"},
		"unknown partition": {"[{name: f, at: 1s, podKill: {target: {partitions: [0, 2]}}}]",
			"spec.faults[0].podKill.target.partitions[1]: partition 2 is not in GeoDatabase db, which has 2, counted from 0"},
		"unknown role": {"[{name: f, at: 1s, podKill: {target: {role: leeder}}}]",
			"spec.faults[0].podKill.target.role: no node of engine calvin ever has the role leeder (did you mean leader?); its roles are leader"},
		"more than there are": {"[{name: f, at: 1s, podKill: {target: {regions: [a], count: 3}}}]",
			"spec.faults[0].podKill.target.count: 3 is more than the 2 nodes that there are"},
		"nobody on the other side": {"[{name: f, at: 1s, duration: 1s, networkPartition: {from: {}}}]",
			"spec.faults[0].networkPartition.from: from is every node of the database, which leaves no node to cut them off from"},
		"on both sides": {"[{name: f, at: 1s, duration: 1s, networkPartition: {from: {regions: [a]}, to: {partitions: [1]}}}]",
			"spec.faults[0].networkPartition.to: node a/1/0 is on both sides of the partition"},
		"stress on a dead node": {"[{name: f, at: 1s, podKill: {target: {regions: [a]}}}, {name: g, at: 30s, duration: 1s, cpuStress: {target: {partitions: [0]}}}]",
			"spec.faults[1].cpuStress: fault g contradicts fault f, which lasts from 1s to 1m: node a/0/0 does not run then"},
		"two clocks": {"[{name: f, at: 1s, duration: 9s, clockSkew: {target: {}, offset: 1s}}, {name: g, at: 5s, duration: 9s, clockSkew: {target: {}, offset: 1s}}]",
			"spec.faults[1].clockSkew: fault g contradicts fault f, which lasts from 1s to 10s: the clock of node a/0/0 cannot have two offsets"},
		"one clock after the other": {"[{name: f, at: 1s, duration: 4s, clockSkew: {target: {}, offset: 1s}}, {name: g, at: 5s, duration: 9s, clockSkew: {target: {}, offset: 1s}}]", ""},
		"two bandwidths": {"[{name: g, at: 5s, duration: 9s, networkBandwidth: {between: {}, bandwidthMbps: 5}}, {name: f, at: 1s, duration: 9s, networkBandwidth: {between: {to: [b]}, bandwidthMbps: 9}}]",
			"spec.faults[0].networkBandwidth: fault g contradicts fault f, which lasts from 1s to 10s: the link from a to b cannot have two bandwidths"},
		"delay on a cut link": {"[{name: f, at: 1s, duration: 9s, networkPartition: {from: {regions: [a]}}}, {name: g, at: 5s, duration: 1s, networkDelay: {between: {}, delay: 5ms}}]",
			"spec.faults[1].networkDelay: fault g contradicts fault f, which lasts from 1s to 10s: everything that it would hit is cut off already"},
		"delay on a link that loses everything": {"[{name: f, at: 1s, duration: 9s, networkLoss: {between: {from: [a], oneWay: true}, lossPPM: 1000000}}, {name: g, at: 5s, duration: 1s, networkDelay: {between: {}, delay: 5ms}}]",
			"nothing gets through the link from a to b then"},
		"a cut in a cut": {"[{name: f, at: 1s, duration: 9s, networkPartition: {from: {regions: [a]}}}, {name: g, at: 5s, duration: 1s, networkPartition: {from: {regions: [b]}, oneWay: true}}]",
			"everything that it would hit is cut off already"},
		"a cut beside a cut": {"[{name: f, at: 1s, duration: 9s, networkPartition: {from: {regions: [a]}}}, {name: g, at: 5s, duration: 1s, networkPartition: {from: {partitions: [1]}}}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(nil)
			db.Name, db.Spec.Engine = "db", v1alpha1.Engine{Name: "calvin"}
			db.Spec.PartitionsPerRegion, db.Spec.ReplicasPerPartition = 2, 1
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
			run.Spec.Load.Duration = v1alpha1.DurationOf(time.Minute)
			if err := yaml.Unmarshal([]byte(tc.faults), &run.Spec.Faults); err != nil {
				t.Fatal(err)
			}
			ps := check.Run(run, db, check.Simulator(nil))
			if tc.want == "" && len(ps) > 0 || tc.want != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.want)) {
				t.Errorf("got\n%s\nwant\n%s", ps.Error(), tc.want)
			}
		})
	}
}

// TestFaultsSayWhoCan checks that, if geobench run cannot inject a fault, the message names a driver that can. A second
// repetition is refused as well.
func TestFaultsSayWhoCan(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
	run.Spec.Load.Duration, run.Spec.Load.Repetitions = v1alpha1.DurationOf(time.Minute), 2
	if err := yaml.Unmarshal([]byte("[{name: f, at: 1s, duration: 1s, ioDelay: {target: {}, delay: 5ms}}]"), &run.Spec.Faults); err != nil {
		t.Fatal(err)
	}
	got := check.Run(run, database(nil), check.Process(nil)).Error()
	for _, want := range []string{"spec.load.repetitions: repetitions 2 with spec.faults", "fault f is a ioDelay, which is not supported by geobench run (geobench simulate can)"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout\n%s", got, want)
		}
	}
}

// TestNetworkFaultsNeedEmulatedLinks checks that geobench run cannot change links without emulation, but can inject
// other faults.
func TestNetworkFaultsNeedEmulatedLinks(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
	run.Spec.Load.Duration = v1alpha1.DurationOf(time.Minute)
	if err := yaml.Unmarshal([]byte("[{name: f, at: 1s, duration: 1s, networkDelay: {between: {}, delay: 5ms}}, {name: g, at: 5s, duration: 1s, cpuStress: {target: {}}}]"), &run.Spec.Faults); err != nil {
		t.Fatal(err)
	}
	db := database(nil)
	db.Name, db.Spec.Network.Emulation = "db", v1alpha1.EmulationNone
	ps := check.Run(run, db, check.Process(nil))
	if want := "spec.faults[0].networkDelay: fault f is a networkDelay, but GeoDatabase db has spec.network.emulation None"; len(ps) != 1 || !strings.Contains(ps.Error(), want) {
		t.Errorf("got\n%s\nwant\n%s", ps.Error(), want)
	}
	if ps := check.Run(run, db, check.Simulator(nil)); len(ps) > 0 {
		t.Errorf("the simulator refuses what it can do: %s", ps.Error())
	}
}

// TestFaultsAfterAKill checks that a killed node may be hit again if it restarts from its log. This applies to a node
// that is shut down in the simulator, and to a killed container with a journal.
func TestFaultsAfterAKill(t *testing.T) {
	const shutdown, kill = "nodeShutdown", "containerKill"
	for _, tc := range []struct {
		kind    string
		where   check.Abilities
		journal bool
		by      v1alpha1.FaultInjection
		again   bool
	}{
		{shutdown, check.Simulator(nil), false, "", true},
		{shutdown, check.Process(nil), false, "", false},
		{shutdown, check.Process(nil), true, "", true},
		{shutdown, check.Default(nil), true, "", false},
		{shutdown, check.Default(nil), true, v1alpha1.FaultInjectionChaosMesh, true},
		{shutdown, check.Default(nil), false, v1alpha1.FaultInjectionChaosMesh, false},
		{kill, check.Simulator(nil), false, "", false},
		{kill, check.Simulator(nil), true, "", true},
		{kill, check.Process(nil), false, "", false},
		{kill, check.Process(nil), true, "", true},
		{kill, check.Default(nil), true, "", true},
		{"podKill", check.Process(nil), true, "", false},
	} {
		duration := ""
		if tc.kind == shutdown {
			duration = "duration: 1s, "
		}
		run := &v1alpha1.BenchmarkRun{}
		run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
		run.Spec.Load.Duration, run.Spec.FaultInjection = v1alpha1.DurationOf(time.Minute), tc.by
		faults := "[{name: f, at: 1s, " + duration + tc.kind + ": {target: {}}}, {name: g, at: 5s, duration: 1s, cpuStress: {target: {}}}]"
		if err := yaml.Unmarshal([]byte(faults), &run.Spec.Faults); err != nil {
			t.Fatal(err)
		}
		db := database(nil)
		if tc.journal {
			db.Spec.Durability = v1alpha1.DurabilityJournal
		}
		if ps := check.Run(run, db, tc.where); tc.again != (len(ps) == 0) || !tc.again && !strings.Contains(ps.Error(), "does not run then") {
			t.Errorf("%s by %s, journal %t, injected by %q: %v", tc.kind, tc.where.Place, tc.journal, tc.by, ps)
		}
	}
}

// TestFaultsThatReplaceNodes checks engines that replace lost nodes: if a container without a journal is killed, a new
// incarnation follows. The node may be hit again after that. A fault must not remove more nodes at once than the
// database tolerates.
func TestFaultsThatReplaceNodes(t *testing.T) {
	const all, one = "{}", "{regions: [a]}"
	for name, tc := range map[string]struct {
		where        check.Abilities
		engine       string
		regions      int
		target, more string
		want         string // empty if there is no problem
	}{
		"simulate":             {check.Simulator(nil), "spanner", 3, one, "", ""},
		"run":                  {check.Process(nil), "sdur", 3, one, "", ""},
		"one of a region":      {check.Process(nil), "sdur", 3, "{count: 1}", "", ""},
		"all at once":          {check.Process(nil), "sdur", 3, all, "", "spec.faults[0].KIND.target: fault f: nodes a/0/0, b/0/0, c/0/0 have lost what they knew together; engine sdur replaces one node at a time"},
		"two at once":          {check.Simulator(nil), "spanner", 3, "{regions: [a, b]}", "", "nodes a/0/0, b/0/0 have lost what they knew together"},
		"only the run can say": {check.Process(nil), "sdur", 3, "{role: leader}", "", ""},
		"too few":              {check.Process(nil), "sdur", 2, one, "", "node a/0/0 does not run then"},
		"other engine":         {check.Process(nil), "sunstorm", 3, one, "", "node a/0/0 does not run then"},
		"logs for another":     {check.Simulator(nil), "spanner", 3, one, ", {name: h, at: 9s, duration: 1s, nodeShutdown: {target: {regions: [b]}}}", "node a/0/0 does not run then"},
		"for good":             {check.Simulator(nil), "spanner", 3, one + ", lasting: true", "", "node a/0/0 does not run then"},
		"on a cluster":         {check.Default(nil), "spanner", 3, one, "", ""},
		"all, on a cluster":    {check.Default(nil), "spanner", 3, all, "", "nodes a/0/0, b/0/0, c/0/0 have lost what they knew together"},
	} {
		for _, kind := range []string{"containerKill", "podKill"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				run := &v1alpha1.BenchmarkRun{}
				run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
				run.Spec.Load.Duration = v1alpha1.DurationOf(time.Minute)
				faults := "[{name: f, at: 1s, " + kind + ": {target: " + tc.target + "}}, {name: g, at: 5s, duration: 1s, cpuStress: {target: {regions: [a]}}}" + tc.more + "]"
				if err := yaml.Unmarshal([]byte(faults), &run.Spec.Faults); err != nil {
					t.Fatal(err)
				}
				db := database(func(s *v1alpha1.GeoDatabaseSpec) {
					s.Engine.Name, s.ReplicasPerPartition, s.Regions = tc.engine, 1, nil
					for i := range tc.regions {
						s.Regions = append(s.Regions, v1alpha1.Region{Name: string(rune('a' + i))})
					}
				})
				if ps := check.Run(run, db, tc.where); (tc.want == "") != (len(ps) == 0) || !strings.Contains(ps.Error(), strings.ReplaceAll(tc.want, "KIND", kind)) {
					t.Errorf("got\n%s\nwant\n%s", ps.Error(), tc.want)
				}
			})
		}
	}
}

// TestLastingKills checks which kills can be declared permanent: only kills of nodes that would otherwise recover and
// whose recovery can be prevented.
func TestLastingKills(t *testing.T) {
	for name, tc := range map[string]struct {
		kind       string
		durability v1alpha1.Durability
		want       string
	}{
		"pod":                          {"podKill", "", ""},
		"container":                    {"containerKill", "", ""},
		"pod of a database with logs":  {"podKill", v1alpha1.DurabilityJournal, ""},
		"container that has a journal": {"containerKill", v1alpha1.DurabilityJournal, "spec.faults[0].containerKill.lasting: true: fault f: with spec.durability Journal of GeoDatabase db a container that is killed goes on from its journal; take podKill"},
	} {
		t.Run(name, func(t *testing.T) {
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
			run.Spec.Load.Duration = v1alpha1.DurationOf(time.Minute)
			if err := yaml.Unmarshal([]byte("[{name: f, at: 1s, "+tc.kind+": {target: {count: 1}, lasting: true}}]"), &run.Spec.Faults); err != nil {
				t.Fatal(err)
			}
			db := database(func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name, s.Durability = "janus", tc.durability })
			if ps := check.Run(run, db, check.Default(nil)); (tc.want == "") != (len(ps) == 0) || !strings.Contains(ps.Error(), tc.want) {
				t.Errorf("got\n%s\nwant\n%s", ps.Error(), tc.want)
			}
		})
	}
}
