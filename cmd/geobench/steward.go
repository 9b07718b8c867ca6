//go:build full

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/geobench/geobench/internal/bench/dataagent"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/run/attach"
)

func newStewardCommand() *cobra.Command {
	var config, folder, address string
	cmd := &cobra.Command{
		Use:   "steward --config FILE",
		Short: "Load and audit a database that is not Geobench's own (what steward pods run)",
		Long: `Steward answers the operator for a database that runs in pods of its own: it loads the data of a run, says whether transactions are
still under way, and audits the rows at the end. User and password are files of the folder ` + deploy.SecretFolder + `, a Secret.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			w, err := deploy.ReadWorker(config)
			if err != nil {
				return usageError("%w", err)
			}
			if w.Database.Client == nil {
				return usageError("%s: database.client is not set: nodes of engine %s load their data themselves", config, w.Database.Engine)
			}
			s := &dataagent.Agent{
				Topology: &w.Database.Topology, Process: "steward-" + rand.Text()[:12],
				Open: func(ctx context.Context) (dataagent.Database, error) {
					return attach.Open(ctx, &w.Database, deploy.SecretFolder, w.Application())
				},
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			strangers := &identity.Unauthenticated{Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
			return admin.Serve(cmd.Context(), identity.Folder(folder).Listener(l, strangers.Turned), admin.NewHandler(s))
		},
	}
	cmd.Flags().StringVar(&config, "config", "/etc/geobench/worker.json", "what the operator wrote for the workers of the steward's region")
	cmd.Flags().StringVar(&folder, "credentials", identity.DefaultFolder, "folder of the credentials of the database's pods")
	cmd.Flags().StringVar(&address, "admin-bind-address", ":7004", "address where the operator asks")
	return cmd
}
