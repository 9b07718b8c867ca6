package janus

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// antiEntropy spreads a decision that one replica knows to all replicas (Demers et al., Epidemic algorithms for
// replicated database maintenance, PODC 1987, section 1.3).
//
// A coordinator sends its decisions to all replicas, over links that lose nothing while both ends live. When it dies,
// its messages to disconnected or stopped replicas are lost. A node that knows an instance without its decision takes
// it over (see recovery). But a replica that does not know the instance has nothing to take over, and replicas that
// know the decision need nothing.
//
// So a replica acts if it knows decisions of a row that are not known to be stable. The row's coordinator must have
// been silent for longer than stability takes. The replica asks the other replicas of its partition for their state of
// the row (RowQuery). They answer with the point up to which they have received it, and the later decisions that they
// know (RowReport). The replica sends them the missing decisions, and asks again until they have all. A stable row
// costs nothing, and neither does a row with a coordinator that sends messages.
type antiEntropy struct {
	r *Replica
	// overdue is the time after its coordinator's last message by which a row should be stable. It is longer than the time
	// for an answer.
	overdue time.Duration
	// excuse is the time without messages after which a replica is no longer waited for.
	excuse time.Duration
	// unsettled counts the rows with decisions that others may lack, as of the last tick, and at least 1 after a
	// decision.
	unsettled int
	queries   []*RowQuery // by place in the group, gathered in this tick
}

// exchange is the known state of another replica's knowledge of a row.
type exchange struct {
	asked   bool          // its RowReport is to come
	at      time.Duration // when it was asked
	settled uint64        // it has all decisions of the row that this replica had when it had as many (row.decided)
}

func (a *antiEntropy) init(r *Replica, recovery, longest time.Duration) {
	a.r = r
	// The farthest replica receives the decision and reports at its next tick that it has ordered it. The coordinator
	// notifies all nodes at its own tick. Twice this time leaves room for jitter.
	a.overdue = 2 * (longest + 2*tickEvery)
	a.excuse = max(recovery, a.overdue)
}

// silent reports whether node n has not spoken for so long that it is not waited for.
func (a *antiEntropy) silent(n geo.NodeID, now time.Duration) bool {
	return now-a.r.recovery.heard[n] >= a.excuse
}

// decided notes a decision about an instance that touches this partition.
func (a *antiEntropy) decided(rec *record) {
	row := &a.r.rows[rec.id.Node()]
	row.decided++
	row.last = max(row.last, rec.id.Seq())
	if rec.id.Seq() > row.received {
		row.strays = append(row.strays, rec)
	}
	a.unsettled = max(a.unsettled, 1)
}

// tick asks about rows that should be stable and are not.
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
		if row.last <= row.stable {
			continue
		}
		settled := true
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

// compare queries the replicas of this partition that may lack decisions of n's row, once the row is overdue. It
// reports whether only replicas are left that are not waited for.
func (a *antiEntropy) compare(n geo.NodeID, row *row, now time.Duration) (settled bool) {
	r := a.r
	group := r.group[r.partition]
	if row.exchanges == nil {
		row.exchanges = make([]exchange, len(group))
	}
	ask := now-r.recovery.heard[n] >= a.overdue
	settled = true
	for i, c := range group {
		e := &row.exchanges[i]
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
		settled = settled && e.asked && now-e.at >= a.overdue && a.silent(c, now)
	}
	return settled
}

// queried reports this replica's knowledge of rows to another replica of this partition.
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
			if rec.id.Seq() > row.received {
				k.Beyond = append(k.Beyond, rec.id.Seq())
			}
		}
		slices.Sort(k.Beyond)
		report.Rows = append(report.Rows, k)
	}
	r.env.Send(from, report)
}

// reported sends another replica of this partition its missing decisions.
func (a *antiEntropy) reported(from geo.NodeID, m *RowReport) {
	r := a.r
	i := slices.Index(r.group[r.partition], from)
	for j := range m.Rows {
		k := &m.Rows[j]
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
		if !lacks {
			row.exchanges[i].settled = row.decided
		}
	}
}
