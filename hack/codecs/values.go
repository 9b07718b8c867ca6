package main

import (
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"strings"
)

func text(t ast.Expr) string {
	var b strings.Builder
	_ = printer.Fprint(&b, token.NewFileSet(), t) // A strings.Builder returns no errors.
	return b.String()
}

// simple are the types that package codec encodes with one function: the argument's form, the function's suffix, the
// minimum size.
var simple = map[string]struct {
	argument, function string
	min                least
}{
	"[]byte":           {"%s", "Bytes", least{bytes: 1}},
	"string":           {"%s", "String", least{bytes: 1}},
	"txn.Key":          {"string(%s)", "String", least{bytes: 2}},
	"txn.ID":           {"%s", "ID", least{bytes: 2}},
	"txn.Range":        {"&%s", "Range", least{named: []string{"codec.MinRange"}}},
	"[]txn.Range":      {"%s", "Ranges", least{bytes: 1}},
	"[]txn.WriteEntry": {"%s", "Writes", least{bytes: 1}},
	"[]txn.Row":        {"%s", "Rows", least{bytes: 1}},
	"[]txn.Access":     {"%s", "Accesses", least{bytes: 1}},
	"txn.Outcome":      {"&%s", "Outcome", least{named: []string{"codec.MinOutcome"}}},
}

// numbers maps number types to their limits. A type with an empty limit needs the tag max.
var numbers = map[string]string{
	"uint64": "none", "uint32": "math.MaxUint32", "uint16": "math.MaxUint16", "int": "", "int64": "", "int32": "",
	"geo.NodeID": "math.MaxUint16", "geo.Region": "math.MaxUint16", "time.Duration": "",
}

// value writes the encoding of expression x of type t.
func (g *generator) value(x string, t ast.Expr, o options, depth int, m *methods) error {
	if o.as != "" {
		return g.as(x, o.as, m)
	}
	name := text(t)
	if s, ok := simple[name]; ok {
		m.min.add(s.min)
		argument := fmt.Sprintf(s.argument, x)
		m.size.add(fmt.Sprintf("codec.Size%s(%s)", s.function, argument))
		m.appendf("b = codec.Append%s(b, %s)", s.function, argument)
		switch name {
		case "txn.Key":
			m.readf("%s = r.Key()", x)
		case "txn.Outcome":
			m.readf("r.Outcome(&%s)", x)
		case "[]txn.Access":
			m.readf("%s = r.Accesses(nil)", x)
		default:
			m.readf("%s = r.%s()", x, s.function)
		}
		return nil
	}
	if limit, ok := numbers[name]; ok {
		return number(x, name, name, limit, o, m)
	}
	switch t := t.(type) {
	case *ast.Ident:
		return g.ident(x, t.Name, t.Name, o, depth, m)
	case *ast.SelectorExpr:
		if o.first != "" {
			return g.ident(x, "uint8", name, o, depth, m)
		}
		if o.max != "" || o.fixed {
			return number(x, "", name, "", o, m)
		}
		external(x, "Read"+t.Sel.Name, t, m)
		return nil
	case *ast.StarExpr:
		return g.pointer(x, t, o, depth, m)
	case *ast.ArrayType:
		return g.array(x, t, name, o, depth, m)
	}
	return fmt.Errorf("type %s cannot be encoded: want a tag as=NAME, and functions sizeNAME, appendNAME and readNAME", name)
}

// ident writes the encoding of a value whose type, named name, is or is based on the predeclared or local type base.
func (g *generator) ident(x, base, name string, o options, depth int, m *methods) error {
	switch base {
	case "bool":
		m.min.bytes++
		m.size.bytes++
		m.appendf("b = append(b, codec.Flags(%s, false))", x)
		m.readf("%s = r.Flag()", x)
		return nil
	case "uint8", "byte":
		m.min.bytes++
		m.size.bytes++
		switch {
		case o.first != "":
			m.appendf("b = append(b, byte(%s))", x)
			m.readf("%s = codec.ReadEnum[%s](r, %s, %s)", x, name, o.first, o.last)
		case name == base:
			m.appendf("b = append(b, %s)", x)
			m.readf("%s = r.Uint8()", x)
		default:
			return fmt.Errorf("type %s: want a tag enum=FIRST..LAST", name)
		}
		return nil
	}
	if limit, ok := numbers[base]; ok {
		return number(x, base, name, limit, o, m)
	}
	d := g.p.types[base]
	if d == nil {
		return fmt.Errorf("type %s is not declared in the package", base)
	}
	if n := title(base); g.p.funcs["size"+n] != nil && g.p.funcs["append"+n] != nil && g.p.funcs["read"+n] != nil {
		return g.as(x, base, m)
	}
	if size, app := g.p.handWritten(d); size != "" { // in at least one byte
		m.min.bytes++
		m.size.add(fmt.Sprintf("%s.%s()", x, size))
		m.appendf("b = %s.%s(b)", x, app)
		arguments := "r"
		if g.p.readsTransactions(base) {
			arguments += ", txns"
		}
		switch {
		case g.p.funcs[base+".read"] != nil:
			m.readf("%s.read(%s)", x, arguments)
		case g.p.funcs["read"+title(base)] != nil:
			m.readf("%s = read%s(%s)", x, title(base), arguments)
		default:
			m.readf("%s = Read%s(%s)", x, title(base), arguments)
		}
		return nil
	}
	if _, list := d.expr.(*ast.ArrayType); list && d.part {
		return g.part(x, d, m)
	}
	switch t := d.expr.(type) {
	case *ast.StructType:
		return g.part(x, d, m)
	case *ast.Ident:
		return g.ident(x, t.Name, name, o, depth, m)
	case *ast.ArrayType:
		return g.array(x, t, name, o, depth, m)
	case *ast.SelectorExpr:
		if limit, ok := numbers[text(t)]; ok {
			return number(x, text(t), name, limit, o, m)
		}
	}
	return fmt.Errorf("type %s cannot be encoded: want methods size and appendTo, and a function read%s", name, title(base))
}

// part writes the encoding of a value of a local struct or list, whose methods are generated, too.
func (g *generator) part(x string, d *typeDecl, m *methods) error {
	g.queue(d.name)
	size, app := "size", "appendTo"
	if g.p.kind(d) != "" || d.part && exported(d.name) {
		size, app = "Size", "AppendTo"
	}
	m.size.add(fmt.Sprintf("%s.%s()", x, size))
	m.appendf("b = %s.%s(b)", x, app)
	if g.p.readsTransactions(d.name) {
		m.readf("%s.read(r, txns)", x)
	} else {
		m.readf("%s.read(r)", x)
	}
	s, ok := d.expr.(*ast.StructType)
	if !ok {
		m.min.bytes++ // the number of elements
		return nil
	}
	inner := &methods{size: &sizer{}}
	if err := g.structFields(d.name, s, inner); err != nil {
		return err
	}
	m.min.add(inner.min)
	return nil
}

// external writes the encoding of a value of a type of another package, which has the methods Size and AppendTo. The
// decoder is the function read of that package. The encoding takes at least one byte.
func external(x, read string, t *ast.SelectorExpr, m *methods) {
	m.min.bytes++
	m.size.add(x + ".Size()")
	m.appendf("b = %s.AppendTo(b)", x)
	m.readf("%s = %s.%s(r)", x, text(t.X), read)
}

func (g *generator) pointer(x string, t *ast.StarExpr, o options, depth int, m *methods) error {
	inner := m
	if o.optional {
		inner = m.inner()
	}
	switch to := t.X.(type) {
	case *ast.SelectorExpr:
		if text(to) == "txn.Transaction" {
			inner.min.named = append(inner.min.named, "codec.MinTransaction")
			inner.size.add(fmt.Sprintf("codec.SizeTransaction(%s)", x))
			inner.appendf("b = codec.AppendTransaction(b, %s)", x)
			inner.readf("%s = txns.Transaction(r)", x)
		} else {
			external(x, "Read"+to.Sel.Name, to, inner)
		}
	case *ast.Ident:
		inner.readf("%s = &%s{}", x, to.Name)
		if err := g.ident(x, to.Name, to.Name, options{}, depth, inner); err != nil {
			return err
		}
	default:
		return fmt.Errorf("pointers to %s cannot be encoded", text(t.X))
	}
	if o.optional {
		m.min.bytes++
		m.size.bytes++
		head := fmt.Sprintf("if %s != nil", x)
		m.size.block(head, inner.size)
		m.appendf("b = append(b, codec.Flags(%s != nil, false))\n%s {\n%s}", x, head, inner.app.String())
		m.readf("if r.Flag() {\n%s}", inner.read.String())
	}
	return nil
}

// number writes a number of a type that is named name and based on base.
func number(x, base, name, limit string, o options, m *methods) error {
	as := func(to, x string) string {
		if to == name {
			return x
		}
		return to + "(" + x + ")"
	}
	back := func(read string) string {
		if name == "uint64" {
			return read
		}
		return name + "(" + read + ")"
	}
	if o.fixed {
		m.min.bytes += 8
		m.size.bytes += 8
		m.appendf("b = codec.AppendUint64(b, %s)", as("uint64", x))
		m.readf("%s = %s", x, back("r.Uint64()"))
		return nil
	}
	m.min.bytes++
	m.size.add("codec.SizeUvarint(" + as("uint64", x) + ")")
	m.appendf("b = codec.AppendUvarint(b, %s)", as("uint64", x))
	if o.max != "" {
		limit = o.max
	}
	switch {
	case limit == "":
		return fmt.Errorf("type %s: want a tag max=LIMIT", base)
	case o.min != "" && limit == "none":
		m.readf("%s = %s", x, back("r.UvarintIn("+o.min+", math.MaxUint64)"))
	case o.min != "":
		m.readf("%s = %s", x, back("r.UvarintIn("+o.min+", "+limit+")"))
	case limit == "none":
		m.readf("%s = %s", x, back("r.Uvarint()"))
	default:
		m.readf("%s = %s", x, back("r.UvarintMax("+limit+")"))
	}
	return nil
}

// array writes a list, or an array of bytes.
func (g *generator) array(x string, t *ast.ArrayType, name string, o options, depth int, m *methods) error {
	if t.Len != nil {
		if text(t.Elt) != "byte" {
			return fmt.Errorf("type %s cannot be encoded: arrays have bytes only", name)
		}
		m.size.add("len(" + x + ")")
		m.appendf("b = append(b, %s[:]...)", x)
		m.readf("copy(%[1]s[:], r.Take(uint64(len(%[1]s))))", x)
		return nil
	}
	if s, ok := simple[text(t)]; ok && s.function != "" { // a named type of such a list
		return g.value(x, t, o, depth, m)
	}
	inner := m.inner()
	index := string(rune('i' + depth))
	if err := g.value(x+"["+index+"]", t.Elt, o, depth+1, inner); err != nil {
		return err
	}
	if inner.min.String() == "" {
		return fmt.Errorf("elements of type %s may be empty, so their number has no bound", text(t.Elt))
	}
	m.min.bytes++
	m.size.add(fmt.Sprintf("codec.SizeUvarint(uint64(len(%s)))", x))
	loop := fmt.Sprintf("for %s := range %s", index, x)
	if fixed := inner.size; len(fixed.terms) == 0 && fixed.b.Len() == 0 {
		m.size.add(fmt.Sprintf("%d*len(%s)", fixed.bytes, x))
	} else {
		m.size.block(loop, fixed)
	}
	m.appendf("b = codec.AppendUvarint(b, uint64(len(%s)))\n%s {\n%s}", x, loop, inner.app.String())
	reserve := ""
	if strings.Contains(inner.read.String(), "txns") {
		reserve = "txns.Reserve(n)\n"
	}
	m.readf("if n := r.Count(%s); n > 0 {\n%s = make(%s, n)\n%s%s {\n%s}\n}", &inner.min, x, name, reserve, loop, inner.read.String())
	return nil
}

// as writes a value that hand-written functions encode, in at least one byte.
func (g *generator) as(x, name string, m *methods) error {
	qualifier := ""
	size, app, read := "size", "append", "read"
	if q, n, ok := strings.Cut(name, "."); ok {
		qualifier, name = q+".", n
		size, app, read = "Size", "Append", "Read"
	}
	name = title(name)
	m.min.bytes++
	m.size.add(fmt.Sprintf("%s%s%s(%s)", qualifier, size, name, x))
	m.appendf("b = %s%s%s(b, %s)", qualifier, app, name, x)
	arguments := "r"
	if qualifier == "" {
		f := g.p.funcs[read+name]
		if f == nil || g.p.funcs[app+name] == nil || g.p.funcs[size+name] == nil {
			return fmt.Errorf("tag as: want functions size%[1]s, append%[1]s and read%[1]s in the package", name)
		}
		if f.Params.NumFields() > 1 {
			arguments += ", txns"
		}
	}
	m.readf("%s = %s%s%s(%s)", x, qualifier, read, name, arguments)
	return nil
}
