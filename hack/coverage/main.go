// Command coverage reads a Go coverage profile and prints the share of executed statements in each package. Below this
// table, it lists the blocks that were never executed, by function. With a profile from hack/coverage.sh, this is the
// code that scenarios do not reach.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// module is the module path as it appears in profiles.
const module = "github.com/geobench/geobench/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "coverage: name the profile, as `go tool covdata textfmt` writes it")
		os.Exit(2)
	}
	if err := command(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func command(profile string, out io.Writer) error {
	f, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	blocks, err := read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", profile, err)
	}
	return table(blocks, out)
}

// block is a sequence of statements in a profile.
type block struct {
	file       string
	line       int
	column     int
	statements int
	executed   bool
}

// read reads a profile. The same block may occur several times in it.
func read(r io.Reader) ([]block, error) {
	all := map[string]*block{}
	lines := bufio.NewScanner(r)
	for first := true; lines.Scan(); first = false {
		text := lines.Text()
		if first && strings.HasPrefix(text, "mode:") {
			continue
		}
		at, rest, ok := strings.Cut(text, " ")
		file, span, named := strings.Cut(at, ":")
		b := block{file: strings.TrimPrefix(file, module)}
		var count int
		if _, err := fmt.Sscanf(span, "%d.%d,", &b.line, &b.column); err != nil || !ok || !named {
			return nil, fmt.Errorf("%q is no line of a profile", text)
		}
		if _, err := fmt.Sscanf(rest, "%d %d", &b.statements, &count); err != nil {
			return nil, fmt.Errorf("%q is no line of a profile", text)
		}
		if all[at] == nil {
			all[at] = &b
		}
		all[at].executed = all[at].executed || count > 0
	}
	if len(all) == 0 {
		return nil, errors.Join(lines.Err(), errors.New("the profile is empty"))
	}
	var sorted []block
	for _, b := range all {
		sorted = append(sorted, *b)
	}
	slices.SortFunc(sorted, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	return sorted, lines.Err()
}

// left reports whether a file is excluded, because scenarios are not expected to reach it. Such files are variants that
// are faulty on purpose, code only for tests, and the program itself.
func left(file string) bool {
	dir := path.Base(path.Dir(file))
	return path.Base(file) == "broken.go" || dir == "broken" || dir == "protocoltest" || strings.HasPrefix(file, "cmd/")
}

// table prints the packages, and then the blocks that were never executed.
func table(blocks []block, out io.Writer) error {
	type sum struct{ executed, all, excluded int }
	packages := map[string]*sum{}
	missed := map[string][]int{} // line numbers by file and function
	for _, b := range blocks {
		if left(b.file) {
			continue
		}
		p := path.Dir(b.file)
		if packages[p] == nil {
			packages[p] = &sum{}
		}
		s, err := parse(b.file)
		if err != nil {
			return err
		}
		packages[p].all += b.statements
		if b.statements == 0 {
			continue
		}
		if s.excludes(b.line, b.column) {
			packages[p].excluded += b.statements
			continue
		}
		if b.executed {
			packages[p].executed += b.statements
			continue
		}
		name := s.function(b.line)
		missed[b.file+" "+name] = append(missed[b.file+" "+name], b.line)
	}
	fmt.Fprintf(out, "| package | statements | excluded | executed of the others |\n|---|---|---|---|\n")
	for _, p := range slices.Sorted(maps.Keys(packages)) {
		s := packages[p]
		fmt.Fprintf(out, "| `%s` | %d | %d | %.1f%% |\n", strings.TrimPrefix(p, "internal/"), s.all, s.excluded,
			100*float64(s.executed)/float64(max(1, s.all-s.excluded)))
	}
	fmt.Fprintln(out, "\nNever executed, by function and line:")
	for _, f := range slices.Sorted(maps.Keys(missed)) {
		fmt.Fprintf(out, "%s %v\n", f, missed[f])
	}
	return nil
}

// parsed caches the scanned files by name.
var parsed = map[string]*scanned{}

// files contains the positions of all parsed files.
var files = token.NewFileSet()

// parse returns the scanned file for the name of a file in a profile.
func parse(file string) (*scanned, error) {
	if parsed[file] == nil {
		s, err := scan(file)
		if err != nil {
			return nil, err
		}
		parsed[file] = s
	}
	return parsed[file], nil
}

// function returns the name of the function that contains a line, or "-" if there is none.
func (s *scanned) function(line int) string {
	for _, d := range s.file.Decls {
		f, is := d.(*ast.FuncDecl)
		if is && files.Position(f.Pos()).Line <= line && line <= files.Position(f.End()).Line {
			return f.Name.Name
		}
	}
	return "-"
}
