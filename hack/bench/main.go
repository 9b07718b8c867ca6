// Command bench runs the points of Experiments in this process in real time, one after another. For each point, it
// prints the throughput, the total CPU time per transaction, and the latency. With -profile, it writes a CPU profile
// for each point.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"text/tabwriter"

	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/inprocess"
)

func main() {
	only := flag.String("only", "", "play only points whose label (`system parameter=value ...`) this regular expression matches")
	profiles := flag.String("profile", "", "write a CPU profile of each point into `DIR`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, flag.Args(), *only, *profiles); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, files []string, only, profiles string) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	bundle, err := manifest.Load(os.Stdin, check.Default(nil), files...)
	if err != nil {
		return err
	}
	if len(bundle.Experiments) == 0 {
		return fmt.Errorf("%s: there is no Experiment", strings.Join(files, ", "))
	}
	for _, object := range bundle.Experiments {
		e, err := experiment.New(context.Background(), bundle, object, check.Default(nil))
		if err != nil {
			return err
		}
		fmt.Printf("%s, %d CPUs\n", e.Name, result.ThisMachine().CPUs)
		w := tabwriter.NewWriter(os.Stdout, 28, 0, 2, ' ', 0)
		fmt.Fprintln(w, "POINT\tTXN/S\tCPU/TXN\tP50\tP99\tABORTED")
		for _, r := range e.Runs() {
			if !match.MatchString(r.Label) {
				continue
			}
			d, err := play(ctx, r, profiles)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Label, err)
			}
			s := &d.Summary
			l := s.LatencyMicroseconds
			fmt.Fprintf(w, "%s\t%d\t%d us\t%s\t%s\t%.1f%%\n", r.Label, s.ThroughputPerSecond, s.CPUMicrosecondsPerTransaction,
				result.FormatQuantile(l.P50), result.FormatQuantile(l.P99), float64(s.AbortPPM)/1e4)
			w.Flush() //nolint:errcheck // to standard output
		}
	}
	return nil
}

// play executes one run. It first releases the heap memory of earlier runs.
func play(ctx context.Context, r *experiment.Run, profiles string) (*result.Document, error) {
	debug.FreeOSMemory()
	p, err := plan.New(r.Run, r.Database, r.Profile)
	if err != nil {
		return nil, err
	}
	if profiles == "" {
		return inprocess.Run(ctx, p, nil)
	}
	if err := os.MkdirAll(profiles, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(profiles, strings.NewReplacer(" ", "-", "=", "").Replace(r.Label)+".pprof"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return inprocess.Run(ctx, p, nil)
}
