//go:build full

package main

import "github.com/spf13/cobra"

// clusterCommands returns the commands that access a Kubernetes API server.
func clusterCommands() []*cobra.Command {
	return []*cobra.Command{newOperatorCommand(), newWorkerCommand(), newStewardCommand(), newSelftestCommand(), newWANCommand()}
}
