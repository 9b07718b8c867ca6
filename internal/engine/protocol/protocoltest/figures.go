package protocoltest

import "testing"

// Figures returns a sim.Config.Figures that fails a test, once, where replicas report figures that are not as their
// engine declares them: a counter that falls, or a reading that is not declared.
func Figures(t testing.TB) func(error) {
	failed := false
	return func(err error) {
		if !failed {
			failed = true
			t.Error(err)
		}
	}
}
