package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// style is the name of Geobench's own Vale style, and of its folder in styles.
const style = "Geobench"

// extraction is the version of markdown, goComments and longLines. Increment it when a change in these functions
// affects the number of findings; make words then counts all rules again.
const extraction = 2

// rules maps the name of each rule to the digest of its definition.
type rules map[string]string

func (r rules) names() []string { return slices.Sorted(maps.Keys(r)) }

// readRules returns the rules of Vale in a folder, and the rule LineLength.
func readRules(folder string) (rules, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no rules in %s: run this in the repository, or set -root", folder)
	}
	r := rules{lineLength: digest(fmt.Sprint(columns))}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r[strings.TrimSuffix(filepath.Base(file), ".yml")] = digest(string(body))
	}
	return r, nil
}

func digest(definition string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", extraction, definition))
	return hex.EncodeToString(sum[:4])
}

// vale runs Vale on extracted prose.
type vale struct {
	program string // path of Vale; if empty, hack/tools builds Vale
	root    string
}

// lint returns the findings in texts, which are by file.
func (v vale) lint(ctx context.Context, texts map[string]text) ([]finding, error) {
	program, err := v.built(ctx)
	if err != nil {
		return nil, err
	}
	config, err := filepath.Abs(filepath.Join(v.root, folder, "vale.ini"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "geobench-words-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	chunks := map[string]chunk{}
	for name, t := range texts {
		for _, c := range t.chunks(chunkSize) {
			file := fmt.Sprintf("%d.txt", len(chunks))
			chunks[file] = chunk{name, c}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Join(c.Lines, "\n")+"\n"), 0o644); err != nil {
				return nil, err
			}
		}
	}
	out, err := run(ctx, dir, program, "--no-global", "--no-exit", "--output", "JSON", "--config", config, ".")
	if err != nil {
		return nil, err
	}
	return parseAlerts(out, chunks)
}

// chunk is a part of a file's text.
type chunk struct {
	file string
	text
}

// parseAlerts parses the JSON output of Vale, which has a list of alerts for each file with findings.
func parseAlerts(out []byte, chunks map[string]chunk) (found []finding, err error) {
	var files map[string][]struct {
		Check, Message string
		Line           int
	}
	if err := json.Unmarshal(out, &files); err != nil {
		return nil, fmt.Errorf("output of vale: %w\n%.300s", err, out)
	}
	for file, alerts := range files {
		c, known := chunks[filepath.Base(file)]
		for _, a := range alerts {
			rule, ours := strings.CutPrefix(a.Check, style+".")
			if !known || !ours || a.Line < 1 || a.Line > len(c.Source) {
				return nil, fmt.Errorf("output of vale: %s in line %d of %s is unknown here: %s", a.Check, a.Line, file, a.Message)
			}
			line := c.Source[a.Line-1]
			found = append(found, finding{c.file, line, rule, partOf(c.file), a.Message, c.paragraphEnd(a.Line - 1)})
		}
	}
	return found, nil
}

// run returns the output of a program. It removes the environment variables of Vale, which could select other styles.
func run(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "VALE_") })
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w\n%s%s", program, err, exit.Stderr, out)
	}
	return out, err
}

// built returns the path of Vale. If it is not in the cache, hack/tools builds it.
func (v vale) built(ctx context.Context) (string, error) {
	if v.program != "" {
		return filepath.Abs(v.program)
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(v.root, "hack", "tools"), ".", "install", "vale")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("hack/tools install vale: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
