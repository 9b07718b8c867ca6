package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// repository reads the history from git. Without git or in a shallow clone, some of the history is missing. The check
// then compares the tree only with the budget.
type repository struct{ dir string }

func (r repository) git(ctx context.Context, args ...string) (string, bool) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.dir
	out, err := cmd.Output()
	return string(out), err == nil
}

// version is the budget at a commit.
type version struct {
	commit string
	budget budget
}

// versions returns the budgets at the last commits that changed the file, newest first.
func (r repository) versions(ctx context.Context, file string) (versions []version) {
	commits, _ := r.git(ctx, "log", "-n", "50", "--format=%H", "--", file)
	for commit := range strings.FieldsSeq(commits) {
		body, ok := r.git(ctx, "show", commit+":"+file)
		if !ok {
			continue // the commit deleted the file
		}
		if b, err := parseBudget(body); err == nil {
			versions = append(versions, version{commit, b})
		}
	}
	return versions
}

// since contains the lines that are newer than a commit, by file.
type since struct {
	commit string
	lines  map[string]map[int]bool
}

// added returns the lines of the tree that are newer than the last commit that changed file.
func (r repository) added(ctx context.Context, file string) since {
	commit, _ := r.git(ctx, "log", "-n", "1", "--format=%H", "--", file)
	commit = strings.TrimSpace(commit)
	if commit == "" {
		return since{}
	}
	diff, _ := r.git(ctx, "diff", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/",
		"-U0", commit)
	s := since{commit, addedLines(diff)}
	untracked, _ := r.git(ctx, "ls-files", "--others", "--exclude-standard")
	for name := range strings.Lines(untracked) {
		name = strings.TrimSpace(name)
		body, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			continue
		}
		s.lines[name] = map[int]bool{}
		for i := range strings.Count(string(body), "\n") + 1 {
			s.lines[name][i+1] = true
		}
	}
	return s
}

// addedLines returns the numbers of the lines that a diff adds, by file. The diff must have no context lines.
func addedLines(diff string) map[string]map[int]bool {
	lines := map[string]map[int]bool{}
	file := ""
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = name
			lines[file] = map[int]bool{}
			continue
		}
		// The line has the form @@ -12,3 +14,2 @@.
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "@@" || !strings.HasPrefix(fields[2], "+") {
			continue
		}
		start, length, several := strings.Cut(fields[2][1:], ",")
		first, err := strconv.Atoi(start)
		n := 1
		if several && err == nil {
			n, err = strconv.Atoi(length)
		}
		for i := range n {
			if err == nil {
				lines[file][first+i] = true
			}
		}
	}
	return lines
}

// shown is the maximum number of findings that are shown for a slot above its budget.
const shown = 20

// explain adds the newest findings to the texts of problems.
func explain(problems []problem, findings []finding, added since) {
	for i, p := range problems {
		if p.above == 0 {
			continue
		}
		newest := added.newest(findings, p.slot)
		if len(newest) == 0 {
			problems[i].text += fmt.Sprintf("; no changed line is known, so see: go run ./%s list -rule %s", folder, p.Rule)
			continue
		}
		problems[i].text += fmt.Sprintf(". Findings on lines that are newer than the budget (commit %.12s):", added.commit)
		for _, f := range newest[:min(len(newest), shown)] {
			problems[i].text += "\n  " + f.String()
		}
		if len(newest) > shown {
			problems[i].text += fmt.Sprintf("\n  and %d more: go run ./%s list -rule %s", len(newest)-shown, folder, p.Rule)
		}
	}
}

// newest returns the findings in a slot on lines that are newer than the commit. If there are none, a change in a later
// line may have made a sentence too long. So newest then returns the findings whose paragraphs contain newer lines.
func (s since) newest(findings []finding, in slot) (exact []finding) {
	var near []finding
	for _, f := range findings {
		if f.Rule != in.Rule || f.Part != in.Part {
			continue
		}
		if s.lines[f.File][f.Line] {
			exact = append(exact, f)
		}
		for line := f.Line; line <= f.end; line++ {
			if s.lines[f.File][line] {
				near = append(near, f)
				break
			}
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return near
}
