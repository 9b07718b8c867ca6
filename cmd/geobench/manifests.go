package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/manifest"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/plan"
)

// addFiles adds the flag for manifests.
func addFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil, "a `file` or folder of manifests, or - for standard input; may be repeated")
	cmd.MarkFlagFilename("filename", "yaml", "yml", "json") //nolint:errcheck // the flag exists
}

// loadPlans reads manifests and plans all their runs, for a place with these abilities. Whatever is wrong with them is a
// usage error that lists it all.
func loadPlans(cmd *cobra.Command, abilities check.Abilities, files []string) ([]*plan.Plan, *manifest.Bundle, error) {
	if len(files) == 0 {
		return nil, nil, usageError("no manifest is given: name one with -f, for example -f experiments/quickstart.yaml")
	}
	bundle, err := manifest.Load(cmd.InOrStdin(), abilities, files...)
	if err != nil {
		return nil, nil, &codedError{code: exitUsage, err: err}
	}
	var plans []*plan.Plan
	for _, run := range bundle.Runs {
		db, profile, err := bundle.Resolve(run)
		if err != nil {
			return nil, nil, &codedError{code: exitUsage, err: err}
		}
		p, err := plan.New(run, db, profile)
		if err != nil {
			return nil, nil, usageError("BenchmarkRun %s: %w", run.Name, err)
		}
		plans = append(plans, p)
	}
	return plans, bundle, nil
}

func newValidateCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check manifests as the API server and the operator would, without a cluster",
		Long: `Validate reads manifests, fills in defaults and checks them against the same schema and rules as the API server and
against the same checks as the operator's Preflight. Every mistake is listed with its field, its value and what would be
right. Exit code 2 when there is one.`,
		Example: "  geobench validate -f experiments/quickstart.yaml\n  kustomize build . | geobench validate -f -",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			plans, bundle, err := loadPlans(cmd, check.Default(nil), files)
			if err != nil {
				return err
			}
			// The points of an Experiment may be for the simulator alone, whose faults no other driver has.
			abilities := check.Default(nil)
			abilities.Faults = fault.SimulatorKinds
			experiments, err := expand(bundle, abilities)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "valid: %s, %s, %s", count(len(bundle.Profiles), "NetworkProfile"),
				count(len(bundle.Databases), "GeoDatabase"), count(len(plans), "BenchmarkRun"))
			if len(experiments) > 0 {
				points := 0
				for _, e := range experiments {
					points += len(e.Runs())
				}
				fmt.Fprintf(cmd.OutOrStdout(), ", %s of %s", count(len(experiments), "Experiment"), count(points, "point"))
			}
			fmt.Fprintln(cmd.OutOrStdout())
			return nil
		},
	}
	addFiles(cmd, &files)
	return cmd
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
