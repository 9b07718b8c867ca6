package node

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// heap is how many bytes were live when the garbage was last collected, and how many bytes the Go runtime was told to
// make do with (GOMEMLIMIT); 0 where it was told nothing.
func heap() (live, limit uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if l := debug.SetMemoryLimit(-1); l < math.MaxInt64 {
		limit = uint64(l)
	}
	return sample[0].Value.Uint64(), limit
}

// checkMemory refuses a data set of which so many rows have filled the node: it would be killed in the middle of a run,
// with its data. Before it does, the garbage is collected: the data set of before may have been live the last time.
func (n *Node) checkMemory(rows int) error {
	live, limit := n.cfg.Memory()
	full := func() bool { return limit > 0 && live >= limit/100*deploy.FullPercent }
	if !full() {
		return nil
	}
	runtime.GC()
	if live, limit = n.cfg.Memory(); !full() {
		return nil
	}
	const mib = 1 << 20
	return &admin.BadRequest{Err: fmt.Errorf("spec.workload: %d rows fill %d of the %d MiB that the node may use, and there are more; %d%% is allowed, since transactions need the rest: "+
		"give the database's spec.resources.limits.memory more, or load fewer rows", rows, live/mib, limit/mib, deploy.FullPercent)}
}
