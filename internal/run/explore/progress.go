package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/geobench/geobench/internal/bench/result"
)

// Progress is the progress of an exploration. It is stored in a file, so that another process can resume the
// exploration.
type Progress struct {
	// Build identifies the program that explores. Results of different builds must not be mixed.
	Build string `json:"build"`
	// Worlds describes the kind of scenarios. Seeds are the seeds to run for each engine.
	Worlds string `json:"worlds"`
	Seeds  Seeds  `json:"seeds"`
	// Done has, for each engine, a summary of the seeds that have already run. These seeds are always a prefix of Seeds.
	Done []*Summary `json:"done"`

	path string
}

// OpenProgress reads the progress of an exploration from a file, or creates the file. If the file belongs to another
// exploration, it returns an error that describes the difference.
func OpenProgress(path, build, worlds string, seeds Seeds) (*Progress, error) {
	p := &Progress{Build: build, Worlds: worlds, Seeds: seeds, path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, p.Save()
	}
	if err != nil {
		return nil, err
	}
	var old Progress
	if err := json.Unmarshal(text, &old); err != nil {
		return nil, fmt.Errorf("%s is not the progress of an exploration: %w", path, err)
	}
	for _, differs := range []struct{ what, is, want string }{
		{"build is", old.Build, build}, {"scenarios are", old.Worlds, worlds}, {"seeds are", old.Seeds.String(), seeds.String()},
	} {
		if differs.is != differs.want {
			return nil, fmt.Errorf("%s is of another exploration: its %s %q, not %q; name another file, or delete this one", path, differs.what, differs.is, differs.want)
		}
	}
	p.Done = old.Done
	return p, nil
}

// Of returns the summary of the seeds of an engine that have run. It creates the summary if there is none.
func (p *Progress) Of(engine string) *Summary {
	if i := slices.IndexFunc(p.Done, func(s *Summary) bool { return s.Engine == engine }); i >= 0 {
		return p.Done[i]
	}
	s := &Summary{Engine: engine, Seeds: Seeds{First: p.Seeds.First, Step: p.Seeds.Step}}
	p.Done = append(p.Done, s)
	return s
}

// Add records the result of an engine's next seed.
func (p *Progress) Add(r *Result) { p.Of(r.Engine).add(r) }

// Save writes the file atomically.
func (p *Progress) Save() error { return result.WriteJSON(p.path, p) }
