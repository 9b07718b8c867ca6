package result

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Formats are the formats that Print supports.
var Formats = []string{"table", "wide", "json", "yaml"}

// Print prints documents as tables, one after another, or as JSON or YAML. In JSON and YAML, several documents become a
// list.
func Print(w io.Writer, docs []*Document, format string) error {
	switch format {
	case "table", "wide":
		for i, d := range docs {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := Table(w, d, format == "wide"); err != nil {
				return err
			}
		}
		return nil
	}
	if len(docs) == 1 && format == "json" {
		return docs[0].Write(w)
	}
	var v any = docs
	if len(docs) == 1 {
		v = docs[0]
	}
	marshal := func(v any) ([]byte, error) {
		b, err := json.MarshalIndent(v, "", "  ")
		return append(b, '\n'), err
	}
	if format == "yaml" {
		marshal = yaml.Marshal
	}
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
