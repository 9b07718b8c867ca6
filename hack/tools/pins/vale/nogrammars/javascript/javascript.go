// Package javascript stands in for a grammar.
package javascript

import sitter "github.com/smacker/go-tree-sitter"

// GetLanguage returns no grammar.
func GetLanguage() *sitter.Language { return nil }
