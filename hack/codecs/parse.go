package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// A pkg is a parsed package, without its tests and without the generated file.
type pkg struct {
	fset    *token.FileSet
	name    string
	imports map[string]string // import paths by the name that the files use
	types   map[string]*typeDecl
	order   []string // type names in the order of files and lines
	consts  map[string]bool
	funcs   map[string]*ast.FuncType // functions, and methods as "Type.method"
}

// A typeDecl is a type.
type typeDecl struct {
	name string
	expr ast.Expr
	// part is set if the type has the directive //codec:part. For a list, options hold for its elements.
	part    bool
	options options
}

func parse(dir string) (*pkg, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	p := &pkg{fset: token.NewFileSet(), imports: map[string]string{}, types: map[string]*typeDecl{}, consts: map[string]bool{}, funcs: map[string]*ast.FuncType{}}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == output {
			continue
		}
		f, err := parser.ParseFile(p.fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.name = f.Name.Name
		if err := p.add(f); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pkg) add(f *ast.File) error {
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		p.imports[name] = path
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			p.funcs[name] = d.Type
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if err := p.addSpec(d, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *pkg) addSpec(d *ast.GenDecl, s ast.Spec) error {
	switch s := s.(type) {
	case *ast.ValueSpec:
		if d.Tok == token.CONST {
			for _, n := range s.Names {
				p.consts[n.Name] = true
			}
		}
	case *ast.TypeSpec:
		doc := s.Doc
		if doc == nil {
			doc = d.Doc
		}
		t := &typeDecl{name: s.Name.Name, expr: s.Type}
		if err := t.readDirective(doc); err != nil {
			return fmt.Errorf("%v: type %s: %w", p.fset.Position(s.Pos()), t.name, err)
		}
		p.types[t.name] = t
		p.order = append(p.order, t.name)
	}
	return nil
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// readDirective reads the directive //codec:part in the type's doc comment. Options may follow it.
func (t *typeDecl) readDirective(doc *ast.CommentGroup) (err error) {
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		text, ok := strings.CutPrefix(c.Text, "//codec:")
		if !ok {
			continue
		}
		verb, list, hasOptions := strings.Cut(text, " ")
		if verb != "part" {
			return fmt.Errorf("directive %q: want //codec:part", c.Text)
		}
		t.part = true
		if hasOptions {
			t.options, err = parseList(list)
		}
		return err
	}
	return nil
}

// kind returns the constant with the kind of a message type, or "" for any other type.
func (p *pkg) kind(t *typeDecl) string {
	for _, prefix := range []string{"kind", "Kind"} {
		if _, ok := t.expr.(*ast.StructType); ok && p.consts[prefix+t.name] {
			return prefix + t.name
		}
	}
	return ""
}

// handWritten returns the names of the hand-written methods of a type, or "".
func (p *pkg) handWritten(d *typeDecl) (size, app string) {
	switch {
	case p.funcs[d.name+".size"] != nil:
		return "size", "appendTo"
	case p.funcs[d.name+".Size"] != nil:
		return "Size", "AppendTo"
	}
	return "", ""
}

// custom reports whether a message has hand-written methods Size, AppendTo and read.
func (p *pkg) custom(t *typeDecl) bool { return p.funcs[t.name+".Size"] != nil }

// A field is a field of a struct with the options of its tag.
type field struct {
	name    string
	expr    ast.Expr
	options options
	pos     token.Pos
}

// options are the options in a field's tag, such as `codec:"max=maxEpoch"`. For a list, they hold for its elements.
type options struct {
	skip        bool
	min, max    string // bounds of a number
	fixed       bool   // the number takes 8 bytes
	first, last string // bounds of an enumeration
	packed      bool   // the flag shares its byte with the next or the previous field
	optional    bool   // the pointer may be nil
	on          string // the field is encoded only if this expression is true; "m." stands for the struct
	variant     string // kind of the message if the field is not 0; other messages omit the field
	as          string // suffix of the functions that encode the field
}

// fields returns the fields of a struct in order. An embedded field is named after its type.
func (p *pkg) fields(s *ast.StructType) ([]field, error) {
	var all []field
	for _, f := range s.Fields.List {
		o, err := parseOptions(f.Tag)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", p.fset.Position(f.Pos()), err)
		}
		if o.skip {
			continue
		}
		if len(f.Names) == 0 {
			all = append(all, field{embedded(f.Type), f.Type, o, f.Pos()})
		}
		for _, n := range f.Names {
			all = append(all, field{n.Name, f.Type, o, n.Pos()})
		}
	}
	return all, nil
}

func embedded(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return embedded(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func parseOptions(tag *ast.BasicLit) (o options, err error) {
	if tag == nil {
		return o, nil
	}
	text, _ := strconv.Unquote(tag.Value)
	list, ok := reflect.StructTag(text).Lookup("codec")
	if !ok {
		return o, nil
	}
	return parseList(list)
}

// parseList parses options that are separated by commas.
func parseList(text string) (o options, err error) {
	for _, option := range strings.Split(text, ",") {
		key, value, hasValue := strings.Cut(option, "=")
		ok := hasValue
		switch key {
		case "-":
			o.skip, ok = true, !hasValue
		case "fixed":
			o.fixed, ok = true, !hasValue
		case "packed":
			o.packed, ok = true, !hasValue
		case "optional":
			o.optional, ok = true, !hasValue
		case "min":
			o.min = value
		case "max":
			o.max = value
		case "as":
			o.as = value
		case "kind":
			o.variant = value
		case "if":
			not := ""
			if rest, negated := strings.CutPrefix(value, "!"); negated {
				not, value = "!", rest
			}
			o.on = not + "m." + value
		case "enum":
			o.first, o.last, ok = strings.Cut(value, "..")
		default:
			ok = false
		}
		if !ok {
			return o, fmt.Errorf("tag codec:%q: want -, fixed, packed, optional, min=N, max=N, enum=FIRST..LAST, if=FIELD, if=!FIELD, kind=KIND or as=NAME", text)
		}
	}
	return o, nil
}
