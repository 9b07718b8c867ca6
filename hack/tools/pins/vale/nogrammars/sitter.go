// Package sitter replaces Tree-sitter in the build of Vale. The grammars of Tree-sitter are 300 MB of C code, for which
// make lint would need a C compiler. Vale reads only plain text here, because hack/words extracts the prose itself. So
// this package provides only the functions that Vale calls, and parsing always fails.
package sitter

import (
	"context"
	"errors"
)

// Language is a grammar.
type Language struct{}

// Parser is a parser that always fails.
type Parser struct{}

// NewParser returns a parser.
func NewParser() *Parser { return &Parser{} }

// SetLanguage ignores the grammar.
func (*Parser) SetLanguage(*Language) {}

// ParseCtx returns an error.
func (*Parser) ParseCtx(context.Context, *Tree, []byte) (*Tree, error) {
	return nil, errors.New("this Vale is built without grammars: give it Markdown or plain text")
}

// Tree is a syntax tree.
type Tree struct{}

// RootNode returns a node without children.
func (*Tree) RootNode() *Node { return &Node{} }

// Point is a position in a file.
type Point struct{ Row, Column uint32 }

// Node is a node of a tree.
type Node struct{}

// Content returns no text.
func (*Node) Content([]byte) string { return "" }

// StartPoint returns the start of the file.
func (*Node) StartPoint() Point { return Point{} }

// Query is a query over trees.
type Query struct{}

// NewQuery returns a query that matches nothing.
func NewQuery([]byte, *Language) (*Query, error) { return &Query{}, nil }

// QueryCapture is a captured node.
type QueryCapture struct{ Node *Node }

// QueryMatch is a match of a query.
type QueryMatch struct{ Captures []QueryCapture }

// QueryCursor iterates over matches.
type QueryCursor struct{}

// NewQueryCursor returns a cursor over no matches.
func NewQueryCursor() *QueryCursor { return &QueryCursor{} }

// Exec starts a query.
func (*QueryCursor) Exec(*Query, *Node) {}

// NextMatch reports that there is no further match.
func (*QueryCursor) NextMatch() (*QueryMatch, bool) { return nil, false }

// FilterPredicates returns the match unchanged.
func (*QueryCursor) FilterPredicates(m *QueryMatch, _ []byte) *QueryMatch { return m }
