package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// scanned is a parsed file, with the parts that the rule excludes because no correct scenario can reach them.
type scanned struct {
	file     *ast.File
	excluded []span
}

// span is a part of a file.
type span struct{ from, to token.Pos }

// scan parses a file and applies the rule. The rule depends only on the source, so it also excludes matching statements
// that were executed. It excludes:
//
//   - text for people: functions whose only result is a string, such as String and Error;
//   - predictions before a run: files law.go, functions law and *Law;
//   - variants that are faulty on purpose: branches on a field wrong or mistake, and functions whose comment contains
//     "a mistake";
//   - rejected input: in functions that decode, branches on an error, and branches that create one;
//   - assertions: branches and functions that end in a panic.
func scan(name string) (*scanned, error) {
	f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	s := &scanned{file: f}
	for _, d := range f.Decls {
		fn, is := d.(*ast.FuncDecl)
		switch {
		case !is || fn.Body == nil:
		case path.Base(name) == "law.go", makesText(fn.Type), panics(fn.Body.List),
			strings.HasSuffix(strings.ToLower(fn.Name.Name), "law"), strings.Contains(fn.Doc.Text(), "a mistake"):
			s.exclude(fn.Body)
		default:
			s.branches(fn)
		}
	}
	return s, nil
}

func (s *scanned) exclude(n ast.Node) { s.excluded = append(s.excluded, span{n.Pos(), n.End()}) }

// excludes reports whether the rule excludes the code at a line and column.
func (s *scanned) excludes(line, column int) bool {
	at := files.File(s.file.Pos()).LineStart(line) + token.Pos(column-1)
	for _, x := range s.excluded {
		if x.from <= at && at < x.to {
			return true
		}
	}
	return false
}

// makesText reports whether a function's only result is a string.
func makesText(t *ast.FuncType) bool {
	if t.Results == nil || len(t.Results.List) != 1 || len(t.Results.List[0].Names) > 1 {
		return false
	}
	result, is := t.Results.List[0].Type.(*ast.Ident)
	return is && result.Name == "string"
}

// branches excludes those branches in a function to which the rule applies.
func (s *scanned) branches(fn *ast.FuncDecl) {
	decoder := decodes(fn)
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if faulty(n.Cond) || panics(n.Body.List) || decoder && (onError(n.Cond) || makesError(n.Body)) {
				s.exclude(n.Body)
			}
		case *ast.CaseClause:
			if len(n.List) == 1 && faulty(n.List[0]) || panics(n.Body) || decoder && makesError(n) {
				for _, statement := range n.Body {
					s.exclude(statement)
				}
			}
		}
		return true
	})
}

// decodes reports whether a function decodes bytes from another node.
func decodes(fn *ast.FuncDecl) bool {
	return strings.HasPrefix(strings.ToLower(fn.Name.Name), "decode") || contains(fn, func(n ast.Node) bool {
		x, is := n.(*ast.SelectorExpr)
		return is && (x.Sel.Name == "Reader" || x.Sel.Name == "NewReader") && named(x.X, "codec")
	})
}

// faulty reports whether a condition holds only in a variant that is faulty on purpose.
func faulty(cond ast.Expr) bool {
	switch x := cond.(type) {
	case *ast.ParenExpr:
		return faulty(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.LAND {
			return faulty(x.X) || faulty(x.Y)
		}
		field, is := x.X.(*ast.SelectorExpr)
		return x.Op == token.EQL && is && (field.Sel.Name == "wrong" || field.Sel.Name == "mistake") && !named(x.Y, "none")
	}
	return false
}

// onError reports whether a condition checks for an error.
func onError(cond ast.Expr) bool {
	return contains(cond, func(n ast.Node) bool {
		x, is := n.(*ast.BinaryExpr)
		return is && x.Op == token.NEQ && named(x.Y, "nil") && contains(x.X, func(n ast.Node) bool {
			id, is := n.(*ast.Ident)
			return is && (id.Name == "err" || id.Name == "Err" || id.Name == "Done")
		})
	})
}

// makesError reports whether a branch creates an error. It ignores nested branches.
func makesError(branch ast.Node) bool {
	return contains(branch, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return false
		}
		f, is := call.Fun.(*ast.SelectorExpr)
		return is && (f.Sel.Name == "Fail" || f.Sel.Name == "Errorf" && named(f.X, "fmt"))
	})
}

// panics reports whether statements end in a panic.
func panics(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	last, is := list[len(list)-1].(*ast.ExprStmt)
	if !is {
		return false
	}
	call, is := last.X.(*ast.CallExpr)
	return is && named(call.Fun, "panic")
}

func named(x ast.Expr, name string) bool {
	id, is := x.(*ast.Ident)
	return is && id.Name == name
}

// contains reports whether f is true for root or one of its descendants. It ignores nested branches.
func contains(root ast.Node, f func(ast.Node) bool) (found bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.IfStmt, *ast.CaseClause:
			if _, function := root.(*ast.FuncDecl); n != root && !function {
				return false
			}
		}
		found = found || n != nil && f(n)
		return !found
	})
	return found
}
