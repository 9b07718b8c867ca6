package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Finding is a claim and the result of its evaluation.
type Finding struct {
	Experiment string `json:"experiment"`
	ID         string `json:"id"`
	Source     string `json:"source,omitempty"`
	Says       string `json:"says"`
	// Expression is the expression of the claim.
	Expression string `json:"expression,omitempty"`
	// Measured is the text of the measured values that the claim compared.
	Measured string `json:"measured"`
	Holds    bool   `json:"holds"`
	// Invalid lists the reasons of the Invalid results that the claim used. spec.allowInvalid names each of these reasons.
	Invalid []string `json:"invalid,omitempty"`
	// Error is the reason why the claim has no result, for example because a point could not run.
	Error string `json:"error,omitempty"`
}

// Answer returns "holds", "differs" or "no result".
func (f *Finding) Answer() string {
	switch {
	case f.Error != "":
		return "no result"
	case f.Holds:
		return "holds"
	}
	return "differs"
}

// Judge evaluates all claims over the results. Claims that were not evaluated when ctx is done have no result.
func (e *Experiment) Judge(ctx context.Context, r *Results) []Finding {
	var out []Finding
	b := &board{Experiment: e, results: r}
	for _, c := range e.Claims {
		f := Finding{Experiment: e.Name, ID: c.ID, Source: c.Source, Says: c.Says, Expression: c.Expression}
		if err := b.judge(ctx, &c, &f); err != nil {
			f.Holds, f.Error = false, cut(err.Error())
		}
		out = append(out, f)
	}
	return out
}

func (b *board) judge(ctx context.Context, c *v1alpha1.Claim, f *Finding) error {
	// Reset both fields: they belong to the evaluation of a single claim.
	b.unsound, b.counted = nil, nil
	defer func() { f.Invalid = b.counted }()
	var err error
	if f.Holds, f.Measured, err = b.judged(ctx, c.Expression); err != nil {
		return err
	}
	if c.Measured != "" {
		shown, _, err := b.evaluate(ctx, c.Measured)
		// Prefer the Invalid result, which may have caused err.
		if err = cmp.Or(b.unsound, err); err != nil {
			return fmt.Errorf("measured: %w", err)
		}
		f.Measured = cut(show(shown))
	}
	return nil
}

// longestText is the maximum length of the displayed form of a value, in bytes.
const longestText = 4096

// cut truncates a text to longestText.
func cut(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText-len("...")], "") + "..."
}

// claims reports claims that do not compile, exceed the limits, or refer to a system, parameter or value that the
// experiment does not have.
func (x *expansion) claims(ctx context.Context) {
	b := dryBoard(x.Experiment)
	try := func(field, id, text string, claim bool) {
		if x.ended(ctx) {
			return
		}
		if err := b.check(ctx, text, claim); err != nil {
			x.problem(field, "", "claim %s: %s", id, cut(err.Error()))
		}
		// Report only the claim that first exceeds the limit, not the claims after it.
		if x.steps += b.steps; x.steps > mostStepsTogether && x.steps-b.steps <= mostStepsTogether {
			x.problem(field, "", "claim %s: this claim and those before it may need %d steps; the limit for all claims together is %d: move some to another Experiment",
				id, x.steps, mostStepsTogether)
		}
	}
	for i, c := range x.Claims {
		if x.steps > mostStepsTogether {
			return
		}
		field := fmt.Sprintf("spec.claims[%d].", i)
		try(field+"expression", c.ID, c.Expression, true)
		if c.Measured != "" {
			try(field+"measured", c.ID, c.Measured, false)
		}
	}
}

// board implements the functions that claims call. If there are no results, every figure is 1. This suffices to find
// claims that refer to something that the experiment does not have.
type board struct {
	*Experiment
	results *Results
	// wrong is the first failed lookup. It is stored here because CEL discards the error of an operand that does not
	// affect the value of the expression.
	wrong *lookupError
	// unsound is the error for an Invalid result that the claim used although spec.allowInvalid does not permit it.
	// counted lists the reasons of the Invalid results that the claim was allowed to use.
	unsound error
	counted []string
	// view selects the substitutes for latencies of which only a lower bound is known. bounds is the number of such
	// latencies that the evaluation has encountered. bound is the largest of their lower bounds, in microseconds.
	view   view
	bounds int
	bound  int64
	// rows is set for expressions of tables, whose rows are systems.
	rows bool
	// env is the environment of the claim language; nil until the first use. sized caches the bounds that follow from the
	// experiment's size. plans caches the plans of the systems.
	env *cel.Env
	// steps is the maximum number of steps of the expression compiled last.
	steps uint64
	sized *sizes
	plans map[string]*plan.Plan
}

func dryBoard(e *Experiment) *board { return &board{Experiment: e, plans: map[string]*plan.Plan{}} }

func (b *board) note(err error) {
	if b.wrong == nil {
		errors.As(err, &b.wrong)
	}
}

// compile parses and checks an expression, and computes an upper bound on the cost of its evaluation.
func (b *board) compile(text string) (*cel.Ast, error) {
	b.steps = 0
	if b.env == nil {
		language, err := b.language()
		if err != nil {
			return nil, err
		}
		b.env = language
	}
	parsed, issues := b.env.Parse(text)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("does not compile: %s", explain(issues))
	}
	// Count the nodes before the type check, because the cost of the check grows with the size of the expression.
	if err := countNodes(parsed); err != nil {
		return nil, err
	}
	compiled, issues := b.env.Check(parsed)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("does not compile: %s", explain(issues))
	}
	var err error
	b.steps, err = b.boundsOf(compiled)
	return compiled, err
}

// explain rewrites CEL's errors as line, column and message. An unknown name is usually a misspelled function, so
// explain suggests the function with the most similar name.
func explain(issues *cel.Issues) string {
	var parts []string
	for _, e := range issues.Errors() {
		m := fmt.Sprintf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, e.Message)
		if _, rest, ok := strings.Cut(e.Message, "undeclared reference to '"); ok {
			name, _, _ := strings.Cut(rest, "'")
			m = fmt.Sprintf("line %d, column %d: nothing is called %s%s", e.Location.Line(), e.Location.Column()+1, name, nearest(name, functionNames()))
		}
		parts = append(parts, m)
	}
	return strings.Join(parts, "; ")
}

// check compiles an expression and evaluates it without results.
func (b *board) check(ctx context.Context, text string, claim bool) error {
	b.wrong = nil
	compiled, err := b.compile(text)
	if err != nil {
		return err
	}
	// An expression of dynamic type may yield a boolean, so accept it.
	if t := compiled.OutputType(); claim && !t.IsExactType(types.BoolType) && !t.IsExactType(types.DynType) {
		return fmt.Errorf("is of type %s: a claim must be true or false, for example max(tput('a')) <= 1.1 * min(tput('a'))", t)
	}
	if err := b.checkLiterals(compiled); err != nil {
		return err
	}
	// Without results every figure is 1, so most evaluation errors say nothing about the claim itself. Return only failed
	// lookups and indexes out of bounds, because they would also occur with results.
	if _, _, err = b.run(ctx, compiled); b.wrong != nil {
		return b.wrong
	}
	if err != nil && strings.Contains(err.Error(), "index out of bounds") {
		return err
	}
	return nil
}

// checkLiterals checks the literal arguments of every call in the expression. The trial evaluation in check would miss
// calls that it does not reach.
func (b *board) checkLiterals(compiled *cel.Ast) (wrong error) {
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || wrong != nil {
			return
		}
		f := functionNamed(e.AsCall().FunctionName())
		if f == nil || f.check == nil {
			return
		}
		wrong = f.check(b, e.AsCall().Args())
	}))
	return wrong
}

// CallCost implements interpreter.ActualCostEstimator. Geobench's functions visit all points and all elements of their
// list arguments, which determines their cost.
func (b *board) CallCost(name, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if functionNamed(name) == nil {
		return nil // use CEL's estimate
	}
	cost := uint64(len(b.Points)) + 1
	for _, v := range args {
		if l, ok := v.(traits.Lister); ok {
			cost += uint64(l.Size().(types.Int))
		}
	}
	return &cost
}

// interruptEvery is the number of loop iterations between two checks of the context.
const interruptEvery = 64

// options returns the options of CEL programs. compile already limits the cost of an expression; the limit here is a
// second line of defense, in case compile underestimates the cost.
func (b *board) options() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CostTracking(b), cel.CostLimit(4 * mostSteps), cel.InterruptCheckFrequency(interruptEvery)}
}

// evaluate returns the value of an expression, and a text that shows both operands of each comparison in it.
func (b *board) evaluate(ctx context.Context, text string) (ref.Val, string, error) {
	compiled, err := b.compile(text)
	if err != nil {
		return nil, "", err
	}
	return b.run(ctx, compiled)
}

// run evaluates a compiled expression.
func (b *board) run(ctx context.Context, compiled *cel.Ast) (ref.Val, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	// Evaluate exhaustively, so that both operands of every comparison are known even if one operand of && or || decides
	// the result.
	program, err := b.env.Program(compiled, append(b.options(), cel.EvalOptions(cel.OptTrackState, cel.OptExhaustiveEval))...)
	if err != nil {
		return nil, "", err
	}
	value, details, err := program.ContextEval(ctx, map[string]any{"systems": b.Systems})
	if err != nil {
		return nil, "", err
	}
	var sides []string
	var collect func(ast.Expr)
	collect = func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		c := e.AsCall()
		op, isOperator := operators.FindReverse(c.FunctionName())
		switch c.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
			for _, a := range c.Args() {
				collect(a)
			}
		case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.Equals, operators.NotEquals:
			l, okL := details.State().Value(c.Args()[0].ID())
			r, okR := details.State().Value(c.Args()[1].ID())
			// CEL does not track the values of literals, so take them from the syntax tree.
			if !okL && c.Args()[0].Kind() == ast.LiteralKind {
				l, okL = c.Args()[0].AsLiteral(), true
			}
			if !okR && c.Args()[1].Kind() == ast.LiteralKind {
				r, okR = c.Args()[1].AsLiteral(), true
			}
			if isOperator && okL && okR {
				sides = append(sides, show(l)+" "+op+" "+show(r))
			}
		}
	}
	collect(compiled.NativeRep().Expr())
	return value, cut(strings.Join(sides, "; ")), nil
}

// lookupError is the error of a claim that refers to something that the experiment does not have.
type lookupError struct{ message string }

func (e *lookupError) Error() string { return e.message }

func lookupf(format string, args ...any) error { return &lookupError{fmt.Sprintf(format, args...)} }

func (b *board) system(name string) error {
	if !slices.Contains(b.Systems, name) {
		return lookupf("no system is called %s%s", name, nearest(name, b.Systems))
	}
	return nil
}

func (b *board) parameter(name string) (int, error) {
	var names []string
	for i, p := range b.Parameters {
		if p.Name == name || p.Path == name {
			return i, nil
		}
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return 0, lookupf("the experiment sweeps nothing, and so not %s", name)
	}
	return 0, lookupf("the experiment does not sweep %s%s", name, nearest(name, names))
}

// value returns the text of the parameter's swept value that equals v.
func (b *board) value(parameter int, v any) (string, error) {
	text := fmt.Sprint(v)
	p := b.Parameters[parameter]
	var known []string
	for _, have := range p.Values {
		if have.String() == text {
			return text, nil
		}
		known = append(known, have.String())
	}
	return "", lookupf("%s does not take the value %s: its values are %s", p.Name, text, listed(known))
}

// where parses the argument with which a claim fixes parameters. It is a single value if the experiment has one
// parameter, or else a map from names to values. The result contains, for each parameter, the text of its value, or ""
// if the parameter is not fixed.
func (b *board) where(at any) ([]string, error) {
	fixed := make([]string, len(b.Parameters))
	m, isMap := at.(map[string]any)
	if !isMap {
		if at == nil {
			return fixed, nil
		}
		if len(b.Parameters) != 1 {
			return nil, lookupf("the value %v stands alone, but the experiment sweeps %d parameters: name them, as {'%s': %v}",
				at, len(b.Parameters), exampleName(b.Parameters), at)
		}
		text, err := b.value(0, at)
		return []string{text}, err
	}
	for _, name := range keys(m) {
		i, err := b.parameter(name)
		if err != nil {
			return nil, err
		}
		if fixed[i], err = b.value(i, m[name]); err != nil {
			return nil, err
		}
	}
	return fixed, nil
}

func exampleName(ps []Parameter) string {
	if len(ps) == 0 {
		return "parameter"
	}
	return ps[0].Name
}

// points returns the points of a system that match the fixed values, in sweep order.
func (b *board) points(system string, fixed []string) []*Point {
	var out []*Point
	for _, p := range b.Points {
		match := p.System == system
		for i, v := range fixed {
			match = match && (v == "" || p.Values[i].String() == v)
		}
		if match {
			out = append(out, p)
		}
	}
	return out
}

// query is a request for a figure by a function of a claim.
type query struct {
	metric *metric
	scope  scope
	system string
	at     any
	// width requests the half-width of the confidence interval in place of the figure.
	width bool
	// figure is the kind of the metric if engines declare the metric, and 0 otherwise. An engine may lack the metric.
	figure protocol.Kind
	// reason is the abort reason that the metric counts; nil for other metrics.
	reason *string
}

// series returns a figure at each point that a query matches.
func (b *board) series(q query) ([]float64, error) {
	if err := b.system(q.system); err != nil {
		return nil, err
	}
	fixed, err := b.where(q.at)
	if err != nil {
		return nil, err
	}
	if q.scope.region != "" {
		if regions := b.regions(q.system); !slices.Contains(regions, q.scope.region) {
			return nil, lookupf("no region of %s is called %s%s", q.system, q.scope.region, nearest(q.scope.region, regions))
		}
	}
	if q.scope.typ != "" {
		if q.metric.typed == nil {
			return nil, lookupf("%s is not told by type of transaction%s", q.metric.name, nearest(q.metric.name, typedNames()))
		}
		if types := b.types(q.system); !slices.Contains(types, q.scope.typ) {
			return nil, lookupf("no transaction of %s is of type %s%s", q.system, q.scope.typ, nearest(q.scope.typ, types))
		}
	}
	var out []float64
	for _, p := range b.points(q.system, fixed) {
		if q.reason != nil {
			if err := p.aborts(*q.reason); err != nil {
				return nil, err
			}
		}
		if q.figure != 0 {
			if err := p.declares(q.metric.name, q.figure); err != nil {
				return nil, err
			}
		}
		// Without results, check only the manifests: figures of faults exist only for runs with faults.
		if b.results == nil {
			if q.metric.ofFaults && len(p.manifests.Run.Spec.Faults) == 0 {
				return nil, withoutFaults(q.metric, p.Label)
			}
			out = append(out, 1)
			continue
		}
		// Check soundness before the figure. If an Invalid result lacks the figure, the error about the result is more
		// useful.
		if err := b.sound(p); err != nil {
			return nil, err
		}
		if q.figure != 0 {
			if err := b.results.reports(p, q.metric.name, q.figure); err != nil {
				return nil, err
			}
		}
		f, err := b.seen(p, q)
		if err != nil {
			return nil, err
		}
		if q.width {
			// If a latency is known only as a lower bound, its confidence interval is unknown in every view.
			if len(p.Runs) < 2 || math.IsInf(f.Median, 1) || b.view != infinite {
				return nil, fmt.Errorf("the confidence interval of %s of %s is not known: it takes two repetitions or more, and latencies that were observed (spec.repetitions)", q.metric.name, p.Label)
			}
			f.Median = f.HalfWidth
		}
		out = append(out, f.Median)
	}
	return out, nil
}

// one returns the figure at the point that a query matches, or an error if it does not match exactly one point.
func (b *board) one(q query) (float64, error) {
	all, err := b.series(q)
	if err != nil {
		return 0, err
	}
	if len(all) != 1 {
		return 0, lookupf("%s of %s%s: fix all of %s, or ask for series('%s', '%s', ...)",
			q.metric.name, q.system, b.notOne(q.at, len(all)), b.swept(), q.metric.name, q.system)
	}
	if q.scope.typ != "" {
		fixed, err := b.where(q.at)
		if err != nil {
			return 0, err
		}
		p := b.points(q.system, fixed)[0]
		if why := catalog.Never(p.manifests.Run.Spec.Workload, q.scope.typ); why != "" {
			return 0, lookupf("no transaction of type %s runs at %s: %s", q.scope.typ, p.Label, why)
		}
	}
	return all[0], nil
}

// notOne returns the end of an error message for a function that requires a single point. It states the fixed
// parameters and the number of matching points.
func (b *board) notOne(at any, points int) string {
	if at == nil {
		return fmt.Sprintf(" is %d points, not one", points)
	}
	return fmt.Sprintf(" at %s is %d points, not one", show(types.DefaultTypeAdapter.NativeToValue(at)), points)
}

// swept returns the names of all parameters, separated by commas.
func (b *board) swept() string {
	var names []string
	for _, p := range b.Parameters {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func (b *board) regions(system string) []string {
	for _, p := range b.Points {
		if p.System == system {
			return p.manifests.Database.Spec.RegionNames()
		}
	}
	return nil
}

// numbers returns the values of a parameter as numbers; durations are in milliseconds.
func (b *board) numbers(name string) ([]float64, error) {
	i, err := b.parameter(name)
	if err != nil {
		return nil, err
	}
	return b.Parameters[i].numbers()
}

func (p *Parameter) numbers() ([]float64, error) {
	var out []float64
	for _, v := range p.Values {
		text := v.String()
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			out = append(out, n)
		} else if d, err := time.ParseDuration(text); err == nil {
			out = append(out, float64(d)/float64(time.Millisecond))
		} else {
			return nil, lookupf("the value %s of %s is neither a number nor a duration", text, p.Name)
		}
	}
	return out, nil
}

// show formats a value for Finding.Measured.
func show(v ref.Val) string {
	switch v := v.(type) {
	case types.Double:
		return FormatNumber(float64(v))
	case types.String:
		return string(v)
	case traits.Lister:
		var parts []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, show(it.Next()))
		}
		return strings.Join(parts, ", ")
	case traits.Mapper:
		var parts []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			parts = append(parts, show(k)+": "+show(v.Get(k)))
		}
		// Sort, because CEL maps have no order.
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v.Value())
}

// FormatNumber formats a figure with at most four significant digits if it is below 1000, and as an integer otherwise.
func FormatNumber(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "none"
	case math.IsInf(v, 0):
		return "infinite"
	case a >= 1000 || v == math.Trunc(v):
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	case a >= 0.001:
		digits := 3 - int(math.Floor(math.Log10(a)))
		return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', digits, 64), "0"), ".")
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// language returns the claim language for this experiment.
func (b *board) language() (*cel.Env, error) {
	// Exclude CEL's function bytes, which converts text to bytes, because one of Geobench's metrics has the same name.
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction("bytes")))),
		cel.Variable("systems", cel.ListType(cel.StringType)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		ext.Strings(), ext.Lists(), ext.Math(), ext.Sets(), ext.Bindings(),
	}
	for i := range functions {
		options = append(options, functions[i].declare(b))
	}
	if b.rows {
		options = append(options, cel.Variable("system", cel.StringType))
	}
	return cel.NewCustomEnv(options...)
}
