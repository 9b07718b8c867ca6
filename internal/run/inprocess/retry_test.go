package inprocess

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
)

// overtaken simulates clients of a database that aborts overtaken transactions: snapshot isolation on a single node,
// with few records. If transactions write every record that they read, the database is strictly serializable.
func overtaken(t *testing.T, retry string) *result.Document {
	t.Helper()
	p := planOf(t, fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine: {name: calvin}
  regions: [{name: us-west-2}]
  network: {profileRef: {name: smallbank-two-regions}, emulation: BuiltIn}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: test}
spec:
  databaseRef: {name: db}
  workload: {rmw: {records: 200, recordsPerTransaction: 4, writesPerTransaction: 4}}
  load: {clientsPerRegion: 20, warmup: 500ms, duration: 2s, repetitions: 2%s}
  verify: [Invariants, StrictSerializable, Convergence]
`, retry))
	p.Engine, p.Params = broken.Snapshot, nil
	d, err := Simulate(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRetryConflicts: clients that retry lose few transactions to conflicts, each attempt is a transaction in the
// history, and the figures agree with each other.
func TestRetryConflicts(t *testing.T) {
	const retry = ", retry: {attempts: 6, backoff: 1ms, maxBackoff: 16ms}"
	without, with := overtaken(t, ""), overtaken(t, retry)
	for name, d := range map[string]*result.Document{"without": without, "with": with} {
		s, a := &d.Summary, &d.Summary.Attempts
		t.Logf("%s: %d/s of %d attempts/s; aborted %d of %d ppm, attempts %d ppm by cause %v; retried %d, committed after %v; p50 %d, p99 %d, max %d us", name,
			s.ThroughputPerSecond, a.PerSecond, s.Aborted, s.AbortPPM, a.AbortPPM, a.Causes, a.Retried, a.CommittedAfter,
			s.LatencyMicroseconds.P50.Least(), s.LatencyMicroseconds.P99.Least(), s.LatencyMicroseconds.Max.Least())
		if d.Verdict != v1alpha1.VerdictPassed || len(d.Checks) < 3 {
			t.Errorf("%s: %s: %+v, checks %+v", name, d.Verdict, d.Reasons, d.Checks)
		}
		if a.Committed != s.Committed+s.CarriedIn {
			t.Errorf("%s: %d attempts committed, but %d transactions and %d carried in", name, a.Committed, s.Committed, s.CarriedIn)
		}
		if a.Causes["conflict"] != a.Aborted || s.Causes["conflict"] != s.Aborted || a.Aborted == 0 || a.Refused+a.Unknown+s.Refused+s.Unknown > 0 {
			t.Errorf("%s: %+v, attempts %+v", name, s.Counts, a.Counts)
		}
		// An aborted attempt was retried, or it was the last attempt of a transaction that was due before or during a window.
		if before := a.Aborted - a.Retried - s.Aborted; before < 0 || before > 2*20 {
			t.Errorf("%s: %d attempts aborted, %d retried, %d transactions aborted: %d are left over", name, a.Aborted, a.Retried, s.Aborted, before)
		}
		var timeline, types, repetitions int64
		for _, x := range d.Timeline {
			timeline += x.Attempts
		}
		for _, x := range d.Transactions {
			types += x.Attempts.Committed + x.Attempts.Aborted["overtaken"]
		}
		for _, x := range d.Repetitions {
			repetitions += x.Attempts.Committed + x.Attempts.Aborted
		}
		if all := a.Committed + a.Aborted; timeline != all || types != all || repetitions != all {
			t.Errorf("%s: %d attempts, %d in the timeline, %d by type, %d by repetition", name, all, timeline, types, repetitions)
		}
	}
	if a := &without.Summary.Attempts; a.Retried != 0 || a.CommittedAfter != nil || without.Summary.AbortPPM < 200_000 {
		t.Errorf("without retries: %+v, %d ppm aborted", a, without.Summary.AbortPPM)
	}
	s, a := &with.Summary, &with.Summary.Attempts
	if s.AbortPPM > without.Summary.AbortPPM/10 || a.AbortPPM < 10*s.AbortPPM {
		t.Errorf("with retries %d ppm of the transactions were aborted, and %d of the attempts; without, %d", s.AbortPPM, a.AbortPPM, without.Summary.AbortPPM)
	}
	var committed int64
	for i, n := range a.CommittedAfter {
		committed += n
		if n == 0 {
			t.Errorf("no transaction committed after %d attempts: %v", i+1, a.CommittedAfter)
		}
	}
	if committed != s.Committed || len(a.CommittedAfter) != 6 {
		t.Errorf("%d transactions committed, by attempts %v", s.Committed, a.CommittedAfter)
	}
	if s.LatencyMicroseconds.Max.Least() < 2*without.Summary.LatencyMicroseconds.Max.Least() {
		t.Errorf("the slowest commit took %d us, and %d without retries: it must count from the first attempt", s.LatencyMicroseconds.Max.Least(), without.Summary.LatencyMicroseconds.Max.Least())
	}
	var x, y bytes.Buffer
	if err := with.Write(&x); err != nil {
		t.Fatal(err)
	}
	if err := overtaken(t, retry).Write(&y); err != nil || !bytes.Equal(x.Bytes(), y.Bytes()) {
		t.Errorf("the same seed gives other bytes with retries (%v)", err)
	}
}
