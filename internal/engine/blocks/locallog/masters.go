package locallog

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Before a coordinator can route a transaction, it must know the homes of the transaction's rows. In the papers'
// systems, an index that is distributed over the partitions of a region stores the homes. It is the Lookup Master in
// Ren 2019; in Detock's code, a Forwarder looks up the masters.
//
// Here a node knows the homes of its own partition's rows, and asks nodes of the region's other partitions for all
// other homes. A node collects its questions to another node in batches, like forwarded transactions.
//
// A transaction therefore first takes a round trip inside the region plus the collection time, unless its coordinator's
// partition stores all its rows.
//
// A node answers only from the logs that it has read (remaster.go). A coordinator may therefore rely on an answer as if
// it had read these logs itself.

// Values of the parameter masters.
const (
	mastersEverywhere = "everywhere"
	mastersPartition  = "partition"
)

// MastersParameter is the parameter masters of engines that embed a Node.
var MastersParameter = protocol.Parameter{
	Name: "masters", Default: mastersEverywhere, OneOf: []string{mastersEverywhere, mastersPartition},
	Doc: "Where the homes of rows are known: to every node, or to the nodes of a row's partition, as in the papers' systems. Who coordinates " +
		"a transaction then asks the other partitions of its region, and collects what it asks a node for as long as `forward` says.",
}

// AsksMasters reports whether, by the parameter masters, nodes ask each other for homes.
func AsksMasters(p protocol.Params) bool { return p.Word(MastersParameter.Name) == mastersPartition }

// LookupLaw returns the additional latency with masters: partition, for a single-home transaction with the keys of one
// partition. It applies if the coordinator in the client's region c belongs to another partition. The latency consists
// of the collection of questions, the round trip, and a hop for the result, which a node of the other partition
// computes.
func LookupLaw(t *geo.Topology, p protocol.Params, c geo.Region) time.Duration {
	return p.Duration("forward") + t.RTT(c, c) + t.Links[c][c].Delay
}

// Message kinds. Package reconnaissance uses the kinds between KindTold and KindForward.
const (
	KindAsk = reconnaissance.KindSeen + 1 + iota
	KindTold
)

// lookups manages a node's questions about the homes of rows.
type lookups struct {
	n *Node
	// outbox[m] holds the questions being collected for node m; waiting holds the transactions that wait for answers.
	outbox  map[geo.NodeID][]Question
	waiting map[txn.ID]*lookup
	// looked counts the attempts of transactions that had to wait for answers.
	looked int64
}

// lookup is a transaction that waits for the homes of its rows.
type lookup struct {
	t       *txn.Transaction
	attempt uint64
	// left is the number of partitions with an outstanding answer; asked[q] is the pending question to partition q.
	left  int
	asked [][]txn.Key
	// homes holds the homes found so far, by access.
	homes []residence
}

func newLookups(n *Node) *lookups {
	return &lookups{n: n, outbox: map[geo.NodeID][]Question{}, waiting: map[txn.ID]*lookup{}}
}

// begin asks for the homes of a transaction's rows. It returns false, and asks nothing, if this node's partition stores
// all of the rows.
func (l *lookups) begin(t *txn.Transaction, attempt uint64) bool {
	n := l.n
	own := n.Topology.PartitionOf(n.Self)
	asked := make([][]txn.Key, n.Topology.Partitions)
	left := 0
	for i := range t.Accesses {
		k := t.Accesses[i].Key
		q := n.Placement.Partition(k)
		if q == own {
			continue
		}
		if asked[q] == nil {
			left++
		}
		asked[q] = append(asked[q], k)
	}
	if left == 0 {
		return false
	}
	n.Env.Mark(mastersAsked)
	l.looked++
	w := &lookup{t: t, attempt: attempt, left: left, asked: asked, homes: make([]residence, len(t.Accesses))}
	for i := range t.Accesses {
		if k := t.Accesses[i].Key; n.Placement.Partition(k) == own {
			w.homes[i] = n.residenceOf(k)
		}
	}
	l.waiting[t.ID] = w
	for q, keys := range asked {
		if len(keys) > 0 {
			// The node with the same replica number in this region is the nearest that stores partition q.
			l.ask(n.Topology.Node(n.Region, q, n.Topology.ReplicaOf(n.Self)), Question{t.ID, attempt, keys})
		}
	}
	return true
}

func (l *lookups) ask(to geo.NodeID, q Question) {
	l.outbox[to] = append(l.outbox[to], q)
	if l.n.c.Forward == 0 {
		l.send(to)
		// The first question starts the timer; later questions are sent with it.
	} else if len(l.outbox[to]) == 1 {
		l.n.Env.After(l.n.c.Forward, protocol.Timer{Kind: mastersTimer, Arg: uint64(to)})
	}
}

func (l *lookups) send(to geo.NodeID) {
	// askAgain may have emptied the outbox since the timer was set.
	if questions := l.outbox[to]; len(questions) > 0 {
		delete(l.outbox, to)
		l.n.Env.Send(to, &Ask{questions})
	}
}

// askAgain repeats the unanswered questions to a new incarnation.
func (l *lookups) askAgain(to geo.NodeID) {
	n := l.n
	// This node asks only nodes of its region with its own replica number.
	if n.Topology.RegionOf(to) != n.Region || n.Topology.ReplicaOf(to) != n.Topology.ReplicaOf(n.Self) {
		return
	}
	// The loop below also repeats the questions that are being collected.
	delete(l.outbox, to)
	q := n.Topology.PartitionOf(to)
	// Sorted, because the order of the questions must not depend on the map.
	for _, id := range slices.Sorted(maps.Keys(l.waiting)) {
		if w := l.waiting[id]; len(w.asked[q]) > 0 {
			n.Env.Mark(mastersAskedAgain)
			l.ask(to, Question{id, w.attempt, w.asked[q]})
		}
	}
}

// tell answers another node's questions.
func (n *Node) tell(to geo.NodeID, m *Ask) {
	told := &Told{}
	for _, q := range m.Questions {
		a := Answer{ID: q.ID, Attempt: q.Attempt}
		for _, k := range q.Keys {
			r := n.residenceOf(k)
			a.Masters = append(a.Masters, Master{r.home, r.count})
		}
		told.Answers = append(told.Answers, a)
	}
	n.Env.Send(to, told)
}

// residenceOf returns the home of a row as far as this node knows.
func (n *Node) residenceOf(k txn.Key) residence {
	if n.remasterer != nil {
		if r, ok := n.remasterer.known[k]; ok {
			return r
		}
	}
	return residence{home: n.Placement.Home(k)}
}

// told handles another node's answers. A transaction continues when all its answers have arrived.
func (l *lookups) told(from geo.NodeID, m *Told) {
	n := l.n
	q := n.Topology.PartitionOf(from)
	for _, a := range m.Answers {
		w := l.waiting[a.ID]
		if w == nil || w.attempt != a.Attempt {
			continue // the answer is a duplicate or corrupt
		}
		// askAgain must not repeat a question that has been answered: a second answer would decrement left again.
		w.asked[q] = nil
		masters := a.Masters
		for i := range w.t.Accesses {
			k := w.t.Accesses[i].Key
			// A corrupt answer may contain too few masters.
			if n.Placement.Partition(k) != q || len(masters) == 0 {
				continue
			}
			w.homes[i] = residence{masters[0].Home, masters[0].Count}
			// The answering node may have read less of the logs than this node; the higher count is the later move.
			if own := n.residenceOf(k); own.count > w.homes[i].count {
				n.Env.Mark(mastersBehind)
				w.homes[i] = own
			}
			masters = masters[1:]
		}
		if w.left--; w.left > 0 {
			n.Env.Mark(mastersOfSeveral)
			continue
		}
		delete(l.waiting, a.ID)
		var homes deterministic.Homes
		for i, r := range w.homes {
			// A row that has never moved is at its initial home, which needs no entry.
			if r.count > 0 {
				homes = append(homes, deterministic.Moved{Access: uint32(i), Home: r.home, Count: r.count})
			}
		}
		n.dispatch(w.t, w.attempt, homes)
	}
}

// Ask asks a node for the homes of rows of its partition.
type Ask struct{ Questions []Question }

// Question asks for the homes of the rows of one attempt of a transaction.
type Question struct {
	ID      txn.ID
	Attempt uint64 `codec:"max=math.MaxUint32"`
	Keys    []txn.Key
}

func (m *Ask) String() string {
	s := "ask for homes:"
	for _, q := range m.Questions {
		s += fmt.Sprintf(" t%v (%d)", q.ID, len(q.Keys))
	}
	return s
}

// Told answers an Ask.
type Told struct{ Answers []Answer }

// Answer carries the homes of the rows in a Question, in the same order.
type Answer struct {
	ID      txn.ID
	Attempt uint64 `codec:"max=math.MaxUint32"`
	Masters []Master
}

// Master is the home of a row and the number of its moves.
type Master struct {
	Home  geo.Region
	Count uint64
}

func (m *Told) String() string {
	s := "homes:"
	for _, a := range m.Answers {
		s += fmt.Sprintf(" t%v", a.ID)
		for _, h := range slices.Compact(slices.Clone(a.Masters)) {
			s += fmt.Sprintf(" %d", h.Home)
			if h.Count > 0 {
				s += fmt.Sprintf(" by move %d", h.Count)
			}
		}
	}
	return s
}
