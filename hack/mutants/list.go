package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mutant is a small edit that introduces a defect into correct code.
type Mutant struct {
	// Area is the area of the mutant: an engine, or a package that engines use.
	Area string
	// Name is the name of the mutant, which is unique in its area.
	Name string
	// File is the edited file, relative to the root.
	File string
	// Wrong is a sentence about the defect.
	Wrong string
	// Equivalent is the reason why no test can distinguish the mutant from the original; empty if tests can.
	Equivalent string
	// Hunts are the hunts that should kill the mutant, in order: first its own hunts, and then the hunts of its
	// area.
	Hunts []Hunt
	// Old contains whole lines that occur exactly once in File, and New contains the lines that replace them. Indentation
	// is ignored.
	Old, New []string
	// At is the position of the mutant in its list. Error messages contain it.
	At string
}

// ID returns a name that is unique among all mutants.
func (m *Mutant) ID() string { return m.Area + "/" + m.Name }

// Hunt is an attempt to kill a mutant: with the tests of a package, or with scenarios of the explorer.
type Hunt struct {
	// Package is the package with the tests, for example ./internal/net/wire. Run is a regular expression that selects
	// tests; empty for all tests.
	Package, Run string
	// Engine is the engine that is explored; empty for tests. Seeds is the number of seeds. Worlds lists the kinds of
	// scenarios (hostile, slow, core, replace, buggify, checkpoints, wide).
	Engine string
	Seeds  int
	Worlds []string
}

// String returns the hunt in the notation that lists use.
func (h Hunt) String() string {
	if h.Engine == "" {
		return strings.TrimSpace("tests " + h.Package + " " + h.Run)
	}
	return strings.Join(append([]string{"worlds", h.Engine, strconv.Itoa(h.Seeds)}, h.Worlds...), " ")
}

func parseHunt(s string) (Hunt, error) {
	f := strings.Fields(s)
	switch {
	case len(f) > 1 && len(f) < 4 && f[0] == "tests" && strings.HasPrefix(f[1], "./"):
		h := Hunt{Package: f[1]}
		if len(f) == 3 {
			h.Run = f[2]
		}
		return h, nil
	case len(f) > 2 && f[0] == "worlds":
		n, err := strconv.Atoi(f[2])
		known := func(kind string) bool {
			return slices.Contains([]string{"hostile", "slow", "core", "replace", "buggify", "checkpoints", "wide"}, kind)
		}
		unknown := slices.IndexFunc(f[3:], func(kind string) bool { return !known(kind) })
		if err == nil && n > 0 && unknown < 0 {
			return Hunt{Engine: f[1], Seeds: n, Worlds: f[3:]}, nil
		}
	}
	return Hunt{}, fmt.Errorf("hunt: %q is neither `tests ./PACKAGE [EXPRESSION]` nor `worlds ENGINE SEEDS [hostile] [slow] [core] [replace] [buggify] [checkpoints] [wide]`", s)
}

// ReadLists reads all lists in a folder, in the order of their file names.
func ReadLists(dir string) ([]*Mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no list, a file that ends in .txt", dir)
	}
	var all []*Mutant
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		list, err := parse(filepath.Base(file), string(text))
		all, errs = append(all, list...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// parse parses a list. Blank lines separate blocks. The first block has the area and the hunts for all mutants. Each
// other block is a mutant. It ends with the lines of the edit, marked as in a diff. Lines with ` ` are kept, lines with
// `-` are removed, and lines with `+` are added. Lines that start with # are comments.
func parse(file, text string) (list []*Mutant, err error) {
	var area string
	var shared []Hunt
	var m *Mutant
	for i, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", file, i+1)
		key, value, found := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			m = nil
		case m != nil && strings.ContainsAny(line[:1], " -+"):
			text := strings.TrimLeft(line[1:], " \t")
			if line[0] != '+' {
				m.Old = append(m.Old, text)
			}
			if line[0] != '-' {
				m.New = append(m.New, text)
			}
		case !found:
			return nil, fmt.Errorf("%s: %q is neither `key: value` nor a line of an edit", at, line)
		case key == "area" && area == "":
			area = value
		case key == "mutant" && m == nil && area != "":
			m = &Mutant{Area: area, Name: value, At: at}
			list = append(list, m)
		case key == "hunt":
			h, err := parseHunt(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
			if m == nil {
				shared = append(shared, h)
			} else {
				m.Hunts = append(m.Hunts, h)
			}
		case key == "file" && m != nil:
			m.File = value
		case key == "wrong" && m != nil:
			m.Wrong = value
		case key == "equivalent" && m != nil:
			m.Equivalent = value
		default:
			return nil, fmt.Errorf("%s: %q cannot stand here: a list begins with `area`, a block of its own with `mutant`", at, key)
		}
	}
	for _, m := range list {
		m.Hunts = append(m.Hunts, shared...)
	}
	return list, nil
}

// Check checks the lists against the tree. Names must be unique, all fields must be set, and the edited text must occur
// exactly once.
func Check(root string, all []*Mutant) error {
	var errs []error
	seen := map[string]string{}
	for _, m := range all {
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s: %s: %s", m.At, m.ID(), fmt.Sprintf(format, args...)))
		}
		if at := seen[m.ID()]; at != "" {
			wrong("the name is taken at %s", at)
		}
		seen[m.ID()] = m.At
		if m.Wrong == "" {
			wrong("wrong: it must say in a sentence what is broken")
		}
		if len(m.Hunts) == 0 {
			wrong("hunt: there must be one, of the mutant or of its area")
		}
		for _, h := range m.Hunts {
			if err := h.check(root); err != nil {
				wrong("hunt: %v", err)
			}
		}
		if _, err := m.Apply(root); err != nil {
			wrong("%v", err)
		}
	}
	return errors.Join(errs...)
}

// check returns an error if the hunt uses tests that do not exist.
func (h Hunt) check(root string) error {
	if h.Engine != "" {
		return nil // the explorer itself checks the name of the engine
	}
	name, _, _ := strings.Cut(h.Run, "/")
	run, err := regexp.Compile(name)
	if err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(root, h.Package, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, test := range declaredTest.FindAllSubmatch(text, -1) {
			if run.Match(test[1]) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s has no test %s", h.Package, name)
}

var declaredTest = regexp.MustCompile(`(?m)^func (Test\w*)\(`)

// Apply returns the contents of the edited file.
func (m *Mutant) Apply(root string) ([]byte, error) {
	if len(m.Old) == 0 || slices.Equal(m.Old, m.New) {
		return nil, errors.New("the edit must have lines that go, or lines that come beside one that stays")
	}
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	var found []int
	for i := range len(lines) - len(m.Old) + 1 {
		same := true
		for j, old := range m.Old {
			same = same && strings.TrimLeft(lines[i+j], " \t") == old
		}
		if same {
			found = append(found, i)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has the lines that are edited %d times, not once: write the edit for the code of today, or with more lines around it", m.File, len(found))
	}
	lines = slices.Replace(lines, found[0], found[0]+len(m.Old), m.New...)
	return []byte(strings.Join(lines, "\n")), nil
}
