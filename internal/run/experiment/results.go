package experiment

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/bench/result"
)

// Results holds the document of each run, or the reason why there is none.
type Results struct {
	// Simulated is set if the runs used virtual time.
	Simulated bool
	// Place is where the runs were measured in real time; empty for this machine.
	Place    string
	outcomes map[*Run]outcome
}

type outcome struct {
	document *result.Document
	err      error
	// types are the document's figures by transaction type. typesErr is the error from reading them.
	types    []result.TypeFigures
	typesErr error
}

// NewResults returns empty Results. place is where the runs are measured, for example "in a cluster". It is empty for
// this machine and for simulations.
func NewResults(place string) *Results {
	return &Results{Place: place, outcomes: map[*Run]outcome{}}
}

// Add records the outcome of a run: its document, or the reason why it has none.
func (r *Results) Add(run *Run, document *result.Document, err error) {
	o := outcome{document: document, err: err}
	// Decode the figures by type once, because claims use them repeatedly.
	if err == nil {
		o.types, o.typesErr = document.ByType()
	}
	r.outcomes[run] = o
}

// ofType returns the figures of a transaction type in a run, for one region or, if region is empty, for all regions.
// The figures are zero if there were no such transactions.
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

// Document returns the document of a run, or the reason why the run could not be played.
func (r *Results) Document(run *Run) (*result.Document, error) {
	o, ok := r.outcomes[run]
	if !ok {
		return nil, fmt.Errorf("%s was not played", run.Label)
	}
	return o.document, o.err
}

// Has reports whether the outcome of a run is known.
func (r *Results) Has(run *Run) bool {
	_, ok := r.outcomes[run]
	return ok
}
