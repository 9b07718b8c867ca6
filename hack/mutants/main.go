// Command mutants measures how well the tests detect defects (DeMillo, Lipton and Sayward, Hints on test data
// selection, 1978). It makes small edits to Geobench, each of which introduces a defect, and hunts each of these
// mutants with the tests and the explorer. A surviving mutant reveals a gap in the tests.
//
// The mutants are in lists, each with a description of its defect. The tree itself is never modified: the compiler
// reads another file in place of the edited file (go build -overlay).
//
// The command prints, for each area, the number of killed mutants and their killers. It fails if a surviving mutant is
// not listed as equivalent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	root := f.String("root", ".", "the `folder` of the module that is mutated")
	lists := f.String("lists", "hack/mutants/lists", "the `folder` of the lists, below the root")
	area := f.String("area", "", "hunt only mutants of areas that this regular `expression` matches from end to end")
	only := f.String("only", "", "hunt only mutants whose name this regular `expression` matches")
	shard := f.String("shard", "", "hunt the mutants of shard `I/N`, from 0/N to N-1/N: every N-th")
	state := f.String("state", "out/mutants.json", "keep results in this `file`, and take those from there that still hold; several, separated by commas, are merged into the first")
	limit := f.Duration("limit", 15*time.Minute, "how long a mutant is hunted; one that has not ended by then counts as killed by time")
	fresh := f.Bool("fresh", false, "hunt all again")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: there are flags only", f.Arg(0))
	}
	dir, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	all, err := ReadLists(filepath.Join(dir, *lists))
	if err != nil {
		return err
	}
	if err := Check(dir, all); err != nil {
		return err
	}
	chosen, err := choose(all, *area, *only, *shard)
	if err != nil {
		return err
	}
	results, err := OpenResults(*state)
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	h := &Hunter{Root: dir, Tmp: tmp, Limit: *limit, Results: results, Fresh: *fresh, Log: os.Stderr}
	if err := h.Hunt(ctx, chosen); err != nil {
		return err
	}
	fmt.Print(results.Table(chosen))
	return results.Unexplained(chosen)
}

// choose returns the mutants that the flags select.
func choose(all []*Mutant, area, only, shard string) (chosen []*Mutant, err error) {
	areas, err := regexp.Compile("^(?:" + area + ")$")
	if err != nil {
		return nil, fmt.Errorf("-area: %w", err)
	}
	names, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	index, shards := 0, 1
	if shard != "" {
		if n, bad := fmt.Sscanf(shard+"\n", "%d/%d\n", &index, &shards); n != 2 || bad != nil || index < 0 || index >= shards {
			return nil, fmt.Errorf("-shard: %q is not I/N with I from 0 to N-1, for example 0/4", shard)
		}
	}
	n := 0
	for _, m := range all {
		if area != "" && !areas.MatchString(m.Area) || !names.MatchString(m.Name) {
			continue
		}
		if n%shards == index {
			chosen = append(chosen, m)
		}
		n++
	}
	if len(chosen) == 0 {
		return nil, errors.New("-area, -only, -shard: no mutant is left; the lists have the names")
	}
	return chosen, nil
}
