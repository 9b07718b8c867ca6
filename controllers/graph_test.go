package controllers_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayUse lists all permitted dependencies between packages of controllers: each key is a package, and its value lists
// the packages that it may call.
var mayUse = map[string][]string{
	"controllers": {"operatorca", "chaosaudit", "database", "background", "experiment", "podclient", "run"},
	"run":         {"operatorca", "chaosaudit", "database", "background", "faultstatus", "kube", "podclient", "results"},
	"database":    {"operatorca", "faultstatus", "kube", "podclient"},
	"experiment":  {"background", "kube", "results"},
	"background":  {},
	"chaosaudit":  {},
	"faultstatus": {"kube"},
	"podclient":   {"operatorca"},
	"operatorca":  {"kube"},
	"kube":        {},
	"results":     {},
}

// TestGraph collects the imports between packages of controllers, and the callbacks that setup.go passes between them.
// Both must go in one direction: code of package database calls no code of package run, by import or by callback.
func TestGraph(t *testing.T) {
	edges := imports(t)
	for from, to := range handed(t, "setup.go") {
		edges[from] = append(edges[from], to...)
	}
	arrows := 0
	for _, from := range slices.Sorted(maps.Keys(edges)) {
		to := slices.Compact(slices.Sorted(slices.Values(edges[from])))
		to = slices.DeleteFunc(to, func(name string) bool { return name == from })
		arrows += len(to)
		t.Logf("%s -> %s", from, strings.Join(to, ", "))
		allowed, ok := mayUse[from]
		if !ok {
			t.Errorf("package %s is not in the list of this test: say there what it may use", from)
		}
		for _, name := range to {
			if !slices.Contains(allowed, name) {
				t.Errorf("package %s uses %s, which is not among %v", from, name, allowed)
			}
		}
		for _, name := range allowed {
			if !slices.Contains(to, name) {
				t.Errorf("package %s does not use %s: take it off the list of this test", from, name)
			}
		}
	}
	t.Logf("%d packages, %d arrows", len(edges), arrows)
	for name := range mayUse {
		if circle := circleFrom(name, nil); circle != nil {
			t.Errorf("the list of this test goes round in a circle: %s", strings.Join(circle, " -> "))
		}
	}
}

// circleFrom follows dependencies from a package. It returns a path that reaches a package for the second time, or nil.
func circleFrom(name string, way []string) []string {
	if slices.Contains(way, name) {
		return append(way, name)
	}
	way = append(slices.Clip(way), name)
	for _, next := range mayUse[name] {
		if circle := circleFrom(next, way); circle != nil {
			return circle
		}
	}
	return nil
}

// imports returns, for each package of controllers, the packages of controllers that it imports.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "-tags", "full", "./...")
	list.Env = append(list.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	const root = "github.com/geobench/geobench/controllers"
	short := func(path string) (string, bool) {
		rest, ok := strings.CutPrefix(path, root)
		if rest == "" {
			rest = "/controllers"
		}
		return strings.TrimPrefix(rest, "/"), ok
	}
	edges := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		from, ok := short(paths[0])
		if !ok {
			t.Fatalf("go list names %s", paths[0])
		}
		if strings.HasSuffix(from, "test") {
			continue // used only by tests: see TestFloors
		}
		edges[from] = []string{}
		for _, path := range paths[1:] {
			if to, ok := short(path); ok {
				edges[from] = append(edges[from], to)
			}
		}
	}
	if len(edges) != len(mayUse) {
		t.Errorf("there are %d packages, and %d in the list of this test", len(edges), len(mayUse))
	}
	return edges
}

// handed returns, for each package whose Reconciler the file constructs, the packages of the values in its fields. A
// value is given in the literal, or is a variable that was set from another package's function or type.
func handed(t *testing.T, file string) map[string][]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported := func(name string) bool { _, ok := mayUse[name]; return ok }
	from := map[string]string{} // maps each variable of the file to the packages of its value
	packagesIn := func(n ast.Node) (out []string) {
		ast.Inspect(n, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if where := from[id.Name]; where != "" {
				out = append(out, where)
			} else if imported(id.Name) {
				out = append(out, id.Name)
			}
			return true
		})
		return out
	}
	out := map[string][]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && i < len(n.Rhs) {
					if where := packagesIn(n.Rhs[i]); len(where) > 0 {
						from[id.Name] = where[0]
					}
				}
			}
		case *ast.CompositeLit:
			made, ok := n.Type.(*ast.SelectorExpr)
			if !ok || made.Sel.Name != "Reconciler" {
				return true
			}
			name := made.X.(*ast.Ident).Name
			for _, field := range n.Elts {
				out[name] = append(out[name], packagesIn(field.(*ast.KeyValueExpr).Value)...)
			}
		}
		return true
	})
	if len(out) != 3 || !slices.Contains(out["run"], "database") {
		t.Errorf("%s hands the reconcilers %v: this test does not read it rightly", file, out)
	}
	return out
}
