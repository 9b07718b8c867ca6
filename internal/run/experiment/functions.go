package experiment

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// function is a function that claims can call.
type function struct {
	name      string
	overloads []overload
	// check validates the literal arguments of a call before the evaluation. It may be nil.
	check func(b *board, args []ast.Expr) error
}

type overload struct {
	id     string
	args   []*cel.Type
	result *cel.Type
	call   func(b *board, args []ref.Val) (any, error)
}

func (f *function) declare(b *board) cel.EnvOption {
	var options []cel.FunctionOpt
	for _, o := range f.overloads {
		options = append(options, cel.Overload(o.id, o.args, o.result, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			v, err := o.call(b, args)
			// Comparisons with NaN are false, so the claim would seem to be refuted. Return an error instead.
			if err == nil && (undefined(v) || slices.ContainsFunc(args, func(a ref.Val) bool { return undefined(a.Value()) })) {
				err = fmt.Errorf("%s has no value: nothing is divided by nothing, or an infinite latency by another", f.name)
			}
			if err != nil {
				// Record the error here: CEL drops it if the operand does not affect the value of the expression.
				b.note(err)
				return types.WrapErr(err)
			}
			return types.DefaultTypeAdapter.NativeToValue(v)
		})))
	}
	return cel.Function(f.name, options...)
}

// undefined reports whether a value is NaN or a list that contains NaN.
func undefined(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.IsNaN(v)
	case []float64:
		return slices.ContainsFunc(v, math.IsNaN)
	}
	return false
}

var (
	numberList = cel.ListType(cel.DoubleType)
	text       = cel.StringType
	number     = cel.DoubleType
)

var functions = slices.Concat(figureFunctions(), nodeFunctions(), listFunctions(), promiseFunctions())

func functionNames() []string {
	names := []string{"systems", "system"}
	for _, f := range functions {
		names = append(names, f.name)
	}
	return names
}

func functionNamed(name string) *function {
	for i := range functions {
		if functions[i].name == name {
			return &functions[i]
		}
	}
	return nil
}

// figureFunctions returns the functions for figures. Each metric has a function over all regions (tput). Depending on
// the metric, there are also functions for a region (tputIn), for a transaction type (tputOf), and for both (tputOfIn).
// The remaining functions are series, seriesOf, ci, ciOf, counter, gauge, abortedFor, realised, configured and values.
func figureFunctions() []function {
	var out []function
	for i := range metrics {
		m := &metrics[i]
		out = append(out, askFor(m.name, func(args []ref.Val) (query, error) {
			return query{metric: m, system: str(args[0]), at: optional(args, 1)}, nil
		}, text))
		if m.in != nil {
			out = append(out, askFor(m.name+"In", func(args []ref.Val) (query, error) {
				return query{metric: m, scope: scope{region: str(args[0])}, system: str(args[1]), at: optional(args, 2)}, nil
			}, text, text))
		}
		if m.typed != nil {
			out = append(out,
				askFor(m.name+"Of", func(args []ref.Val) (query, error) {
					return query{metric: m, scope: scope{typ: str(args[0])}, system: str(args[1]), at: optional(args, 2)}, nil
				}, text, text),
				askFor(m.name+"OfIn", func(args []ref.Val) (query, error) {
					return query{metric: m, scope: scope{typ: str(args[0]), region: str(args[1])}, system: str(args[2]), at: optional(args, 3)}, nil
				}, text, text, text))
		}
	}
	named := func(width bool) func([]ref.Val) (query, error) {
		return func(args []ref.Val) (query, error) {
			m, err := metricNamed(str(args[0]))
			if err != nil {
				return query{}, &lookupError{err.Error()}
			}
			return query{metric: m, system: str(args[1]), at: optional(args, 2), width: width}, nil
		}
	}
	namedOf := func(width bool) func([]ref.Val) (query, error) {
		return func(args []ref.Val) (query, error) {
			// The transaction type is the second argument; named expects the arguments without the type.
			q, err := named(width)(append([]ref.Val{args[0]}, args[2:]...))
			q.scope.typ = str(args[1])
			return q, err
		}
	}
	counter := askFor("counter", func(args []ref.Val) (query, error) {
		return query{metric: counterNamed(str(args[0])), figure: protocol.Counter, system: str(args[1]), at: optional(args, 2)}, nil
	}, text, text)
	gauge := askFor("gauge", func(args []ref.Val) (query, error) {
		return query{metric: gaugeNamed(str(args[0])), figure: protocol.Gauge, system: str(args[1]), at: optional(args, 2)}, nil
	}, text, text)
	aborted := askFor("abortedFor", func(args []ref.Val) (query, error) {
		return query{metric: abortedFor(str(args[0])), reason: new(str(args[0])), system: str(args[1]),
			at: optional(args, 2)}, nil
	}, text, text)
	for _, name := range []string{"realised", "configured"} {
		out = append(out, askFor(name, func(args []ref.Val) (query, error) {
			return query{metric: shareNamed(str(args[0]), str(args[1]), name == "configured"), system: str(args[2]), at: optional(args, 3)}, nil
		}, text, text, text))
	}
	out = append(out, askFor("ci", named(true), text, text), askFor("ciOf", namedOf(true), text, text, text),
		askForSeries("series", named(false), text, text), askForSeries("seriesOf", namedOf(false), text, text, text))
	values := function{name: "values", overloads: []overload{{"values_string", []*cel.Type{text}, numberList,
		func(b *board, args []ref.Val) (any, error) { return b.numbers(str(args[0])) }}}}
	values.check = checkLiterals(values.overloads)
	return append(out, counter, gauge, aborted, values)
}

// askForSeries returns a function that yields a list: over the whole sweep or, with one more argument, over the points
// that this argument selects.
func askForSeries(name string, ask func([]ref.Val) (query, error), args ...*cel.Type) function {
	f := askFor(name, ask, args...)
	f.overloads[1].result = numberList
	f.overloads[1].call = f.overloads[0].call
	f.check = checkLiterals(f.overloads)
	return f
}

// askFor returns a function that yields a list over the whole sweep. With one more argument, the function yields the
// number at the point which this argument selects.
func askFor(name string, ask func([]ref.Val) (query, error), args ...*cel.Type) function {
	f := function{name: name, overloads: []overload{
		{name + "_sweep", args, numberList, func(b *board, args []ref.Val) (any, error) {
			q, err := ask(args)
			if err != nil {
				return nil, err
			}
			return b.series(q)
		}},
		{name + "_at", append(slices.Clone(args), cel.DynType), number, func(b *board, args []ref.Val) (any, error) {
			q, err := ask(args)
			if err != nil {
				return nil, err
			}
			return b.one(q)
		}},
	}}
	f.check = checkLiterals(f.overloads)
	return f
}

// checkLiterals returns a check that calls the function without results, provided that all arguments are literals.
func checkLiterals(overloads []overload) func(*board, []ast.Expr) error {
	return func(b *board, args []ast.Expr) error {
		// Use a separate board without results, so that the trial call does not change the state of b.
		dry := &board{Experiment: b.Experiment, plans: b.plans}
		var values []ref.Val
		for _, a := range args {
			v, ok := literal(a)
			if !ok {
				// A computed argument cannot be checked before the evaluation.
				return nil
			}
			values = append(values, v)
		}
		for _, o := range overloads {
			// The overloads of a function differ in their number of arguments.
			if len(o.args) == len(values) {
				_, err := o.call(dry, values)
				return err
			}
		}
		return nil
	}
}

// literal returns the value of an expression that is a literal or a map of literals.
func literal(e ast.Expr) (ref.Val, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		return e.AsLiteral(), true
	case ast.MapKind:
		m := map[ref.Val]ref.Val{}
		for _, entry := range e.AsMap().Entries() {
			k, okK := literal(entry.AsMapEntry().Key())
			v, okV := literal(entry.AsMapEntry().Value())
			if !okK || !okV {
				return nil, false
			}
			m[k] = v
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, m), true
	}
	return nil, false
}

// promiseFunctions returns the functions that return the guarantees of systems, such as the isolation level.
func promiseFunctions() []function {
	about := func(name string, of func(*plan.Plan) string) function {
		f := function{name: name, overloads: []overload{{name + "_system", []*cel.Type{text}, text, func(b *board, args []ref.Val) (any, error) {
			p, err := b.plan(str(args[0]))
			if err != nil {
				return nil, err
			}
			return of(p), nil
		}}}}
		f.check = checkLiterals(f.overloads)
		return f
	}
	return []function{
		about("isolation", func(p *plan.Plan) string { return p.Engine.Promises(p.Params).String() }),
		about("survives", func(p *plan.Plan) string { return p.Engine.Tolerance(&p.Topology, p.Params).Describe(&p.Topology) }),
	}
}

func str(v ref.Val) string { s, _ := v.Value().(string); return s }

// optional returns the i-th argument as a plain Go value, or nil if it is absent.
func optional(args []ref.Val, i int) any {
	if i >= len(args) {
		return nil
	}
	if m, err := args[i].ConvertToNative(reflect.TypeFor[map[string]any]()); err == nil {
		plain := m.(map[string]any)
		// The values of a CEL map may still be CEL values, but board.where needs plain values.
		for k, v := range plain {
			if r, ok := v.(ref.Val); ok {
				plain[k] = r.Value()
			}
		}
		return plain
	}
	return args[i].Value()
}

// floats converts a list of numbers.
func floats(v ref.Val) ([]float64, error) {
	list, err := v.ConvertToNative(reflect.TypeFor[[]float64]())
	if err != nil {
		return nil, err
	}
	return list.([]float64), nil
}

// listFunctions returns the functions on lists of numbers.
func listFunctions() []function {
	overList := func(name string, of func([]float64) float64) overload {
		return overload{name + "_list", []*cel.Type{numberList}, number, func(_ *board, args []ref.Val) (any, error) {
			list, err := floats(args[0])
			if err != nil {
				return nil, err
			}
			// Check for an empty list, because slices.Min and slices.Max would panic.
			if len(list) == 0 {
				return nil, fmt.Errorf("%s of an empty list", name)
			}
			return of(list), nil
		}}
	}
	ofTwo := func(name string, of func(a, b float64) float64) overload {
		return overload{name + "_two", []*cel.Type{number, number}, number, func(_ *board, args []ref.Val) (any, error) {
			return of(args[0].Value().(float64), args[1].Value().(float64)), nil
		}}
	}
	least := func(l []float64) float64 { return slices.Min(l) }
	greatest := func(l []float64) float64 { return slices.Max(l) }
	sum := func(l []float64) (s float64) {
		for _, v := range l {
			s += v
		}
		return s
	}
	monotone := func(name string, ok func(before, now, tolerance float64) bool) function {
		test := func(list []float64, tolerance float64) bool {
			for i := 1; i < len(list); i++ {
				if !ok(list[i-1], list[i], tolerance) {
					return false
				}
			}
			return true
		}
		return function{name: name, overloads: []overload{
			{name + "_list", []*cel.Type{numberList}, cel.BoolType, func(_ *board, args []ref.Val) (any, error) {
				list, err := floats(args[0])
				return test(list, 0), err
			}},
			{name + "_tolerance", []*cel.Type{numberList, number}, cel.BoolType, func(_ *board, args []ref.Val) (any, error) {
				list, err := floats(args[0])
				return test(list, args[1].Value().(float64)), err
			}},
		}}
	}
	return []function{
		{name: "text", overloads: []overload{{"text_any", []*cel.Type{cel.DynType}, text, func(_ *board, args []ref.Val) (any, error) {
			return show(args[0]), nil
		}}}},
		{name: "min", overloads: []overload{overList("min", least), ofTwo("min", math.Min)}},
		{name: "max", overloads: []overload{overList("max", greatest), ofTwo("max", math.Max)}},
		{name: "avg", overloads: []overload{overList("avg", func(l []float64) float64 { return sum(l) / float64(len(l)) })}},
		{name: "median", overloads: []overload{overList("median", func(l []float64) float64 { return summarise(l).Median })}},
		{name: "spread", overloads: []overload{overList("spread", func(l []float64) float64 { return greatest(l) / least(l) })}},
		{name: "box", overloads: []overload{{"box_list", []*cel.Type{numberList}, numberList, func(_ *board, args []ref.Val) (any, error) {
			list, err := floats(args[0])
			if err == nil && len(list) == 0 {
				err = fmt.Errorf("box of an empty list")
			}
			return result.Quartiles(list), err
		}}}},
		{name: "ratio", overloads: []overload{
			ofTwo("ratio", func(a, b float64) float64 { return a / b }),
			{"ratio_lists", []*cel.Type{numberList, numberList}, numberList, func(_ *board, args []ref.Val) (any, error) {
				both, err := lists(args)
				if err != nil {
					return nil, err
				}
				a, b := both[0], both[1]
				if len(a) != len(b) {
					return nil, fmt.Errorf("ratio of lists of %d and %d numbers: they must be of the same points", len(a), len(b))
				}
				for i := range a {
					a[i] /= b[i]
				}
				return a, nil
			}},
		}},
		{name: "share", overloads: []overload{{"share_list", []*cel.Type{cel.ListType(cel.BoolType)}, number, func(_ *board, args []ref.Val) (any, error) {
			native, err := args[0].ConvertToNative(reflect.TypeFor[[]bool]())
			if err != nil {
				return nil, err
			}
			list := native.([]bool)
			n := 0
			for _, v := range list {
				if v {
					n++
				}
			}
			if len(list) == 0 {
				return nil, fmt.Errorf("share of an empty list")
			}
			return float64(n) / float64(len(list)), nil
		}}}},
		// The tolerance is relative to the previous value.
		monotone("grows", func(before, now, tolerance float64) bool { return now >= before*(1-tolerance) }),
		monotone("falls", func(before, now, tolerance float64) bool { return now <= before*(1+tolerance) }),
		{name: "crossing", overloads: []overload{{"crossing_lists", []*cel.Type{numberList, numberList, numberList}, number,
			func(_ *board, args []ref.Val) (any, error) {
				all, err := lists(args)
				if err != nil {
					return nil, err
				}
				for _, list := range all {
					if len(list) != len(all[0]) {
						return nil, fmt.Errorf("crossing of lists of %d and %d numbers: they must be of the same points", len(all[0]), len(list))
					}
				}
				return crossing(all[0], all[1], all[2]), nil
			}}}},
		{name: "scalability", overloads: []overload{{"scalability_lists", []*cel.Type{numberList, numberList}, numberList,
			func(_ *board, args []ref.Val) (any, error) {
				both, err := lists(args)
				if err != nil {
					return nil, err
				}
				return scalability(both[0], both[1])
			}}}},
	}
}

// lists converts arguments to lists of numbers.
func lists(args []ref.Val) ([][]float64, error) {
	all := make([][]float64, len(args))
	for i, arg := range args {
		var err error
		if all[i], err = floats(arg); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// scalability returns the scalability score of Dike (Qu et al., 4.4, equation 3) for each step from one cluster size to
// the next. The score is 1 - |TPS2/N2 - TPS1/N1| / (TPS2/N2), where N1 < N2. It is 1 if the throughput per node is
// constant; it has no lower bound. The unit of the sizes is irrelevant, because only their ratio affects the score.
func scalability(throughputs, nodes []float64) ([]float64, error) {
	if len(throughputs) != len(nodes) {
		return nil, fmt.Errorf("scalability of %d throughputs and %d sizes: they must be of the same points", len(throughputs), len(nodes))
	}
	if len(nodes) < 2 {
		return nil, fmt.Errorf("scalability of %d cluster sizes: two at least are compared", len(nodes))
	}
	// The negated comparisons also reject NaN.
	if !(nodes[0] > 0) {
		return nil, fmt.Errorf("scalability: size %g is not greater than 0", nodes[0])
	}
	scores := make([]float64, 0, len(nodes)-1)
	for i := 1; i < len(nodes); i++ {
		if !(nodes[i] > nodes[i-1]) {
			return nil, fmt.Errorf("scalability: size %g follows %g; sizes must grow", nodes[i], nodes[i-1])
		}
		if !(throughputs[i] > 0) {
			return nil, fmt.Errorf("scalability: size %g has no throughput to compare with", nodes[i])
		}
		before, now := throughputs[i-1]/nodes[i-1], throughputs[i]/nodes[i]
		scores = append(scores, 1-math.Abs(now-before)/now)
	}
	return scores, nil
}

// crossing returns the first x at which a rises to b from below, with linear interpolation between the points. It
// returns infinity if there is no such x.
func crossing(x, a, b []float64) float64 {
	for i := 1; i < len(x); i++ {
		before, now := a[i-1]-b[i-1], a[i]-b[i]
		if before < 0 && now >= 0 {
			// Interpolate the difference a - b, which is before at x[i-1] and now at x[i].
			return x[i-1] + (x[i]-x[i-1])*before/(before-now)
		}
	}
	return math.Inf(1)
}
