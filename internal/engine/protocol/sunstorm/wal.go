package sunstorm

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// EntryKind is the kind of a log entry.
type EntryKind uint8

// The kinds of entries.
const (
	// Committed: a single-region transaction has committed these writes.
	Committed EntryKind = iota + 1
	// Prepared: a multi-region transaction is prepared, and these writes are tentative.
	Prepared
	// CommitPrepared and AbortPrepared end a prepared transaction.
	CommitPrepared
	AbortPrepared
)

// Entry is an entry of a writer's log. Its log sequence number is its position in the log, from 1.
type Entry struct {
	Kind   EntryKind
	ID     txn.ID
	Writes []txn.WriteEntry
	// Name is the name of a prepared transaction; zero if nodes cannot be replaced.
	Name Name
}

// wal is a writer's log. It contains only the entries that were not shipped to other regions yet.
type wal struct {
	r *Replica
	// last is the log sequence number of the last entry. Entries up to sent were sent to the storage copies, and entries
	// up to shipped to the other regions. Entries up to durable are on a majority.
	last, sent, durable, shipped uint64
	// entries are the entries after shipped.
	entries []Entry
	// acked is each storage copy's log position.
	acked []uint64
	// waiting are actions that wait for the log to become durable, ordered by lsn.
	waiting []action
}

// action is executed once the log is durable up to lsn.
type action struct {
	lsn uint64
	deed
}

// deed is the operation of an action.
type deed interface{ do(w *writer) }

func (l *wal) init(r *Replica) {
	l.r, l.acked = r, make([]uint64, r.topology.Replicas-1)
}

// append appends an entry.
func (l *wal) append(e Entry) {
	l.r.counters.entries++
	l.last++
	l.entries = append(l.entries, e)
}

// whenDurable executes d once all entries that are now in the log are durable.
func (l *wal) whenDurable(d deed) { l.waiting = append(l.waiting, action{l.last, d}) }

// flush sends new entries to the storage copies, executes the actions whose entries have become durable, and ships
// durable entries to the other regions.
func (l *wal) flush() {
	// Until a majority has the recovered log, durable and shipped are not set, and ship would expect entries that do not
	// exist.
	if !l.r.recovery.hasLog() {
		return
	}
	// An action may append entries, which are sent in the same step.
	for {
		if l.sent < l.last {
			first := l.sent + 1
			// ship deletes from entries in place, while the message may still be in flight.
			m := &Log{First: first, Entries: slices.Clone(l.entries[first-l.shipped-1:])}
			for k := range l.acked {
				l.r.env.Send(l.r.topology.Node(l.r.region, l.r.partition, k+1), m)
			}
			l.sent = l.last
		}
		l.advance()
		if len(l.waiting) == 0 || l.waiting[0].lsn > l.durable {
			break
		}
		next := l.waiting[0]
		l.waiting = l.waiting[1:]
		next.do(&l.r.writer)
	}
	l.ship()
	// A copy for another region waits until its entries are durable, which may now be the case.
	l.r.replacement.flush()
}

// advance sets durable to the last entry that a majority of the writer and its storage copies has.
func (l *wal) advance() {
	// The writer has its whole log, so a majority of n replicas needs n/2 storage copies, rounded down.
	needed := (len(l.acked) + 1) / 2
	// A cell with a single replica has no storage copies: the writer is the majority.
	if needed == 0 {
		l.durable = l.sent
		return
	}
	sorted := slices.Clone(l.acked)
	slices.Sort(sorted)
	// After a storage copy was replaced, its position starts again at 0. Durable entries stay durable.
	l.durable = max(l.durable, sorted[len(sorted)-needed])
}

// replaced records that a storage copy has lost its state.
func (l *wal) replaced(n geo.NodeID) { l.acked[l.r.topology.ReplicaOf(n)-1] = 0 }

// persisted records a copy's log position. Copies in other regions report a position only after they or the writer were
// replaced.
func (l *wal) persisted(from geo.NodeID, lsn uint64) {
	// A copy with a position below needed is still missing entries of the recovered log.
	if lsn >= l.r.replacement.needed {
		l.r.replacement.lacking[from] = false
	}
	// Confirmations from other regions do not count for durability.
	if l.r.topology.RegionOf(from) == l.r.region {
		l.acked[l.r.topology.ReplicaOf(from)-1] = lsn
	}
}

// majority reports whether the log up to lsn is on a majority of the writer and its storage copies.
func (l *wal) majority(lsn uint64) bool {
	has := 1
	for _, acked := range l.acked {
		if acked >= lsn {
			has++
		}
	}
	return has > (len(l.acked)+1)/2
}

// ship sends the durable entries to the other regions.
func (l *wal) ship() {
	n := l.durable - l.shipped
	if n == 0 {
		return
	}
	t := l.r.topology
	m := &Log{First: l.shipped + 1, Entries: slices.Clone(l.entries[:n])}
	for region := range t.Regions {
		if geo.Region(region) == l.r.region {
			continue
		}
		for k := range t.Replicas {
			l.r.env.Send(t.Node(geo.Region(region), l.r.partition, k), m)
		}
	}
	l.entries = slices.Delete(l.entries, 0, int(n))
	l.shipped = l.durable
}

// copyOf is this node's copy of the rows of another writer.
type copyOf struct {
	// next is the log sequence number of the next entry to be received. applied is the log sequence number of the last
	// entry applied to the rows.
	next, applied uint64
	// tentative are the Prepared entries of transactions that have not ended.
	tentative map[txn.ID]Entry
	// newest is the transaction of the last entry applied; 0 if that entry arrived as part of a copy of the rows.
	newest txn.ID
}

// apply handles a part of another writer's log. Parts arrive in order. A new incarnation already has the entries that a
// received copy contains, and skips them.
func (r *Replica) apply(from geo.NodeID, m *Log) {
	home := r.topology.RegionOf(from)
	if r.replacement.holds(home, m) {
		return
	}
	c := &r.copies[home]
	if m.First > c.next {
		panic("sunstorm: a part of a log is missing")
	}
	entries := m.Entries[min(c.next-m.First, uint64(len(m.Entries))):]
	c.next += uint64(len(entries))
	// The region's own storage confirms entries for durability, so it never lags.
	if near := home == r.region; near || r.lag == 0 {
		r.applyAll(home, entries)
		if near {
			r.env.Send(from, &Persisted{c.next - 1})
		}
		return
	}
	// While parts wait, a timer is pending already, and catchUp sets the next one.
	if r.lagging.Len() == 0 {
		r.env.After(r.lag, protocol.Timer{Kind: lagTimer})
	}
	r.lagging.Push(lag{r.env.Now() + r.lag, home, entries})
}

// lag is a part of the log of a home's writer that the copy has not applied yet. It names the home, and holds no
// pointer into the field copies of Replica. A checkpoint would save the target of such a pointer as a separate copy,
// which nothing reads.
type lag struct {
	due     time.Duration
	home    geo.Region
	entries []Entry
}

// catchUp applies the parts whose lag has passed.
func (r *Replica) catchUp() {
	for now := r.env.Now(); r.lagging.Len() > 0; r.lagging.Pop() {
		l := r.lagging.Front()
		// All parts have the same lag, so the front part is always due first.
		if l.due > now {
			r.env.After(l.due-now, protocol.Timer{Kind: lagTimer})
			return
		}
		r.applyAll(l.home, l.entries)
	}
}

func (r *Replica) applyAll(home geo.Region, entries []Entry) {
	c := &r.copies[home]
	for i := range entries {
		if r.wrong == outOfOrder {
			r.late = append(r.late, lateEntry{home, entries[i]})
			r.env.After(time.Duration(r.env.Rand().IntN(10_000))*time.Microsecond, protocol.Timer{Kind: lateTimer, Arg: uint64(len(r.late) - 1)})
			continue
		}
		r.applyEntry(c, &entries[i])
	}
	if n := len(entries); n > 0 {
		c.applied += uint64(n)
		c.newest = entries[n-1].ID
	}
}

func (r *Replica) applyEntry(c *copyOf, e *Entry) {
	r.counters.applied++
	switch e.Kind {
	case Committed:
		r.install(e.Writes, e.ID)
	case Prepared:
		c.tentative[e.ID] = *e
	case CommitPrepared:
		// CommitPrepared carries no writes; they are in the Prepared entry.
		p := c.tentative[e.ID]
		r.install(p.Writes, e.ID)
		// A new writer receives the committed transactions only from a storage copy of its own region.
		if c == &r.copies[r.region] {
			r.settlement.remember(e.ID, p.Name)
		}
		delete(c.tentative, e.ID)
	case AbortPrepared:
		delete(c.tentative, e.ID)
	}
}

// install installs a transaction's writes as a new version of the store.
func (r *Replica) install(writes []txn.WriteEntry, id txn.ID) {
	r.version++
	r.store.Install(writes, r.version, id)
}
