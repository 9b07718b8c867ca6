//go:build full

package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/identity"
)

func newWANCommand() *cobra.Command {
	var config, pod, folder string
	cmd := &cobra.Command{
		Use:   "wan --config FILE",
		Short: "Emulate the wide-area network of a pod (what sidecars run)",
		Long: `Wan delays, drops, reorders, paces and cuts what the pod receives from the pods of other regions, as FILE says, and
follows changes of FILE. It needs the capability NET_ADMIN. docs/wan.md describes the file and what the emulation costs.

SIGTERM ends it and removes what it did to the pod's network. When it dies otherwise, packets pass without emulation or are
dropped, as the file's failPolicy says, until it runs again or ` + "`geobench wan cleanup`" + ` removes its rules.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return wan.Run(cmd.Context(), wan.Options{ConfigPath: config, Pod: pod, Credentials: identity.Folder(folder), Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))})
		},
	}
	cmd.Flags().StringVar(&config, "config", wan.ConfigPath, "what the operator wrote for this pod")
	cmd.Flags().StringVar(&pod, "pod", os.Getenv("POD_NAME"), "name of the pod (default: POD_NAME)")
	cmd.Flags().StringVar(&folder, "credentials", "", "folder of the credentials that the operator made for this database; without it, its status and log are for the pod alone (default none)")
	cmd.AddCommand(&cobra.Command{
		Use:   "cleanup",
		Short: "Remove the rules that a sidecar left in this network namespace",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := wan.Cleanup()
			if err != nil {
				return err
			}
			if found {
				cmd.Println("rules removed")
			} else {
				cmd.Println("there are no rules of a sidecar")
			}
			return nil
		},
	})
	return cmd
}
