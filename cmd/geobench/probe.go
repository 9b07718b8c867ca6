package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/net/emulation/kernel"
	"github.com/geobench/geobench/internal/net/ping"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/metrics"
)

func newProbeCommand() *cobra.Command {
	var pod podFlags
	cmd := &cobra.Command{
		Use:   "probe --config FILE --region NAME",
		Short: "Measure round trips beside a database that cannot (a sidecar of its pods)",
		Long: `Probe sends packets to the probes of all other pods of a database, and tells the operator how long they took. Which pod it is
in follows from POD_NAME.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, id, err := pod.find()
			if err != nil {
				return err
			}
			server, err := listenOn(pod.bind, db.Nodes[id].Admin)
			if err != nil {
				return err
			}
			public, err := net.Listen("tcp", pod.metrics)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			group, ctx := errgroup.WithContext(cmd.Context())
			p, err := pod.probe(ctx, group, db, id, log)
			if err != nil {
				return err
			}
			registry := metrics.NewRegistry()
			registry.MustRegister(p.Metrics())
			strangers := &identity.Unauthenticated{Log: log}
			group.Go(func() error {
				return admin.Serve(ctx, identity.Folder(pod.credentials).Listener(server, strangers.Turned), admin.NewHandler(p))
			})
			group.Go(func() error { return admin.Serve(ctx, public, admin.NewPublicHandler(p, metrics.Handler(registry))) })
			return group.Wait()
		},
	}
	pod.add(cmd)
	return cmd
}

func newPingCommand() *cobra.Command {
	var count int
	var interval, stream time.Duration
	cmd := &cobra.Command{
		Use:   "ping HOST",
		Short: "Measure round trips and loss, or throughput, to a pod with a probe",
		Long: `Ping sends small UDP packets to the probe of another pod and prints, as JSON, how many came back and how long they took. With
--stream it sends over one TCP connection instead, as fast as it can, and prints the bits per second that arrived.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || interval <= 0 {
				return usageError("--count and --interval: %d and %s must be positive", count, interval)
			}
			addr := net.JoinHostPort(args[0], strconv.Itoa(ports.Probe))
			// Single packets do not measure the bandwidth of a link, so a stream uses TCP.
			if stream > 0 {
				rate, err := ping.Stream(cmd.Context(), addr, stream)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "{\"bitsPerSecond\":%d}\n", rate)
				return err
			}
			f, err := ping.Measure(cmd.Context(), addr, count, interval, 2*time.Second)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(f)
		},
	}
	cmd.Flags().IntVar(&count, "count", 100, "number of packets")
	cmd.Flags().DurationVar(&interval, "interval", 20*time.Millisecond, "time between two packets")
	cmd.Flags().DurationVar(&stream, "stream", 0, "send over TCP for so long instead")
	return cmd
}

// terminationLog is the file from which Kubernetes reads a container's termination message.
const terminationLog = "/dev/termination-log"

func newProbeKernelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "probe-kernel",
		Short: "Find out whether the kernel of this machine can delay packets (what probe pods run)",
		Long: `Probe-kernel puts the queueing disciplines that Chaos Mesh needs on the loopback interface of its own network namespace, takes
them away again, and prints as JSON which ones the kernel does not have. In a pod the answer is also the container's termination message. It needs the
capability NET_ADMIN.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := json.Marshal(kernel.Probe())
			if err != nil {
				return err
			}
			// The file exists only in a container.
			if _, err := os.Stat(terminationLog); err == nil {
				if err := os.WriteFile(terminationLog, answer, 0o644); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", answer)
			return err
		},
	}
}
