package protocoltest

import "testing"

// Figures returns a sim.Config.Figures. It fails the test, at most once, if replicas violate the declarations of their
// engine's figures: a counter decreases, or a reading is not declared.
func Figures(t testing.TB) func(error) {
	failed := false
	return func(err error) {
		if !failed {
			failed = true
			t.Error(err)
		}
	}
}
