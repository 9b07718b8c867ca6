package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/waitport"
)

func newAwaitCommand() *cobra.Command {
	var o waitport.Options
	var need string
	cmd := &cobra.Command{
		Use:   "await --hosts HOST,... --port NUMBER",
		Short: "Wait until servers accept connections (what holds pods back until those of another role are there)",
		Long: `Await ends once the port of any, all or the first of the hosts has accepted a connection. It says which hosts are missing, and does
not give up.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.Hosts) == 0 || o.Port < 1 || o.Port > 65535 {
				return usageError("--hosts and --port: %d hosts and port %d; name at least one host, and a port from 1 to 65535", len(o.Hosts), o.Port)
			}
			o.Need, o.Log = v1alpha1.RoleHosts(need), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return waitport.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringSliceVar(&o.Hosts, "hosts", nil, "hosts, with commas between")
	cmd.Flags().IntVar(&o.Port, "port", 0, "TCP port of each of them")
	cmd.Flags().StringVar(&need, "need", string(v1alpha1.RoleHostsAny), "how many of them: Any, All or First")
	cmd.Flags().StringVar(&o.Self, "self", "", "the host of whoever waits, who does not wait for itself")
	return cmd
}
