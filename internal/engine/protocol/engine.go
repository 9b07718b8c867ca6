package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// Engine describes a protocol to the code that deploys, validates and runs it.
type Engine struct {
	// Name as in a manifest's spec.engine.name.
	Name string
	// Paper names the source.
	Paper string
	// Doc is one sentence for help texts.
	Doc string
	// Parameters are all that spec.engine.parameters may hold.
	Parameters []Parameter
	// Check, if not nil, returns the errors of parameters that are valid individually but not together. Each error names
	// the parameter to change, its value, and a valid value.
	Check func(Params) []*ParamError
	// Figures are all that replicas report by Readings, whatever the parameters.
	Figures []Figure
	// Aborts are the reasons of all outcomes Aborted, whatever the parameters. Procedures have reasons of their own.
	Aborts []string
	// Roles that nodes may have: see RoleHolder.
	Roles []string
	// CheckTopology, if not nil, returns the error of a topology that is valid for other engines, such as too few replicas
	// for the parameters. nil means no error. The topology may have no links yet.
	CheckTopology func(*geo.Topology, Params) *TopologyError
	// Place, if not nil, returns which nodes hold which rows; otherwise every region holds all rows. Drivers load each
	// node with its rows.
	Place func(*geo.Topology, Params) geo.Layout
	// TakesGroups says that Place heeds Topology.Groups, and regions that no row calls home. Other engines are refused
	// a topology that has any.
	TakesGroups bool
	// NewStore makes the store of a node, empty; nil for store.NewHash.
	NewStore func() store.Store
	// Isolation, if not nil, returns the isolation level that the database guarantees for all histories; nil for strict
	// serializability.
	Isolation func(Params) isolation.Level
	// Loses, if not nil, reports that a database with these parameters may lose answered transactions by design. Then no
	// isolation level holds for all its histories. Checks of a history find the lost transactions, and explorers draw
	// other parameters.
	Loses func(Params) bool
	// Tolerates, if not nil, returns the losses that the database survives; nil for none.
	Tolerates func(*geo.Topology, Params) Tolerance
	// Replaces, if not nil, returns the nodes that may lose their processes and state and be replaced by new incarnations.
	// At a time, this is a single node, or the nodes of a region that Tolerates names. The engine's replicas then
	// implement Rejoiner. nil for none.
	Replaces func(*geo.Topology, Params) []geo.NodeID
	// ClockBound, if not nil, is by how much the durations that two nodes' clocks measure may differ, jumps included,
	// before answers may be wrong; nil when no answer depends on clocks.
	ClockBound func(Params) time.Duration
	// New makes a replica. Params have been checked.
	New func(Config) Replica
	// Decode reads a message written by AppendTo. It must survive any input; procs prepares the transactions inside.
	// The message may keep references into body, which the caller does not reuse.
	Decode func(kind uint8, body []byte, procs *txn.Registry) (Message, error)
	// Law is the latency model: the latency that an unloaded system must show to a client in region c (docs/protocols). It
	// holds for a transaction of a single partition whose keys have the homes in homes. It excludes local work.
	Law func(t *geo.Topology, p Params, c geo.Region, homes []geo.Region) time.Duration
}

// Variant returns a copy of the engine with another name and other replicas.
func (e *Engine) Variant(name string, replica func(Config) Replica) *Engine {
	v := *e
	v.Name, v.New = name, replica
	return &v
}

// Reparametrized makes other parameters of a variant's: change is called for each. It returns the variant.
func (e *Engine) Reparametrized(change func(p *Parameter)) *Engine {
	e.Parameters = slices.Clone(e.Parameters)
	for i := range e.Parameters {
		change(&e.Parameters[i])
	}
	return e
}

// Tolerance describes the regions that a database may lose permanently without losing any answered transaction, while
// the remaining regions continue to work.
type Tolerance struct {
	// Regions may be lost with all their nodes, Most of them together.
	Regions []geo.Region
	Most    int
	// InFlight reports that the regions may be lost even together with the messages in flight from their nodes. Such
	// messages are lost because a link was cut or the receiver was down.
	InFlight bool
	// Settles is the time that the remaining regions may take after the loss until they work as if the lost regions had
	// never existed. It assumes that the network among the remaining regions is whole. From then on they answer every
	// transaction of a light load within Answers. 0 where the protocol only promises that everything is answered
	// eventually.
	Settles, Answers time.Duration
}

// InTime returns Answers for a protocol in which a transaction takes a few steps of the given duration. It allows ten
// steps: rows that have to be found are looked up again while others change them, a few times under a light load. A
// second more is for local work of nodes.
func InTime(step time.Duration) time.Duration { return 10*step + time.Second }

// Describe says it in words, for example "1 of 3 regions".
func (s Tolerance) Describe(t *geo.Topology) string {
	if s.Most == 0 || len(s.Regions) == 0 {
		return "no region"
	}
	names := make([]string, len(s.Regions))
	for i, r := range s.Regions {
		names[i] = t.Regions[r]
	}
	text := strings.Join(names, ", ")
	switch {
	case len(s.Regions) == len(t.Regions):
		text = fmt.Sprintf("%d of %d regions", s.Most, len(t.Regions))
	case len(s.Regions) > s.Most:
		text = fmt.Sprintf("%d of %s", s.Most, text)
	}
	if !s.InFlight {
		text += ", but for what is on its way"
	}
	return text
}

// AnyRegions returns the tolerance of any regions whose loss leaves a majority.
func AnyRegions(t *geo.Topology, inFlight bool) Tolerance {
	s := Tolerance{Most: (len(t.Regions) - 1) / 2, InFlight: inFlight}
	if len(t.Regions) > 2 {
		for r := range t.Regions {
			s.Regions = append(s.Regions, geo.Region(r))
		}
	}
	return s
}

// Promises returns the isolation level of a database of this engine.
func (e *Engine) Promises(p Params) isolation.Level {
	if e.Isolation == nil {
		return isolation.StrictSerializable
	}
	return e.Isolation(p)
}

// Tolerance returns the losses that a database of this engine survives.
func (e *Engine) Tolerance(t *geo.Topology, p Params) Tolerance {
	if e.Tolerates == nil {
		return Tolerance{}
	}
	return e.Tolerates(t, p)
}

// Replaceable returns the nodes that new incarnations can replace, ascending.
func (e *Engine) Replaceable(t *geo.Topology, p Params) []geo.NodeID {
	if e.Replaces == nil {
		return nil
	}
	return e.Replaces(t, p)
}

// ReplacesAll reports whether new incarnations can take the place of each of the nodes.
func (e *Engine) ReplacesAll(t *geo.Topology, p Params) bool {
	return len(e.Replaceable(t, p)) == t.Nodes()
}

// CanLose returns why the database cannot lose the processes and memory of these nodes together, and take new
// incarnations of all of them in; nil when it can.
func (e *Engine) CanLose(t *geo.Topology, p Params, lost []geo.NodeID) error {
	may, survival := e.Replaceable(t, p), e.Tolerance(t, p)
	names, regions := make([]string, len(lost)), []geo.Region(nil)
	for i, n := range lost {
		names[i] = t.NodeName(n)
		if r := t.RegionOf(n); !slices.Contains(regions, r) {
			regions = append(regions, r)
		}
		if !slices.Contains(may, n) {
			return fmt.Errorf("node %s has lost what it knew, and engine %s cannot replace it in this database: too few others have that, or vote for it", names[i], e.Name)
		}
	}
	if len(lost) < 2 || len(regions) == 1 && slices.Contains(survival.Regions, regions[0]) {
		return nil
	}
	return fmt.Errorf("nodes %s have lost what they knew together; engine %s replaces one node at a time, or those of one region of which the database survives the loss (%s)",
		strings.Join(names, ", "), e.Name, survival.Describe(t))
}

// Layout says which nodes hold which rows.
func (e *Engine) Layout(t *geo.Topology, p Params) geo.Layout {
	if e.Place == nil {
		return t.Full()
	}
	return e.Place(t, p)
}

// MakeStore makes the store of a node, empty.
func (e *Engine) MakeStore() store.Store {
	if e.NewStore == nil {
		return store.NewHash()
	}
	return e.NewStore()
}

// Accepts returns why the engine cannot be deployed on a topology with these parameters, a *TopologyError, or nil.
func (e *Engine) Accepts(t *geo.Topology, p Params) error {
	if len(t.Groups) > 0 && !e.TakesGroups {
		return &TopologyError{Field: "spec.groups", Message: fmt.Sprintf("engine %s places rows by itself; leave the groups out", e.Name)}
	}
	if t.Placement().Regions < len(t.Regions) && !e.TakesGroups {
		return &TopologyError{Field: "spec.homes", Message: fmt.Sprintf("engine %s has rows in the homes of all regions; leave homes out", e.Name)}
	}
	if e.CheckTopology == nil {
		return nil
	}
	if err := e.CheckTopology(t, p); err != nil { // a nil pointer is no nil error
		return err
	}
	return nil
}

// TopologyError says which field of a GeoDatabase an engine cannot take: its value, and what would be right.
type TopologyError struct {
	// Field is as in a manifest, from spec on: spec.replicasPerPartition.
	Field string
	// Value may be empty, where Message says it.
	Value, Message string
}

func (e *TopologyError) Error() string {
	if e.Value == "" {
		return e.Field + ": " + e.Message
	}
	return e.Field + ": " + e.Value + ": " + e.Message
}

// Parameter is one entry of spec.engine.parameters.
type Parameter struct {
	Name, Default, Doc string
	// OneOf lists the allowed words. When it is empty, Min and Max bound a duration.
	OneOf []string
	// Instead says of words that are right elsewhere, and not here, what would be right.
	Instead map[string]string
	// Min and Max bound a duration parameter, inclusive.
	Min, Max time.Duration
	// Integer makes the parameter a whole number between MinInt and MaxInt instead of a duration.
	Integer        bool
	MinInt, MaxInt int64
}

// Check returns an error that says what would be right when value is not allowed.
func (p Parameter) Check(value string) error {
	switch {
	case len(p.OneOf) > 0:
		if !slices.Contains(p.OneOf, value) {
			instead := p.Instead[value]
			if instead != "" {
				instead = ": " + instead
			}
			return fmt.Errorf("%q is not one of %s%s", value, strings.Join(p.OneOf, ", "), instead)
		}
	case p.Integer:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < p.MinInt || n > p.MaxInt {
			return fmt.Errorf("%q is not a whole number from %d to %d", value, p.MinInt, p.MaxInt)
		}
	default:
		d, err := time.ParseDuration(value)
		if err != nil || d < p.Min || d > p.Max {
			return fmt.Errorf("%q is not a duration from %s to %s", value, p.Min, p.Max)
		}
	}
	return nil
}

// Params are the parameters of one database, complete: defaults are filled in and all values are checked.
type Params map[string]string

// Word returns a OneOf parameter.
func (p Params) Word(name string) string { return p[name] }

// Duration returns a duration parameter. It panics when the engine does not have it.
func (p Params) Duration(name string) time.Duration {
	d, err := time.ParseDuration(p[name])
	if err != nil {
		panic("protocol: parameter " + name + " was not checked: " + err.Error())
	}
	return d
}

// Int returns an integer parameter. It panics when the engine does not have it.
func (p Params) Int(name string) int64 {
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil {
		panic("protocol: parameter " + name + " was not checked: " + err.Error())
	}
	return n
}

// ParamError says which parameter is wrong.
type ParamError struct {
	Name, Message string
}

func (e *ParamError) Error() string { return e.Name + ": " + e.Message }

// Resolve checks given against the engine's parameters and fills in the defaults. All errors are returned, in the
// order of names; whether values go together is checked once each is right.
func (e *Engine) Resolve(given map[string]string) (Params, []*ParamError) {
	var errs []*ParamError
	out := Params{}
	var known []string
	for _, p := range e.Parameters {
		known = append(known, p.Name)
		out[p.Name] = p.Default
	}
	names := make([]string, 0, len(given))
	for n := range given {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		i := slices.IndexFunc(e.Parameters, func(p Parameter) bool { return p.Name == n })
		if i < 0 {
			errs = append(errs, &ParamError{n, fmt.Sprintf("engine %s has no such parameter; it has %s", e.Name, strings.Join(known, ", "))})
			continue
		}
		if err := e.Parameters[i].Check(given[n]); err != nil {
			errs = append(errs, &ParamError{n, err.Error()})
			continue
		}
		out[n] = given[n]
	}
	if len(errs) == 0 && e.Check != nil {
		errs = e.Check(out)
	}
	return out, errs
}
