package result

import (
	"fmt"
	"io"
	"strings"
)

// Comparison sets two results side by side.
type Comparison struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	A          string `json:"a"`
	B          string `json:"b"`
	// Warnings say what else differs, so that a difference in figures may not be what it seems.
	Warnings []string     `json:"warnings"`
	Figures  []Difference `json:"figures"`
}

// ComparisonKind marks a Comparison.
const ComparisonKind = "RunComparison"

// Difference is one figure of both results.
type Difference struct {
	Name string `json:"name"`
	// Region is empty for the whole run.
	Region string `json:"region,omitempty"`
	Unit   string `json:"unit"`
	A      int64  `json:"a"`
	B      int64  `json:"b"`
	// ChangePPM is (B - A) / A in parts per million; nil when A is 0 and B is not.
	ChangePPM *int64 `json:"changePPM"`
}

// Compare sets b beside a.
func Compare(a, b *Document) *Comparison {
	c := &Comparison{APIVersion: APIVersion, Kind: ComparisonKind, A: title(a), B: title(b), Warnings: []string{}}
	warn := func(what string, x, y any) {
		if x != y {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %v and %v", what, x, y))
		}
	}
	warn("engines differ", a.Engine, b.Engine)
	warn("engine parameters differ", fmt.Sprint(a.Parameters), fmt.Sprint(b.Parameters))
	warn("seeds differ", a.Seed, b.Seed)
	warn("workloads differ", a.Workload, b.Workload)
	warn("workload parameters differ (spec.workloadHash)", a.Spec.WorkloadHash, b.Spec.WorkloadHash)
	warn("load differs (spec.loadHash)", a.Spec.LoadHash, b.Spec.LoadHash)
	warn("topology or network differs (spec.topologyHash)", a.Spec.TopologyHash, b.Spec.TopologyHash)
	warn("only one is simulated", a.Simulated, b.Simulated)
	warn("versions differ", a.Version, b.Version)
	for _, d := range []*Document{a, b} {
		if d.Verdict != "Passed" {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s is %s", title(d), d.Verdict))
		}
	}
	figure := func(region, name, unit string, x, y int64) {
		d := Difference{Name: name, Region: region, Unit: unit, A: x, B: y}
		if x != 0 {
			p := ratio(x, 1, y, 1e6) - 1e6
			d.ChangePPM = &p
		} else if y == 0 {
			d.ChangePPM = new(int64)
		}
		c.Figures = append(c.Figures, d)
	}
	latencies := func(region string, x, y Latency) {
		figure(region, "p50", "us", x.P50, y.P50)
		figure(region, "p90", "us", x.P90, y.P90)
		figure(region, "p95", "us", x.P95, y.P95)
		figure(region, "p99", "us", x.P99, y.P99)
	}
	s, t := &a.Summary, &b.Summary
	figure("", "throughput", "txn/s", s.ThroughputPerSecond, t.ThroughputPerSecond)
	latencies("", s.LatencyMicroseconds, t.LatencyMicroseconds)
	figure("", "mean", "us", s.LatencyMicroseconds.Mean, t.LatencyMicroseconds.Mean)
	figure("", "aborts", "ppm", s.AbortPPM, t.AbortPPM)
	figure("", "bytes per transaction", "bytes", s.BytesPerTransaction, t.BytesPerTransaction)
	figure("", "cross-region bytes per transaction", "bytes", s.CrossRegionBytesPerTransaction, t.CrossRegionBytesPerTransaction)
	figure("", "cost per million transactions", "micro-"+s.Cost.Currency, int64(s.Cost.PerMillionTransactions), int64(t.Cost.PerMillionTransactions))
	for _, x := range a.Regions {
		for _, y := range b.Regions {
			if x.Name == y.Name {
				figure(x.Name, "throughput", "txn/s", x.ThroughputPerSecond, y.ThroughputPerSecond)
				latencies(x.Name, x.LatencyMicroseconds, y.LatencyMicroseconds)
			}
		}
	}
	return c
}

func title(d *Document) string {
	if d.Simulated {
		return d.Name + " (SIMULATED)"
	}
	return d.Name
}

// Table writes the comparison for a person.
func (c *Comparison) Table(w io.Writer) error {
	b := &strings.Builder{}
	line(b, "A: %s", c.A)
	line(b, "B: %s", c.B)
	for _, x := range c.Warnings {
		wrapped(b, "warning: ", x)
	}
	line(b, "")
	rows := [][]string{{"FIGURE", "REGION", "A", "B", "UNIT", "CHANGE"}}
	for _, f := range c.Figures {
		change := "new"
		if f.ChangePPM != nil {
			change = fmt.Sprintf("%+.1f%%", float64(*f.ChangePPM)/1e4)
		}
		region := f.Region
		if region == "" {
			region = "all"
		}
		rows = append(rows, []string{f.Name, region, fmt.Sprint(f.A), fmt.Sprint(f.B), f.Unit, change})
	}
	grid(b, rows)
	_, err := io.WriteString(w, b.String())
	return err
}
