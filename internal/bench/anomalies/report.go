package anomalies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Report is the result of all cases on several databases.
type Report struct {
	// Seed is the seed of the simulation.
	Seed uint64 `json:"seed"`
	// Databases are in the order in which they were tested.
	Databases []Result `json:"databases"`
}

// Result is the result of all cases on one database.
type Result struct {
	// Database is the name of the database's manifest, or of its engine.
	Database string `json:"database"`
	Engine   string `json:"engine"`
	// Parameters are the parameters that differ from the engine's defaults.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Level is the level that the database promises.
	Level string `json:"level"`
	// Simulated is true for engines, which run in the simulator, and false for databases that already run.
	Simulated bool `json:"simulated"`
	// Plays is the number of executions of each case.
	Plays   int     `json:"plays"`
	Network Network `json:"network"`
	// Target describes a running database, according to its own reports.
	Target *result.Target `json:"target,omitempty"`
	// Refused is the reason why the database cannot have this level. Cases is then empty.
	Refused string    `json:"refused,omitempty"`
	Cases   []Finding `json:"cases"`
}

// Network describes the network of the plays.
type Network struct {
	Regions              []string `json:"regions"`
	PartitionsPerRegion  int      `json:"partitionsPerRegion,omitempty"`
	ReplicasPerPartition int      `json:"replicasPerPartition,omitempty"`
	// LinksMs holds the declared round trip between each pair of regions in milliseconds; empty if links are real.
	LinksMs map[string]float64 `json:"linksMs,omitempty"`
}

// PlayAll executes all cases on a database.
func PlayAll(ctx context.Context, name string, d *Database, plays int, seed uint64) (*Result, error) {
	t := d.Topology
	r := &Result{
		Database: name, Engine: d.Engine.Name, Parameters: map[string]string{}, Level: d.Promises().String(), Simulated: true, Plays: plays,
		Network: Network{t.Regions, t.Partitions, t.Replicas, map[string]float64{}},
	}
	for _, p := range d.Engine.Parameters {
		if v := d.Params[p.Name]; v != p.Default {
			r.Parameters[p.Name] = v
		}
	}
	for b, to := range t.Regions {
		for a, from := range t.Regions[:b] {
			r.Network.LinksMs[from+" to "+to] = t.RTT(geo.Region(a), geo.Region(b)).Seconds() * 1000
		}
	}
	for i := range cases {
		f, err := Play(ctx, d, &cases[i], plays, seed)
		if err != nil {
			return nil, err
		}
		r.Cases = append(r.Cases, *f)
	}
	return r, nil
}

// Levels returns the database and, for each other level that its engine promises with a different value of a parameter,
// a variant of the database. Variants are in the order of the engine's parameters. It omits variants that may lose
// answered transactions by design, and variants that do not fit the topology.
func Levels(d *Database) []*Database {
	all, levels := []*Database{d}, []isolation.Level{d.Promises()}
	for _, p := range d.Engine.Parameters {
		for _, word := range p.OneOf {
			given := maps.Clone(d.Params)
			given[p.Name] = word
			params, errs := d.Engine.Resolve(given)
			if len(errs) > 0 || d.Engine.Loses != nil && d.Engine.Loses(params) || d.Engine.Accepts(d.Topology, params) != nil {
				continue
			}
			// One variant per level is enough, because all variants of a level must pass the same cases.
			if level := d.Engine.Promises(params); !slices.Contains(levels, level) {
				all, levels = append(all, &Database{d.Engine, params, d.Topology}), append(levels, level)
			}
		}
	}
	return all
}

// Default returns a database of the engine with default parameters over the given regions. It has two partitions per
// region with one replica each, or another shape if the engine requires it.
func Default(e *protocol.Engine, t *geo.Topology) (*Database, error) {
	params, errs := e.Resolve(nil)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	var err error
	for _, shape := range [][2]int{{2, 1}, {1, 1}, {1, 3}} {
		u := *t
		u.Partitions, u.Replicas = shape[0], shape[1]
		if err = e.Accepts(&u, params); err == nil {
			return &Database{e, params, &u}, nil
		}
	}
	return nil, fmt.Errorf("engine %s: %w", e.Name, err)
}

// Err returns an error that lists the databases that violated their promised level; nil if there are none.
func (r *Report) Err() error {
	var broken []string
	for _, d := range r.Databases {
		for _, f := range d.Cases {
			if f.Broken > 0 {
				broken = append(broken, fmt.Sprintf("%s promises %s, and %d of %d plays of %s (%s) are not: %s",
					d.title(), d.Level, f.Broken, f.Plays, f.Case, f.Class, f.Example))
			}
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("isolation is broken: %s", strings.Join(broken, "\n"))
}

// title returns the name of the database with its non-default parameters.
func (r *Result) title() string {
	words := []string{r.Database}
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		words = append(words, name+"="+r.Parameters[name])
	}
	return strings.Join(words, " ")
}

// Formats are the formats that Print supports.
var Formats = []string{"table", "markdown", "json"}

// Print prints the report in one of Formats.
func (r *Report) Print(w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "markdown":
		return r.markdown(w)
	}
	for i, d := range r.Databases {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if d.Refused != "" {
			fmt.Fprintf(w, "%s is not possible. %s\n", d.title(), d.Refused)
			continue
		}
		level, where := d.Level, fmt.Sprintf("Simulated; regions %s; seed %d", strings.Join(d.Network.Regions, ", "), r.Seed)
		if d.Target != nil {
			level, where = fmt.Sprintf("%s at its level %s", d.Level, d.Target.Isolation), d.Target.Where()
		}
		fmt.Fprintf(w, "%s promises %s. %s; %d plays of each case.\n\n", d.title(), level, where, d.Plays)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "CASE\tCLASS\tRULED OUT BY\tFOUND")
		for j := range d.Cases {
			f := &d.Cases[j]
			fmt.Fprintf(t, "%s\t%s\t%v\t%v\n", f.Case, f.Class, cases[j].Level, f)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for j := range d.Cases {
			if f := &d.Cases[j]; f.Example != "" {
				fmt.Fprintf(w, "\n%s, for example: %s\n", f.Case, f.Example)
			}
		}
	}
	return nil
}

// markdown prints a table with a row per database.
func (r *Report) markdown(w io.Writer) error {
	var classes strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&classes, " %s |", c.Name)
	}
	fmt.Fprintf(w, "| database | promises |%s\n|---|---|%s\n", classes.String(), strings.Repeat("---|", len(cases)))
	for _, d := range r.Databases {
		if d.Refused != "" {
			fmt.Fprintf(w, "| `%s` | not possible |%s\n", d.title(), strings.Repeat(" |", len(cases)))
			continue
		}
		fmt.Fprintf(w, "| `%s` | %s |", d.title(), d.Level)
		for i := range d.Cases {
			f := &d.Cases[i]
			text := f.Word()
			switch {
			case f.Broken > 0:
				text = fmt.Sprintf("**BROKEN** %d", f.Broken)
			case f.Seen > 0:
				text = fmt.Sprintf("**allowed** %d", f.Seen)
			default:
				if f.Overlapped > 0 {
					text += fmt.Sprintf(" %d", f.Overlapped)
				}
				if f.Aborted > 0 {
					text += fmt.Sprintf(", aborts %d", f.Aborted)
				}
				if f.Other > 0 {
					text += fmt.Sprintf(", other %d", f.Other)
				}
			}
			fmt.Fprintf(w, " %s |", text)
		}
		fmt.Fprintln(w)
	}
	return nil
}
