package experiment

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReasonsAreKnown checks that each reason of a verdict is in exactly one of two lists: allowable or never. A new
// reason must thus be added to one of them.
func TestReasonsAreKnown(t *testing.T) {
	files, err := filepath.Glob("../../bench/result/*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		n += reasonsAreKnown(t, name)
	}
	if n < 20 {
		t.Errorf("%d reasons were found", n)
	}
}

func reasonsAreKnown(t *testing.T, name string) (n int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) != 1 {
			return true
		}
		text, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		reason, err := strconv.Unquote(text.Value)
		if err != nil {
			t.Fatal(err)
		}
		n++
		_, hopeless := never[reason]
		if places := len(slices.DeleteFunc([]bool{slices.Contains(allowable, reason), hopeless, slices.Contains(failing, reason)}, func(in bool) bool { return !in })); places != 1 {
			t.Errorf("%s is in %d of allowable, never and failing, want one of them", reason, places)
		}
		return true
	})
	return n
}
