package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// document returns a manifest as JSON.
func document(kind, name string, spec any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	})
}

func decode(texts ...[]byte) (db, run map[string]any, err error) {
	return db, run, errors.Join(utiljson.Unmarshal(texts[0], &db), utiljson.Unmarshal(texts[1], &run))
}

// copyObject returns a deep copy of a JSON object. Validation needs a copy, because it fills in defaults.
func copyObject(v map[string]any) map[string]any { return copyJSON(v).(map[string]any) }

func copyJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = copyJSON(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copyJSON(e)
		}
		return out
	}
	return v
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// nearest returns "; did you mean X? (there is ...)". It omits the suggestion if no known word is similar, and the list
// if known is empty.
func nearest(word string, known []string) string {
	m := ""
	// Truncate the word: the time of a comparison grows with the length of the word, which the author of a manifest
	// chooses.
	if len(word) > longestWord {
		word = word[:longestWord]
	}
	if n, ok := check.Nearest(word, known); ok {
		m = fmt.Sprintf("; did you mean %s?", n)
	}
	if len(known) > 0 {
		m += fmt.Sprintf(" (there is %s)", listed(known))
	}
	return m
}

const (
	// longestWord is the length to which nearest truncates a word, in bytes.
	longestWord = 253
	// mostListed is the maximum number of names in a message.
	mostListed = 50
)

// listed joins the first mostListed names with commas, and states how many more there are.
func listed(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}
