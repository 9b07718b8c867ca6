// Package style provides the style sheet of all pages that Geobench writes. It has a light and a dark mode, and uses no
// external resources.
package style

import _ "embed"

// CSS is the style sheet.
//
//go:embed page.css
var CSS string
