// Package css stands in for a grammar.
package css

import sitter "github.com/smacker/go-tree-sitter"

// GetLanguage returns no grammar.
func GetLanguage() *sitter.Language { return nil }
