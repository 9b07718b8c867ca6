package detock

import (
	"slices"

	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// graph is the waits-for graph of a full copy of the database. Reports from the copy's partitions add and remove edges.
// A search visits only changes since the last search, because the graph may hold a transaction of every client.
//
// A transaction is fully reported (told) once all its partitions have reported it. The set of transactions that it
// waits for is then final. A transaction is settled when it can be in no undetected deadlock. This is the case when it
// belongs to a detected deadlock, or all transactions that it waits for are settled or have ended. A settled
// transaction stays settled and is not examined again.
//
// Every other fully reported transaction watches one of the transactions that it waits for. When the watched
// transaction is settled, the watching transaction watches the next. If none is left, the watching transaction is
// settled, too. A walk along the watched transactions stops at a transaction that is not fully reported, or closes a
// cycle.
//
// The transactions of a cycle wait for each other. They become one group, which waits for all transactions outside the
// group that its members wait for. A group that waits for no transaction is a final strongly connected component. This
// is Purdom and Moore's algorithm with path contraction, made incremental.
type graph struct {
	numbers map[deterministic.Place]int32
	table   []transaction
	free    []int32
	edges   []edge
	unused  int32 // first of the free edges

	work    []int32 // fully reported transactions that may have no transaction to watch
	changed []int32 // transactions that have started to watch another transaction
	path    []int32
	walks   uint64 // walks so far
	found   [][]deterministic.Place

	// steps counts the work on the graph: reported transactions and ends, examined edges, and steps of walks.
	steps int64
}

const none = -1

// transaction is a vertex, and represents its group if it leads a group.
type transaction struct {
	at                    deterministic.Place
	participants, reports int32
	settled, over         bool   // over: the transaction has ended
	refs                  int32  // edges to this transaction
	leader                int32  // parent on the path to the group's leader; the leader is its own parent
	more, last            int32  // the group's next member and, at the leader, its last member
	ahead, lastAhead      int32  // edges to the transactions that this one waits for; all edges of a group are at the leader
	inside                int32  // edges between members
	watch                 int32  // the edge to the watched transaction
	watchers              int32  // edges of the transactions that watch this transaction, or watched it earlier
	walk                  uint64 // the last walk that has visited this transaction
}

// edge means that transaction from waits for transaction to.
type edge struct {
	from, to    int32
	next        int32 // the next edge in a list of transaction from
	nextWatcher int32 // the next edge in the watcher list of transaction to
}

func (g *graph) init() { g.numbers, g.unused = map[deterministic.Place]int32{}, none }

// reset clears the graph but keeps the step count.
func (g *graph) reset() {
	*g = graph{steps: g.steps}
	g.init()
}

// add adds a partition's report: new vertices with their waits, and the transactions that have ended.
func (g *graph) add(vertices []deterministic.Vertex, over []deterministic.Place) {
	g.steps += int64(len(vertices) + len(over))
	for i := range vertices {
		v := &vertices[i]
		n := g.number(v.Place)
		t := &g.table[n]
		if t.settled || t.told() {
			continue // the transaction has ended elsewhere, or the message is corrupt
		}
		t.participants = int32(v.Participants)
		t.reports++
		g.steps += int64(len(v.After))
		for _, a := range v.After {
			g.connect(n, g.number(a))
		}
		// number may have reallocated the table, which invalidates t.
		if g.table[n].told() {
			g.work = append(g.work, n)
		}
	}
	for _, at := range over {
		n, known := g.numbers[at]
		if !known {
			continue
		}
		t := &g.table[n]
		t.over = true
		switch {
		case t.settled:
			g.release(n)
		case t.leader == n && t.more == none:
			g.settle(n) // the transaction has its locks in all partitions, or this partition would not have released them
		}
	}
}

func (t *transaction) told() bool { return t.reports > 0 && t.reports == t.participants }

// number returns the index of a transaction in table, and adds the transaction if it is not there.
func (g *graph) number(at deterministic.Place) int32 {
	n, known := g.numbers[at]
	if known {
		return n
	}
	if k := len(g.free); k > 0 {
		n, g.free = g.free[k-1], g.free[:k-1]
	} else {
		n = int32(len(g.table))
		g.table = append(g.table, transaction{})
	}
	g.table[n] = transaction{
		at: at, leader: n, more: none, last: n, ahead: none, lastAhead: none, inside: none, watch: none, watchers: none,
	}
	g.numbers[at] = n
	return n
}

// connect adds an edge: n waits for a.
func (g *graph) connect(n, a int32) {
	e := g.unused
	if e == none {
		e = int32(len(g.edges))
		g.edges = append(g.edges, edge{})
	} else {
		g.unused = g.edges[e].next
	}
	t := &g.table[n]
	g.edges[e] = edge{from: n, to: a, next: t.ahead, nextWatcher: none}
	// Edges are prepended, so the first edge that was added stays the last in the list.
	if t.ahead = e; t.lastAhead == none {
		t.lastAhead = e
	}
	g.table[a].refs++
}

// cut frees an edge that the caller has unlinked from all lists.
func (g *graph) cut(e int32) {
	to := g.edges[e].to
	g.edges[e] = edge{next: g.unused}
	g.unused = e
	g.table[to].refs--
	g.release(to)
}

// release frees a settled transaction that is over, if no edge leads to it.
func (g *graph) release(n int32) {
	if t := &g.table[n]; t.settled && t.over && t.refs == 0 {
		delete(g.numbers, t.at)
		g.free = append(g.free, n)
		// A second release must not put the vertex into the free list again.
		t.over = false
	}
}

// leader returns the leader of the group of n.
func (g *graph) leader(n int32) int32 {
	for g.table[n].leader != n {
		// Path halving keeps the paths to leaders short.
		up := g.table[g.table[n].leader].leader
		g.table[n].leader = up
		n = up
	}
	return n
}

// deadlocks returns the strongly connected components of more than one transaction that were found since the last call.
// The members of each component are sorted by position.
func (g *graph) deadlocks() [][]deterministic.Place {
	g.found = nil
	g.advanceAll()
	start := g.walks
	for len(g.changed) > 0 {
		// The transaction may have joined a group in the meantime. In a group, only the leader watches.
		n := g.leader(g.changed[len(g.changed)-1])
		g.changed = g.changed[:len(g.changed)-1]
		if g.table[n].watch != none && g.follow(n, start) {
			g.advanceAll()
			start = g.walks // advance may have changed watches far from the starts of the earlier walks
		}
	}
	return g.found
}

// advanceAll calls advance for every fully reported transaction in work that watches no transaction.
func (g *graph) advanceAll() {
	for len(g.work) > 0 {
		n := g.leader(g.work[len(g.work)-1])
		g.work = g.work[:len(g.work)-1]
		if t := &g.table[n]; !t.settled && t.told() && t.watch == none {
			g.advance(n)
		}
	}
}

// advance makes n watch an unsettled transaction outside its group, or settles n if there is none.
func (g *graph) advance(n int32) {
	t := &g.table[n]
	for t.ahead != none {
		g.steps++
		e := t.ahead
		to := g.edges[e].to
		switch {
		// A settled transaction can close no further cycle, so the edge is not needed any more.
		case g.table[to].settled:
			t.ahead = g.edges[e].next
			g.cut(e)
		// An edge between two members is not a wait of the group.
		case g.leader(to) == n:
			t.ahead = g.edges[e].next
			g.edges[e].next, t.inside = t.inside, e
		default:
			t.watch = e
			g.edges[e].nextWatcher, g.table[to].watchers = g.table[to].watchers, e
			g.changed = append(g.changed, n)
			return
		}
	}
	t.lastAhead = none
	// A single transaction without waits is not a deadlock.
	if t.more != none {
		var deadlock []deterministic.Place
		for m := n; m != none; m = g.table[m].more {
			deadlock = append(deadlock, g.table[m].at)
		}
		// All copies must run the members in an order that does not depend on how the walk found them.
		slices.SortFunc(deadlock, func(a, b deterministic.Place) int {
			if a.Less(b) {
				return -1
			}
			return 1
		})
		g.found = append(g.found, deadlock)
	}
	g.settle(n)
}

// settle settles n, with all members if it leads a group. Transactions that watch one of them must find another
// transaction to watch.
func (g *graph) settle(n int32) {
	for m := n; m != none; m = g.table[m].more {
		g.table[m].settled = true
	}
	for m := n; m != none; m = g.table[m].more {
		t := &g.table[m]
		for e := t.watchers; e != none; {
			next := g.edges[e].nextWatcher
			// The watching transaction has settled in the meantime, and left the edge to be freed here: see below.
			if from := g.edges[e].from; from == none {
				g.cut(e)
			} else if w := g.leader(from); !g.table[w].settled && g.table[w].watch == e {
				g.table[w].watch = none
				g.work = append(g.work, w)
			}
			e = next
		}
		t.watchers = none
	}
	watch := g.table[n].watch
	for m := n; m != none; {
		t := &g.table[m]
		for _, list := range [...]int32{t.ahead, t.inside} {
			for e := list; e != none; {
				next := g.edges[e].next
				if e == watch {
					// Freeing this edge now would leave a dangling entry in the watched transaction's watcher list.
					g.edges[e].from = none // the watched transaction's watcher list still contains this edge
				} else {
					g.cut(e)
				}
				e = next
			}
		}
		t.ahead, t.lastAhead, t.inside, t.watch = none, none, none, none
		m = t.more
	}
	// cut releases only the target of an edge; members without incoming edges are released here.
	for m := n; m != none; {
		more := g.table[m].more
		g.release(m)
		m = more
	}
}

// follow walks from n along the watched transactions. It stops at a transaction that watches none, or that was visited
// by a walk after walk number start. It joins the transactions of each cycle that it finds into a group, and returns
// true once a group is a deadlock.
func (g *graph) follow(n int32, start uint64) bool {
	g.walks++
	g.path = g.path[:0]
	for {
		g.steps++
		t := &g.table[n]
		// This walk has visited n before, so the path from n to its end is a cycle.
		if t.walk == g.walks {
			for {
				m := g.path[len(g.path)-1]
				g.path = g.path[:len(g.path)-1]
				if m == n {
					break
				}
				g.join(n, m)
			}
			t.watch = none
			if g.advance(n); t.settled {
				return true
			}
		} else if t.watch == none || t.walk > start {
			return false
		}
		t.walk = g.walks
		g.path = append(g.path, n)
		n = g.leader(g.edges[t.watch].to)
	}
}

// join merges m's group into n's group.
func (g *graph) join(n, m int32) {
	t, u := &g.table[n], &g.table[m]
	u.leader, u.watch = n, none
	g.table[t.last].more, t.last = m, u.last
	if u.ahead != none {
		// The last edge joins the two lists in constant time, regardless of the size of the groups.
		g.edges[u.lastAhead].next = t.ahead
		if t.ahead == none {
			t.lastAhead = u.lastAhead
		}
		t.ahead, u.ahead, u.lastAhead = u.ahead, none, none
	}
}
