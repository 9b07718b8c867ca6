package report

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
)

// The page of an anomaly shows the transactions in the lanes of their regions, their outcomes, and the dependencies
// between them.
func TestWriteTrace(t *testing.T) {
	check := workload.Check{Name: "serializable", Message: "not serializable: write skew", Cycle: &workload.Cycle{
		Transactions: []workload.CycleTransaction{
			{Name: "T1", ID: "1.7", Region: "us", Client: 3, Sent: time.Second, Answered: 2 * time.Second, Outcome: "committed"},
			{Name: "T2", ID: "2.9", Region: "eu", Client: 4, Sent: 1500 * time.Millisecond, Outcome: "unknown"},
			{Name: "T3", ID: "3.1", Region: "asia", Client: 5, Sent: 1600 * time.Millisecond, Answered: 1700 * time.Millisecond, Outcome: "aborted"},
		},
		Dependencies: []workload.CycleDependency{
			{From: "T1", To: "T2", Kind: "rw", Text: "T1 read a before T2 wrote it"}, {From: "T2", To: "T1", Kind: "rw", Text: "T2 read b before T1 wrote it"},
		},
	}}
	d := &result.Document{
		Name: "bank", Engine: "postgres", Regions: []result.Region{{Name: "eu"}, {Name: "us"}},
		Checks: []workload.Check{{Name: "converged", Passed: true}, check, {Name: "empty", Cycle: &workload.Cycle{}}},
	}
	cycles := Cycles(d)
	if len(cycles) != 1 || cycles[0].Name != "serializable" {
		t.Fatalf("the checks that can be shown are %+v", cycles)
	}
	var b strings.Builder
	if err := WriteTrace(&b, d, cycles[0]); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<title>bank: not serializable</title>", ">clients of eu<", ">clients of us<", ">clients of asia<", ">T1 1.7<", `class="bar doubtful open marked"`,
		`class="bar aborted"`, "T1 read a before T2 wrote it", "not serializable: write skew", "client 4 in eu sends T2 (2.9)", "T3 is aborted",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(page, ">simulated<") || strings.Contains(page, "T2 is unknown") {
		t.Error("the page says what did not happen")
	}
	if eu, us := strings.Index(page, ">clients of eu<"), strings.Index(page, ">clients of us<"); eu > us {
		t.Error("regions are in another order than in the result")
	}
}
