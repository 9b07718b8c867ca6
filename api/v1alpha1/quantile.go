package v1alpha1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Quantile is a quantile of a latency in microseconds. It is an observed value, or a lower bound if the quantile falls
// among transactions that were never answered. In JSON, a value is a number (105400), and a lower bound is a string
// ("> 140000"). So a reader that expects a number cannot mistake a bound for a value. The zero Quantile is the value 0.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Pattern=`^> [0-9]{1,18}$`
type Quantile struct {
	// Floor is the quantile in microseconds or, if Open is set, a lower bound of it. Use Value to distinguish the two. The
	// fields are exported only because apimachinery's equality cannot compare unexported fields.
	Floor int64 `json:"-"`
	Open  bool  `json:"-"`
}

// Observed returns a quantile that was observed, in microseconds.
func Observed(microseconds int64) Quantile { return Quantile{Floor: microseconds} }

// MoreThan returns a quantile for which only a lower bound is known, in microseconds.
func MoreThan(microseconds int64) Quantile { return Quantile{microseconds, true} }

// Value returns the quantile in microseconds. ok is false if only a lower bound is known.
func (q Quantile) Value() (microseconds int64, ok bool) {
	if q.Open {
		return 0, false
	}
	return q.Floor, true
}

// Least returns the value or the lower bound, in microseconds.
func (q Quantile) Least() int64 { return q.Floor }

// IsBound reports whether only a lower bound is known.
func (q Quantile) IsBound() bool { return q.Open }

// Compare orders quantiles by Least; a lower bound is larger than an equal value.
func (q Quantile) Compare(o Quantile) int {
	if c := cmp.Compare(q.Floor, o.Floor); c != 0 || q.Open == o.Open {
		return c
	}
	if q.Open {
		return 1
	}
	return -1
}

// boundPrefix marks a lower bound in JSON.
const boundPrefix = "> "

// MarshalJSON encodes a value as a number and a lower bound as a string, "> 140000".
func (q Quantile) MarshalJSON() ([]byte, error) {
	if q.Open {
		return json.Marshal(boundPrefix + strconv.FormatInt(q.Floor, 10))
	}
	return strconv.AppendInt(nil, q.Floor, 10), nil
}

// UnmarshalJSON parses the output of MarshalJSON.
func (q *Quantile) UnmarshalJSON(b []byte) error {
	text, bound := string(b), false
	if strings.HasPrefix(text, `"`) {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		text, bound = strings.CutPrefix(s, boundPrefix)
		if !bound {
			return fmt.Errorf("quantile %q: a lower bound has the form %q", s, boundPrefix+"140000")
		}
	}
	us, err := strconv.ParseInt(text, 10, 64)
	if err != nil || us < 0 {
		return fmt.Errorf("quantile %s: it is no number of microseconds", b)
	}
	*q = Quantile{us, bound}
	return nil
}
