package inprocess

import (
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/engine/engines"
)

// TestTPCC simulates the complete TPC-C mix on every engine. Every copy of the database is consistent, the history
// satisfies the isolation level that the engine promises, and the mix matches the manifest.
func TestTPCC(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			load := "{clientsPerRegion: 4, warmup: 500ms, duration: 3s}"
			if e.Name == "primary" { // transactions in the primary's region take less than a millisecond
				load = "{clientsPerRegion: 4, thinkTime: 10ms, warmup: 500ms, duration: 3s}"
			}
			text := manifestOf("smallbank-two-regions", twoRegions, "{name: "+e.Name+"}", load, 1)
			for old, replacement := range map[string]string{
				"smallbank: {customers: 10000, multiHomePercent: 25}": "tpcc: {remote: {newOrderPercent: 20, paymentPercent: 20}, rollbackPercent: 10}",
				"  objectives: [{metric: abortPPM, max: 0}]\n":        "",
				"[Invariants]": "[Invariants, Isolation]",
			} {
				text = strings.Replace(text, old, replacement, 1)
			}
			d := simulate(t, text)
			if d.Verdict != v1alpha1.VerdictPassed {
				t.Errorf("%s: %v", d.Verdict, d.Reasons)
			}
			ran, rollbacks := map[string]bool{}, int64(0)
			for _, x := range d.Transactions {
				ran[x.Type] = ran[x.Type] || x.Committed > 0
				rollbacks += x.Aborted["unused-item"]
			}
			if len(ran) != 5 || rollbacks == 0 || *d.Summary.TpmC == 0 {
				t.Errorf("%d types were committed, %d orders rolled back, tpmC %d", len(ran), rollbacks, *d.Summary.TpmC)
			}
			if n := slices.IndexFunc(d.Checks, func(c workload.Check) bool { return c.Name == "tpcc-3.3.2.12" }); n < 0 {
				t.Error("the consistency conditions were not checked")
			}
		})
	}
}
