package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/anomalies"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/presets"
	"github.com/geobench/geobench/internal/run/attach"
)

// The network for engines without a manifest.
const isolationProfile = "aws"

var isolationRegions = []string{"us-east-1", "eu-west-1", "ap-northeast-1"}

// The default numbers of executions of each case, on a simulated and on an existing database. livePlays executions
// suffice to place each client in each of three regions, with and without waiting for commits.
const (
	simulatedPlays = 100
	livePlays      = 6
)

// allWord selects all engines or levels.
const allWord = "all"

// isolationDatabase is a named database: either a simulated or an existing one.
type isolationDatabase struct {
	name string
	*anomalies.Database
	external *v1alpha1.GeoDatabase
}

// isolationFlags are the flags of geobench isolation.
type isolationFlags struct {
	files, engines, levels []string
	format, secrets        string
	seed                   uint64
	plays                  int
}

func newIsolationCommand() *cobra.Command {
	var f isolationFlags
	cmd := &cobra.Command{
		Use:   "isolation [-f FILE...]",
		Short: "Play the classic isolation anomalies between regions, and say which a database lets happen",
		Long: `Isolation plays the cases of Hermitage (dirty write, aborted read, lost update, write skew, ...) and those of replicated
databases (long fork, stale read, ...) between clients in different regions. It prints which of them were seen, and holds each
database to the level that it promises.

Engines are played in the simulator, each case many times: with their parameters, and with those by which they promise another
level. A case is prevented only where its transactions were under way at the same time, and the plays in which they were are
counted. Without -f it plays all engines over three regions of the network profile aws.

Where the GeoDatabase has spec.external, the cases are played on the database that runs there, statement by statement in an order in
which they show unless they are prevented: at the level that its parameters name, or else at each that it has. Its rows are in the
place of runs (schema, table, prefix), which is dropped in the end.

Exit codes: 0 every database keeps its promise; 1 one does not; 2 wrong input; 3 could not run.`,
		Example: "  geobench isolation -f database.yaml\n  geobench isolation --engine geogauss,primary --plays 500\n  geobench isolation -o markdown    # of all engines\n" +
			"  geobench isolation -f experiments/own-postgres.yaml --levels all    # your own PostgreSQL, with PGUSER and PGPASSWORD",
		Args: onlyFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(anomalies.Formats, f.format):
				return usageError("--output: %q is not one of %s", f.format, strings.Join(anomalies.Formats, ", "))
			case cmd.Flags().Changed("plays") && (f.plays < 1 || f.plays > maxPlays):
				return usageError("--plays: %d is not from 1 to %d", f.plays, maxPlays)
			}
			databases, err := isolationDatabases(cmd, f.files, f.engines)
			if err != nil {
				return err
			}
			if err := checkLevels(databases, f.levels); err != nil {
				return err
			}
			report, err := playIsolation(cmd, &f, databases)
			if err != nil {
				return err
			}
			if err := report.Print(cmd.OutOrStdout(), f.format); err != nil {
				return err
			}
			if err := report.Err(); err != nil {
				return &codedError{code: exit.Failed, err: err}
			}
			return nil
		},
	}
	addFiles(cmd, &f.files)
	cmd.Flags().StringSliceVar(&f.engines, "engine", nil, "`engines` to play without a manifest, or beside those of -f: names, or all (default all without -f)")
	cmd.Flags().StringSliceVar(&f.levels, "levels", nil, "isolation `levels` to play databases with spec.external at, as values of their parameter: names, or all (default what the manifest names, or else all)")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "the `seed` of every chance in the simulator")
	cmd.Flags().IntVar(&f.plays, "plays", 0, fmt.Sprintf("how `often` each case is played (default %d in the simulator, %d on a database with spec.external)", simulatedPlays, livePlays))
	cmd.Flags().StringVar(&f.secrets, "secrets", "", "`folder` in which NAME/username, NAME/password and NAME/ca.crt are the keys of the Secret NAME of spec.external.secretRef")
	cmd.Flags().StringVarP(&f.format, "output", "o", "table", "`format` on standard output: "+strings.Join(anomalies.Formats, ", "))
	_ = cmd.MarkFlagDirname("secrets")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(anomalies.Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(append(engines.Names(), allWord), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// playIsolation executes the cases on one database after another.
func playIsolation(cmd *cobra.Command, f *isolationFlags, databases []isolationDatabase) (*anomalies.Report, error) {
	report := &anomalies.Report{Seed: f.seed}
	for _, named := range databases {
		if named.external != nil {
			parameter, picked, levels := levelsOf(named.external, f.levels)
			for _, level := range levels {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s %s\n", named.name, parameter, level)
				r, err := attach.PlayIsolation(cmd.Context(), named.external, f.secrets, level, picked, cmp.Or(f.plays, livePlays))
				// Errors in a manifest are usage errors. Any other error comes from the server.
				if problems, ok := check.As(err); ok {
					return nil, &codedError{code: exit.Usage, err: problems}
				}
				if err != nil {
					return nil, err
				}
				report.Databases = append(report.Databases, *r)
			}
			continue
		}
		for _, d := range anomalies.Levels(named.Database) {
			r, err := anomalies.PlayAll(cmd.Context(), named.name, d, cmp.Or(f.plays, simulatedPlays), f.seed)
			if err != nil {
				return nil, err
			}
			report.Databases = append(report.Databases, *r)
		}
	}
	return report, nil
}

// levelsOf returns the isolation levels at which an existing database is tested, as values of the parameter that
// selects the level. picked is set if the user or the manifest selected them.
func levelsOf(db *v1alpha1.GeoDatabase, given []string) (parameter string, picked bool, levels []string) {
	parameter, picked, levels = attach.Levels(db)
	switch {
	// No level was picked, so a level that the database cannot provide is reported, and is not an error.
	case slices.Equal(given, []string{allWord}):
		return parameter, false, attach.AllLevels(db.Spec.Engine.Name)
	case len(given) > 0:
		return parameter, true, given
	}
	return parameter, picked, levels
}

// checkLevels checks that every existing database supports all given levels.
func checkLevels(databases []isolationDatabase, levels []string) error {
	if len(levels) == 0 || slices.Equal(levels, []string{allWord}) {
		return nil
	}
	if !slices.ContainsFunc(databases, func(d isolationDatabase) bool { return d.external != nil }) {
		return usageError("--levels: there is no GeoDatabase with spec.external, and engines are played at all levels that they promise: leave it out")
	}
	for _, d := range databases {
		if d.external == nil {
			continue
		}
		known := attach.AllLevels(d.external.Spec.Engine.Name)
		for _, l := range levels {
			if !slices.Contains(known, l) {
				return usageError("--levels: %q is not one of %s, which GeoDatabase %s has (engine %s)", l, strings.Join(append(known, allWord), ", "), d.name, d.external.Spec.Engine.Name)
			}
		}
	}
	return nil
}

// maxPlays bounds the number of executions of a case, which are all kept in memory.
const maxPlays = 100_000

// isolationDatabases returns the databases of the manifests and the named engines. Without either, it returns all
// engines.
func isolationDatabases(cmd *cobra.Command, files, names []string) ([]isolationDatabase, error) {
	var out []isolationDatabase
	if len(files) > 0 {
		bundle, err := loadManifests(cmd, check.Isolation(nil), files)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(bundle.Databases)) {
			// Resolve takes a run, but uses only its reference to the database.
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.DatabaseRef.Name = name
			spec, profile, err := bundle.Resolve(run)
			if err != nil {
				return nil, &codedError{code: exit.Usage, err: err}
			}
			if spec.Spec.External != nil {
				out = append(out, isolationDatabase{name: name, external: spec})
				continue
			}
			e, ok := engines.Lookup(spec.Spec.Engine.Name)
			if !ok {
				return nil, usageError("GeoDatabase %s: spec.engine.name: %q: the cases are played in the simulator, which has %s, and on databases with spec.external",
					name, spec.Spec.Engine.Name, strings.Join(engines.Names(), ", "))
			}
			params, errs := e.Resolve(spec.Spec.Engine.Parameters)
			if len(errs) > 0 {
				return nil, usageError("GeoDatabase %s: spec.engine.parameters.%w", name, errs[0])
			}
			// A database that may lose acknowledged transactions promises no isolation level to check.
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
			out = append(out, isolationDatabase{name: name, Database: &anomalies.Database{Engine: e, Params: params, Topology: &t}})
		}
		if len(out) == 0 {
			return nil, usageError("%s: there is no GeoDatabase, so there is nothing to play on", strings.Join(files, ", "))
		}
		// With -f and without --engine, return only the databases of the manifests.
		if len(names) == 0 {
			return out, nil
		}
	}
	if len(names) == 0 || slices.Equal(names, []string{allWord}) {
		names = engines.Names()
	}
	topology, err := isolationTopology()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, ok := engines.Lookup(name)
		if !ok {
			return nil, usageError("--engine: %q is not one of %s", name, strings.Join(append(engines.Names(), allWord), ", "))
		}
		d, err := anomalies.Default(e, topology)
		if err != nil {
			return nil, err
		}
		out = append(out, isolationDatabase{name: name, Database: d})
	}
	return out, nil
}

// isolationTopology returns the topology for engines without a manifest.
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
