package chaosmesh

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/emulation"
)

func TestDelay(t *testing.T) {
	from := Pods{Namespace: "ns", Labels: map[string]string{"database": "db"}, RegionLabel: "region", Regions: []string{"eu"}}
	to := from
	to.Regions = []string{"us", "ap"}
	l := emulation.Link{Link: geo.Link{Delay: 500 * time.Microsecond, Jitter: 100 * time.Microsecond, LossPPM: 20_500, BandwidthMbps: 7}}
	got, err := yaml.Marshal(Delay(Meta{Namespace: "ns", Name: "n", Ceiling: time.Minute}, from, to, l).Object)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: chaos-mesh.org/v1alpha1
kind: NetworkChaos
metadata:
  name: "n"
  namespace: ns
spec:
  action: netem
  delay:
    correlation: "0"
    jitter: 173us
    latency: 500us
  direction: to
  duration: 60000000us
  loss:
    correlation: "0"
    loss: "2.05"
  mode: all
  rate:
    rate: 7mbit
  selector:
    expressionSelectors:
    - key: region
      operator: In
      values:
      - eu
    labelSelectors:
      database: db
    namespaces:
    - ns
  target:
    mode: all
    selector:
      expressionSelectors:
      - key: region
        operator: In
        values:
        - ap
        - us
      labelSelectors:
        database: db
      namespaces:
      - ns
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestValuesAsChaosMeshReadsThem(t *testing.T) {
	for want, got := range map[string]string{
		"45000us": Duration(45 * time.Millisecond),
		"0":       percentOf(0),
		"100":     percentOf(1_000_000),
		"10":      percentOf(100_000),
		"0.0001":  percentOf(1),
	} {
		if got != want {
			t.Errorf("%s is written %s", want, got)
		}
	}
	if name := ObjectName("8c7a0d4e-2f1b-4a6e-9c3d-7b5e1f0a9d8c", "eu", "3"); len(name) > 27 || name == ObjectName("8c7a0d4e-2f1b-4a6e-9c3d-7b5e1f0a9d8c", "eu3", "") {
		t.Errorf("name %s", name)
	}
}

func TestStatus(t *testing.T) {
	u := Delay(Meta{}, Pods{}, Pods{}, emulation.Link{})
	if p := ReadStatus(u).Problem(); !strings.Contains(p, "no pod is selected") {
		t.Errorf("a new object: %q", p)
	}
	err := yaml.Unmarshal([]byte(`{status: {conditions: [{type: Selected, status: "True"}, {type: AllInjected, status: "False"}], experiment: {containerRecords: [
	  {id: ns/a, phase: Injected, events: [{operation: Apply, type: Failed, message: busy, timestamp: "2026-01-02T03:04:05Z"}, {operation: Apply, type: Succeeded, timestamp: "2026-01-02T03:04:06Z"}]},
	  {id: ns/b, phase: Not Injected, events: [{operation: Apply, type: Failed, message: unable to set tcs, timestamp: "2026-01-02T03:04:05Z"}]}]}}}`), &u.Object)
	if err != nil {
		t.Fatal(err)
	}
	s := ReadStatus(u)
	if !s.Selected || s.AllInjected || len(s.Records) != 2 || !s.Records[0].Injected || s.Records[0].InjectedAt.Second() != 6 || s.Records[0].Failure != "" {
		t.Errorf("status %+v", s)
	}
	if p := s.Problem(); p != "ns/b: unable to set tcs" {
		t.Errorf("problem %q", p)
	}
}
