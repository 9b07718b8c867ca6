package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/geobench/geobench/internal/bench/result"
)

// nodeFigure is a figure that each node of a database has. Box plots of operations and dataBytes show how evenly data
// and work are distributed over the nodes, which Dike calls schedulability (Qu et al., 4.4).
type nodeFigure struct {
	name, title, unit string
	of                func(*result.Node) int64
	// counted is set if the figure accumulates during the run. Otherwise it is read at the end of the run.
	counted bool
}

var nodeFigures = []nodeFigure{
	{"operations", "operations on keys per node", "operations during the run", func(n *result.Node) int64 { return n.Operations }, true},
	{"dataBytes", "data per node", "bytes", func(n *result.Node) int64 { return n.DataBytes }, false},
	{"rows", "rows per node", "rows", func(n *result.Node) int64 { return n.Rows }, false},
}

func nodeFigureNamed(name string) (*nodeFigure, error) {
	var names []string
	for i := range nodeFigures {
		if nodeFigures[i].name == name {
			return &nodeFigures[i], nil
		}
		names = append(names, nodeFigures[i].name)
	}
	return nil, lookupf("nodes have no figure %s%s", name, nearest(name, names))
}

// ofNodes returns a figure of each node at a point, in node order, as the median over the repetitions.
func (r *Results) ofNodes(p *Point, f *nodeFigure) ([]float64, error) {
	if len(p.Runs) == 0 {
		return nil, errors.New(p.missing)
	}
	var values [][]float64 // by node, then by repetition
	for _, run := range p.Runs {
		d, err := r.Document(run)
		if err != nil {
			return nil, err
		}
		if len(d.Nodes) == 0 {
			return nil, fmt.Errorf("%s of nodes of %s: %s tells nothing of its nodes; engines of Geobench's own do", f.name, p.Label, d.Engine)
		}
		// If some activity was not counted, an accumulated figure is too low.
		if why := d.LeastFigures(); f.counted && why != "" {
			return nil, fmt.Errorf("%s of nodes of %s: %s", f.name, p.Label, why)
		}
		if values == nil {
			values = make([][]float64, len(d.Nodes))
		}
		if len(d.Nodes) != len(values) {
			return nil, fmt.Errorf("%s of nodes of %s: its repetitions have %d and %d nodes", f.name, p.Label, len(values), len(d.Nodes))
		}
		for i := range d.Nodes {
			values[i] = append(values[i], float64(f.of(&d.Nodes[i])))
		}
	}
	out := make([]float64, len(values))
	for i := range values {
		out[i] = summarise(values[i]).Median
	}
	return out, nil
}

// nodes returns a figure of each node at the single point that a query matches.
func (b *board) nodes(name, system string, at any) ([]float64, error) {
	f, err := nodeFigureNamed(name)
	if err != nil {
		return nil, err
	}
	if err := b.system(system); err != nil {
		return nil, err
	}
	fixed, err := b.where(at)
	if err != nil {
		return nil, err
	}
	points := b.points(system, fixed)
	if len(points) != 1 {
		return nil, lookupf("%s of nodes of %s%s: fix all of %s", name, system, b.notOne(at, len(points)), b.swept())
	}
	if b.results == nil {
		db := &points[0].manifests.Database.Spec
		return slices.Repeat([]float64{1}, len(db.Regions)*int(db.PartitionsPerRegion)*int(db.ReplicasPerPartition)), nil
	}
	if err := b.sound(points[0]); err != nil {
		return nil, err
	}
	return b.results.ofNodes(points[0], f)
}

// nodeFunctions returns the functions for figures of nodes.
func nodeFunctions() []function {
	of := function{name: ofNodesName, overloads: []overload{
		{ofNodesName + "_only", []*cel.Type{text, text}, numberList, func(b *board, args []ref.Val) (any, error) {
			return b.nodes(str(args[0]), str(args[1]), nil)
		}},
		{ofNodesName + "_at", []*cel.Type{text, text, cel.DynType}, numberList, func(b *board, args []ref.Val) (any, error) {
			return b.nodes(str(args[0]), str(args[1]), optional(args, 2))
		}},
	}}
	of.check = checkLiterals(of.overloads)
	return []function{of}
}

const ofNodesName = "ofNodes"

// Nodes holds a node figure at each point, for box plots.
type Nodes struct {
	// Figure is the name of the figure in claims. Title and Unit are defined as in Curves.
	Figure, Title, Unit string
	Points              []NodesPoint
}

// NodesPoint holds the figures of all nodes at one point.
type NodesPoint struct {
	// System is the system of the point. Label contains the point's parameter values.
	System, Label string
	// Values contains the figure of each node, in node order, as the median over the repetitions.
	Values []float64
}

// Nodes returns the node figures that claims use. It omits points that could not run, and points whose database does
// not report figures of its nodes.
func (e *Experiment) Nodes(r *Results) (out []Nodes) {
	asked := e.askedOfNodes()
	for i := range nodeFigures {
		f := &nodeFigures[i]
		if !asked[f.name] {
			continue
		}
		n := Nodes{Figure: f.name, Title: e.title(f.title, r), Unit: f.unit}
		for _, p := range e.Points {
			if values, err := r.ofNodes(p, f); err == nil {
				n.Points = append(n.Points, NodesPoint{System: p.System, Label: p.swept(), Values: values})
			}
		}
		if len(n.Points) > 0 {
			out = append(out, n)
		}
	}
	return out
}

// askedOfNodes returns the names of the node figures that the claims use.
func (e *Experiment) askedOfNodes() map[string]bool {
	b, asked := &board{Experiment: e}, map[string]bool{}
	for i := range e.Claims {
		for _, expression := range []string{e.Claims[i].Expression, e.Claims[i].Measured} {
			// Most expressions do not use the function. This search avoids compiling them, which takes longer.
			if !strings.Contains(expression, ofNodesName) {
				continue
			}
			compiled, err := b.compile(expression)
			if err != nil {
				continue // the evaluation of the claim reports the error
			}
			ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(x ast.Expr) {
				if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != ofNodesName {
					return
				}
				if name, ok := literal(x.AsCall().Args()[0]); ok {
					if s, ok := name.(types.String); ok {
						asked[string(s)] = true
					}
				}
			}))
		}
	}
	return asked
}
