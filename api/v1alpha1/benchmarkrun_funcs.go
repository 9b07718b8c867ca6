package v1alpha1

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// DeadlineMargin is the time that the default deadline of a run allows in addition to the duration of its load.
const DeadlineMargin = 15 * time.Minute

// Names returns the JSON field names of the workloads that are set. A valid run has exactly one.
func (w *Workload) Names() (names []string) {
	for i, v := 0, reflect.ValueOf(w).Elem(); i < v.NumField(); i++ {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// Name returns the JSON field name of the first workload that is set, or "" if none is set.
func (w *Workload) Name() string {
	if names := w.Names(); len(names) > 0 {
		return names[0]
	}
	return ""
}

// Shares returns the operation mix of the preset, or the mix field if no preset is set.
func (y *YCSB) Shares() YCSBMix {
	switch y.Preset {
	case "A":
		return YCSBMix{Read: 50, Update: 50}
	case "B":
		return YCSBMix{Read: 95, Update: 5}
	case "C":
		return YCSBMix{Read: 100}
	case "D":
		return YCSBMix{Read: 95, Insert: 5}
	case "E":
		return YCSBMix{Scan: 95, Insert: 5}
	case "F":
		return YCSBMix{Read: 50, ReadModifyWrite: 50}
	}
	if y.Mix == nil {
		return YCSBMix{}
	}
	return *y.Mix
}

// Choice returns the distribution by which records are chosen: the distribution field, or the default of the preset if
// the field is unset.
func (y *YCSB) Choice() YCSBDistribution {
	switch {
	case y.Distribution != "":
		return y.Distribution
	case y.Preset == "D":
		return YCSBLatest
	}
	return YCSBZipfian
}

// IsLatency reports whether the metric is a latency, whose bounds are durations. The bounds of all other metrics are
// integers.
func (m Metric) IsLatency() bool { return strings.HasPrefix(string(m), "latency") }

// Limits returns the bounds as numbers in the metric's unit. Latencies are in microseconds, throughputs in transactions
// per second, aborts and unknown outcomes in parts per million. An unset bound is nil.
func (o *Objective) Limits() (lo, hi *int64, err error) {
	if lo, err = o.limit(o.Min); err != nil {
		return nil, nil, fmt.Errorf("min: %w", err)
	}
	if hi, err = o.limit(o.Max); err != nil {
		return nil, nil, fmt.Errorf("max: %w", err)
	}
	return lo, hi, nil
}

func (o *Objective) limit(b *Bound) (*int64, error) {
	if b == nil {
		return nil, nil
	}
	if !o.Metric.IsLatency() {
		if s := b.StrVal; s != "" {
			return nil, fmt.Errorf("%q is no whole number, which the bound of %s must be", s, o.Metric)
		}
		v := int64(b.IntVal)
		return &v, nil
	}
	d, err := time.ParseDuration(b.StrVal)
	if err != nil {
		return nil, fmt.Errorf("%s is no duration such as 250ms, which the bound of %s must be", b.String(), o.Metric)
	}
	v := d.Microseconds()
	return &v, nil
}

// Name returns the objective as one line of text, for example "latencyP99(balance, us-west-2) <= 250ms".
func (o *Objective) Name() string {
	var of []string
	if o.Transaction != "" {
		of = append(of, o.Transaction)
	}
	if o.Region != "" {
		of = append(of, o.Region)
	}
	name := string(o.Metric)
	if len(of) > 0 {
		name += "(" + strings.Join(of, ", ") + ")"
	}
	if o.Min != nil {
		name += " >= " + o.Min.String()
	}
	if o.Max != nil {
		name += " <= " + o.Max.String()
	}
	return name
}

// Gaussian returns the peak time and the standard deviation of a Gaussian load, both as fractions of the measured time.
func (c *LoadCurve) Gaussian() (peak, deviation float64) {
	peak, deviation = 0.5, 0.15 // Dike's DynamicLoad: 500 and 150 thousandths of the run time
	if c.PeakAtPercent != nil {
		peak = float64(*c.PeakAtPercent) / 100
	}
	if c.DeviationPercent != nil {
		deviation = float64(*c.DeviationPercent) / 100
	}
	return peak, deviation
}

// Describe summarizes the shape of the load, for example "in steps of 100, 20, 60%". It returns "" for a nil curve.
func (c *LoadCurve) Describe() string {
	switch {
	case c == nil:
		return ""
	case c.Shape == LoadSteps:
		steps := fmt.Sprint(c.StepsPercent)
		return "in steps of " + strings.ReplaceAll(steps[1:len(steps)-1], " ", ", ") + "%"
	case c.Shape == LoadGaussian:
		peak, deviation := c.Gaussian()
		return fmt.Sprintf("Gaussian around %g%% (deviation %g%%)", 100*peak, 100*deviation)
	}
	return "uniform"
}

// Describe summarises the retry policy, for example "up to 3 attempts, 10ms to 1s apart (jitter 50%), after Conflict".
func (r *Retry) Describe() string {
	var causes []string
	for _, c := range r.Causes {
		causes = append(causes, string(c))
	}
	return fmt.Sprintf("up to %d attempts, %s to %s apart (jitter %d%%), after %s", r.Attempts, r.Backoff, r.MaxBackoff, r.Jitter, strings.Join(causes, " or "))
}

// Of returns the retention time of a finished run with verdict v. ok is false if v has no retention time. Such a run is
// kept permanently.
func (t *TTLSecondsAfterFinished) Of(v Verdict) (keep time.Duration, ok bool) {
	if t == nil {
		return 0, false
	}
	seconds := map[Verdict]*int32{VerdictPassed: t.Passed, VerdictFailed: t.Failed, VerdictInvalid: t.Invalid}[v]
	if seconds == nil {
		return 0, false
	}
	return time.Duration(*seconds) * time.Second, true
}

// Held reports whether spec.suspend keeps the run from starting. Suspending has no effect once the run has its
// database, and it does not hold a cancelled run, which must be able to finish.
func (r *BenchmarkRun) Held() bool {
	return r.Spec.Suspend && !r.Spec.Cancel &&
		(r.Status.Stage == "" || r.Status.Stage == StagePreflight || r.Status.RunID != r.Spec.RunID)
}

// Finished reports whether the run is finished, with or without a result.
func (s *BenchmarkRunStatus) Finished() bool {
	return s.Stage == StageCompleted || s.Stage == StageFailed
}

// Kinds returns the JSON field names of the kinds of fault that are set. A valid fault has exactly one.
func (f *Fault) Kinds() []string {
	var kinds []string
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"networkDelay", f.NetworkDelay != nil},
		{"networkLoss", f.NetworkLoss != nil},
		{"networkPartition", f.NetworkPartition != nil},
		{"networkBandwidth", f.NetworkBandwidth != nil},
		{"podKill", f.PodKill != nil},
		{"containerKill", f.ContainerKill != nil},
		{"nodeShutdown", f.NodeShutdown != nil},
		{"cpuStress", f.CPUStress != nil},
		{"memoryStress", f.MemoryStress != nil},
		{"ioDelay", f.IODelay != nil},
		{"ioError", f.IOError != nil},
		{"diskReadLoad", f.DiskReadLoad != nil},
		{"diskWriteLoad", f.DiskWriteLoad != nil},
		{"clockSkew", f.ClockSkew != nil},
	} {
		if k.set {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

// Fixed returns a copy of the spec without the mutable fields. The remaining fields determine the execution of the run.
func (s *BenchmarkRunSpec) Fixed() *BenchmarkRunSpec {
	out := s.DeepCopy()
	out.RunID, out.Cancel, out.Suspend, out.TTLSecondsAfterFinished = "", false, false, nil
	return out
}

// MostPPM returns an upper bound of the committed share: CommittedPPM plus three standard deviations.
func (s *ServedRegion) MostPPM() int64 { return s.CommittedPPM + s.ChancePPM }
