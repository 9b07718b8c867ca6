package history

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/isolation"
)

// TestVerifications checks that every level can be requested by its name in manifests.
func TestVerifications(t *testing.T) {
	if len(verifications) != len(isolation.Levels()) {
		t.Errorf("%d verifications ask for one of %d levels", len(verifications), len(isolation.Levels()))
	}
	for v, level := range verifications {
		if name := strings.ReplaceAll(level.String(), "-", ""); !strings.EqualFold(name, string(v)) {
			t.Errorf("%s asks for %v", v, level)
		}
		if !Needed([]v1alpha1.Verification{v1alpha1.VerifyInvariants, v}) {
			t.Errorf("%s needs no history", v)
		}
	}
	if Needed([]v1alpha1.Verification{v1alpha1.VerifyInvariants, v1alpha1.VerifyConvergence}) {
		t.Error("invariants and convergence need a history")
	}
}
