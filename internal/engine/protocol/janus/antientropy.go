package janus

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// antiEntropy sends decisions to the replicas that missed them (Demers et al., Epidemic algorithms for replicated
// database maintenance, PODC 1987, section 1.3).
//
// A coordinator sends its decisions to all replicas. Links lose no messages while both ends are up. When the
// coordinator fails, however, its messages to disconnected or stopped replicas are lost. Recovery does not repair this.
// A replica that does not know the instance cannot take it over, and a replica that knows the decision has no reason
// to.
//
// Therefore a replica acts if it knows decisions of a row that may not be stable yet, and the row's coordinator is
// silent. The silence must last longer than decisions take to become stable. The replica asks the other replicas of its
// partition for their state of the row (RowQuery). They answer with the number up to which they have received the row,
// and with the later decisions that they know (RowReport). The replica sends the missing decisions, and asks again
// until no replica misses any. Stable rows, and rows of coordinators that still send messages, cause no traffic.
type antiEntropy struct {
	r *Replica
	// overdue is the longest normal time from a coordinator's decision until all nodes know it to be stable. It also
	// exceeds the time for a RowQuery and its answer.
	overdue time.Duration
	// excuse is the silence after which this node no longer waits for a replica.
	excuse time.Duration
	// unsettled is the number of rows with decisions that other replicas may lack, as of the last tick. A new decision
	// makes it at least 1.
	unsettled int
	queries   []*RowQuery // by index in the group, collected in this tick
}

// exchange is the state of the exchange about a row with another replica.
type exchange struct {
	asked   bool          // a RowReport is outstanding
	at      time.Duration // time of the last query
	settled uint64        // the value of row.decided at which the other replica had all decisions
}

func (a *antiEntropy) init(r *Replica, recovery, longest time.Duration) {
	a.r = r
	// This bounds the time for a decision to become stable. The decision travels to the farthest replica, whose
	// next tick reports the instance as ordered. The coordinator's own next tick then notifies all nodes. The
	// factor 2 leaves room for jitter.
	a.overdue = 2 * (longest + 2*tickEvery)
	// A live replica may need up to overdue to answer, so a shorter silence proves nothing.
	a.excuse = max(recovery, a.overdue)
}

// silent reports whether node n has been silent for at least excuse, so that this node no longer waits for it.
func (a *antiEntropy) silent(n geo.NodeID, now time.Duration) bool {
	return now-a.r.recovery.heard[n] >= a.excuse
}

// decided records the decision of an instance that touches this partition.
func (a *antiEntropy) decided(rec *record) {
	row := &a.r.rows[rec.id.Node()]
	row.decided++
	row.last = max(row.last, rec.id.Seq())
	// A decision from a takeover or from another replica can arrive without the coordinator's PreAccept.
	if rec.id.Seq() > row.received {
		row.strays = append(row.strays, rec)
	}
	// Pending must count the new decision before the next tick recounts the rows.
	a.unsettled = max(a.unsettled, 1)
}

// tick queries other replicas about rows that should be stable but are not, and recounts unsettled.
func (a *antiEntropy) tick() {
	r := a.r
	now := r.env.Now()
	a.unsettled = 0
	for n := range geo.NodeID(r.nodes) {
		row := &r.rows[n]
		if len(row.strays) > 0 {
			known := max(row.received, row.stable)
			row.strays = slices.DeleteFunc(row.strays, func(rec *record) bool { return rec.id.Seq() <= known })
		}
		// The row is stable up to the last decision that this replica knows.
		if row.last <= row.stable {
			continue
		}
		settled := true
		// The coordinator itself sent every decision; for its own row it only waits for the replicas' reports.
		if n == r.self {
			for q := range r.garbage.peers {
				p := &r.garbage.peers[q]
				settled = settled && (p.done >= p.sent || a.silent(geo.NodeID(q), now))
			}
		} else {
			settled = a.compare(n, row, now)
		}
		if !settled {
			a.unsettled++
		}
	}
	for i, q := range a.queries {
		if q != nil {
			r.env.Send(r.group[r.partition][i], q)
			a.queries[i] = nil
		}
	}
}

// compare queries the replicas of this partition that may lack decisions of n's row, once n has been silent for
// overdue. It reports whether this node need not wait for any of these replicas: each has all decisions or is silent.
func (a *antiEntropy) compare(n geo.NodeID, row *row, now time.Duration) (settled bool) {
	r := a.r
	group := r.group[r.partition]
	if row.exchanges == nil {
		row.exchanges = make([]exchange, len(group))
	}
	// While the coordinator sends messages, its own messages deliver the decisions.
	ask := now-r.recovery.heard[n] >= a.overdue
	settled = true
	for i, c := range group {
		e := &row.exchanges[i]
		// decided only grows. If it has not changed since a complete report, the other replica has all decisions.
		if c == r.self || c == n || e.settled == row.decided {
			continue
		}
		if ask && !e.asked {
			e.asked, e.at = true, now
			if a.queries == nil {
				a.queries = make([]*RowQuery, len(group))
			}
			if a.queries[i] == nil {
				a.queries[i] = &RowQuery{}
			}
			a.queries[i].Rows = append(a.queries[i].Rows, n)
		}
		// A silent replica is excused only after it has had time to answer a query.
		settled = settled && e.asked && now-e.at >= a.overdue && a.silent(c, now)
	}
	return settled
}

// queried answers another replica of this partition with this replica's state of the rows.
func (a *antiEntropy) queried(from geo.NodeID, m *RowQuery) {
	r := a.r
	report := &RowReport{}
	for _, n := range m.Rows {
		if int(n) >= r.nodes {
			continue
		}
		row := &r.rows[n]
		k := RowKnowledge{Node: n, Received: row.received}
		for _, rec := range row.strays {
			// strays is pruned only at ticks, so some of its instances may have been received in the meantime.
			if rec.id.Seq() > row.received {
				k.Beyond = append(k.Beyond, rec.id.Seq())
			}
		}
		slices.Sort(k.Beyond)
		report.Rows = append(report.Rows, k)
	}
	r.env.Send(from, report)
}

// reported sends a replica the decisions that are missing from its report.
func (a *antiEntropy) reported(from geo.NodeID, m *RowReport) {
	r := a.r
	i := slices.Index(r.group[r.partition], from)
	for j := range m.Rows {
		k := &m.Rows[j]
		// Ignore reports from other partitions, and reports about rows that this node never asked about.
		if i < 0 || int(k.Node) >= r.nodes || r.rows[k.Node].exchanges == nil {
			continue
		}
		row := &r.rows[k.Node]
		row.exchanges[i].asked = false
		lacks := false
		tell := func(rec *record) {
			if rec.phase < Committed || rec.foreign || rec.noop {
				return
			}
			if _, has := slices.BinarySearch(k.Beyond, rec.id.Seq()); !has {
				lacks = true
				r.env.Mark(decisionPassedOn)
				r.tell(from, rec)
			}
		}
		after, _ := slices.BinarySearchFunc(row.kept, k.Received+1, func(rec *record, seq uint64) int {
			return cmp.Compare(rec.id.Seq(), seq)
		})
		for _, rec := range row.kept[after:] {
			tell(rec)
		}
		for _, rec := range row.strays {
			if rec.id.Seq() > max(row.received, k.Received) {
				tell(rec)
			}
		}
		// A replica has all decisions only if its report contains all of them. The decisions sent now may still be lost.
		if !lacks {
			row.exchanges[i].settled = row.decided
		}
	}
}
