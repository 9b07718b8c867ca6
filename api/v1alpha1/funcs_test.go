package v1alpha1_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

func TestDuration(t *testing.T) {
	for written, canonical := range map[string]string{
		"400us": "400us", "400µs": "400us", "5ms": "5ms", "0s": "0s", "90s": "1m30s", "15m": "15m", "60m": "1h", "1h0m1s": "1h0m1s",
		"1h30m": "1h30m", "-5s": "-5s", "1.5ms": "1.5ms", "100s": "1m40s", "10m": "10m", "100h": "100h",
	} {
		var d v1alpha1.Duration
		if err := json.Unmarshal([]byte(`"`+written+`"`), &d); err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		b, err := json.Marshal(d)
		if err != nil || string(b) != `"`+canonical+`"` {
			t.Errorf("%s is written as %s (%v), want %q", written, b, err, canonical)
		}
		if parsed, err := time.ParseDuration(d.String()); err != nil || parsed != d.Duration {
			t.Errorf("%s reads back as %s (%v)", d, parsed, err)
		}
	}
	for wrong, want := range map[string]string{`"10 seconds"`: "is no duration: write for example", `5`: "a duration is a string", `"5"`: "is no duration"} {
		var d v1alpha1.Duration
		if err := json.Unmarshal([]byte(wrong), &d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", wrong, err, want)
		}
	}
}

func TestLink(t *testing.T) {
	ms := func(n int) v1alpha1.Duration { return v1alpha1.DurationOf(time.Duration(n) * time.Millisecond) }
	p := v1alpha1.NetworkProfileSpec{
		IntraRegion: v1alpha1.IntraRegion{RTT: ms(1)},
		Links: []v1alpha1.Link{
			{From: "a", To: "b", RTT: ms(10)},
			{From: "b", To: "c", RTT: ms(20)},
			{From: "c", To: "b", RTT: ms(30)},
			{From: "c", To: "c", RTT: ms(2)},
		},
	}
	for ends, want := range map[string]v1alpha1.Duration{
		"ab": ms(10), "ba": ms(10), // symmetric
		"bc": ms(20), "cb": ms(30), // each direction listed
		"aa": ms(1), "cc": ms(2), // intra-region, overridden
	} {
		l, ok := p.Link(ends[:1], ends[1:])
		if !ok || l.RTT != want || l.From != ends[:1] || l.To != ends[1:] {
			t.Errorf("%s: %+v, %t; want %s", ends, l, ok, want)
		}
	}
	if _, ok := p.Link("a", "c"); ok {
		t.Error("a link from a to c, which is not listed")
	}
	if got, want := p.Regions(), []string{"a", "b", "c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("regions %q, want %q", got, want)
	}
}

func TestObjective(t *testing.T) {
	str := func(s string) *v1alpha1.Bound { b := intstr.FromString(s); return &b }
	num := func(n int32) *v1alpha1.Bound { b := intstr.FromInt32(n); return &b }
	n := func(v int64) *int64 { return &v }
	for name, tc := range map[string]struct {
		o      v1alpha1.Objective
		lo, hi *int64
		err    string
	}{
		"latencyP99(balance, us-west-2) <= 250ms": {
			o: v1alpha1.Objective{Metric: v1alpha1.MetricLatencyP99, Transaction: "balance", Region: "us-west-2", Max: str("250ms")}, hi: n(250_000)},
		"throughput >= 1000":        {o: v1alpha1.Objective{Metric: v1alpha1.MetricThroughput, Min: num(1000)}, lo: n(1000)},
		"abortPPM(eu) >= 0 <= 100":  {o: v1alpha1.Objective{Metric: v1alpha1.MetricAbortPPM, Region: "eu", Min: num(0), Max: num(100)}, lo: n(0), hi: n(100)},
		"latencyP50 <= 250":         {o: v1alpha1.Objective{Metric: v1alpha1.MetricLatencyP50, Max: num(250)}, err: "max: 250 is no duration such as 250ms"},
		"throughput >= 10ms":        {o: v1alpha1.Objective{Metric: v1alpha1.MetricThroughput, Min: str("10ms")}, err: `min: "10ms" is no whole number`},
		"latencyP90 >= 400us <= 1m": {o: v1alpha1.Objective{Metric: v1alpha1.MetricLatencyP90, Min: str("400us"), Max: str("1m")}, lo: n(400), hi: n(60_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.o.Name(); got != name {
				t.Errorf("name %q", got)
			}
			lo, hi, err := tc.o.Limits()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(lo, tc.lo) || !reflect.DeepEqual(hi, tc.hi) {
				t.Errorf("limits %v, %v, %v; want %v, %v", lo, hi, err, tc.lo, tc.hi)
			}
		})
	}
}

// TestFaultKinds checks that Kinds returns every kind of fault in the type, under its JSON name.
func TestFaultKinds(t *testing.T) {
	var f v1alpha1.Fault
	v := reflect.ValueOf(&f).Elem()
	var want []string
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if strings.HasSuffix(field.Type.String(), "Fault") && field.Type.Kind() == reflect.Pointer {
			v.Field(i).Set(reflect.New(field.Type.Elem()))
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, name)
		}
	}
	if got := f.Kinds(); len(want) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("kinds %q, want %q", got, want)
	}
}

func TestDescribeRetry(t *testing.T) {
	r := &v1alpha1.Retry{Attempts: 3, Backoff: v1alpha1.DurationOf(10 * time.Millisecond), MaxBackoff: v1alpha1.DurationOf(time.Second), Jitter: 50,
		Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict, v1alpha1.RetryNode}}
	if got, want := r.Describe(), "up to 3 attempts, 10ms to 1s apart (jitter 50%), after Conflict or Node"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
