package experiment

import (
	"fmt"

	"github.com/geobench/geobench/internal/result"
)

// Results are the documents of runs, or why there is none.
type Results struct {
	// Simulated results come from virtual time.
	Simulated bool
	// Place is where results in real time were measured; empty stands for "on this machine".
	Place    string
	outcomes map[*Run]outcome
}

type outcome struct {
	document *result.Document
	err      error
}

// NewResults returns results to be added. place says for people where they were measured, for example "in a cluster";
// it is empty for this machine, and for results that are simulated.
func NewResults(place string) *Results {
	return &Results{Place: place, outcomes: map[*Run]outcome{}}
}

// Add tells how a run ended: with a document, or why there is none.
func (r *Results) Add(run *Run, document *result.Document, err error) {
	r.outcomes[run] = outcome{document, err}
}

// Document of a run. The error says why it could not be played.
func (r *Results) Document(run *Run) (*result.Document, error) {
	o, ok := r.outcomes[run]
	if !ok {
		return nil, fmt.Errorf("%s was not played", run.Label)
	}
	return o.document, o.err
}

// Has reports whether it was told how a run ended.
func (r *Results) Has(run *Run) bool {
	_, ok := r.outcomes[run]
	return ok
}
