// Package tsx stands in for a grammar.
package tsx

import sitter "github.com/smacker/go-tree-sitter"

// GetLanguage returns no grammar.
func GetLanguage() *sitter.Language { return nil }
