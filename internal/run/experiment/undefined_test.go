package experiment_test

import "testing"

// A claim that uses the undefined ratio 0/0 has no result.
func TestClaimsOverUndefinedRatios(t *testing.T) {
	for _, expression := range []string{
		"!(spread(tput('near')) > 1.1)",
		"ratio(tput('near', 2), tput('near', 4)) != 1.0",
		"!grows(ratio(tput('near'), tput('near')))",
		"median(ratio(tput('near'), tput('near'))) != 1.0",
	} {
		e := mustRead(t, claimed(t, expression))
		if f := judge(t, e, invented(e, 0, 0, 2000, 2000)); f.Answer() != "no result" {
			t.Errorf("%s: %s (%s, measured %q), want no result", expression, f.Answer(), f.Error, f.Measured)
		}
	}
}
