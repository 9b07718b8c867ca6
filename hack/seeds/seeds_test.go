package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/run/explore"
)

// The digest of a package depends on its code, but not on its comments or its location.
func TestDigest(t *testing.T) {
	of := func(text string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := digest(pkg{Dir: dir, GoFiles: []string{"a.go"}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const code = "package a\n\nfunc f(x int) int {\n\tif x > 1 {\n\t\treturn 2\n\t}\n\treturn x\n}\n"
	want := of(code)
	for name, text := range map[string]string{
		"a comment":             "// Package a is one.\n" + code,
		"a comment in the body": strings.Replace(code, "\t\treturn 2", "\t\t// Two is enough.\n\t\treturn 2 // always", 1),
		"an empty line":         strings.Replace(code, "\treturn x", "\n\treturn x", 1),
	} {
		if of(text) != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	for _, change := range [][2]string{{"> 1", ">= 1"}, {"return x", "return -x"}, {"f(x int)", "f(x int64)"}} {
		if of(strings.Replace(code, change[0], change[1], 1)) == want {
			t.Errorf("%q instead of %q does not change the digest", change[1], change[0])
		}
	}
}

// An engine needs new seeds after a change of its own code, of shared packages or of the explorer. A change of other
// engines has no such effect.
func TestDecisive(t *testing.T) {
	packages := map[string]pkg{}
	for path, imports := range map[string][]string{
		explorer: {protocol + "coco", protocol + "slog", module + "internal/engine/sim"}, module + "internal/engine/sim": nil,
		protocol + "coco": {module + "internal/base/store"}, protocol + "slog": {protocol + "calvin"}, protocol + "calvin": nil, module + "internal/base/store": nil,
	} {
		packages[path] = pkg{ImportPath: path, Imports: append(imports, "fmt")}
	}
	for engine, want := range map[string][]string{
		"coco": {explorer, protocol + "coco", module + "internal/engine/sim", module + "internal/base/store"},
		"slog": {explorer, protocol + "calvin", protocol + "slog", module + "internal/engine/sim"},
	} {
		slices.Sort(want)
		if got := decisive(packages, engine, []string{"coco", "slog", "calvin"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", engine, got, want)
		}
	}
}

// Seeds are recorded together with the code. Later seeds start after the last recorded one, or with the first seed if
// the code has changed.
func TestPlay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claims.json")
	play := func(code string, seeds uint64) *Claim {
		t.Helper()
		claims, err := readClaims(file)
		if err != nil {
			t.Fatal(err)
		}
		p := &player{ctx: t.Context(), out: &bytes.Buffer{}, claims: claims, code: map[string]string{"coco": code}, commit: "abc", file: file}
		if err := p.play([]string{"coco"}, []string{"usual"}, seeds); err != nil {
			t.Fatal(err)
		}
		if claims, err = readClaims(file); err != nil || len(claims.List) != 1 {
			t.Fatal(claims, err)
		}
		return claims.List[0]
	}
	if c := play("one", 3); c.Seeds != 3 || c.Code != "one" || c.Failed != 0 || c.Transactions == 0 || c.Commit != "abc" {
		t.Errorf("%+v", c)
	}
	three := play("one", 3).Transactions
	if c := play("one", 5); c.Seeds != 5 || c.Transactions <= three {
		t.Errorf("%+v", c)
	}
	if c := play("two", 3); c.Seeds != 3 || c.Code != "two" || c.Transactions != three {
		t.Errorf("%+v", c)
	}
}

// A claim about other code is shown as stale, and its engine needs new seeds.
func TestStaleClaims(t *testing.T) {
	claims := &Claims{}
	sum := explore.Summary{Engine: "coco", Seeds: explore.Seeds{First: 1, Count: 10}, Passed: 9, Failed: 1, Least: 7, Transactions: 500}
	c := claims.of("coco", "usual")
	c.Code = "one"
	c.add(sum, "abc", time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC))
	for code, want := range map[string]string{
		"one": "| coco | usual | 10 | **1**, the first is 7 | 500 | `abc` | 2026-11-27 |",
		"two": "| coco | usual | 10 | **1**, the first is 7 | 500 | `abc` | **stale** |",
	} {
		var b bytes.Buffer
		if err := claims.table(&b, map[string]string{"coco": code}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v: lacks %s:\n%s", err, want, &b)
		}
		if stale := claims.stale("coco", code); stale != (code == "two") {
			t.Errorf("code %s: stale %t", code, stale)
		}
	}
	if !claims.stale("janus", "one") {
		t.Error("an engine without claims owes no seeds")
	}
}

// Only engines with changed code need new seeds. The time for playing them is limited.
func TestOwed(t *testing.T) {
	claims, code := &Claims{}, map[string]string{}
	for _, name := range engines.Names() {
		code[name] = "one"
		claims.of(name, "usual").Code = "one"
	}
	var out bytes.Buffer
	p := &player{ctx: t.Context(), out: &out, claims: claims, code: code}
	if err := p.owed(); err != nil || !strings.HasPrefix(out.String(), "no engine owes seeds") {
		t.Fatal(err, out.String())
	}
	code["minerva"] = "two"
	out.Reset()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.ctx = ended
	if err := p.owed(); err != nil || !strings.Contains(out.String(), "were played: minerva\n0 scenarios played") {
		t.Error(err, out.String())
	}
}

func TestBadArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"name a command: play, owed, table or kinds":       nil,
		`-engine: "postgres" is not one of calvin, coco`:   {"play", "-engine", "postgres"},
		`-kind: "unusual" is not one of core, disk`:        {"play", "-kind", "unusual"},
		`"more": there are flags only`:                     {"play", "more"},
		`"hunt" is not one of play, owed, table and kinds`: {"hunt", "-root", "../.."},
	} {
		if err := command(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", args, err, want)
		}
	}
}
