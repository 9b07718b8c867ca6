package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Hunter hunts mutants one after another.
type Hunter struct {
	Root, Tmp string
	// Limit is the maximum time for hunting one mutant.
	Limit   time.Duration
	Results *Results
	// Fresh is set if earlier results are ignored.
	Fresh bool
	// Log receives a line for each mutant.
	Log io.Writer

	// sound contains the hunts that are known to pass without a mutant. unsound contains the hunts that fail without a
	// mutant, which are not used.
	sound, unsound map[string]bool
}

// byTime is the killer of a mutant whose hunt exceeds the time limit. noEnd is appended to the name of a test that
// kills a mutant because the test reaches its timeout.
const (
	byTime = "time"
	noEnd  = ", which has no end"
)

// errTime is the error of a mutant that exceeds the time limit.
var errTime = errors.New("no end within the limit")

// errUnsound is the error of a hunt that fails even without a mutant.
var errUnsound = errors.New("fails by itself")

// Hunt hunts the given mutants and stores the result of each.
//
// A hunt that kills a mutant must also pass without a mutant, because its failure would otherwise mean nothing. A hunt
// that fails without a mutant is reported once, and the mutants are hunted with the remaining hunts. A mutant that
// survives the remaining hunts has no result, because it might not survive all hunts.
//
// A mutant that does not compile is reported, and the other mutants are hunted nevertheless.
func (h *Hunter) Hunt(ctx context.Context, mutants []*Mutant) error {
	var waiting []*Mutant
	for _, m := range mutants {
		now, err := fingerprint(h.Root, m)
		if err != nil {
			return err
		}
		if r := h.Results.Of(m); h.Fresh || r == nil || !r.Holds(h.Root, now) {
			waiting = append(waiting, m)
		}
	}
	h.sound, h.unsound = map[string]bool{}, map[string]bool{}
	var errs []error
	for i, m := range waiting {
		r, err := h.hunt(ctx, m)
		for err == nil && r.by != nil {
			wrong := h.prove(ctx, r.by)
			if wrong == nil {
				break
			}
			if !errors.Is(wrong, errUnsound) {
				return errors.Join(append(errs, wrong)...)
			}
			fmt.Fprintf(h.Log, "%d/%d %v\n", i+1, len(waiting), wrong)
			errs = append(errs, wrong)
			h.unsound[r.by.String()] = true
			r, err = h.hunt(ctx, m)
		}
		if err == nil && !r.Killed() && slices.ContainsFunc(m.Hunts, func(x Hunt) bool { return h.unsound[x.String()] }) {
			err = errors.New("it survives, but was not hunted by all that should: some fail by themselves")
		}
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", m.At, m.ID(), err)
			fmt.Fprintf(h.Log, "%d/%d %v\n", i+1, len(waiting), err)
			if errs = append(errs, err); ctx.Err() != nil {
				break
			}
			continue
		}
		fmt.Fprintf(h.Log, "%d/%d %s: %s (%.0f s)\n", i+1, len(waiting), m.ID(), r, r.CPU)
		if err := h.Results.Keep(m, r); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// prove checks that a hunt passes without a mutant. It skips the check if this is already known, for example because
// the hunt has passed with a mutant.
func (h *Hunter) prove(ctx context.Context, hunt *Hunt) error {
	if hunt == nil || h.sound[hunt.String()] {
		return nil
	}
	now, err := soundness(h.Root, *hunt)
	if err != nil {
		return err
	}
	if h.Fresh || h.Results.Sound[hunt.String()] != now {
		limited, cancel := context.WithTimeoutCause(ctx, h.Limit, errTime)
		defer cancel()
		killer, err := (&prey{Hunter: h}).hunt(limited, *hunt)
		if killer != "" {
			err = fmt.Errorf("%w: %s", errUnsound, killer)
		}
		if err != nil {
			return fmt.Errorf("%v, without a mutant: %w", *hunt, err)
		}
		h.Results.Sound[hunt.String()] = now
	}
	h.sound[hunt.String()] = true
	return nil
}

// hunt runs the hunts for one mutant until one of them kills it.
func (h *Hunter) hunt(ctx context.Context, m *Mutant) (*Result, error) {
	now, err := fingerprint(h.Root, m)
	if err != nil {
		return nil, err
	}
	text, err := m.Apply(h.Root)
	if err != nil {
		return nil, err
	}
	p := &prey{Hunter: h, overlay: filepath.Join(h.Tmp, "overlay.json")}
	edited := filepath.Join(h.Tmp, "edited.go")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(h.Root, m.File): edited}})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(edited, text, 0o600), os.WriteFile(p.overlay, replace, 0o600)); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, h.Limit, errTime)
	defer cancel()
	if out, err := p.run(limited, nil, "go", "build", "-overlay", p.overlay, "./"+path.Dir(m.File)); err != nil {
		return nil, fmt.Errorf("the mutant does not compile: %w\n%s", err, out)
	}
	r := &Result{Fingerprint: now}
	for _, hunt := range m.Hunts {
		if h.unsound[hunt.String()] {
			continue
		}
		killer, err := p.hunt(limited, hunt)
		if errors.Is(err, errTime) {
			killer, err = byTime, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", hunt, err)
		}
		if killer != "" {
			r.Hunt, r.Killer, r.by = hunt.String(), killer, &hunt
			r.killedBy(h.Root, hunt)
			break
		}
		if h.sound != nil {
			h.sound[hunt.String()] = true // if the hunt failed by itself, it would also have failed with this mutant
		}
	}
	r.CPU = p.cpu.Seconds()
	return r, nil
}

// prey is the tree that a hunt runs on: the tree with a mutant, or the unmodified tree.
type prey struct {
	*Hunter
	overlay  string // empty for the unmodified tree
	explorer string // path of the explorer once it is built
	cpu      time.Duration
}

// hunt runs a hunt. It returns the failure, or "" if there was none.
func (p *prey) hunt(ctx context.Context, h Hunt) (killer string, err error) {
	if h.Engine == "" {
		return p.tests(ctx, h)
	}
	return p.worlds(ctx, h)
}

// build returns flags of go build. It omits symbols, which halves the time for linking: mutants are not debugged.
func (p *prey) build() []string {
	flags := []string{"-ldflags=-s -w"}
	if p.overlay != "" {
		flags = append(flags, "-overlay", p.overlay)
	}
	return flags
}

// tests runs tests until the first failure.
func (p *prey) tests(ctx context.Context, h Hunt) (killer string, err error) {
	args := append([]string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout", (p.Limit / 2).String()}, p.build()...)
	if h.Run != "" {
		args = append(args, "-run", h.Run)
	}
	ran := 0
	built := true
	var said bytes.Buffer
	_, err = p.run(ctx, func(line []byte) (stop bool) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			said.Write(append(line, '\n'))
			return false
		}
		said.WriteString(event.Output)
		switch event.Action {
		case "run":
			ran++
		case "build-fail":
			built = false
		case "fail":
			if killer == "" && event.Test != "" {
				killer = event.Test
			}
		}
		return false
	}, "go", append(args, h.Package)...)
	switch {
	case errors.Is(err, errTime):
		return "", err
	case !built:
		return "", fmt.Errorf("the tests do not compile: %w\n%s", err, said.Bytes())
	case err == nil && ran == 0:
		return "", errors.New("there is no such test")
	case err == nil:
		return "", nil
	}
	if running := timedOut.FindSubmatch(said.Bytes()); running != nil {
		return string(running[1]) + noEnd, nil
	}
	switch {
	case killer == "" && bytes.Contains(said.Bytes(), []byte("panic: ")):
		return "a panic", nil
	case killer == "":
		return "", fmt.Errorf("no test has failed: %w\n%s", err, said.Bytes())
	}
	return killer, nil
}

var timedOut = regexp.MustCompile(`panic: test timed out after \S+\s+running tests:\s+(\S+)`)

var (
	explored = regexp.MustCompile(`^[a-z]+, seed (\d+)$`)
	wrong    = []byte("WRONG: ")
)

// worlds explores scenarios until a seed fails.
func (p *prey) worlds(ctx context.Context, h Hunt) (killer string, err error) {
	if p.explorer == "" {
		explorer := filepath.Join(p.Tmp, "geobench")
		args := append([]string{"build", "-o", explorer}, p.build()...)
		if out, err := p.run(ctx, nil, "go", append(args, "./cmd/geobench")...); err != nil {
			return "", fmt.Errorf("the explorer does not compile: %w\n%s", err, out)
		}
		p.explorer = explorer
	}
	args := []string{"explore", "--engine", h.Engine, "--seeds", strconv.Itoa(h.Seeds)}
	for _, kind := range h.Worlds {
		args = append(args, "--"+kind)
	}
	seed := ""
	out, err := p.run(ctx, func(line []byte) (stop bool) {
		if found := explored.FindSubmatch(line); found != nil {
			seed = string(found[1])
		}
		if bytes.HasPrefix(line, wrong) {
			what, _, _ := bytes.Cut(line[len(wrong):], []byte(":"))
			killer = fmt.Sprintf("seed %s, %s", seed, what)
		}
		return killer != ""
	}, p.explorer, args...)
	switch {
	case killer != "":
		return killer, nil
	case err != nil && bytes.Contains(out, []byte("panic: ")):
		return "a panic", nil
	case err != nil:
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return "", nil
}

// run runs a command in the root folder. It kills the command and all its children when the time limit is exceeded, or
// when enough returns true for a line of the output.
func (p *prey) run(ctx context.Context, enough func(line []byte) bool, name string, args ...string) (out []byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.Root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var tail tail
	cmd.Stderr = &tail
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stopped := false
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = tail.Write(line)
		if line = bytes.TrimRight(line, "\n"); enough != nil && !stopped && len(line) > 0 && enough(line) {
			stopped = true
			cancel()
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	p.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	switch {
	case stopped:
		err = nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return []byte(strings.TrimSpace(string(tail.last))), err
}

// tail keeps the end of a command's standard output and error output, because the reason for a failure is at the end.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailLength = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if len(t.last) > 2*tailLength {
		t.last = append(t.last[:0], t.last[len(t.last)-tailLength:]...)
	}
	return len(b), nil
}
