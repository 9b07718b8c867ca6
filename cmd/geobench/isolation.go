package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/exit"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/hermitage"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/presets"
)

// The network that engines are played on without a manifest.
const isolationProfile = "aws"

var isolationRegions = []string{"us-east-1", "eu-west-1", "ap-northeast-1"}

// isolationDatabase is a database with its name.
type isolationDatabase struct {
	name string
	*hermitage.Database
}

func newIsolationCommand() *cobra.Command {
	var files, names []string
	var format string
	var seed uint64
	var plays int
	cmd := &cobra.Command{
		Use:   "isolation [-f FILE...]",
		Short: "Play the classic isolation anomalies between regions, and say which a database lets happen",
		Long: `Isolation plays the cases of Hermitage (dirty write, aborted read, lost update, write skew, ...) and those of replicated
databases (long fork, stale read, ...) between clients in different regions, each case many times in the simulator. It prints
which of them were seen, and holds each database to the level that it promises: with its parameters, and with those by which
its engine promises another level. A case is prevented only where its transactions were under way at the same time, and the
plays in which they were are counted. Without -f it plays the engines over three regions of the network profile aws.

Exit codes: 0 every database keeps its promise; 1 one does not; 2 wrong input; 3 could not run.`,
		Example: "  geobench isolation -f database.yaml\n  geobench isolation --engine geogauss,primary --plays 500\n  geobench isolation -o markdown    # the table of docs/isolation.md",
		Args:    onlyFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(hermitage.Formats, format):
				return usageError("--output: %q is not one of %s", format, strings.Join(hermitage.Formats, ", "))
			case plays < 1 || plays > maxPlays:
				return usageError("--plays: %d is not from 1 to %d", plays, maxPlays)
			case len(files) > 0 && len(names) > 0:
				return usageError("--engine: the manifests of -f name their engines: leave one of both out")
			}
			databases, err := isolationDatabases(cmd, files, names)
			if err != nil {
				return err
			}
			report := &hermitage.Report{Simulated: true, Seed: seed, Plays: plays}
			for _, named := range databases {
				for _, d := range hermitage.Levels(named.Database) {
					r, err := hermitage.PlayAll(cmd.Context(), named.name, d, plays, seed)
					if err != nil {
						return err
					}
					report.Databases = append(report.Databases, *r)
				}
			}
			if err := report.Print(cmd.OutOrStdout(), format); err != nil {
				return err
			}
			if err := report.Err(); err != nil {
				return &codedError{code: exit.Failed, err: err}
			}
			return nil
		},
	}
	addFiles(cmd, &files)
	cmd.Flags().StringSliceVar(&names, "engine", nil, "`engines` to play without a manifest (default all)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "the `seed` of every chance")
	cmd.Flags().IntVar(&plays, "plays", 100, "how `often` each case is played")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "`format` on standard output: "+strings.Join(hermitage.Formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(hermitage.Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engines.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// maxPlays bounds the plays of a case: all of them are in memory.
const maxPlays = 100_000

// isolationDatabases are those of the manifests, or of the engines named, or of all.
func isolationDatabases(cmd *cobra.Command, files, names []string) ([]isolationDatabase, error) {
	var out []isolationDatabase
	if len(files) > 0 {
		bundle, err := loadManifests(cmd, check.Simulator(nil), files)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(bundle.Databases)) {
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.DatabaseRef.Name = name
			spec, profile, err := bundle.Resolve(run)
			if err != nil {
				return nil, &codedError{code: exit.Usage, err: err}
			}
			e, ok := engines.Lookup(spec.Spec.Engine.Name)
			if !ok {
				return nil, usageError("GeoDatabase %s: spec.engine.name: %q: the cases are played in the simulator, which has %s",
					name, spec.Spec.Engine.Name, strings.Join(engines.Names(), ", "))
			}
			params, errs := e.Resolve(spec.Spec.Engine.Parameters)
			if len(errs) > 0 {
				return nil, usageError("GeoDatabase %s: spec.engine.parameters.%w", name, errs[0])
			}
			if e.Loses != nil && e.Loses(params) {
				return nil, usageError("GeoDatabase %s: spec.engine.parameters: with these the engine may lose what it has answered, so that it promises no level", name)
			}
			t, err := plan.Topology(&spec.Spec, profile)
			if err != nil {
				return nil, usageError("GeoDatabase %s: spec.network: %w", name, err)
			}
			if err := e.Accepts(&t, params); err != nil {
				return nil, usageError("GeoDatabase %s: %w", name, err)
			}
			out = append(out, isolationDatabase{name, &hermitage.Database{Engine: e, Params: params, Topology: &t}})
		}
		if len(out) == 0 {
			return nil, usageError("%s: there is no GeoDatabase, so there is nothing to play on", strings.Join(files, ", "))
		}
		return out, nil
	}
	if len(names) == 0 {
		names = engines.Names()
	}
	topology, err := isolationTopology()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, ok := engines.Lookup(name)
		if !ok {
			return nil, usageError("--engine: %q is not one of %s", name, strings.Join(engines.Names(), ", "))
		}
		d, err := hermitage.Default(e, topology)
		if err != nil {
			return nil, err
		}
		out = append(out, isolationDatabase{name, d})
	}
	return out, nil
}

// isolationTopology is the network without a manifest.
func isolationTopology() (*geo.Topology, error) {
	profile, ok := presets.Lookup(isolationProfile)
	if !ok {
		return nil, fmt.Errorf("there is no network profile %s", isolationProfile)
	}
	spec := &v1alpha1.GeoDatabaseSpec{PartitionsPerRegion: 1, ReplicasPerPartition: 1}
	for _, r := range isolationRegions {
		spec.Regions = append(spec.Regions, v1alpha1.Region{Name: r})
	}
	t, err := plan.Topology(spec, &profile.Spec)
	return &t, err
}
