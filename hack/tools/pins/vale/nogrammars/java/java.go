// Package java stands in for a grammar.
package java

import sitter "github.com/smacker/go-tree-sitter"

// GetLanguage returns no grammar.
func GetLanguage() *sitter.Language { return nil }
