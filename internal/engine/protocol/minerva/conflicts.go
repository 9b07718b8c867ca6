package minerva

import (
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol/minerva/mwis"
)

// conflicts builds the conflict graph of an epoch's chains (section 3.6, algorithm 5). Its vertices are the chains that
// conflict with another chain, numbered in the order of their first transactions. The weight of a vertex is the number
// of transactions in its chain. Chains of the same replica never conflict.
type conflicts struct {
	wrong mistake

	chains []chain
	used   []usage // rows that chains use
	// slots is a hash table of indexes into used, plus 1, with linear probing; 0 is an empty slot. Its size is a power of
	// two, and it is at most half full.
	slots []int32
	// uses lists the rows that each chain uses, chain by chain. users holds a linked list for each row: the chains that
	// use the row. The list starts at usage.users.
	uses  []use
	users []user
	// grouped lists the used rows that can be scanned. scans lists the scanned ranges by group.
	grouped []groupedRow
	scans   map[txn.Key][]scan

	graph    mwis.Graph
	vertexOf []int32 // by chain, -1 for none
	met      []int32 // by chain: the last chain whose neighbors include it, plus 1, or 0
	heads    []int32 // reusable memory for the result of order
	next     []int32

	accesses, vertices, edges, steps int64
}

// chain is a chain of the epoch, as input of the conflict graph.
type chain struct {
	origin   int32
	weight   int64
	from, to int32 // range [from, to) of the chain's rows in uses
	beyond   []int32
}

// usage is a row that chains of the epoch use.
type usage struct {
	key     txn.Key
	users   int32 // head of the list in users, or -1
	origin  int32 // replica of the first chain that uses the row
	shared  bool  // chains of several replicas use it
	written bool
}

// use is an entry in the list of the rows that a chain uses.
type use struct {
	row   int32 // index in used
	write bool
}

// user is an entry in the list of the chains that use a row.
type user struct {
	chain int32
	write bool
	next  int32 // next user of the same row in users, or -1
}

// groupedRow is a used row that can be scanned.
type groupedRow struct {
	key txn.Key
	row int32 // index in used
}

// scan is a range that a chain has scanned.
type scan struct {
	from, to txn.Key
	chain    int32
}

func (c *conflicts) init(m mistake) {
	c.wrong, c.slots, c.scans = m, make([]int32, 1<<10), map[txn.Key][]scan{}
}

// reset discards the data of the previous epoch and keeps the memory.
func (c *conflicts) reset() {
	clear(c.slots)
	clear(c.used)
	clear(c.scans)
	clear(c.chains)
	clear(c.grouped)
	c.grouped = c.grouped[:0]
	c.chains, c.used, c.uses, c.users = c.chains[:0], c.used[:0], c.uses[:0], c.users[:0]
}

// order returns reusable memory for linked lists of n entries: the head of each list and the successor of each entry.
// All are initialized to -1.
func (c *conflicts) order(n int) (heads, next []int32) {
	c.heads, c.next = c.heads[:0], c.next[:0]
	for range n {
		c.heads, c.next = append(c.heads, -1), append(c.next, -1)
	}
	return c.heads, c.next
}

// begin starts a chain of replica origin and returns its number.
func (c *conflicts) begin(origin int32) int32 {
	at := int32(len(c.uses))
	c.chains = append(c.chains, chain{origin: origin, from: at, to: at})
	return int32(len(c.chains) - 1)
}

// add adds a transaction to the chain that begin started last.
func (c *conflicts) add(r *Record) {
	number := int32(len(c.chains) - 1)
	c.chains[number].weight++
	for i := range r.Writes {
		c.use(number, r.Writes[i].Key, true)
	}
	for i := range r.Reads.Points {
		c.use(number, r.Reads.Points[i].Key, false)
	}
	for i := range r.Reads.Ranges {
		g := &r.Reads.Ranges[i]
		for j := range g.Rows {
			c.use(number, g.Rows[j].Key, false)
		}
		if c.wrong != rowsOnly {
			group := g.From.Unit()
			c.scans[group] = append(c.scans[group], scan{g.From, g.To, number})
		}
	}
	c.chains[number].to = int32(len(c.uses))
}

// use records that a chain reads or writes a row.
func (c *conflicts) use(number int32, k txn.Key, write bool) {
	c.accesses++
	c.steps++
	row, found := c.find(k)
	origin := c.chains[number].origin
	if !found {
		c.used = append(c.used, usage{key: k, users: -1, origin: origin})
		if k.Ordered() {
			c.grouped = append(c.grouped, groupedRow{k, row})
		}
	}
	u := &c.used[row]
	u.shared = u.shared || u.origin != origin
	u.written = u.written || write
	// Chains are added one after another, so an earlier use by this chain can only be at the head of the list.
	if u.users >= 0 && c.users[u.users].chain == number {
		// The chain has used the row before. A recorded write also covers reads, so only the first write after reads is
		// recorded again.
		if last := &c.users[u.users]; !write || last.write {
			return
		} else {
			last.write = true
		}
	} else {
		c.users = append(c.users, user{number, write, u.users})
		u.users = int32(len(c.users) - 1)
	}
	c.uses = append(c.uses, use{row, write})
}

// find returns the index of a row in used. If the row is new, find assigns the next index to it, and the caller must
// append the row to used.
func (c *conflicts) find(k txn.Key) (row int32, found bool) {
	if 2*len(c.used) >= len(c.slots) {
		c.slots = make([]int32, 2*len(c.slots))
		for i := range c.used {
			at, _ := c.slot(c.used[i].key)
			c.slots[at] = int32(i + 1)
		}
	}
	at, found := c.slot(k)
	if !found {
		c.slots[at] = int32(len(c.used) + 1)
	}
	return c.slots[at] - 1, found
}

// slot returns the slot that refers to a row, or the empty slot in which the caller must enter the row.
func (c *conflicts) slot(k txn.Key) (at int, found bool) {
	h := uint64(len(k))
	for i := 0; i < len(k); i++ {
		h = (h ^ uint64(k[i])) * 0x9e3779b97f4a7c15
	}
	h ^= h >> 32
	mask := len(c.slots) - 1
	for at = int(h) & mask; c.slots[at] != 0; at = (at + 1) & mask {
		if c.used[c.slots[at]-1].key == k {
			return at, true
		}
	}
	return at, false
}

// build builds the graph and reports whether any chains conflict.
func (c *conflicts) build(self geo.NodeID) bool {
	// meets depends on the conflicts that phantoms finds, so phantoms runs first.
	c.phantoms()
	c.met, c.vertexOf = c.met[:0], c.vertexOf[:0]
	for range c.chains {
		c.met, c.vertexOf = append(c.met, 0), append(c.vertexOf, -1)
	}
	c.graph = mwis.Graph{}
	for _, number := range c.numbering(self) {
		if c.meets(number) {
			c.vertexOf[number] = int32(len(c.graph.Weights))
			c.graph.Weights = append(c.graph.Weights, c.chains[number].weight)
			c.graph.Neighbors = append(c.graph.Neighbors, nil)
		}
	}
	for number := range c.chains {
		if v := c.vertexOf[number]; v >= 0 {
			c.graph.Neighbors[v] = c.neighbors(int32(number))
			c.edges += int64(len(c.graph.Neighbors[v]))
		}
	}
	c.vertices += int64(len(c.graph.Weights))
	return len(c.graph.Weights) > 0
}

// numbering returns the chains in the order in which they become vertices. Every replica must use the same order,
// because the solver breaks ties by vertex number.
func (c *conflicts) numbering(self geo.NodeID) (order []int32) {
	var later []int32
	for number := range c.chains {
		if c.wrong == ownNumbering && c.chains[number].origin < int32(self) {
			later = append(later, int32(number))
		} else {
			order = append(order, int32(number))
		}
	}
	return append(order, later...)
}

// phantoms records conflicts between a chain that scans a range and a chain of another replica that writes a row in
// that range.
func (c *conflicts) phantoms() {
	if len(c.scans) == 0 {
		return
	}
	for _, w := range c.grouped {
		if !c.used[w.row].written {
			continue
		}
		for _, s := range c.scans[w.key.Unit()] {
			c.steps++
			// to is exclusive.
			if w.key < s.from || w.key >= s.to {
				continue
			}
			for i := c.used[w.row].users; i >= 0; i = c.users[i].next {
				if u := &c.users[i]; u.write && c.chains[u.chain].origin != c.chains[s.chain].origin {
					c.chains[u.chain].beyond = append(c.chains[u.chain].beyond, s.chain)
					c.chains[s.chain].beyond = append(c.chains[s.chain].beyond, u.chain)
				}
			}
		}
	}
}

// meets reports whether a chain may conflict with another chain. It may also return true for a chain without conflicts,
// for example a chain that only reads rows which chains of its own replica write. Such a vertex has no neighbors.
func (c *conflicts) meets(number int32) bool {
	g := &c.chains[number]
	if len(g.beyond) > 0 {
		return true
	}
	for _, u := range c.uses[g.from:g.to] {
		if row := &c.used[u.row]; row.shared && row.written {
			return true
		}
	}
	return false
}

// neighbors returns the vertices that conflict with a chain, each only once.
func (c *conflicts) neighbors(number int32) (all []int32) {
	g := &c.chains[number]
	meet := func(other int32) {
		// The mark is this chain's number plus 1. It differs between chains, so met need not be cleared in between.
		if c.met[other] != number+1 && c.chains[other].origin != g.origin {
			c.met[other] = number + 1
			all = append(all, c.vertexOf[other])
		}
	}
	for _, u := range c.uses[g.from:g.to] {
		row := &c.used[u.row]
		// Without a write, or without a chain of another replica, no chains conflict on the row.
		if !row.shared || !row.written {
			continue
		}
		for i := row.users; i >= 0; i = c.users[i].next {
			c.steps++
			// Two reads of a row do not conflict.
			if c.users[i].write || u.write {
				meet(c.users[i].chain)
			}
		}
	}
	for _, other := range g.beyond {
		meet(other)
	}
	return all
}
