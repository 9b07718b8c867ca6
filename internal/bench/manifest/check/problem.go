package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is a single error in a manifest.
type Problem struct {
	// Source is the file and line at which the object starts. It is empty if the object is from a cluster.
	Source string `json:"source,omitempty"`
	// Object is the kind and name of the object, for example "BenchmarkRun quickstart".
	Object string `json:"object,omitempty"`
	// Field is the path of the field, for example spec.links[0].rtt.
	Field string `json:"field"`
	// Value is the value of the field, as JSON without quotes around strings. It is empty if there is no value or if the
	// value is large.
	Value string `json:"value,omitempty"`
	// Message describes the error and a correct value.
	Message string `json:"message"`
	// NotFound is set if the field refers to an object that does not exist. The object may be created later.
	NotFound bool `json:"-"`
}

// NotFound reports whether any problem is a reference to a missing object. Further problems may be consequences of this
// problem.
func (ps Problems) NotFound() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.NotFound })
}

// String returns "source: object: field: message". If the message does not contain the value, the value precedes the
// message.
func (p Problem) String() string {
	var parts []string
	for _, s := range []string{p.Source, p.Object, p.Field} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if p.Value != "" && !p.tellsValue() {
		parts = append(parts, p.Value)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

func (p Problem) tellsValue() bool {
	first, _, _ := strings.Cut(p.Message, " ")
	switch first {
	// A message that starts with a verb needs the value before it as its subject.
	case "must", "is":
		return false
	case p.Field[strings.LastIndexByte(p.Field, '.')+1:]:
		return true
	}
	return strings.Contains(p.Message, p.Value)
}

// Problems is an error that contains all problems of manifests.
type Problems []Problem

// Error returns all problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns nil if there are no problems, and otherwise ps.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Sort orders problems by object, field and message, so that output is stable.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
}

func (ps *Problems) add(field, value, format string, args ...any) {
	*ps = append(*ps, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...)})
}

// Nearest returns the candidate with the smallest edit distance to word. It returns false if no candidate is close
// enough to be the intended word.
func Nearest(word string, candidates []string) (string, bool) {
	// A longer word may contain more typing errors.
	best, bestDistance := "", len(word)/3+2
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best, best != ""
}

// distance returns the optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours
// each cost 1.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	prev2, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			// A swap of neighbours, which is a common typing error, costs 1 instead of 2.
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(y)]
}

// didYouMean returns " (did you mean X?)", or an empty string if no candidate is close.
func didYouMean(word string, candidates []string) string {
	if n, ok := Nearest(word, candidates); ok {
		return fmt.Sprintf(" (did you mean %s?)", n)
	}
	return ""
}
