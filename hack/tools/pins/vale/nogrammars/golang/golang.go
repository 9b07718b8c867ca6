// Package golang stands in for a grammar.
package golang

import sitter "github.com/smacker/go-tree-sitter"

// GetLanguage returns no grammar.
func GetLanguage() *sitter.Language { return nil }
