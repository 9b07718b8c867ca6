// Package invariant lets replicas check themselves during exploration. A defect is then reported where and when it
// occurs, rather than later as a history that is hard to explain.
//
// A package registers an assumption of its code as an invariant, in the same way as a coverage mark:
//
//	var oneLeader = invariant.New("consensus.one-leader", "a term has at most one leader")
//
// A replica with invariants implements protocol.Checked. A driver that checks them, such as the explorer's simulator,
// calls the replica's method Check after every step:
//
//	func (g *Group) Check(c *invariant.Checker) { c.Agree(oneLeader, g.term, g.leader) }
//
// The checker remembers earlier values and the values of other replicas. A replica never calls Check itself. In a
// node's process and in measured simulations, invariants cost nothing, because the driver does not call Check.
package invariant

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// Invariant is a property that always holds.
type Invariant struct {
	// Name consists of the component and the property, such as "consensus.one-leader". Doc describes the property in a
	// line.
	Name, Doc string
}

var (
	registry  []*Invariant
	wellNamed = regexp.MustCompile(`^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$`)
)

// New registers an invariant. It must be called during package initialization. It panics if the name is taken or
// malformed.
func New(name, doc string) *Invariant {
	if !wellNamed.MatchString(name) || doc == "" || strings.ContainsAny(doc, "\n|") {
		panic(fmt.Sprintf("invariant: %q (%q) should be named like consensus.one-leader and described in a line without a bar", name, doc))
	}
	if slices.ContainsFunc(registry, func(i *Invariant) bool { return i.Name == name }) {
		panic(fmt.Sprintf("invariant: there are two of the name %q", name))
	}
	i := &Invariant{name, doc}
	registry = append(registry, i)
	return i
}

// All returns the invariants of all packages of the program, sorted by name.
func All() []*Invariant {
	all := slices.Clone(registry)
	slices.SortFunc(all, func(a, b *Invariant) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Broken describes a violation of an invariant.
type Broken struct {
	*Invariant
	// Engine and Node identify the replica, and At is the virtual time.
	Engine, Node string
	At           time.Duration
	// Values describes the values that violate the invariant.
	Values string
}

// String formats b as a line of text.
func (b *Broken) String() string {
	return fmt.Sprintf("%s of %s at %v breaks %s (%s): %s", b.Node, b.Engine, b.At, b.Name, b.Doc, b.Values)
}

// Checker remembers the values that replicas have reported. It is not safe for concurrent use.
type Checker struct {
	topology *geo.Topology
	engine   string
	node     geo.NodeID
	at       time.Duration
	grown    map[place]uint64
	facts    map[subject]fact
	broken   *Broken
}

// subject identifies the object that the values of an invariant describe, such as a term of a group or an entry of a
// log.
type subject struct {
	i   *Invariant
	key any
}

type place struct {
	subject
	node geo.NodeID
}

// fact is the first value reported for a subject.
type fact struct {
	value  any
	node   geo.NodeID
	shared bool // set if another node has reported the same value
}

// NewChecker returns a Checker without any facts.
func NewChecker(engine string, t *geo.Topology) *Checker {
	return &Checker{topology: t, engine: engine, grown: map[place]uint64{}, facts: map[subject]fact{}}
}

// At sets the node and the time of the checks that follow.
func (c *Checker) At(n geo.NodeID, at time.Duration) { c.node, c.at = n, at }

// Broken returns the first violation, or nil if there is none.
func (c *Checker) Broken() *Broken { return c.broken }

// Forget drops the facts that only node n has reported. It must be called when the node restarts, because the node may
// have lost state that it had not sent to other nodes.
func (c *Checker) Forget(n geo.NodeID) {
	for p := range c.grown {
		if p.node == n {
			delete(c.grown, p)
		}
	}
	for s, f := range c.facts {
		if f.node == n && !f.shared {
			delete(c.facts, s)
		}
	}
}

// That checks that an invariant holds. If not, format and values describe the violation.
func (c *Checker) That(i *Invariant, holds bool, format string, values ...any) {
	// Only the first violation counts; later violations usually follow from the first.
	if !holds && c.broken == nil {
		c.broken = &Broken{Invariant: i, Engine: c.engine, Node: c.topology.NodeName(c.node), At: c.at, Values: fmt.Sprintf(format, values...)}
	}
}

// Grows checks that the value of a subject on this node has not decreased. The key must be comparable.
func (c *Checker) Grows(i *Invariant, key any, value uint64) {
	p := place{subject{i, key}, c.node}
	before := c.grown[p]
	c.That(i, value >= before, "%v was %d and is %d", key, before, value)
	c.grown[p] = value
}

// Agree checks that all nodes always report the same value for a subject. The key and the value must be comparable.
func (c *Checker) Agree(i *Invariant, key, value any) {
	s := subject{i, key}
	f, known := c.facts[s]
	switch {
	case !known:
		f = fact{value: value, node: c.node}
	case f.value != value:
		c.That(i, false, "%v is %v here, and was %v on %s", key, value, f.value, c.topology.NodeName(f.node))
		return
	// The report adds nothing. Either this node has already reported the fact, or two nodes have, so that the fact
	// survives a restart of either node.
	case f.shared || f.node == c.node:
		return
	default:
		f.shared = true
	}
	c.facts[s] = f
}

// Hash combines several values into one for Agree.
func Hash[T ~uint64](values ...T) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range values {
		h = (h ^ uint64(v)) * 1099511628211
		h ^= h >> 32
	}
	return h
}
