package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/net/ping"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/run/node"
)

func newNodeCommand() *cobra.Command {
	var pod podFlags
	var journal string
	cmd := &cobra.Command{
		Use:   "node --config FILE --region NAME",
		Short: "Run one node of a database (what database pods run)",
		Long: `Node runs one node of a database. Which one of its region's nodes it is follows from its pod's name, POD_NAME: the pod with
ordinal o is replica o mod R of partition o div R, R being the number of replicas.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, id, err := pod.find()
			if err != nil {
				return err
			}
			engine, ok := engines.Lookup(db.Engine)
			if !ok {
				return usageError("%s: engine: %q is not one of %v", pod.config, db.Engine, engines.Names())
			}
			admin, err := listenOn(pod.bind, db.Nodes[id].Admin)
			if err != nil {
				return err
			}
			public, err := net.Listen("tcp", pod.metrics)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			group, ctx := errgroup.WithContext(cmd.Context())
			// Without a mesh the node's own probes measure the links, so it needs no prober.
			var prober *ping.Prober
			if db.Meshed {
				if prober, err = pod.probe(ctx, group, db, id, log); err != nil {
					return err
				}
			}
			// If the node or the prober fails, the group stops both.
			group.Go(func() error {
				return node.Serve(ctx, node.Config{
					Database: db, ID: id, Admin: admin, Public: public, Engine: engine, Procedures: catalog.Procedures(), Journal: journal,
					Credentials: identity.Folder(pod.credentials), ParseWorkload: manifest.ParseWorkload, Prober: prober, Log: log,
				}, func() (net.Listener, error) { return listenOn(pod.bind, db.Nodes[id].Address) })
			})
			return group.Wait()
		},
	}
	pod.add(cmd)
	cmd.Flags().StringVar(&journal, "journal", "", "folder for the log of the node's inputs, from which it goes on when its process starts again (default none)")
	return cmd
}

// defaultMetricsAddress is the address of the public endpoints of pods.
const defaultMetricsAddress = ":7001"

// podFlags identify the pod of a database that a process runs in.
type podFlags struct{ config, region, bind, metrics, credentials string }

func (f *podFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "/etc/geobench/database.json", "what the operator wrote for this database")
	cmd.Flags().StringVar(&f.region, "region", "", "name of the pod's region")
	cmd.Flags().StringVar(&f.bind, "bind-address", "", "address to listen on; the ports are the database's (default all addresses)")
	cmd.Flags().StringVar(&f.metrics, "metrics-bind-address", defaultMetricsAddress, "address of the Prometheus endpoint and of kubelet's probes")
	cmd.Flags().StringVar(&f.credentials, "credentials", identity.DefaultFolder, "folder of the credentials that the operator made for this database")
}

// find reads the description of the database and determines the pod's node.
func (f *podFlags) find() (*deploy.Database, geo.NodeID, error) {
	db, err := deploy.ReadFile(f.config)
	if err != nil {
		return nil, 0, usageError("%w", err)
	}
	name := os.Getenv("POD_NAME")
	for i := range db.Nodes { // the pods of a database with roles have no consecutive numbers
		// The first label of the host is the name of the pod.
		if host, _, _ := strings.Cut(db.Nodes[i].Admin, "."); host == name && name != "" {
			return db, geo.NodeID(i), nil
		}
	}
	id, err := nodeOf(&db.Topology, f.region, name)
	return db, id, err
}

// probe starts, in group, a prober for the pod and a server that answers the probers of other pods. Both stop when ctx
// is done.
func (f *podFlags) probe(ctx context.Context, group *errgroup.Group, db *deploy.Database, id geo.NodeID, log *slog.Logger) (*ping.Prober, error) {
	echo := net.JoinHostPort(f.bind, strconv.Itoa(ports.Probe))
	sink, err := net.Listen("tcp", echo)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenPacket("udp", echo)
	if err != nil {
		return nil, err
	}
	p, err := ping.New(db, id, conn, log)
	if err != nil {
		return nil, err
	}
	group.Go(func() error { return p.Run(ctx) })
	group.Go(func() error { return ping.Sink(ctx, sink) })
	return p, nil
}

// nodeOf returns the node that runs in the pod with this name.
func nodeOf(t *geo.Topology, region, name string) (geo.NodeID, error) {
	r := t.Index(region)
	if r < 0 {
		return 0, usageError("--region: %q is not one of %s", region, strings.Join(t.Regions, ", "))
	}
	// A StatefulSet appends the ordinal to the names of its pods.
	ordinal, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || ordinal < 0 || ordinal >= t.Partitions*t.Replicas {
		return 0, usageError("POD_NAME: %q does not end in a number below %d, the nodes of a region", name, t.Partitions*t.Replicas)
	}
	return t.Node(r, ordinal/t.Replicas, ordinal%t.Replicas), nil
}

// listenOn listens on the port of the advertised address.
func listenOn(bind, advertised string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(advertised)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", advertised, err)
	}
	return net.Listen("tcp", net.JoinHostPort(bind, port))
}
