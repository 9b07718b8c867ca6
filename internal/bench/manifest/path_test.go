package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/manifest"
)

func TestSet(t *testing.T) {
	tests := map[string]struct {
		kind, object, path string
		value              any
		want, wrong        string
	}{
		"a number":                   {"BenchmarkRun", `{"spec":{"load":{}}}`, "spec.load.clientsPerRegion", int64(5), `{"spec":{"load":{"clientsPerRegion":5}}}`, ""},
		"what is not there yet":      {"BenchmarkRun", `{}`, "spec.load.warmup", "5s", `{"spec":{"load":{"warmup":"5s"}}}`, ""},
		"a number written as text":   {"BenchmarkRun", `{}`, "spec.seed", "7", `{"spec":{"seed":7}}`, ""},
		"text written as a number":   {"GeoDatabase", `{}`, "spec.engine.parameters.quorum", int64(3), `{"spec":{"engine":{"parameters":{"quorum":"3"}}}}`, ""},
		"a truth value":              {"BenchmarkRun", `{"spec":{"faults":[{"networkDelay":{"between":{}}}]}}`, "spec.faults[0].networkDelay.between.oneWay", "true", `{"spec":{"faults":[{"networkDelay":{"between":{"oneWay":true}}}]}}`, ""},
		"an element":                 {"NetworkProfile", `{"spec":{"links":[{},{}]}}`, "spec.links[1].rtt", "5ms", `{"spec":{"links":[{},{"rtt":"5ms"}]}}`, ""},
		"an element that is a value": {"BenchmarkRun", `{"spec":{"verify":["Invariants"]}}`, "spec.verify[0]", "Convergence", `{"spec":{"verify":["Convergence"]}}`, ""},
		"number or text":             {"BenchmarkRun", `{"spec":{"objectives":[{}]}}`, "spec.objectives[0].max", int64(5), `{"spec":{"objectives":[{"max":5}]}}`, ""},
		"unknown field":              {"NetworkProfile", `{"spec":{"links":[{}]}}`, "spec.links[0].rrt", "5ms", "", "did you mean rtt?"},
		"unknown kind":               {"Nothing", `{}`, "spec", "", "", "kind Nothing is none of BenchmarkRun"},
		"a list that is not there":   {"NetworkProfile", `{"spec":{}}`, "spec.links[0].rtt", "5ms", "", "the template has no spec.links"},
		"an index on no list":        {"NetworkProfile", `{"spec":{}}`, "spec[0].rtt", "5ms", "", "spec is no list"},
		"a whole list":               {"NetworkProfile", `{"spec":{}}`, "spec.links", "5ms", "", "name one of its elements"},
		"an empty name":              {"NetworkProfile", `{}`, "spec..rtt", "5ms", "", "empty name"},
		"no closing bracket":         {"NetworkProfile", `{}`, "spec.links[0.rtt", "5ms", "", "without its ]"},
		"text after an index":        {"NetworkProfile", `{}`, "spec.links[0]rtt", "5ms", "", "continue with a dot"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			if err := json.Unmarshal([]byte(tc.object), &object); err != nil {
				t.Fatal(err)
			}
			err := manifest.Set(tc.kind, object, tc.path, tc.value)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("the error is %v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(object); string(got) != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
