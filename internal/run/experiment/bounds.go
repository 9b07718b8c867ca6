package experiment

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Limits for an expression of a claim or a table. They are checked before the evaluation: type bounds walks the
// compiled expression and computes how large its values can become. A step is about 10 ns of work.
const (
	// mostSteps is the maximum number of steps of an expression. mostStepsTogether is the limit for all claims together. A
	// second limit of the same size applies to all tables together, over all their rows.
	mostSteps         = 20_000_000
	mostStepsTogether = 5 * mostSteps
	// mostBytes is the maximum size of a single value. mostBytesTogether is the maximum for all values of an expression
	// together.
	mostBytes         = 4 << 20
	mostBytesTogether = 16 << 20
	// mostNodes is the maximum number of nodes of the syntax tree after macro expansion.
	mostNodes = 20_000
	// unbounded represents an unknown size. Arithmetic on sizes saturates at this value.
	unbounded = uint64(1) << 60
)

// scalarBytes, listBytes and entryBytes are the sizes of values in memory, in bytes, including their interfaces and
// headers.
const (
	scalarBytes = 40
	listBytes   = 64
	entryBytes  = 120
)

// shape is an upper bound for the values that an expression can have.
type shape struct {
	// bytes is the maximum size of the value in memory, including everything that it refers to.
	bytes uint64
	// length is the maximum number of elements of a list, entries of a map, or bytes of a text.
	length uint64
	// parts is the maximum number of lists that were concatenated to form the list. An access to an element visits all of
	// them.
	parts uint64
	// elem is a bound for the elements of a list, or for the keys and values of a map; nil for other values.
	elem *shape
	// most is the maximum absolute value of an integer.
	most uint64
}

func scalar() shape { return shape{bytes: scalarBytes, parts: 1, most: unbounded} }

func textOf(length uint64) shape {
	return shape{bytes: add(scalarBytes, length), length: length, parts: 1, most: unbounded}
}

func listOf(length uint64, elem shape) shape {
	return shape{bytes: add(listBytes, times(length, elem.bytes)), length: length, parts: 1, elem: &elem, most: unbounded}
}

// join returns a bound that covers all values which a or b covers.
func join(a, b shape) shape {
	out := shape{max(a.bytes, b.bytes), max(a.length, b.length), max(a.parts, b.parts), a.elem, max(a.most, b.most)}
	switch {
	case a.elem == nil:
		out.elem = b.elem
	case b.elem != nil:
		e := join(*a.elem, *b.elem)
		out.elem = &e
	}
	return out
}

// element returns the bound for the elements of a list, or for the keys and values of a map. It returns scalar for
// other values.
func (s shape) element() shape {
	if s.elem == nil {
		return scalar()
	}
	return *s.elem
}

// read returns the number of steps needed to read the whole value.
func (s shape) read() uint64 { return add(1, times(s.bytes/32, s.parts)) }

func add(a, b uint64) uint64 { return min(a+b, unbounded) } // no overflow: both are at most unbounded

func times(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 && lo < unbounded {
		return lo
	}
	return unbounded
}

// bounds computes upper bounds on an expression's values and cost while it walks the expression.
type bounds struct {
	*board
	types func(id int64) *types.Type
	scope []variable
	// steps and bytes are the totals for the expressions visited so far.
	steps, bytes uint64
}

type variable struct {
	name string
	shape
}

// boundsOf returns the maximum number of steps of an expression. It returns an error if the expression may take more
// steps or memory than allowed, or uses functions that claims do not support.
func (b *board) boundsOf(compiled *cel.Ast) (uint64, error) {
	checked := compiled.NativeRep()
	w := &bounds{board: b, types: checked.GetType}
	name := textOf(maxNameBytes)
	w.scope = []variable{{"systems", listOf(uint64(len(b.Systems)), name)}, {"system", name}}
	if _, err := w.of(checked.Expr(), 1); err != nil {
		return 0, err
	}
	switch {
	case w.steps > mostSteps:
		return 0, fmt.Errorf("may need %s steps; the limit is %d: loop over fewer values, or split the claim",
			amount(w.steps), mostSteps)
	case w.bytes > mostBytesTogether:
		return 0, fmt.Errorf("may need %s bytes of memory; the limit is %d: make lists and strings shorter",
			amount(w.bytes), mostBytesTogether)
	}
	return w.steps, nil
}

// maxNameBytes is the maximum length of a system's name.
const maxNameBytes = 64

func amount(n uint64) string {
	if n >= unbounded {
		return "any number of"
	}
	return fmt.Sprintf("up to %d", n)
}

func (w *bounds) spend(often, steps uint64) { w.steps = add(w.steps, times(often, steps)) }

func (w *bounds) lookup(name string) shape {
	for i := len(w.scope) - 1; i >= 0; i-- {
		if w.scope[i].name == name {
			return w.scope[i].shape
		}
	}
	return scalar() // the name of a CEL type
}

// of returns a bound for the value of an expression, and adds the cost of its evaluation. often is the maximum number
// of times that e is evaluated.
func (w *bounds) of(e ast.Expr, often uint64) (shape, error) {
	// Each visit of a node of the syntax tree costs the interpreter some work, independent of the node's kind.
	w.spend(often, 5)
	switch e.Kind() {
	case ast.LiteralKind:
		return ofLiteral(e), nil
	case ast.IdentKind:
		return w.lookup(e.AsIdent()), nil
	case ast.SelectKind:
		s, err := w.of(e.AsSelect().Operand(), often)
		// The has() macro yields only a boolean, regardless of the size of the field.
		if err != nil || e.AsSelect().IsTestOnly() {
			return scalar(), err
		}
		return s.element(), nil
	case ast.ListKind:
		return w.list(e.AsList(), often)
	case ast.MapKind:
		return w.mapping(e.AsMap(), often)
	case ast.CallKind:
		return w.call(e, often)
	case ast.ComprehensionKind:
		return w.loop(e.AsComprehension(), often)
	}
	return shape{}, fmt.Errorf("uses a kind of expression that claims do not support: use numbers, strings, lists, maps and functions")
}

func ofLiteral(e ast.Expr) shape {
	switch v := e.AsLiteral().(type) {
	case types.String:
		return textOf(uint64(len(v)))
	case types.Bytes:
		return textOf(uint64(len(v)))
	case types.Int:
		s := scalar()
		s.most = unbounded
		if v > -types.Int(unbounded) && v < types.Int(unbounded) {
			s.most = uint64(max(v, -v))
		}
		return s
	}
	return scalar()
}

// made counts the memory of a new value and the steps to create it. It returns an error if the value may be too large.
func (w *bounds) made(s shape, often uint64) (shape, error) {
	if s.bytes > mostBytes {
		return s, fmt.Errorf("has a value of %s bytes; the limit is %d: make lists and strings shorter",
			amount(s.bytes), mostBytes)
	}
	w.bytes = add(w.bytes, s.bytes)
	w.spend(often, s.bytes/32)
	return s, nil
}

func (w *bounds) list(l ast.ListExpr, often uint64) (shape, error) {
	out := shape{bytes: listBytes, length: uint64(l.Size()), parts: 1, most: unbounded}
	for _, e := range l.Elements() {
		s, err := w.of(e, often)
		if err != nil {
			return shape{}, err
		}
		out.holds(s)
	}
	w.spend(often, 10)
	return w.made(out, often)
}

// holds adds an element to the shape of a list or map.
func (s *shape) holds(elem shape) {
	s.bytes = add(s.bytes, elem.bytes)
	if s.elem != nil {
		elem = join(*s.elem, elem)
	}
	s.elem = &elem
}

func (w *bounds) mapping(m ast.MapExpr, often uint64) (shape, error) {
	out := shape{bytes: add(listBytes, times(entryBytes, uint64(m.Size()))), length: uint64(m.Size()), parts: 1, most: unbounded}
	for _, entry := range m.Entries() {
		for _, e := range []ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()} {
			s, err := w.of(e, often)
			if err != nil {
				return shape{}, err
			}
			out.holds(s)
		}
	}
	w.spend(often, 30)
	return w.made(out, often)
}

// loop returns a bound for an expanded macro, which is a loop over a range. The loop updates an accumulator: a list, a
// number or a boolean. cel.bind expands to a loop over an empty range, whose accumulator starts with the bound value.
func (w *bounds) loop(c ast.ComprehensionExpr, often uint64) (shape, error) {
	over, err := w.of(c.IterRange(), often)
	if err != nil {
		return shape{}, err
	}
	start, err := w.of(c.AccuInit(), often)
	if err != nil {
		return shape{}, err
	}
	n := over.length
	inner := times(often, n)
	w.spend(inner, over.parts)
	kind := w.types(c.AccuInit().ID())
	before := scalar()
	switch {
	// Macros with two iteration variables are not supported.
	case c.HasIterVar2():
		return shape{}, errMacro
	case n == 0:
		before = start
	case kind.Kind() == types.ListKind:
		// The loop step appends to the accumulator. Evaluate the step with an empty accumulator, so that the result bounds
		// the additions of a single iteration.
		before = shape{parts: 1, most: unbounded}
	case !isScalar(kind):
		return shape{}, errMacro
	}
	outside := len(w.scope)
	w.scope = append(w.scope, variable{c.AccuVar(), before}, variable{c.IterVar(), over.element()})
	var step shape
	for _, e := range []ast.Expr{c.LoopCondition(), c.LoopStep()} {
		if step, err = w.of(e, inner); err != nil {
			return shape{}, err
		}
	}
	w.scope = w.scope[:outside]
	after := start
	if n > 0 && isScalar(kind) {
		after = scalar()
	} else if n > 0 {
		// n iterations add at most n times as much as one iteration.
		after.length, after.bytes = add(start.length, times(n, step.length)), add(start.bytes, times(n, step.bytes))
		if step.elem != nil {
			after.holds(*step.elem)
		}
		if after, err = w.made(after, often); err != nil {
			return shape{}, err
		}
	}
	w.scope = append(w.scope, variable{c.AccuVar(), after})
	out, err := w.of(c.Result(), often)
	w.scope = w.scope[:outside]
	return out, err
}

var errMacro = errors.New("uses a macro that claims do not support: use all, exists, exists_one, filter, map or cel.bind")

func isScalar(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.NullTypeKind, types.DurationKind,
		types.TypeKind:
		return true
	}
	return false
}

func (w *bounds) call(e ast.Expr, often uint64) (shape, error) {
	c := e.AsCall()
	var parts []ast.Expr
	if c.IsMemberFunction() {
		parts = append(parts, c.Target())
	}
	var args []shape
	for _, a := range append(parts, c.Args()...) {
		s, err := w.of(a, often)
		if err != nil {
			return shape{}, err
		}
		args = append(args, s)
	}
	name := c.FunctionName()
	bound := calls[name]
	own := functionNamed(name)
	switch {
	case bound == nil && strings.HasPrefix(name, "math."):
		bound = ofReading
	case bound == nil && own == nil:
		return shape{}, fmt.Errorf("claims have no function %s: its cost is not linear in its arguments, or no figure needs it",
			name)
	}
	if bound == nil {
		bound = func(args []shape) (shape, uint64) { return w.own(own, args) }
	}
	out, steps := bound(args)
	w.spend(often, steps)
	// A scalar result refers to no list, even if the arguments do.
	if t := w.types(e.ID()); isScalar(t) {
		most := out.most
		out = scalar()
		out.most = most
		return out, nil
	}
	if name == operators.Conditional || name == operators.Index {
		return out, nil // the result is an existing value, so its memory is already counted
	}
	return w.made(out, often)
}

// calls maps each CEL function to a function that computes bounds on its result and its steps, given bounds on the
// arguments.
var calls = map[string]func(args []shape) (shape, uint64){
	operators.Conditional:      func(a []shape) (shape, uint64) { return join(a[1], a[2]), 1 },
	operators.LogicalAnd:       ofReading,
	operators.LogicalOr:        ofReading,
	operators.LogicalNot:       ofReading,
	operators.NotStrictlyFalse: ofReading,
	operators.Equals:           ofComparing,
	operators.NotEquals:        ofComparing,
	operators.Less:             ofComparing,
	operators.LessEquals:       ofComparing,
	operators.Greater:          ofComparing,
	operators.GreaterEquals:    ofComparing,
	operators.In: func(a []shape) (shape, uint64) {
		return scalar(), times(a[1].length, times(a[1].parts, add(a[0].read(), a[1].element().read())))
	},
	operators.Add:      ofAdding,
	operators.Subtract: ofReading,
	operators.Multiply: func(a []shape) (shape, uint64) { s := scalar(); s.most = times(a[0].most, a[1].most); return s, 1 },
	operators.Divide:   func(a []shape) (shape, uint64) { s := scalar(); s.most = a[0].most; return s, 1 },
	operators.Modulo:   ofReading,
	operators.Negate:   ofReading,
	operators.Index:    func(a []shape) (shape, uint64) { return a[0].element(), add(a[0].parts, a[1].read()) },
	"size":             func(a []shape) (shape, uint64) { s := scalar(); s.most = a[0].length; return s, add(1, a[0].length/8) },
	"contains":         ofSearching,
	"startsWith":       ofReading,
	"endsWith":         ofReading,
	"int":              func(a []shape) (shape, uint64) { s := scalar(); s.most = a[0].most; return s, add(1, a[0].length) },
	"uint":             ofParsing,
	"double":           ofParsing,
	"bool":             ofParsing,
	"duration":         ofParsing,
	"type":             ofReading,
	"dyn":              func(a []shape) (shape, uint64) { return a[0], 1 },
	"string":           func(a []shape) (shape, uint64) { return textOf(add(a[0].length, 64)), a[0].read() },
	"charAt":           ofCutting,
	"substring":        ofCutting,
	"trim":             ofCutting,
	"lowerAscii":       ofCutting,
	"upperAscii":       ofCutting,
	"join":             ofJoining,
	"replace":          ofReplacing,
	"split":            ofSplitting,
	"slice":            func(a []shape) (shape, uint64) { s := a[0]; s.parts = 1; return s, a[0].read() },
	"reverse":          func(a []shape) (shape, uint64) { s := a[0]; s.parts = 1; return s, times(4, a[0].read()) },
	"flatten":          ofFlattening,
	"lists.range": func(a []shape) (shape, uint64) {
		s := listOf(a[0].most, scalar())
		s.elem.most = a[0].most
		return s, s.read()
	},
	"sets.contains":   ofSets,
	"sets.equivalent": ofSets,
	"sets.intersects": ofSets,
}

// ofReading returns the bounds for a function that reads its arguments once and returns a number or a boolean.
func ofReading(args []shape) (shape, uint64) {
	steps := uint64(1)
	for _, a := range args {
		steps = add(steps, a.read())
	}
	return scalar(), steps
}

// ofParsing returns the bounds for a function that reads a text byte by byte and returns a number or a boolean.
func ofParsing(args []shape) (shape, uint64) { return scalar(), add(1, args[0].length) }

// ofSearching returns the bounds for a search for one text in another text.
func ofSearching(args []shape) (shape, uint64) {
	return scalar(), times(args[0].length/10+1, args[1].length/10+1)
}

// ofComparing returns the bounds for a comparison of two values, element by element.
func ofComparing(args []shape) (shape, uint64) {
	_, steps := ofReading(args)
	return scalar(), steps
}

func ofAdding(args []shape) (shape, uint64) {
	a, b := args[0], args[1]
	out := join(a, b)
	out.bytes, out.length, out.most = add(listBytes, add(a.bytes, b.bytes)), add(a.length, b.length), add(a.most, b.most)
	if out.elem == nil { // concatenation copies texts, but not lists
		return out, add(1, out.length/8)
	}
	out.parts = add(1, add(a.parts, b.parts))
	return out, 10
}

// ofCutting returns the bounds for a function that returns a text no longer than its argument.
func ofCutting(args []shape) (shape, uint64) { return textOf(args[0].length), add(1, args[0].length) }

func ofJoining(args []shape) (shape, uint64) {
	length := min(args[0].bytes, times(args[0].length, args[0].element().length))
	if len(args) > 1 {
		length = add(length, times(args[0].length, args[1].length))
	}
	// CEL's join copies the text joined so far each time it appends an element.
	return textOf(length), add(args[0].read(), times(length/16+1, args[0].length))
}

func ofReplacing(args []shape) (shape, uint64) {
	length := add(args[0].length, times(add(1, args[0].length), add(1, args[2].length)))
	return textOf(length), add(length/4, times(args[0].length/8+1, args[1].length/8+1))
}

func ofSplitting(args []shape) (shape, uint64) {
	n := add(1, args[0].length)
	part := textOf(args[0].length)
	out := shape{bytes: add(listBytes, add(times(n, scalarBytes), args[0].length)), length: n, parts: 1, elem: &part, most: unbounded}
	return out, times(4, out.read())
}

// ofFlattening returns the bounds for a function that returns the elements of all nested lists as one list.
func ofFlattening(args []shape) (shape, uint64) {
	elem := args[0].element()
	for inner := elem.elem; inner != nil; inner = inner.elem {
		elem = join(elem, *inner)
	}
	length := args[0].bytes / scalarBytes
	out := shape{bytes: add(args[0].bytes, times(length, scalarBytes)), length: length, parts: 1, elem: &elem, most: unbounded}
	return out, times(4, args[0].read())
}

// ofSets returns the bounds for a function that searches one list for each element of another list.
func ofSets(args []shape) (shape, uint64) {
	a, b := args[0], args[1]
	pairs := times(2, times(a.length, b.length))
	return scalar(), add(1, times(pairs, times(add(a.parts, b.parts), add(a.element().read(), b.element().read()))))
}

// own returns the bound for a call of one of Geobench's own functions, and adds the steps of the call.
func (w *bounds) own(f *function, args []shape) (shape, uint64) {
	i := slices.IndexFunc(f.overloads, func(o overload) bool { return len(o.args) == len(args) })
	_, steps := ofReading(args)
	// A function on lists returns at most as many elements as its longest argument has.
	for _, a := range args { // a function converts its lists to Go slices and may sort them
		steps = add(steps, times(20, times(a.length, a.parts)))
	}
	size := w.size()
	steps = add(steps, size.asking)
	longest := size.series
	for _, a := range args {
		longest = max(longest, a.length)
	}
	switch result := f.overloads[max(i, 0)].result; {
	case result.IsExactType(text):
		if f.name == "text" {
			return textOf(args[0].bytes), steps // the text of a number is no longer than the number's memory
		}
		return textOf(4096), steps
	case result.IsExactType(numberList):
		return listOf(longest, scalar()), steps
	}
	return scalar(), steps
}

// sizes holds bounds that follow from the size of the experiment.
type sizes struct {
	// series is the maximum length of a list of numbers that a function returns. asking is the maximum number of steps of
	// a function that reads points and their results.
	series, asking uint64
}

func (b *board) size() sizes {
	if b.sized != nil {
		return *b.sized
	}
	s := sizes{series: 8}
	perSystem := map[string]uint64{}
	runs := uint64(1)
	for _, p := range b.Points {
		perSystem[p.System]++
		runs = max(runs, uint64(len(p.Runs)))
		if p.manifests != nil {
			db := &p.manifests.Database.Spec
			members := times(uint64(max(1, db.PartitionsPerRegion)), uint64(max(1, db.ReplicasPerPartition)))
			s.series = max(s.series, times(uint64(len(db.Regions)), members))
		}
	}
	values := uint64(0)
	for _, p := range b.Parameters {
		values += uint64(len(p.Values))
		s.series = max(s.series, uint64(len(p.Values)))
	}
	own := uint64(0)
	for _, n := range perSystem {
		own = max(own, n)
	}
	s.series = max(s.series, own)
	s.asking = 100 + 10*values + uint64(len(b.Points))*uint64(2+2*len(b.Parameters)) + own*(50+20*runs)
	b.sized = &s
	return s
}

// countNodes returns an error for a syntax tree that is too large or has a map key that is not a literal. With computed
// keys, the type of nested maps could double in size at each level.
func countNodes(parsed *cel.Ast) error {
	nodes := 0
	var key bool
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		nodes++
		if e.Kind() == ast.MapKind {
			for _, entry := range e.AsMap().Entries() {
				key = key || entry.AsMapEntry().Key().Kind() != ast.LiteralKind
			}
		}
	}))
	switch {
	case nodes > mostNodes:
		return fmt.Errorf("has %d syntax nodes; the limit is %d: split the claim", nodes, mostNodes)
	case key:
		return fmt.Errorf("has a map key that is not a literal: keys are names of parameters, as in {'clientsPerRegion': 10}")
	}
	return nil
}
