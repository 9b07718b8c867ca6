package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// slot identifies a line of the budget: a rule, and a part of the tree in which its findings are counted.
type slot struct{ Rule, Part string }

func (s slot) String() string { return s.Rule + " in " + s.Part }

// entry is a number of findings, with the digest of the rule at the time of counting.
type entry struct {
	Number int
	Digest string
}

// budget maps each slot to a number of findings: either the allowed or the current number.
type budget map[slot]entry

func (b budget) slots() []slot {
	return slices.SortedFunc(maps.Keys(b), func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Part, y.Part))
	})
}

func (b budget) sum() (n int) {
	for _, e := range b {
		n += e.Number
	}
	return n
}

// count returns the number of findings of each rule in each part, including zeros.
func count(findings []finding, rules rules) budget {
	b := budget{}
	for name, digest := range rules {
		for _, part := range parts(name) {
			b[slot{name, part}] = entry{Digest: digest}
		}
	}
	for _, f := range findings {
		e := b[slot{f.Rule, f.Part}]
		e.Number++
		b[slot{f.Rule, f.Part}] = e
	}
	return b
}

// problem is a reason why the check fails.
type problem struct {
	slot
	text string
	// above is the number of findings above the budget; 0 for other problems.
	above int
}

func join(problems []problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%v: %s", p.slot, p.text))
	}
	return errors.Join(errs...)
}

// over describes the slots with more findings than allowed. It ignores a slot if its rule has changed, because the
// budget is then no longer valid.
func (b budget) over(allowed budget) (problems []problem) {
	for _, s := range b.slots() {
		now, then := b[s], allowed[s]
		if now.Digest == then.Digest && now.Number > then.Number {
			problems = append(problems, problem{s, fmt.Sprintf("%d findings, %d more than the budget of %d",
				now.Number, now.Number-then.Number, then.Number), now.Number - then.Number})
		}
	}
	return problems
}

// slack returns how far the number of findings may fall below the budget before check fails. A small change therefore
// need not change the budget file. The value is small, so that rewritten text does not make room for many new findings.
func slack(allowed int) int { return max(5, allowed/100) }

// under describes the slots whose budget must be lowered or counted again.
func (b budget) under(allowed budget) (problems []problem) {
	for _, s := range b.slots() {
		now := b[s]
		then, counted := allowed[s]
		switch {
		case !counted:
			problems = append(problems, problem{s, "no budget: run make words", 0})
		case now.Digest != then.Digest:
			problems = append(problems, problem{s, "the rule has changed: run make words, which counts it again", 0})
		case then.Number-now.Number > slack(then.Number):
			problems = append(problems, problem{s, fmt.Sprintf("%d findings, far below the budget of %d: "+
				"run make words, which lowers it", now.Number, then.Number), 0})
		}
	}
	for _, s := range allowed.slots() {
		if _, known := b[s]; !known {
			problems = append(problems, problem{s, "a budget for an unknown rule or part: run make words", 0})
		}
	}
	return problems
}

// raised describes the slots whose budget is above the budget for the same rule in an earlier commit.
func (b budget) raised(earlier []version) (problems []problem) {
	for _, s := range b.slots() {
		for _, v := range earlier {
			if then, ok := v.budget[s]; ok && then.Digest == b[s].Digest && then.Number < b[s].Number {
				problems = append(problems, problem{s, fmt.Sprintf("the budget was raised from %d (commit %.12s) to %d: "+
					"it may only shrink, so rewrite the new findings", then.Number, v.commit, b[s].Number), 0})
				break
			}
		}
	}
	return problems
}

const budgetHead = `# Findings of hack/words by rule and part of the tree. Numbers may only shrink, by "make words".
# After a merge conflict take either side and run "make words". The last column is a digest of the rule.
`

func (b budget) write(file string) error {
	var text strings.Builder
	text.WriteString(budgetHead)
	for _, s := range b.slots() {
		fmt.Fprintf(&text, "%-14s  %-9s  %5d  %s\n", s.Rule, s.Part, b[s].Number, b[s].Digest)
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

func readBudget(file string) (budget, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b, err := parseBudget(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

func parseBudget(text string) (budget, error) {
	b := budget{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var s slot
		var e entry
		_, err := fmt.Sscanf(line, "%s %s %d %s", &s.Rule, &s.Part, &e.Number, &e.Digest)
		if err != nil || e.Number < 0 {
			return nil, fmt.Errorf("line %d: %q is not a rule, a part, a number and a digest; run make words", n, line)
		}
		if _, twice := b[s]; twice {
			return nil, fmt.Errorf("line %d: a second budget for %v; delete one and run make words", n, s)
		}
		b[s] = e
	}
	return b, lines.Err()
}
