// Command document writes docs/metrics.md: see make generate.
package main

import (
	"os"

	"github.com/geobench/geobench/internal/ops/metrics"
)

func main() { metrics.Document(os.Stdout) }
