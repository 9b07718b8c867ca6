//go:build !full

package main

import (
	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/bench/result"
)

// clusterDocument returns an error in this build. In a full build, it reads a result from a cluster.
func clusterDocument(_ *cobra.Command, name string) (*result.Document, error) {
	return nil, usageError("run/%s: this binary was built without access to clusters; build with `make build` or `go build -tags full ./cmd/geobench`", name)
}

// addClusterFlags adds no flags in this build.
func addClusterFlags(*cobra.Command) {}

// clusterCommands returns placeholders for the commands that access a Kubernetes API server. The libraries for these
// commands take three times as long to compile as everything else. So `go run ./cmd/geobench run`, which needs no
// cluster, is built without them.
func clusterCommands() []*cobra.Command {
	return unavailable(map[string]string{
		"operator": "Run the operator (what the operator's pod runs)",
		"worker":   "Play the clients of one region (what worker pods run)",
		"steward":  "Load and audit a database that is not Geobench's own (what steward pods run)",
		"wan":      "Emulate the wide-area network of a pod (what sidecars run)",
		"selftest": "Check an installation (what helm test runs)",
	})
}

// pluginCommands returns placeholders for the commands that follow and change objects on a cluster.
func pluginCommands() []*cobra.Command {
	return unavailable(map[string]string{
		"watch":  "Follow a BenchmarkRun to its end and show its result",
		"wait":   "Wait for the verdicts of BenchmarkRuns and Experiments",
		"matrix": "Show a database's declared and measured round-trip times",
		"cancel": "End a BenchmarkRun that is under way",
	})
}

// newManCommand returns a placeholder for the command that writes manual pages.
func newManCommand() *cobra.Command {
	return unavailable(map[string]string{"man": "Write manual pages"})[0]
}

// completeResults is nil in this build. In a full build, it offers runs on a cluster in addition to files.
var completeResults cobra.CompletionFunc

func unavailable(commands map[string]string) (out []*cobra.Command) {
	for name, short := range commands {
		out = append(out, &cobra.Command{
			Use:                name,
			Short:              short + "; not in this build",
			Long:               short + ".\n\nThis binary was built without it: build with `make build` or `go build -tags full ./cmd/geobench`.",
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return usageError("%s: this binary was built without it; build with `make build` or `go build -tags full ./cmd/geobench`", cmd.Name())
			},
		})
	}
	return out
}
