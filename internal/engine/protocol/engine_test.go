package protocol

import (
	"strings"
	"testing"
	"time"
)

var engine = &Engine{Name: "toy", Parameters: []Parameter{
	{Name: "ordering", Default: "leader", OneOf: []string{"leader", "epochs"}},
	{Name: "batch", Default: "5ms", Min: 0, Max: time.Second},
	{Name: "window", Default: "10", Integer: true, MinInt: 1, MaxInt: 100},
}}

func TestResolve(t *testing.T) {
	p, errs := engine.Resolve(map[string]string{"batch": "20ms"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if p.Word("ordering") != "leader" || p.Duration("batch") != 20*time.Millisecond || p.Int("window") != 10 {
		t.Errorf("resolved to %v", p)
	}
}

func TestResolveRefuses(t *testing.T) {
	tests := map[string]struct{ name, value, want string }{
		"unknown":        {"bacth", "5ms", "it has ordering, batch, window"},
		"other word":     {"ordering", "paxos", `"paxos" is not one of leader, epochs`},
		"no duration":    {"batch", "5", `"5" is not a duration from 0s to 1s`},
		"too long":       {"batch", "2s", "not a duration from 0s to 1s"},
		"no number":      {"window", "ten", `"ten" is not a whole number from 1 to 100`},
		"number too big": {"window", "101", "not a whole number from 1 to 100"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, errs := engine.Resolve(map[string]string{tc.name: tc.value})
			if len(errs) != 1 || errs[0].Name != tc.name || !strings.Contains(errs[0].Message, tc.want) {
				t.Errorf("Resolve says %v, want %s: %q", errs, tc.name, tc.want)
			}
		})
	}
}

// Values that are valid individually may be invalid together. Check is called only once each value is valid.
func TestResolveChecksCombinations(t *testing.T) {
	e := *engine
	e.Check = func(p Params) []*ParamError {
		if p.Word("ordering") == "epochs" && p.Duration("batch") == 0 {
			return []*ParamError{{"batch", `"0s" is too short for ordering epochs`}}
		}
		return nil
	}
	for _, tc := range []struct{ ordering, batch, want string }{
		{"epochs", "0s", `batch: "0s" is too short for ordering epochs`},
		{"epochs", "1h", `batch: "1h" is not a duration from 0s to 1s`},
		{"epochs", "1ms", ""},
		{"leader", "0s", ""},
	} {
		_, errs := e.Resolve(map[string]string{"ordering": tc.ordering, "batch": tc.batch})
		if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || errs[0].Error() != tc.want) {
			t.Errorf("ordering %s, batch %s: %v, want %q", tc.ordering, tc.batch, errs, tc.want)
		}
	}
}
