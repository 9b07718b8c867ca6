package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/engine/engines"
)

const (
	module   = "github.com/geobench/geobench/"
	explorer = module + "internal/run/explore"
	protocol = module + "internal/engine/protocol/"
)

// pkg is a package in the output of go list.
type pkg struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
}

// digests returns, for each engine, the digest of the code on which the outcomes of its seeds depend.
func digests(root string) (map[string]string, error) {
	packages, err := list(root)
	if err != nil {
		return nil, err
	}
	code := map[string]string{}
	for path, p := range packages {
		if code[path], err = digest(p); err != nil {
			return nil, err
		}
	}
	out := map[string]string{}
	for _, name := range engines.Names() {
		of := decisive(packages, name, engines.Names())
		sum := sha256.New()
		for _, path := range of {
			fmt.Fprintln(sum, path, code[path])
		}
		out[name] = hex.EncodeToString(sum.Sum(nil)[:6])
	}
	return out, nil
}

// list returns the packages of this module on which the explorer and the engines depend.
func list(root string) (map[string]pkg, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports", explorer}
	for _, name := range engines.Names() {
		args = append(args, protocol+name)
	}
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &stderr)
	}
	packages := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.ImportPath, module) {
			packages[p.ImportPath] = p
		}
	}
}

// decisive returns the packages on which the outcomes of an engine's seeds depend. These are the engine with its
// dependencies, and the explorer with its dependencies except for other engines.
func decisive(packages map[string]pkg, engine string, names []string) []string {
	reached := map[string]bool{}
	var visit func(path string, blocked func(string) bool)
	visit = func(path string, blocked func(string) bool) {
		p, ok := packages[path]
		if !ok || reached[path] || blocked(path) {
			return
		}
		reached[path] = true
		for _, i := range p.Imports {
			visit(i, blocked)
		}
	}
	visit(protocol+engine, func(string) bool { return false })
	visit(explorer, func(path string) bool { return slices.Contains(names, strings.TrimPrefix(path, protocol)) })
	return slices.Sorted(maps.Keys(reached))
}

// digest returns the digest of a package's code, without its comments.
func digest(p pkg) (string, error) {
	sum := sha256.New()
	for _, name := range p.GoFiles {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, name)
		if err := (&printer.Config{}).Fprint(sum, token.NewFileSet(), file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}
