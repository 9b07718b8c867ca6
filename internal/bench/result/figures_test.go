package result

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/ops/admin"
)

// series returns a series with these latencies in microseconds, and their histogram.
func series(outcome txn.Status, latencies ...int64) (s *Series, h *hdrhistogram.Histogram) {
	s, h = &Series{Outcome: outcome.String()}, NewHistogram()
	for _, us := range latencies {
		s.Latency.Count++
		s.Latency.SumMicroseconds += us
		s.Latency.MaxMicroseconds = max(s.Latency.MaxMicroseconds, us)
		_ = h.RecordValue(us)
	}
	s.Attempts.Count = s.Latency.Count
	return s, h
}

// TestLatencyIsOfAllButAborted checks that aborted transactions have no latency, and that refused and unknown
// transactions rank above all commits. A percentile that falls among refused and unknown transactions is a lower bound.
// A percentile is the upper end of its bucket, 100,031, unless that exceeds the longest time of any transaction.
func TestLatencyIsOfAllButAborted(t *testing.T) {
	var f figures
	for _, status := range []txn.Status{txn.Aborted, txn.Refused, txn.Unknown, txn.Committed, txn.Committed} {
		latency := int64(100_001)
		if status != txn.Committed {
			latency = 900_000
		}
		s, h := series(status, latency)
		f.add(s, h, nil)
	}
	if got, want := f.latency.latency(), (Latency{P50: v1alpha1.Observed(100_031), P90: v1alpha1.MoreThan(900_000), P95: v1alpha1.MoreThan(900_000), P99: v1alpha1.MoreThan(900_000), Max: v1alpha1.MoreThan(900_000), Mean: v1alpha1.MoreThan(500_001)}); got != want {
		t.Errorf("latency %+v, want %+v", got, want)
	}
	if f.Committed != 2 || f.Aborted != 1 || f.Refused != 1 || f.Unknown != 1 {
		t.Errorf("counts %+v, want two commits and one of each other", f.Counts)
	}
}

// TestMedianOfRepetitions checks that the median of an even number of repetitions is the lower of the two middle
// values. The median is therefore a measured value.
func TestMedianOfRepetitions(t *testing.T) {
	for _, tc := range []struct {
		throughput []int64
		want       int64
	}{{[]int64{5}, 5}, {[]int64{9, 3}, 3}, {[]int64{9, 3, 5}, 5}, {[]int64{9, 3, 5, 4}, 4}} {
		var reps []Repetition
		for _, n := range tc.throughput {
			reps = append(reps, Repetition{ThroughputPerSecond: n, LatencyMicroseconds: Latency{P99: v1alpha1.Observed(10 * n)}})
		}
		m := medianOf(slices.Clone(reps))
		if m.ThroughputPerSecond != tc.want || m.LatencyMicroseconds.P99.Least() != 10*tc.want {
			t.Errorf("of %v the median is %d, with a p99 of %d, want %d", tc.throughput, m.ThroughputPerSecond, m.LatencyMicroseconds.P99.Least(), tc.want)
		}
	}
}

// TestCountersOfANodeThatStartedAgain checks that a restarted node counts from zero, not from the counts of its earlier
// process.
func TestCountersOfANodeThatStartedAgain(t *testing.T) {
	in := small()
	in.Before[0].Operations, in.Before[0].Process = 1000, "first"
	in.After[0].Operations, in.After[0].Process = 30, "second"
	in.Before[1].Operations, in.After[1].Operations = 1000, 1070
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := d.Nodes[0].Operations, d.Nodes[1].Operations; a != 30 || b != 70 {
		t.Errorf("%d and %d operations, want 30 of the node that has started again, and 70 of the other", a, b)
	}
}

// TestCountersThatGoBack checks that a node with smaller counters than before counts as restarted, even if its process
// name is the same. Without a fault that explains the restart, other state may be lost as well.
func TestCountersThatGoBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *Inputs)
		want   bool
	}{
		"they grow": {func(in *Inputs) {
			in.After[0].CPUSeconds, in.After[0].Answers.Segments = 2, in.Before[0].Answers.Segments+1
		}, false},
		"CPU time":         {func(in *Inputs) { in.After[0].CPUSeconds = 0.5 }, true},
		"bytes of a link":  {func(in *Inputs) { in.Before[0].Links[1].Bytes = in.After[0].Links[1].Bytes + 1 }, true},
		"requests":         {func(in *Inputs) { in.Before[0].Requests.Messages = in.After[0].Requests.Messages + 1 }, true},
		"reads and writes": {func(in *Inputs) { in.Before[0].Operations = in.After[0].Operations + 1 }, true},
		"what the engine counts": {func(in *Inputs) {
			in.Before[0].Counters, in.After[0].Counters = map[string]int64{"votes": 8, "terms": 3}, map[string]int64{"votes": 9, "terms": 2}
		}, true},
		"a gauge of the engine": {func(in *Inputs) {
			in.Before[0].Gauges, in.After[0].Gauges = map[string]int64{"pending": 8}, map[string]int64{"pending": 0}
		}, false},
		"a counter that is not reported any more": {func(in *Inputs) {
			in.Before[0].Counters, in.After[0].Counters = map[string]int64{"pending": 8}, map[string]int64{}
		}, false},
		"a fault says so": {func(in *Inputs) {
			in.After[0].CPUSeconds, in.Faults = 0.5, []Fault{{Name: "f", FromMicroseconds: new(int64(1)), Restarted: []string{in.After[0].Node}}}
		}, false},
		"it is simulated":    {func(in *Inputs) { in.After[0].CPUSeconds, in.Simulated = 0.5, true }, false},
		"a database of pods": {func(in *Inputs) { in.After[0].CPUSeconds, in.Target = 0.5, &Target{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := small()
			in.Simulated = false
			in.Before[0].Links = slices.Clone(in.Before[0].Links)
			in.Before[0].CPUSeconds, in.After[0].CPUSeconds = 1, 1
			c.change(&in)
			d, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(fmt.Sprint(d.Reasons), "{NodeRestarted a/0/0 was started again during the run: its counters began anew}"); got != c.want {
				t.Errorf("reasons %v", d.Reasons)
			}
		})
	}
}

// TestFiguresOfNodesThatEnded checks nodes that a fault stopped. No counter includes the messages that these nodes had
// sent, so the figures of all nodes are lower bounds and are not compared. No figure may be negative.
func TestFiguresOfNodesThatEnded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Inputs)
		want   []string
	}{
		"none": {func(*Inputs) {}, nil},
		"lost, and its driver remembers the process": {func(in *Inputs) {
			in.Faults = []Fault{{Lost: []string{in.After[0].Node}}}
			in.After[0] = admin.Status{Node: in.After[0].Node, ID: in.After[0].ID, Process: in.After[0].Process, Reason: "it was stopped"}
		}, []string{"a/0/0"}},
		"lost, and nobody answers": {func(in *Inputs) {
			in.Faults = []Fault{{Lost: []string{in.After[0].Node}}}
			in.After = in.After[1:]
		}, []string{"a/0/0"}},
		"went on from its journal": {func(in *Inputs) {
			in.Faults = []Fault{{Restarted: []string{in.After[0].Node}}}
			in.After[0].CPUSeconds, in.After[0].Requests, in.After[0].Answers = 0, geo.Traffic{}, geo.Traffic{}
			in.After[0].Links = slices.Clone(in.After[0].Links)
			for i := range in.After[0].Links {
				in.After[0].Links[i].Segments = 0
			}
		}, []string{"a/0/0"}},
		"went on from its journal, and no fault says so": {func(in *Inputs) {
			in.After[0].CPUSeconds, in.After[0].Requests, in.After[0].Answers = 0.5, geo.Traffic{}, geo.Traffic{}
		}, []string{"a/0/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := small()
			in.Simulated = false
			b := &in.Before[0]
			b.Operations, b.CPUSeconds, b.Requests, b.Answers = 10, 1, geo.Traffic{Bytes: 5, Messages: 1, Segments: 1}, geo.Traffic{Bytes: 5, Messages: 1, Segments: 1}
			a := &in.After[0]
			a.Operations, a.CPUSeconds = 30, 2
			c.change(&in)
			d, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(d.Uncounted, c.want) {
				t.Errorf("uncounted are %v, want %v", d.Uncounted, c.want)
			}
			for _, n := range d.Nodes {
				if n.Operations < 0 || n.CPUMilliseconds < 0 {
					t.Errorf("%s: %d operations, %d ms of CPU", n.Name, n.Operations, n.CPUMilliseconds)
				}
			}
			for _, l := range d.Links {
				if l.Bytes < 0 || l.Messages < 0 || l.Segments < 0 {
					t.Errorf("link %+v", l)
				}
			}
			var table strings.Builder
			if err := Table(&table, d, false); err != nil {
				t.Fatal(err)
			}
			if least := strings.Contains(table.String(), "per transaction: at least"); least != (c.want != nil) {
				t.Errorf("the table says:\n%s", table.String())
			}
			f := Compare([]*Document{d}, []*Document{d}, CompareOptions{})
			if told := strings.Contains(fmt.Sprint(f.Warnings), "bytes and cost are not compared"); told != (c.want != nil) {
				t.Errorf("the comparison warns of %v", f.Warnings)
			}
			in.Simulated = true
			was, is := &in.Before[len(in.Before)-1], &in.After[len(in.After)-1]
			is.Links, was.Operations, is.Operations = nil, 100, 130
			if d, err := Build(evident(in)); err != nil || d.Nodes[len(d.Nodes)-1].Operations != 30 {
				t.Errorf("a simulated node without links: %v, want 30 operations: %+v", err, d.Nodes)
			}
			if d, err := Build(evident(in)); err != nil || d.Uncounted != nil {
				t.Errorf("of a simulated run %v are uncounted, %v", d.Uncounted, err)
			}
		})
	}
}

// TestProcessOfNodesThatEnded checks the CPU time of a process that runs all nodes. This time must count from the start
// of the run, even if nodes were stopped or replaced.
func TestProcessOfNodesThatEnded(t *testing.T) {
	for name, change := range map[string]func(last *admin.Status){
		"none":     func(*admin.Status) {},
		"replaced": func(s *admin.Status) { s.Process = "another" },
		"stopped":  func(s *admin.Status) { *s = admin.Status{Node: s.Node, ID: s.ID, Process: s.Process} },
	} {
		in := small()
		in.Simulated, in.SharedProcess = false, true
		for i := range in.Before {
			in.Before[i].CPUSeconds, in.After[i].CPUSeconds, in.After[i].PeakMemoryBytes = 100, 103, 7
		}
		change(&in.After[len(in.After)-1])
		d, err := Build(evident(in))
		if err != nil {
			t.Fatal(err)
		}
		if d.Process == nil || *d.Process != (Process{CPUMilliseconds: 3000, PeakMemoryBytes: 7}) {
			t.Errorf("%s: %+v", name, d.Process)
		}
	}
}

// TestPercentilesOfASecond checks that the percentiles of a second of the timeline cover all regions in this second.
func TestPercentilesOfASecond(t *testing.T) {
	of := func(us int64) []byte {
		var h SecondHistogram
		h.Record(us)
		return h.AppendTo(nil)
	}
	d, r := &Document{}, &Report{DurationMicroseconds: 2e6, Repetitions: 1, Timeline: []Second{
		{Region: "a", Repetition: 1, Second: 0, Committed: 1, Latency: of(10)},
		{Region: "b", Repetition: 1, Second: 0, Committed: 1, Latency: of(20)},
		{Region: "a", Repetition: 1, Second: 1, Committed: 1, Latency: of(30)},
	}}
	d.fillTimeline([]string{"a", "b"}, r)
	for i, want := range [][2]int64{{10, 20}, {30, 30}} {
		if tick := d.Timeline[i]; tick.P50.Least() != want[0] || tick.P99.Least() != want[1] {
			t.Errorf("second %d: p50 %d, p99 %d, want %v", i, tick.P50.Least(), tick.P99.Least(), want)
		}
	}
}

func TestMicroseconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 499: 0, 500: 1, 1499: 1, 1500: 2, time.Second: 1_000_000, -time.Second: 0} {
		if got := Microseconds(d); got != want {
			t.Errorf("%d ns are %d us, want %d", d, got, want)
		}
	}
}

// TestOtherHistogramsAreRefused checks that histograms of other shapes are refused, whichever bound differs, because
// merging them would shift values.
func TestOtherHistogramsAreRefused(t *testing.T) {
	for name, h := range map[string]*hdrhistogram.Histogram{
		"digits":  hdrhistogram.New(HistogramLowest, HistogramHighest, HistogramDigits-1),
		"lowest":  hdrhistogram.New(HistogramLowest+1, HistogramHighest, HistogramDigits),
		"highest": hdrhistogram.New(HistogramLowest, HistogramHighest/2, HistogramDigits),
	} {
		_ = h.RecordValue(1000)
		if _, err := DecodeHistogram(EncodeHistogram(h)); err == nil {
			t.Errorf("a histogram with another %s is read", name)
		}
	}
}

// TestClocksApart checks that a clock is reported only if its offset exceeds the limit by more than the measurement
// error, in either direction.
func TestClocksApart(t *testing.T) {
	for _, tc := range []struct {
		ahead, within int64
		want          int
	}{{100_500, 1000, 0}, {101_001, 1000, 1}, {-100_500, 1000, 0}, {-101_001, 1000, 1}, {0, 0, 0}} {
		if got := ClocksApart([]Clock{{Region: "a", AheadMicroseconds: tc.ahead, WithinMicroseconds: tc.within}}); len(got) != tc.want {
			t.Errorf("%d us ahead within %d us: %v, want %d", tc.ahead, tc.within, got, tc.want)
		}
	}
}

// TestGaugesAreNotSubtracted checks that a counter is reported with its growth during the run, and a gauge with its
// value at the end.
func TestGaugesAreNotSubtracted(t *testing.T) {
	for name, c := range map[string]struct {
		before, after, want int64
	}{
		"it fell":        {90, 30, 30},
		"it rose":        {30, 90, 90},
		"it stayed":      {7, 7, 7},
		"it fell to 0":   {90, 0, 0},
		"it is below 0":  {3, -2, -2},
		"it was 0 first": {0, 12, 12},
	} {
		t.Run(name, func(t *testing.T) {
			in := small()
			in.Before[0].Counters, in.After[0].Counters = map[string]int64{"votes": 100}, map[string]int64{"votes": 175}
			in.Before[0].Gauges, in.After[0].Gauges = map[string]int64{"pending": c.before}, map[string]int64{"pending": c.after}
			d, err := Build(evident(in))
			if err != nil {
				t.Fatal(err)
			}
			n := &d.Nodes[0]
			if n.Counters["votes"] != 75 || n.Gauges["pending"] != c.want || len(n.Counters)+len(n.Gauges) != 2 {
				t.Errorf("counters %v and gauges %v, want 75 votes and %d pending", n.Counters, n.Gauges, c.want)
			}
			figures, err := d.WithFiguresOnly()
			if err != nil {
				t.Fatal(err)
			}
			if n := &figures.Nodes[0]; n.Counters["votes"] != 75 || n.Gauges["pending"] != c.want {
				t.Errorf("figures only: counters %v and gauges %v", n.Counters, n.Gauges)
			}
		})
	}
}

// TestFiguresOnlyOfGauges checks that counters are summed over the nodes, but that only the largest value of a gauge is
// kept. A sum of positions or terms is meaningless.
func TestFiguresOnlyOfGauges(t *testing.T) {
	d := &Document{Nodes: []Node{
		{Name: "a", Counters: map[string]int64{"votes": 2}, Gauges: map[string]int64{"term": -4}},
		{Name: "b", Counters: map[string]int64{"votes": 3}, Gauges: map[string]int64{"term": -3, "pending": 5}},
	}}
	figures, err := d.WithFiguresOnly()
	if err != nil {
		t.Fatal(err)
	}
	if n := &figures.Nodes[0]; n.Counters["votes"] != 5 || n.Gauges["term"] != -3 || n.Gauges["pending"] != 5 {
		t.Errorf("counters %v, gauges %v", n.Counters, n.Gauges)
	}
}
