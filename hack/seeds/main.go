// Command seeds records with which seeds each engine was explored, and in which version of the code.
//
//	seeds play [-engine E,...] [-kind K,...] [-seeds N] [-for D]   plays seeds and records them with the commit
//	seeds owed [-for D]                                            plays seeds of engines whose code changed since
//	seeds table                                                    prints docs/seeds.md
//	seeds kinds                                                    prints the flags of each kind of scenarios
//
// A claim is valid for the code on which the outcome depends: the engine and its dependencies, the simulator and the
// explorer. If this code changes, the claim becomes stale. The table marks it as stale until its seeds are played
// again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/run/explore"
)

// slice is the number of seeds after which claims are written, so that an interrupted command loses little work.
const slice = 50

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("name a command: play, owed, table or kinds")
	}
	f := flag.NewFlagSet("seeds "+args[0], flag.ContinueOnError)
	root := f.String("root", ".", "the `folder` of the module")
	file := f.String("claims", "hack/seeds/claims.json", "the `file` of the claims")
	engine := f.String("engine", "", "`engines` to play, separated by commas (default all)")
	kind := f.String("kind", "", "`kinds` of scenarios to play, separated by commas (default all)")
	seeds := f.Uint64("seeds", 1000, "play each kind of each engine until this `number` of seeds is recorded")
	limit := f.Duration("for", 0, "stop after this `time`; 0 is no limit")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: there are flags only", f.Arg(0))
	}
	if args[0] == "kinds" {
		for _, kind := range kindNames() {
			fmt.Fprintln(out, kinds[kind].flags)
		}
		return nil
	}
	names, err := choose("-engine", *engine, engines.Names())
	if err != nil {
		return err
	}
	of, err := choose("-kind", *kind, kindNames())
	if err != nil {
		return err
	}
	claims, err := readClaims(*file)
	if err != nil {
		return err
	}
	code, err := digests(*root)
	if err != nil {
		return err
	}
	until := ctx
	if *limit > 0 {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(ctx, *limit)
		defer cancel()
	}
	p := &player{ctx: until, out: out, claims: claims, code: code}
	switch args[0] {
	case "table":
		return claims.table(out, code)
	case "owed":
		return errors.Join(p.owed(), ctx.Err())
	case "play":
		if p.commit, err = commit(*root); err != nil {
			return err
		}
		p.file = *file
		return errors.Join(p.play(names, of, *seeds), ctx.Err())
	}
	return fmt.Errorf("%q is not one of play, owed, table and kinds", args[0])
}

// choose returns the names in a comma-separated list, or all known names if the list is empty.
func choose(flag, list string, known []string) ([]string, error) {
	if list == "" {
		return known, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s: %q is not one of %s", flag, name, strings.Join(known, ", "))
		}
	}
	return names, nil
}

// commit returns the commit of the tree. It returns an error if there are uncommitted changes of Go code, because the
// seeds could not be replayed with this code.
func commit(root string) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		b, err := cmd.Output()
		return strings.TrimSpace(string(b)), err
	}
	changed, err := git("status", "--porcelain", "--", "*.go")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", fmt.Errorf("commit these first, so that the seeds can be played again:\n%s", changed)
	}
	return git("rev-parse", "--short=12", "HEAD")
}

// player explores scenarios with seeds, and records the seeds in claims.
type player struct {
	ctx    context.Context
	out    io.Writer
	claims *Claims
	// code maps each engine to the digest of its code.
	code         map[string]string
	commit, file string
	failed       int
}

// play explores scenarios of each kind for each engine, with seeds up to the given number, and records the seeds. It
// starts after the seeds that a claim about the current code already covers.
func (p *player) play(names, kinds []string, seeds uint64) error {
	for first := uint64(0); first < seeds && p.ctx.Err() == nil; first += slice {
		for _, name := range names {
			for _, kind := range kinds {
				c := p.claims.of(name, kind)
				if c.Code != p.code[name] {
					*c = Claim{Engine: name, Kind: kind, Code: p.code[name]}
				}
				if c.Seeds >= min(first+slice, seeds) || p.ctx.Err() != nil {
					continue
				}
				sum := p.soak(name, kind, explore.Seeds{First: c.Seeds + 1, Count: min(first+slice, seeds) - c.Seeds})
				c.add(sum, p.commit, time.Now())
				if err := p.claims.write(p.file); err != nil {
					return err
				}
			}
		}
	}
	return p.conclude()
}

// owed explores scenarios for engines whose code has changed since their claims. It uses a few seeds of each kind at a
// time, until the time limit.
func (p *player) owed() error {
	var owing []string
	for _, name := range engines.Names() {
		if p.claims.stale(name, p.code[name]) {
			owing = append(owing, name)
		}
	}
	if len(owing) == 0 {
		fmt.Fprintln(p.out, "no engine owes seeds: the claims are of the present code")
		return nil
	}
	fmt.Fprintf(p.out, "engines whose code changed since their seeds were played: %s\n", strings.Join(owing, ", "))
	const few = 5
	played := uint64(0)
	for first := uint64(1); first <= slice && p.ctx.Err() == nil; first += few {
		for _, kind := range kindNames() {
			for _, name := range owing {
				if p.ctx.Err() == nil {
					played += p.soak(name, kind, explore.Seeds{First: first, Count: few}).Seeds.Count
				}
			}
		}
	}
	fmt.Fprintf(p.out, "%d scenarios played, %d failed\n", played, p.failed)
	return p.conclude()
}

// soak explores scenarios of a kind with the given seeds, and prints the results of failing seeds.
func (p *player) soak(name, kind string, seeds explore.Seeds) explore.Summary {
	c := kinds[kind].config
	c.Engine, _ = engines.Lookup(name)
	sum := explore.Soak(p.ctx, c, seeds, func(r *explore.Result) {
		if !r.Passed() {
			p.failed++
			fmt.Fprintln(p.out, r)
		}
	})
	fmt.Fprintf(p.out, "%s: %s\n", kind, &sum)
	return sum
}

func (p *player) conclude() error {
	if p.failed > 0 {
		return fmt.Errorf("%d seeds failed", p.failed)
	}
	return nil
}
