// Package play plays the runs of experiments in this process, in virtual or real time. It stores a result document for
// each run on disk, so that an interrupted experiment can be resumed.
package play

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// Options configures Play.
type Options struct {
	// RealTime plays the runs in real time, one after another. Otherwise play simulates them.
	RealTime bool
	// Parallel is the maximum number of concurrent simulations; 0 means one per CPU. It does not affect results.
	Parallel int
	// Folder contains a result document named KEY.json for each run. Play does not repeat a run that has a document in
	// this folder.
	Folder string
	// Report, if set, is called when a run starts, when it finishes, and frequently in between. Calls are never
	// concurrent.
	Report func(Progress)
}

// Progress is the progress of all experiments.
type Progress struct {
	// Total is the number of runs known so far; searches add runs. Done is the number of finished runs. Of these, Kept
	// already had a result on disk, and Failed could not run.
	Total, Done, Kept, Failed int
	// Label is the label of the run that the event concerns.
	Label string
	Event Event
	// Share is the completed fraction of the work, from 0 to 1. It includes the progress of unfinished runs, but not the
	// runs whose results were already on disk.
	Share float64
	// Playing lists the unfinished runs, in the order in which they started.
	Playing []Playing
}

// Event is an event of a run.
type Event int

// The events of a run, in order.
const (
	Began Event = iota
	Moved
	Ended
)

// Playing is the progress of an unfinished run.
type Playing struct {
	Run *experiment.Run
	At  inprocess.Progress
}

// Play plays all runs of the experiments that have no result in the folder yet. It plays the probes of a search one
// after another, and several searches concurrently. Experiment.With(results) returns an experiment with the runs that
// its searches created.
//
// If a run cannot be played, its error becomes part of the results. Play returns an error if it cannot use the folder
// or if ctx is done. The results of runs that have finished by then remain on disk.
func Play(ctx context.Context, experiments []*experiment.Experiment, o Options) (*experiment.Results, error) {
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return nil, fmt.Errorf("the folder of results: %w", err)
	}
	build, err := version.Build()
	if err != nil {
		return nil, err
	}
	p := &player{Options: o, build: build, results: experiment.NewResults("")}
	p.results.Simulated = !o.RealTime
	for {
		// A search creates its next probe after the previous one has finished, so repeat until every run has a result.
		var runs []*experiment.Run
		for _, e := range experiments {
			for _, run := range e.With(p.results).Runs() {
				if !p.results.Has(run) {
					runs = append(runs, run)
				}
			}
		}
		if len(runs) == 0 {
			return p.results, nil
		}
		if err := p.all(ctx, runs); err != nil {
			return nil, err
		}
	}
}

// all plays runs, up to Parallel at a time.
func (p *player) all(ctx context.Context, runs []*experiment.Run) error {
	p.progress.Total += len(runs)
	for _, run := range runs {
		p.work += weight(run)
	}
	// Start long runs first, so that no core is idle at the end.
	slices.SortStableFunc(runs, func(a, b *experiment.Run) int { return cmp.Compare(weight(b), weight(a)) })

	g, playing := errgroup.WithContext(ctx)
	parallel := cmp.Or(p.Parallel, runtime.GOMAXPROCS(0))
	// Concurrent runs in real time would affect each other's measurements.
	if p.RealTime {
		parallel = 1
	}
	g.SetLimit(max(1, parallel))
	for _, run := range runs {
		g.Go(func() error { return p.one(playing, run) })
	}
	return g.Wait()
}

// weight estimates the work of simulating a run.
func weight(r *experiment.Run) int64 {
	l := &r.Run.Spec.Load
	return int64(l.ClientsPerRegion) * (l.Warmup.Milliseconds() + l.Duration.Milliseconds())
}

type player struct {
	Options
	build string

	mu       sync.Mutex
	progress Progress
	playing  []Playing
	// work is the total work and done the completed work, both in the unit of weight.
	work, done int64
	results    *experiment.Results
}

// one plays a run, unless the folder has its result.
func (p *player) one(ctx context.Context, run *experiment.Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file := filepath.Join(p.Folder, p.key(run)+".json")
	// If the document is corrupt or belongs to another run, ignore it and play this run.
	if d, err := result.Read(file); err == nil && d.Name == run.Run.Name {
		p.tell(run, d, nil, true)
		return nil
	}
	p.begin(run)
	d, err := p.play(ctx, run)
	// An interrupted run has no outcome. If its error were stored as the outcome, the run would count as played.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		if err := result.WriteFile(file, d.Write); err != nil {
			return fmt.Errorf("the folder of results: %w", err)
		}
	} else {
		err = fmt.Errorf("%s could not run: %w", run.Label, err)
	}
	p.tell(run, d, err, false)
	return nil
}

func (p *player) play(ctx context.Context, run *experiment.Run) (*result.Document, error) {
	planned, err := plan.New(run.Run, run.Database, run.Profile)
	if err != nil {
		return nil, err
	}
	report := func(at inprocess.Progress) { p.move(run, at) }
	if p.RealTime {
		return inprocess.Run(ctx, planned, report)
	}
	return inprocess.Simulate(ctx, planned, report)
}

func (p *player) begin(run *experiment.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.playing = append(p.playing, Playing{Run: run})
	p.report(run, Began)
}

func (p *player) move(run *experiment.Run, at inprocess.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.playing {
		if p.playing[i].Run == run {
			p.playing[i].At = at
		}
	}
	p.report(run, Moved)
}

// report calls Report with the current progress. The caller must hold the mutex.
func (p *player) report(run *experiment.Run, event Event) {
	if p.Report == nil {
		return
	}
	p.progress.Label, p.progress.Event, p.progress.Playing = run.Label, event, slices.Clone(p.playing)
	done := float64(p.done)
	for _, r := range p.playing {
		if r.At.Total > 0 {
			done += float64(weight(r.Run)) * min(1, float64(r.At.Elapsed)/float64(r.At.Total))
		}
	}
	p.progress.Share = 1
	if p.work > 0 {
		p.progress.Share = done / float64(p.work)
	}
	p.Report(p.progress)
}

func (p *player) tell(run *experiment.Run, d *result.Document, err error, kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results.Add(run, d, err)
	p.playing = slices.DeleteFunc(p.playing, func(r Playing) bool { return r.Run == run })
	p.progress.Done++
	if kept {
		p.progress.Kept++
		// A kept result took no work, so exclude the run from the share.
		p.work -= weight(run)
	} else {
		p.done += weight(run)
	}
	if err != nil {
		p.progress.Failed++
	}
	p.report(run, Ended)
}

// key returns the name of a run's result file. Runs with the same name, manifests, build and driver have the same key.
func (p *player) key(run *experiment.Run) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %t %s", run.Run.Name, p.build, p.RealTime, run.Hash()))
	return hex.EncodeToString(sum[:16])
}
