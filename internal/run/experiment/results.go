package experiment

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/bench/result"
)

// Results are the documents of runs, or why there is none.
type Results struct {
	// Simulated results come from virtual time.
	Simulated bool
	// Place is the place of measurements in real time; empty means "on this machine".
	Place    string
	outcomes map[*Run]outcome
}

type outcome struct {
	document *result.Document
	err      error
	// types are the document's types, or the error of reading them.
	types    []result.TypeFigures
	typesErr error
}

// NewResults returns results to be added. place says for people where they were measured, for example "in a cluster";
// it is empty for this machine, and for results that are simulated.
func NewResults(place string) *Results {
	return &Results{Place: place, outcomes: map[*Run]outcome{}}
}

// Add records the outcome of a run: a document, or the reason why there is none.
func (r *Results) Add(run *Run, document *result.Document, err error) {
	o := outcome{document: document, err: err}
	if err == nil {
		o.types, o.typesErr = document.ByType()
	}
	r.outcomes[run] = o
}

// ofType returns the figures of a type of transactions in a run, of all regions if region is empty. They are zero if
// there were no such transactions.
func (r *Results) ofType(run *Run, typ, region string) (*result.TypeFigures, error) {
	if _, err := r.Document(run); err != nil {
		return nil, err
	}
	o := r.outcomes[run]
	if o.typesErr != nil {
		return nil, o.typesErr
	}
	i := slices.IndexFunc(o.types, func(t result.TypeFigures) bool { return t.Type == typ && t.Region == region })
	if i < 0 {
		return &result.TypeFigures{Type: typ, Region: region}, nil
	}
	return &o.types[i], nil
}

// Document returns the document of a run. The error is the reason why the run could not be played.
func (r *Results) Document(run *Run) (*result.Document, error) {
	o, ok := r.outcomes[run]
	if !ok {
		return nil, fmt.Errorf("%s was not played", run.Label)
	}
	return o.document, o.err
}

// Has reports whether the outcome of a run was added.
func (r *Results) Has(run *Run) bool {
	_, ok := r.outcomes[run]
	return ok
}
