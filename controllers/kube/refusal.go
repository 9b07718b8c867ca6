package kube

import (
	"errors"
	"fmt"

	"github.com/geobench/geobench/internal/ops/health"
)

// Refusal is an error for a spec that cannot be carried out. The status shows it until the user corrects the spec.
type Refusal struct{ Reason, Message string }

func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// Refuse returns a refusal. reason is one word, as in a condition. The message is a sentence that states the problem
// and a valid alternative.
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// AsRefusal returns the refusal in err, or nil. A *NameTakenError also counts as a refusal, because the user must
// resolve the conflict.
func AsRefusal(err error) *Refusal {
	var r *Refusal
	var taken *NameTakenError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &taken):
		return &Refusal{health.NameTaken, taken.Error()}
	}
	return nil
}
