package experiment_test

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/run/experiment/experimenttest"
)

// A claim is rejected if neither the engine nor the workload can give its abort reason. The share would always be 0.
func TestAbortReasonsAreChecked(t *testing.T) {
	ask := func(reason string) string { return claimed(t, "max(abortedFor('"+reason+"', 'near')) < 1.0") }
	for _, reason := range []string{"stale-footprint", "no-customer", "procedure-error"} {
		if _, err := experimenttest.Read(ask(reason)); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
	for reason, says := range map[string]string{"wounded": "no-customer",
		"stale-footprints": "did you mean stale-footprint?", "": "stale-footprint", "unused-item": "no-account"} {
		_, err := experimenttest.Read(ask(reason))
		if err == nil || !strings.Contains(err.Error(), "abort no attempt for '"+reason+"'") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error that lists %s", reason, err, says)
		}
	}
}
