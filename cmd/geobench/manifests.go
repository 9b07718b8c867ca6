package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/servers"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/experiment"
)

// addFiles adds the flag that names manifests.
func addFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil, "a `file` or folder of manifests, or - for standard input; may be repeated")
	cmd.MarkFlagFilename("filename", "yaml", "yml", "json") //nolint:errcheck // the flag exists
}

// loadManifests reads manifests. It returns a usage error that lists all their errors.
func loadManifests(cmd *cobra.Command, abilities check.Abilities, files []string) (*manifest.Bundle, error) {
	// Check the files first, to suggest the name that was meant.
	for _, f := range files {
		if _, err := os.Stat(f); f != "-" && err != nil {
			return nil, usageError("%w", notThere(f, err))
		}
	}
	bundle, err := manifest.Load(cmd.InOrStdin(), abilities, files...)
	if err != nil {
		return nil, &codedError{code: exit.Usage, err: err}
	}
	return bundle, nil
}

// loadPlans reads manifests and plans all their runs, for an environment with the given abilities. It returns a usage
// error that lists all errors.
func loadPlans(cmd *cobra.Command, abilities check.Abilities, files []string) ([]*plan.Plan, *manifest.Bundle, error) {
	if len(files) == 0 {
		return nil, nil, usageError("no manifest is given: name one with -f, for example -f experiments/quickstart.yaml")
	}
	bundle, err := loadManifests(cmd, abilities, files)
	if err != nil {
		return nil, nil, err
	}
	var plans []*plan.Plan
	for _, run := range bundle.Runs {
		db, profile, err := bundle.Resolve(run)
		if err != nil {
			return nil, nil, &codedError{code: exit.Usage, err: err}
		}
		p, err := planRun(run, db, profile)
		if problems, ok := check.As(err); ok {
			return nil, nil, &codedError{code: exit.Usage, err: problems}
		}
		if err != nil {
			return nil, nil, usageError("BenchmarkRun %s: %w", run.Name, err)
		}
		plans = append(plans, p)
	}
	return plans, bundle, nil
}

// planRun plans a run on an existing database, or on a database that is deployed for it.
func planRun(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, profile *v1alpha1.NetworkProfileSpec) (*plan.Plan, error) {
	if db.Spec.External != nil {
		return attach.Plan(run, db)
	}
	if servers.Renders(db) {
		// Clients connect to the servers that are rendered from the engine's name. Errors were excluded when the manifest was
		// loaded.
		db = db.DeepCopy()
		_ = servers.Render(db, servers.Longest(db, profile))
	}
	return plan.New(run, db, profile)
}

// places lists the environments in which manifests can run, by the value of --for.
var places = []struct {
	name, says string
	abilities  func() check.Abilities
}{
	{"cluster", "a cluster", func() check.Abilities { return check.Default(nil) }},
	{"run", "geobench run", func() check.Abilities { return check.OnThisMachine(check.Process(nil)) }},
	{"simulate", "geobench simulate", func() check.Abilities { return check.Simulator(nil) }},
}

func newValidateCommand() *cobra.Command {
	var files []string
	var place string
	names := []string{"any"}
	for _, p := range places {
		names = append(names, p.name)
	}
	cmd := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check manifests as the API server and the operator would, without a cluster",
		Long: `Validate reads manifests, fills in defaults and checks them against the same schema and rules as the API server and
against the same checks as the operator's Preflight, geobench run and geobench simulate. Every mistake is listed with its field,
its value and what would be right. Manifests that can run somewhere are valid; where they cannot is said too. --for asks for
one place alone.

Exit code 2 when there is a mistake.`,
		Example: "  geobench validate -f experiments/quickstart.yaml\n  kustomize build . | geobench validate --for cluster -f -",
		Args:    onlyFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(names, place) {
				return usageError("--for: %q is not one of %s", place, strings.Join(names, ", "))
			}
			var stdin []byte // the content of standard input, which is parsed again for each environment
			if slices.Contains(files, "-") {
				var err error
				if stdin, err = io.ReadAll(cmd.InOrStdin()); err != nil {
					return err
				}
			}
			var summary string
			var valid, invalid, notes []string
			var first error
			for _, p := range places {
				if place != "any" && place != p.name {
					continue
				}
				// The manifests are parsed with the abilities of each environment, so each needs the same input.
				cmd.SetIn(bytes.NewReader(stdin))
				text, said, err := validate(cmd, p.abilities(), files)
				switch {
				case err == nil:
					summary, notes, valid = text, said, append(valid, p.says)
				default:
					// If the manifests are valid for no environment, report the errors for the first one.
					first = cmp.Or(first, err)
					invalid = append(invalid, fmt.Sprintf("not for %s:\n%s", p.says, indent(err.Error())))
				}
			}
			if len(valid) == 0 {
				return first
			}
			if len(invalid) > 0 {
				summary += ", for " + strings.Join(valid, " and ")
			}
			fmt.Fprintln(cmd.OutOrStdout(), summary)
			for _, text := range append(notes, invalid...) {
				fmt.Fprintln(cmd.OutOrStdout(), text)
			}
			return nil
		},
	}
	addFiles(cmd, &files)
	cmd.Flags().StringVar(&place, "for", "any", "`place` that has to be able to run them: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// untested returns notes about databases that are deployed by name alone and have never been run in this form.
func untested(databases map[string]*v1alpha1.GeoDatabase) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(databases)) {
		db := databases[name]
		if open := servers.Open(db.Spec.Engine.Name); open != "" && servers.Renders(db) {
			notes = append(notes, fmt.Sprintf("open: GeoDatabase %s: %s", db.Name, open))
		}
		if f := servers.FactsOf(db.Spec.Engine.Name); f != nil && servers.Renders(db) {
			measured := "nobody has measured it, either"
			if f.Unmeasured != "" {
				measured = "no BenchmarkRun can measure it: " + f.Unmeasured
			}
			notes = append(notes, fmt.Sprintf("untested: GeoDatabase %s is %s, which nobody has run as it is deployed here; %s", db.Name, f.Product, measured))
		}
	}
	return notes
}

// validate checks manifests for one environment. It returns a summary with the numbers of objects, and notes for the
// user.
func validate(cmd *cobra.Command, abilities check.Abilities, files []string) (summary string, notes []string, err error) {
	plans, bundle, err := loadPlans(cmd, abilities, files)
	if err != nil {
		return "", nil, err
	}
	// The points of an Experiment may be meant for the simulator, which supports faults that no other driver supports.
	abilities.Faults = fault.SimulatorKinds
	experiments, err := expand(cmd.Context(), bundle, abilities)
	if err != nil {
		return "", nil, err
	}
	text := fmt.Sprintf("valid: %s, %s, %s", experiment.Counted(len(bundle.Profiles), "NetworkProfile"),
		experiment.Counted(len(bundle.Databases), "GeoDatabase"), experiment.Counted(len(plans), "BenchmarkRun"))
	if len(experiments) > 0 {
		points, searching := 0, 0
		for _, e := range experiments {
			points += len(e.Runs())
			searching += len(e.Searches)
		}
		text += fmt.Sprintf(", %s of %s", experiment.Counted(len(experiments), "Experiment"), experiment.Counted(points, "point"))
		if searching > 0 {
			text += fmt.Sprintf(", %d of which begin the search of a rate", searching)
		}
	}
	return text, untested(bundle.Databases), nil
}
