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
	// Place is where results in real time were measured; empty stands for "on this machine".
	Place    string
	outcomes map[*Run]outcome
}

type outcome struct {
	document *result.Document
	err      error
	// types are those of the document, or why they could not be read.
	types    []result.TypeFigures
	typesErr error
}

// NewResults returns results to be added. place says for people where they were measured, for example "in a cluster";
// it is empty for this machine, and for results that are simulated.
func NewResults(place string) *Results {
	return &Results{Place: place, outcomes: map[*Run]outcome{}}
}

// Add tells how a run ended: with a document, or why there is none.
func (r *Results) Add(run *Run, document *result.Document, err error) {
	o := outcome{document: document, err: err}
	if err == nil {
		o.types, o.typesErr = document.ByType()
	}
	r.outcomes[run] = o
}

// ofType returns the figures of a type of transactions in a run, of all regions where region is empty. Those of which
// there were none are zero.
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
