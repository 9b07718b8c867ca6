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
	// Name is the value of spec.engine.name in a manifest.
	Name string
	// Paper cites the source.
	Paper string
	// Doc is one sentence for help texts.
	Doc string
	// Parameters lists all parameters allowed in spec.engine.parameters.
	Parameters []Parameter
	// Check, if not nil, returns the errors of combinations of individually valid parameters. Each error names the
	// parameter to change, its value, and a valid value.
	Check func(Params) []*ParamError
	// Figures lists all figures that replicas report through Readings, for any parameters.
	Figures []Figure
	// Aborts lists the reasons of all Aborted outcomes of the engine, for any parameters. Procedures add reasons of their
	// own.
	Aborts []string
	// Roles lists the roles that nodes may have: see RoleHolder.
	Roles []string
	// CheckTopology, if not nil, returns an error for a topology that this engine does not support, for example because it
	// has too few replicas. The topology may have no links yet.
	CheckTopology func(*geo.Topology, Params) *TopologyError
	// Place, if not nil, returns the placement of rows on nodes; if nil, every region holds all rows. Drivers load the
	// rows of each node.
	Place func(*geo.Topology, Params) geo.Layout
	// TakesGroups is set if Place supports Topology.Groups and regions that are not the home of any row. Accepts refuses
	// such topologies for other engines.
	TakesGroups bool
	// NewStore creates an empty store for a node; nil means store.NewHash.
	NewStore func() store.Store
	// Isolation, if not nil, returns the isolation level that the database guarantees; nil means strict serializability.
	Isolation func(Params) isolation.Level
	// Loses, if not nil, reports that a database with these parameters may lose answered transactions by design. Then no
	// isolation level holds for all its histories. Checks of a history find the lost transactions, and the explorer draws
	// other parameters.
	Loses func(Params) bool
	// Tolerates, if not nil, returns the losses that the database survives; nil means none.
	Tolerates func(*geo.Topology, Params) Tolerance
	// Replaces, if not nil, returns the nodes that may lose their process and state, because new incarnations can replace
	// them. At most one node, or the nodes of one region in Tolerates, may be lost at a time. The engine's replicas then
	// implement Rejoiner. nil means no node.
	Replaces func(*geo.Topology, Params) []geo.NodeID
	// ClockBound, if not nil, returns the largest difference between durations measured by two nodes' clocks, including
	// jumps, up to which answers are correct. nil means that no answer depends on clocks.
	ClockBound func(Params) time.Duration
	// New creates a replica. The caller has checked the parameters.
	New func(Config) Replica
	// Decode decodes a message encoded by AppendTo. It must not panic on any input; procs prepares the transactions in
	// the message. The message may refer to body, which the caller does not reuse.
	Decode func(kind uint8, body []byte, procs *txn.Registry) (Message, error)
	// Law is the latency model (docs/protocols): the latency that a client in region c must observe on an unloaded
	// system. The transaction accesses a single partition, and its keys have the given homes. The latency excludes
	// local work.
	Law func(t *geo.Topology, p Params, c geo.Region, homes []geo.Region) time.Duration
}

// Variant returns a copy of the engine with another name and another constructor of replicas.
func (e *Engine) Variant(name string, replica func(Config) Replica) *Engine {
	v := *e
	v.Name, v.New = name, replica
	return &v
}

// Reparametrized calls change for a copy of each of the engine's parameters, and returns the engine with the changed
// copies. It modifies e, which must be a variant.
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
	// Regions lists the regions that may be lost with all their nodes. At most Most of them may be lost together.
	Regions []geo.Region
	Most    int
	// InFlight is set if the regions may be lost together with the messages in flight from their nodes. Such
	// messages are lost because a link was cut or the receiver was down.
	InFlight bool
	// Settles is the maximum time after the loss until the remaining regions work as if the lost regions had never
	// existed. The network between the remaining regions must be intact. After this time, under a light load, these
	// regions answer every transaction within Answers. Both are 0 if the protocol only guarantees that every
	// transaction is answered eventually.
	Settles, Answers time.Duration
}

// InTime returns Answers for a protocol in which a transaction takes a few steps of the given duration. It allows ten
// steps, because even under a light load, other transactions may change rows and make a lookup repeat a few times. It
// adds a second for local work.
func InTime(step time.Duration) time.Duration { return 10*step + time.Second }

// Describe returns the tolerance in words, for example "1 of 3 regions".
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
	// Any region may be lost, so the number is enough and names would add nothing.
	case len(s.Regions) == len(t.Regions):
		text = fmt.Sprintf("%d of %d regions", s.Most, len(t.Regions))
	// Without this number, the text would mean that all named regions may be lost together.
	case len(s.Regions) > s.Most:
		text = fmt.Sprintf("%d of %s", s.Most, text)
	}
	if !s.InFlight {
		text += ", except for data in flight"
	}
	return text
}

// AnyRegions returns the tolerance to the loss of any regions that leaves a majority.
func AnyRegions(t *geo.Topology, inFlight bool) Tolerance {
	s := Tolerance{Most: (len(t.Regions) - 1) / 2, InFlight: inFlight}
	// With one or two regions, no loss leaves a majority.
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

// Replaceable returns the nodes that new incarnations can replace, in ascending order.
func (e *Engine) Replaceable(t *geo.Topology, p Params) []geo.NodeID {
	if e.Replaces == nil {
		return nil
	}
	return e.Replaces(t, p)
}

// ReplacesAll reports whether new incarnations can replace every node.
func (e *Engine) ReplacesAll(t *geo.Topology, p Params) bool {
	return len(e.Replaceable(t, p)) == t.Nodes()
}

// CanLose returns an error if the database cannot lose the processes and state of these nodes together and replace all
// of them with new incarnations. Otherwise it returns nil.
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
	// A single node only has to be replaceable, which was checked above. Several nodes must lie in one region whose
	// complete loss the database survives.
	if len(lost) < 2 || len(regions) == 1 && slices.Contains(survival.Regions, regions[0]) {
		return nil
	}
	return fmt.Errorf("nodes %s have lost what they knew together; engine %s replaces one node at a time, or those of one region of which the database survives the loss (%s)",
		strings.Join(names, ", "), e.Name, survival.Describe(t))
}

// Layout returns the placement of rows on nodes.
func (e *Engine) Layout(t *geo.Topology, p Params) geo.Layout {
	if e.Place == nil {
		return t.Full()
	}
	return e.Place(t, p)
}

// MakeStore creates an empty store for a node.
func (e *Engine) MakeStore() store.Store {
	if e.NewStore == nil {
		return store.NewHash()
	}
	return e.NewStore()
}

// Accepts returns a *TopologyError if the engine cannot be deployed on a topology with these parameters, or nil.
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
	if err := e.CheckTopology(t, p); err != nil { // a nil *TopologyError in the error interface would not equal nil
		return err
	}
	return nil
}

// TopologyError reports a field of a GeoDatabase that an engine does not accept, with its value and a hint at a valid
// one.
type TopologyError struct {
	// Field is the field's path in the manifest, for example spec.replicasPerPartition.
	Field string
	// Value may be empty if Message contains it.
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
	// OneOf lists the allowed words. If it is empty, Min and Max bound a duration.
	OneOf []string
	// Instead maps words that are valid elsewhere, but not here, to advice about the valid word.
	Instead map[string]string
	// Min and Max bound a duration parameter, inclusive.
	Min, Max time.Duration
	// Integer is set if the parameter is an integer from MinInt to MaxInt instead of a duration.
	Integer        bool
	MinInt, MaxInt int64
}

// Check returns an error that states the allowed values if value is not allowed.
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

// Params are the complete parameters of one database: defaults are filled in and all values are checked.
type Params map[string]string

// Word returns a OneOf parameter.
func (p Params) Word(name string) string { return p[name] }

// Duration returns a duration parameter. It panics if the parameter is missing or not a duration.
func (p Params) Duration(name string) time.Duration {
	d, err := time.ParseDuration(p[name])
	if err != nil {
		panic("protocol: parameter " + name + " was not checked: " + err.Error())
	}
	return d
}

// Int returns an integer parameter. It panics if the parameter is missing or not an integer.
func (p Params) Int(name string) int64 {
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil {
		panic("protocol: parameter " + name + " was not checked: " + err.Error())
	}
	return n
}

// ParamError reports an invalid parameter.
type ParamError struct {
	Name, Message string
}

func (e *ParamError) Error() string { return e.Name + ": " + e.Message }

// Resolve checks the given values against the engine's parameters and fills in the defaults. It returns all errors,
// sorted by parameter name. It checks combinations only if each value is valid.
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
	// given is a map: without sorting, the order of the errors would change from call to call.
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
	// Check reads parameters with Int and Duration, which panic on invalid values.
	if len(errs) == 0 && e.Check != nil {
		errs = e.Check(out)
	}
	return out, errs
}
