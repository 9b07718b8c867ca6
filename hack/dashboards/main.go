// Dashboards writes the Grafana dashboards in dashboards/*.json: see make generate. The source is Go instead of JSON,
// so that queries refer to the definitions of metrics. If a metric is renamed, queries change as well, and a query for
// a metric that does not exist does not compile.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards FOLDER")
		os.Exit(2)
	}
	for _, d := range all() {
		if err := write(os.Args[1], d); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func all() []*Dashboard {
	return []*Dashboard{runDashboard(), compareDashboard(), networkDashboard(), engineDashboard(), operatorDashboard()}
}

// file returns the name of a dashboard's file: the UID without the prefix, which distinguishes the UID from the UIDs of
// other authors.
func file(d *Dashboard) string { return d.UID[len(prefix):] + ".json" }

const prefix = "geobench-"

func write(folder string, d *Dashboard) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, file(d)), b.Bytes(), 0o644)
}
