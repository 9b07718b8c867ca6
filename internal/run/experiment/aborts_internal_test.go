package experiment

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Claims about databases that are not Geobench engines can use any abort reason.
func TestAbortReasonsOfOtherDatabases(t *testing.T) {
	for name, known := range map[string]bool{"spanner": false, "postgres": true, "cockroachdb": true, "": true} {
		db, run := &v1alpha1.GeoDatabase{}, &v1alpha1.BenchmarkRun{}
		db.Spec.Engine.Name, run.Spec.Workload.SmallBank = name, &v1alpha1.SmallBank{}
		p := &Point{Label: name, manifests: &Run{Database: db, Run: run}}
		if err := p.aborts("error-40001"); (err == nil) != known {
			t.Errorf("engine %q: %v", name, err)
		}
		if err := p.aborts("no-customer"); err != nil {
			t.Errorf("engine %q: %v", name, err)
		}
	}
}
