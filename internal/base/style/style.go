// Package style is how the pages that Geobench writes look: one style sheet, light and dark, without anything from
// elsewhere.
package style

import _ "embed"

// CSS is the style sheet.
//
//go:embed page.css
var CSS string
