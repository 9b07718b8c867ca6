package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// disks describes the disks of a scenario. sync is the duration of a slow sync, which delays the node's messages and
// answers. share is the percentage of slow syncs; all other syncs take no time.
type disks struct {
	sync  time.Duration
	share int64
}

// makeDisks gives every node a log wherever possible, on a disk whose syncs take time.
//
// When a node crashes, its disk may lose some or all of the unsynced data. To the node, a machine failure, a torn
// record, a full disk and a failed sync all look like this.
//
// If the database tolerates the loss of a region, then in a third of the scenarios a restarting node cannot read its
// log. Such a node does not know which messages it has sent, so it must not rejoin. Its whole region stays down
// permanently.
func (w *world) makeDisks(e *protocol.Engine, r *rand.Rand) {
	survival := e.Tolerance(w.topology, w.params)
	lost := w.lost()
	// The loss of a node also loses its messages to nodes that are down at that time. Only engines that declare InFlight
	// tolerate this, so scenarios of other engines with a lost region have no crashes.
	if len(lost) > 0 && !survival.InFlight {
		return
	}
	w.disks = disks{100 * time.Microsecond << r.IntN(6), 75}
	if slow := newRNG(w.seed, streamSyncs); slow.IntN(2) > 0 { // longer than some timeouts, and every sync is slow
		w.disks = disks{w.disks.sync << slow.IntN(5), 100}
	}
	if !w.durable {
		w.durable = true
		w.drawCrashes(r)
	}
	for i := range w.faults {
		if f := &w.faults[i]; f.kind == crash {
			f.loses = []int{0, 100, 1 + r.IntN(99)}[r.IntN(3)]
		}
	}
	may := slices.DeleteFunc(slices.Clone(survival.Regions), func(a geo.Region) bool { return slices.Contains(lost, a) })
	if r.IntN(3) > 0 || !survival.InFlight || survival.Most <= len(lost) || len(may) == 0 {
		return
	}
	w.lose(may[r.IntN(len(may))], r)
	w.sortFaults()
}

// lose makes the log of the first node that restarts in a region unreadable. If no node of the region restarts, lose
// adds a crash and a restart.
func (w *world) lose(gone geo.Region, r *rand.Rand) {
	t := w.topology
	i := slices.IndexFunc(w.faults, func(f fault) bool { return f.kind == restart && t.RegionOf(f.node) == gone })
	if i < 0 {
		at := upTo(r, w.load.until)
		n := t.Node(gone, r.IntN(t.Partitions), r.IntN(t.Replicas))
		w.faults = append(w.faults, fault{at: at, kind: crash, node: n, loses: 100}, fault{at: at + upTo(r, time.Second), kind: restart, node: n})
		i = len(w.faults) - 1
	}
	w.faults[i].kind, w.faults[i].a = unreadable, gone
	at := w.faults[i].at
	// Remove later crashes and restarts in the region, because the region is lost from then on.
	w.faults = slices.DeleteFunc(w.faults, func(f fault) bool {
		return (f.kind == crash || f.kind == restart) && f.at >= at && t.RegionOf(f.node) == gone
	})
}

func (d disks) describe(b *strings.Builder) {
	if d.sync > 0 {
		fmt.Fprintf(b, "%d%% of syncs take %v\n", d.share, d.sync)
	}
}

// crash stops a node and removes a share of its unsynced data.
func (e *execution) crash(f fault) {
	if e.sim.Node(f.node).Dead {
		return
	}
	e.sim.Crash(f.node)
	if f.loses > 0 {
		e.torn += e.sim.LoseTail(f.node, 100-f.loses)
	}
}
