// Command document writes the tables of figures into the pages of engines: see make generate.
package main

import (
	"fmt"
	"os"

	"github.com/geobench/geobench/internal/engine/engines"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: document FOLDER")
		os.Exit(2)
	}
	if err := engines.WritePages(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
