// Package hostlist formats lists of numbered host names in the short form that Slurm calls a host list expression. For
// example, db-eu-[0-44].db-eu:7000 stands for 45 names. The length of a database's node list then depends on the number
// of regions rather than nodes, so the list always fits into a ConfigMap.
package hostlist

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Most is the maximum number of items in an unfolded list, because no database has more nodes. Without a limit, a
// crafted expression could exhaust the reader's memory.
const Most = 1 << 14

// expression matches a name with a range in place of a number. IPv6 addresses have brackets, but no dash.
var expression = regexp.MustCompile(`^(.*)\[(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8})\](.*)$`)

// Fold joins adjacent items whose names differ only in numbers, if the numbers increase by 1 from item to item. names
// returns the fields of an item that contain names; an empty field stays empty. Names must not be expressions
// themselves.
func Fold[T comparable](items []T, names func(*T) []*string) []T {
	var out []T
	var rest T     // the last item of out without its names
	var runs []run // the names of the last item of out
	var here []string
	write := func() {
		if len(out) > 0 {
			for i, field := range names(&out[len(out)-1]) {
				*field = runs[i].String()
			}
		}
	}
	for _, item := range items {
		bare := item
		here = here[:0]
		for _, field := range names(&bare) {
			here = append(here, *field)
			*field = ""
		}
		if len(out) > 0 && bare == rest && extend(runs, here) {
			continue
		}
		write()
		out, rest, runs = append(out, item), bare, runs[:0]
		for _, name := range here {
			runs = append(runs, run{single: name})
		}
	}
	write()
	return out
}

// Unfold expands the expressions that Fold has produced. The error contains the invalid expression.
func Unfold[T comparable](items []T, names func(*T) []*string) ([]T, error) {
	var out []T
	for _, item := range items {
		runs, count := []run{}, 1
		for _, field := range names(&item) {
			name := *field
			r, err := parse(name)
			if err != nil {
				return nil, err
			}
			if r.ranged() {
				// The numbers in all names of an item increase together, so their ranges must have the same length.
				if count > 1 && r.count() != count {
					return nil, fmt.Errorf("%q stands for %d names, and another name beside it for %d: they must be as many", name, r.count(), count)
				}
				count = r.count()
			}
			runs = append(runs, r)
		}
		// Check the limit before the loop allocates the names.
		if len(out)+count > Most {
			return nil, fmt.Errorf("%d names are more than %d", len(out)+count, Most)
		}
		for at := range count {
			for i, field := range names(&item) {
				*field = runs[i].name(at)
			}
			out = append(out, item)
		}
	}
	return out, nil
}

// Names is a list of names that is folded in JSON.
type Names []string

func itself(name *string) []*string { return []*string{name} }

// MarshalJSON implements json.Marshaler: it folds the list.
func (n Names) MarshalJSON() ([]byte, error) { return json.Marshal(Fold([]string(n), itself)) }

// UnmarshalJSON implements json.Unmarshaler: it unfolds the list.
func (n *Names) UnmarshalJSON(b []byte) error {
	var folded []string
	if err := json.Unmarshal(b, &folded); err != nil {
		return err
	}
	out, err := Unfold(folded, itself)
	*n = out
	return err
}

// run is a name, or a range of names with increasing numbers.
type run struct {
	// single is the name if the run is not a range.
	single         string
	prefix, suffix string
	first, last    int
}

func (r *run) ranged() bool { return r.last > r.first }
func (r *run) count() int   { return r.last - r.first + 1 }

func (r *run) String() string {
	if !r.ranged() {
		return r.single
	}
	return fmt.Sprintf("%s[%d-%d]%s", r.prefix, r.first, r.last, r.suffix)
}

// name returns the name at an index, counted from 0.
func (r *run) name(at int) string {
	if !r.ranged() {
		return r.single
	}
	return r.prefix + strconv.Itoa(r.first+at) + r.suffix
}

// next returns the run extended by name. It returns false if name does not continue the run.
func (r *run) next(name string) (run, bool) {
	if r.ranged() {
		longer := *r
		longer.last++
		middle, begins := strings.CutPrefix(name, r.prefix)
		n, rest, ok := number(middle)
		return longer, begins && ok && n == longer.last && rest == r.suffix
	}
	// The number starts where the names differ, or some digits earlier.
	at := 0
	for at < len(r.single) && at < len(name) && r.single[at] == name[at] {
		at++
	}
	for at > 0 && isDigit(name[at-1]) {
		at--
	}
	first, suffix, ok := number(r.single[at:])
	if !ok {
		return run{}, false
	}
	longer := run{prefix: name[:at], suffix: suffix, first: first, last: first + 1}
	// The names may differ in more than a number that increases by 1.
	return longer, longer.name(1) == name
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// number parses the number at the start of text, and returns the remaining text.
func number(text string) (n int, rest string, ok bool) {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	// Unfolding would not restore leading zeros. 9 digits fit into an int on every platform.
	if end == 0 || end > 9 || end > 1 && text[0] == '0' {
		return 0, "", false
	}
	n, err := strconv.Atoi(text[:end])
	return n, text[end:], err == nil
}

func parse(name string) (run, error) {
	m := expression.FindStringSubmatch(name)
	if m == nil {
		return run{single: name}, nil
	}
	first, _, _ := number(m[2])
	last, _, _ := number(m[3])
	if last <= first {
		return run{}, fmt.Errorf("%q: %d is not more than %d; a range ends after it begins", name, last, first)
	}
	if last-first >= Most {
		return run{}, fmt.Errorf("%q stands for %d names, more than %d", name, last-first+1, Most)
	}
	return run{prefix: m[1], suffix: m[4], first: first, last: last}, nil
}

// extend extends every run by the corresponding name, or none of them. An empty run is extended only by an empty name.
func extend(runs []run, names []string) bool {
	var few [2]run
	longer := append(few[:0], runs...)
	extended := false
	for i, name := range names {
		next, ok := runs[i].next(name)
		switch {
		case ok:
			longer[i], extended = next, true
		case name != "" || runs[i] != (run{}):
			return false
		}
	}
	if extended {
		copy(runs, longer)
	}
	return extended
}
