package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
)

// baselineSet contains the baselines with which finished runs are compared.
type baselineSet struct {
	// all is the common baseline of all runs; nil if each run has a separate baseline.
	all []*result.Document
	// names maps the name of a run to the name of its baseline run, as in spec.baselineRef.
	names map[string]string
	// kept contains the results of earlier commands, by run name.
	kept map[string]*result.Document
}

// baselines finds the baselines of the plans' runs before any run starts. A baseline is the result that the flag names.
// For spec.baselineRef, it is the result of a run in the same manifests, or of an earlier command with the same --save
// folder.
func baselines(cmd *cobra.Command, plans []*plan.Plan, flag, save string) (*baselineSet, error) {
	b := &baselineSet{names: map[string]string{}, kept: map[string]*result.Document{}}
	if flag != "" {
		docs, err := documents(cmd, flag)
		if err != nil {
			return nil, fmt.Errorf("--baseline: %w", err)
		}
		b.all = docs
		return b, nil
	}
	here := map[string]bool{}
	for _, p := range plans {
		here[p.Run.Name] = true
	}
	for _, p := range plans {
		ref := p.Run.Spec.BaselineRef
		if ref == nil {
			continue
		}
		b.names[p.Run.Name] = ref.Name
		// A baseline that is another run of this command will have its result in time. A run that is its own baseline needs
		// an earlier result in the folder.
		if here[ref.Name] && ref.Name != p.Run.Name {
			continue
		}
		if file := filepath.Join(save, ref.Name+".json"); save != "" && exists(file) {
			d, err := result.Read(file)
			if err != nil {
				return nil, usageError("BenchmarkRun %s: spec.baselineRef.name: %w", p.Run.Name, err)
			}
			b.kept[ref.Name] = d
			continue
		}
		return nil, usageError("BenchmarkRun %s: spec.baselineRef.name: there is no result of BenchmarkRun %s here: name one with --baseline RESULT, "+
			"put that run into the same manifests, or keep its result with --save and give this command the same folder", p.Run.Name, ref.Name)
	}
	return b, nil
}

// of returns the results to compare a run with, or nil.
func (b *baselineSet) of(d *result.Document, docs []*result.Document) []*result.Document {
	if b.all != nil {
		return b.all
	}
	name := b.names[d.Name]
	// A result that an earlier command kept takes precedence, because this command has no other run of that name.
	if kept := b.kept[name]; kept != nil {
		return []*result.Document{kept}
	}
	for _, other := range docs {
		// The run cannot be its own baseline.
		if other.Name == name && other != d {
			return []*result.Document{other}
		}
	}
	return nil
}

// compare prints the comparisons of runs with their baselines. For tables, it prints them below the results. For other
// formats, it prints one sentence per run on standard error, so that standard output contains only documents. regressed
// is an error with an exit code if a run is worse than its baseline.
func (b *baselineSet) compare(cmd *cobra.Command, docs []*result.Document, format string) (regressed, err error) {
	for _, d := range docs {
		baseline := b.of(d, docs)
		if baseline == nil {
			continue
		}
		c := result.Compare(baseline, []*result.Document{d}, result.CompareOptions{})
		if format == "table" || format == "wide" {
			fmt.Fprintln(cmd.OutOrStdout())
			err = c.Table(cmd.OutOrStdout())
		} else {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s against %s: %s: %s\n", d.Name, c.A, c.Verdict, c.Message)
		}
		if err != nil {
			return nil, err
		}
		if c.Verdict == result.Regression {
			regressed = &codedError{code: exit.Failed, quiet: true, err: errors.New(c.Message)}
		}
	}
	return regressed, nil
}
