package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/geobench/geobench/internal/bench/result"
)

// Result is the outcome of the hunt for a mutant.
type Result struct {
	// Hunt is the hunt that killed the mutant. Killer is the cause of the failure: a test, a seed, a panic or the
	// time limit. Both are empty if the mutant survived.
	Hunt, Killer string
	// CPU is the CPU time of the hunt, in seconds.
	CPU float64
	// Fingerprint contains the hashes of the inputs on which the result depends.
	Fingerprint
	// Test is the hash of TestFile, the file with the killing test. With this hash, changes of other tests do not
	// invalidate the result.
	Test, TestFile string

	by *Hunt // the hunt that killed the mutant; nil for none, and for a hunt of an earlier invocation
}

// Killed reports whether a hunt detected the mutant.
func (r *Result) Killed() bool { return r.Killer != "" }

func (r *Result) String() string {
	if !r.Killed() {
		return "SURVIVED"
	}
	return fmt.Sprintf("killed by %s: %s", r.Hunt, r.Killer)
}

// Fingerprint holds the hashes that determine whether a result is still valid. It covers only the packages listed
// below, not all their dependencies, so a change elsewhere goes unnoticed. With -fresh, all mutants are hunted again.
type Fingerprint struct {
	// Mutant is the hash of the mutant's entry in its list. Code is the hash of all code except tests: of the edited
	// package, of the packages whose tests hunt the mutant, and of the explorer. Tests is the hash of the tests of these
	// packages.
	Mutant, Code, Tests string
}

// fingerprint returns the fingerprint of a mutant with the current tree.
func fingerprint(root string, m *Mutant) (f Fingerprint, err error) {
	code, tests := []string{path.Dir(m.File)}, []string(nil)
	listed := []any{m.Area, m.Name, m.File, m.Old, m.New}
	for _, h := range m.Hunts {
		listed = append(listed, h.String())
		if h.Engine == "" {
			code, tests = append(code, path.Clean(h.Package)), append(tests, path.Clean(h.Package))
		} else {
			code = append(code, "internal/run/explore")
		}
	}
	f.Mutant = sum(listed...)
	if f.Code, err = hashOf(root, code, func(file string) bool { return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") }); err != nil {
		return f, err
	}
	f.Tests, err = hashOf(root, tests, func(file string) bool {
		return strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/")
	})
	return f, err
}

// soundness returns the hash of all inputs that determine whether a hunt passes without a mutant.
func soundness(root string, h Hunt) (string, error) {
	file := path.Join(path.Clean(h.Package), "any")
	if h.Engine != "" {
		file = "internal/engine/protocol/" + h.Engine + "/any"
	}
	f, err := fingerprint(root, &Mutant{File: file, Hunts: []Hunt{h}})
	return f.Code + f.Tests, err
}

// hashOf returns the hash of those files in the folders for which choose returns true.
func hashOf(root string, folders []string, choose func(file string) bool) (string, error) {
	slices.Sort(folders)
	var of []any
	for _, folder := range slices.Compact(folders) {
		err := fs.WalkDir(os.DirFS(root), folder, func(file string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && file != folder && e.Name() != "testdata" && !strings.Contains(file, "/testdata/") {
				return fs.SkipDir // the subfolder is another package
			}
			if e.IsDir() || !choose(file) {
				return nil
			}
			text, err := os.ReadFile(filepath.Join(root, file))
			of = append(of, file, string(text))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return sum(of...), nil
}

func sum(of ...any) string {
	b, err := json.Marshal(of)
	if err != nil {
		panic(err) // unreachable, because strings can always be encoded
	}
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:8])
}

// killedBy records the file with the killing test.
func (r *Result) killedBy(root string, h Hunt) {
	if h.Engine != "" {
		return
	}
	name, _, _ := strings.Cut(r.Killer, "/")
	declared, err := regexp.Compile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`)
	if err != nil {
		return
	}
	files, _ := filepath.Glob(filepath.Join(root, h.Package, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && declared.Match(text) {
			r.TestFile, _ = filepath.Rel(root, file)
			r.Test = sum(string(text))
			return
		}
	}
}

// Holds reports whether the result is still valid, which means that no relevant input has changed.
func (r *Result) Holds(root string, now Fingerprint) bool {
	if r.Mutant != now.Mutant || r.Code != now.Code {
		return false
	}
	if r.Tests == now.Tests || r.Killed() && strings.HasPrefix(r.Hunt, "worlds ") {
		return true
	}
	text, err := os.ReadFile(filepath.Join(root, r.TestFile))
	return r.Killed() && err == nil && r.Test == sum(string(text))
}

// Results contains the results of all hunts. It is stored in a file.
type Results struct {
	path string
	// By maps each Mutant.ID to the result for the mutant.
	By map[string]*Result
	// Sound maps each hunt that passed without a mutant to the hash of its inputs.
	Sound map[string]string
}

// OpenResults reads result files and merges them. paths lists their paths, separated by commas; the files need not
// exist. Keep writes to the first file.
func OpenResults(paths string) (*Results, error) {
	all := &Results{By: map[string]*Result{}, Sound: map[string]string{}}
	for i, path := range strings.Split(paths, ",") {
		if i == 0 {
			all.path = path
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var r Results
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for id, of := range r.By {
			if all.By[id] == nil {
				all.By[id] = of
			}
		}
		for hunt, of := range r.Sound {
			if all.Sound[hunt] == "" {
				all.Sound[hunt] = of
			}
		}
	}
	return all, os.MkdirAll(filepath.Dir(all.path), 0o755)
}

// Of returns the result of a mutant, or nil if the mutant has not been hunted.
func (r *Results) Of(m *Mutant) *Result { return r.By[m.ID()] }

// Keep stores the result of a mutant and writes the file atomically.
func (r *Results) Keep(m *Mutant, of *Result) error {
	r.By[m.ID()] = of
	return result.WriteJSON(r.path, r)
}

// row contains the numbers of mutants of an area.
type row struct {
	area                                         string
	mutants, tests, worlds, endless, equal, left int
	cpu                                          float64
}

func (w *row) add(m *Mutant, of *Result) {
	w.mutants++
	w.cpu += of.CPU
	switch {
	case !of.Killed() && m.Equivalent != "":
		w.equal++
	case !of.Killed():
		w.left++
	case of.Killer == byTime || strings.HasSuffix(of.Killer, noEnd):
		w.endless++
	case strings.HasPrefix(of.Hunt, "worlds "):
		w.worlds++
	default:
		w.tests++
	}
}

// Table returns a table with the number of mutants of each area by killer, followed by the surviving mutants.
func (r *Results) Table(mutants []*Mutant) string {
	all := row{area: "all"}
	var rows []*row
	for _, m := range mutants {
		i := slices.IndexFunc(rows, func(w *row) bool { return w.area == m.Area })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{area: m.Area})
		}
		rows[i].add(m, r.Of(m))
		all.add(m, r.Of(m))
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.area, b.area) })
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| area\t| mutants\t| killed by tests\t| by worlds\t| by time\t| equivalent\t| survive\t| CPU time\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, of := range append(rows, &all) {
		fmt.Fprintf(w, "| %s\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d\t| %.0f s\t|\n", of.area, of.mutants, of.tests, of.worlds, of.endless, of.equal, of.left, of.cpu)
	}
	_ = w.Flush()
	killed := all.tests + all.worlds + all.endless
	fmt.Fprintf(&b, "\n%d of %d mutants were killed (%.1f%%; %.1f%% of those that are not equivalent), in %.0f s of CPU time.\n", killed, all.mutants,
		100*float64(killed)/float64(all.mutants), 100*float64(killed)/float64(max(1, all.mutants-all.equal)), all.cpu)
	for _, m := range mutants {
		if r.Of(m).Killed() {
			continue
		}
		why := m.Equivalent
		if why == "" {
			why = "Nobody knows why."
		}
		fmt.Fprintf(&b, "- `%s` survives: %s %s\n", m.ID(), m.Wrong, why)
	}
	return b.String()
}

// Unexplained returns an error if a surviving mutant is not listed as equivalent, or if a killed mutant is.
func (r *Results) Unexplained(mutants []*Mutant) error {
	var errs []error
	for _, m := range mutants {
		switch of := r.Of(m); {
		case of.Killed() && m.Equivalent != "":
			errs = append(errs, fmt.Errorf("%s: %s: it is listed as equivalent and was %v", m.At, m.ID(), of))
		case !of.Killed() && m.Equivalent == "":
			errs = append(errs, fmt.Errorf("%s: %s survives: write the test that kills it, or say in its list why nobody can tell (`equivalent: ...`)", m.At, m.ID()))
		}
	}
	return errors.Join(errs...)
}
