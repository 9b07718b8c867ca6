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

// heap returns the number of bytes that were live after the last garbage collection. limit is the Go runtime's memory
// limit (GOMEMLIMIT) in bytes, or 0 for none.
func heap() (live, limit uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if l := debug.SetMemoryLimit(-1); l < math.MaxInt64 {
		limit = uint64(l)
	}
	return sample[0].Value.Uint64(), limit
}

// checkMemory returns an error if the rows loaded so far fill the node's memory. Without this check, the node would be
// killed later, during a run. checkMemory collects garbage before it fails, because the last measurement may still
// include the previous data set.
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
