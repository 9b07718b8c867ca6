package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/explore"
)

// kinds maps the name of each kind of scenarios to its configuration.
var kinds = map[string]struct {
	flags  string // flags of geobench explore
	config explore.Config
}{
	"usual":              {"--checkpoints", explore.Config{Checkpoints: true}},
	"hostile":            {"--hostile --checkpoints", explore.Config{Hostile: true, Checkpoints: true}},
	"core":               {"--buggify --core", explore.Config{Buggify: true, Core: true}},
	"slow":               {"--hostile --slow --buggify", explore.Config{Hostile: true, Slow: true, Buggify: true}},
	"disk":               {"--disk --hostile", explore.Config{Disk: true, Hostile: true}},
	"replace":            {"--replace --buggify", explore.Config{Replace: true, Buggify: true}},
	"replace-hostile":    {"--replace --hostile --buggify", explore.Config{Replace: true, Hostile: true, Buggify: true}},
	"runs":               {"--runs", explore.Config{Runs: true}},
	"wide":               {"--wide --checkpoints", explore.Config{Wide: true, Checkpoints: true}},
	"wide-hostile":       {"--wide --hostile --buggify", explore.Config{Wide: true, Hostile: true, Buggify: true}},
	"wide-replace":       {"--wide --replace --buggify", explore.Config{Wide: true, Replace: true, Buggify: true}},
	"invariants-hostile": {"--hostile --invariants", explore.Config{Hostile: true, Invariants: true}},
}

func kindNames() []string { return slices.Sorted(maps.Keys(kinds)) }

// Claim states that an engine was explored with the seeds 1 to Seeds in one kind of scenarios.
type Claim struct {
	Engine string `json:"engine"`
	Kind   string `json:"kind"`
	Seeds  uint64 `json:"seeds"`
	// Failed is the number of seeds that failed. Least is the smallest seed that failed.
	Failed int    `json:"failed,omitempty"`
	Least  uint64 `json:"least,omitempty"`
	// Transactions is the number of transactions that clients sent with all seeds. Replaced is the number of nodes that
	// lost their state and were replaced.
	Transactions int64 `json:"transactions"`
	Replaced     int   `json:"replaced,omitempty"`
	// Code is the digest of the code on which the outcome depends. Commit is the commit at which the most recent seeds
	// were explored, and Date is the date of their exploration.
	Code   string `json:"code"`
	Commit string `json:"commit"`
	Date   string `json:"date"`
}

func (c *Claim) add(s explore.Summary, commit string, now time.Time) {
	if s.Failed > 0 && c.Failed == 0 {
		c.Least = s.Least
	}
	c.Seeds, c.Failed = c.Seeds+s.Seeds.Count, c.Failed+s.Failed
	c.Transactions, c.Replaced = c.Transactions+s.Transactions, c.Replaced+s.Replaced
	c.Commit, c.Date = commit, now.UTC().Format(time.DateOnly)
}

// Claims contains all claims, sorted by engine and kind.
type Claims struct {
	List []*Claim `json:"claims"`
}

func readClaims(file string) (*Claims, error) {
	var c Claims
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &c, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, x := range c.List {
		if _, ok := kinds[x.Kind]; !ok {
			return nil, fmt.Errorf("%s: %s: %q is not one of %s", file, x.Engine, x.Kind, strings.Join(kindNames(), ", "))
		}
	}
	return &c, nil
}

func (c *Claims) write(file string) error {
	slices.SortFunc(c.List, func(a, b *Claim) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Kind, b.Kind))
	})
	return result.WriteJSON(file, c)
}

// of returns the claim about an engine and a kind. It creates the claim if there is none.
func (c *Claims) of(engine, kind string) *Claim {
	for _, x := range c.List {
		if x.Engine == engine && x.Kind == kind {
			return x
		}
	}
	x := &Claim{Engine: engine, Kind: kind}
	c.List = append(c.List, x)
	return x
}

// stale reports whether an engine has no claims, or has a claim about other code.
func (c *Claims) stale(engine, code string) bool {
	has := false
	for _, x := range c.List {
		if x.Engine == engine {
			has = true
			if x.Code != code {
				return true
			}
		}
	}
	return !has
}

const head = `# Explored seeds

This page says which scenarios of the [explorer](correctness.md) each engine has passed, and whether the code has changed since. ` + "`make seeds`" + ` plays
seeds and records them with the commit; ` + "`make generate`" + ` writes this page. A claim holds for the code that decides the outcome: the engine, the packages
that it imports, the simulator and the explorer, without their comments. A claim of other code is marked **stale**, and CI plays the first seeds of its engine.

Each row is of the seeds from 1 on: ` + "`geobench explore --engine ENGINE --seeds SEEDS FLAGS`" + `.

| kind | flags |
|---|---|
`

// table writes the contents of docs/seeds.md to out.
func (c *Claims) table(out io.Writer, code map[string]string) error {
	var b strings.Builder
	b.WriteString(head)
	for _, kind := range kindNames() {
		fmt.Fprintf(&b, "| %s | `%s` |\n", kind, kinds[kind].flags)
	}
	b.WriteString("\n| engine | kind | seeds | failed | transactions | commit | holds |\n|---|---|---|---|---|---|---|\n")
	var seeds uint64
	failed := 0
	for _, x := range c.List {
		holds := x.Date
		if x.Code != code[x.Engine] {
			holds = "**stale**"
		}
		bad := "0"
		if x.Failed > 0 {
			bad = fmt.Sprintf("**%d**, the first is %d", x.Failed, x.Least)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | `%s` | %s |\n", x.Engine, x.Kind, x.Seeds, bad, x.Transactions, x.Commit, holds)
		seeds, failed = seeds+x.Seeds, failed+x.Failed
	}
	fmt.Fprintf(&b, "\n%d scenarios in all, of which %d failed.\n", seeds, failed)
	_, err := io.WriteString(out, b.String())
	return err
}
