//go:build full

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/bench/collect"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/metrics"
	"github.com/geobench/geobench/internal/ops/workersync"
	"github.com/geobench/geobench/internal/run/attach"
)

const (
	// meetingPoll is the interval at which a worker polls for its start time. The operator announces it several seconds
	// ahead.
	meetingPoll = 500 * time.Millisecond
	// progressEvery is the interval at which a worker reports its progress.
	progressEvery = 5 * time.Second
	// lastWords bounds the time for the final report of a worker that failed or was stopped.
	lastWords = 4 * time.Second
)

func newWorkerCommand() *cobra.Command {
	var config, report, folder string
	var addresses workerAddresses
	cmd := &cobra.Command{
		Use:   "worker --config FILE --report NAME",
		Short: "Play the clients of one region (what worker pods run)",
		Long: `Worker plays its share of a region's clients. It meets the operator in the ConfigMap NAME-INDEX of its own namespace,
INDEX being its job's completion index: there it says that it is ready, reads the common start and leaves its report.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := deploy.ReadWorker(config)
			if err != nil {
				return usageError("%w", err)
			}
			index, err := strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX"))
			if err != nil {
				return usageError("JOB_COMPLETION_INDEX: %q is not a number: a worker runs in an indexed job", os.Getenv("JOB_COMPLETION_INDEX"))
			}
			place, err := meetingPlace(fmt.Sprintf("%s-%d", report, index))
			if err != nil {
				return err
			}
			err = work(cmd.Context(), w, index, place, identity.Folder(folder), addresses)
			if err != nil {
				// The worker may have been stopped, but the operator should still learn the reason.
				ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), lastWords)
				defer cancel()
				err = errors.Join(err, place.Failed(ctx, err.Error()))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&config, "config", "/etc/geobench/worker.json", "what the operator wrote for this region's workers")
	cmd.Flags().StringVar(&report, "report", "", "name of the ConfigMaps to report in, without the index")
	cmd.Flags().StringVar(&folder, "credentials", identity.DefaultFolder, "folder of the credentials that the operator made for this run")
	cmd.Flags().StringVar(&addresses.metrics, "metrics-bind-address", defaultMetricsAddress, "address of the Prometheus endpoint")
	cmd.Flags().StringVar(&addresses.admin, "admin-bind-address", ":7004", "address where the operator reads the clock and fetches the history")
	return cmd
}

// workerAddresses are the addresses at which a worker listens.
type workerAddresses struct{ metrics, admin string }

func meetingPlace(name string) (*workersync.Place, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("a worker runs in a pod: %w", err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		return nil, usageError("POD_NAMESPACE is not set")
	}
	return &workersync.Place{ConfigMaps: clients.CoreV1().ConfigMaps(namespace), Name: name, Poll: meetingPoll}, nil
}

// work takes part in a run, from connecting the clients to submitting the report.
func work(ctx context.Context, w *deploy.Worker, index int, place *workersync.Place, credentials identity.Folder, addresses workerAddresses) error {
	key, err := os.ReadFile(deploy.ReportKeyFile)
	if err != nil {
		return fmt.Errorf("the key of this worker's report: %w", err)
	}
	// Nodes recognize clients by the attempt, so that clients of an earlier attempt are rejected.
	w.Database.Run = w.Attempt
	if w.Database.ClientKey, err = credentials.Read(identity.FileClient); err != nil {
		return fmt.Errorf("the key of this run's clients: %w", err)
	}
	rec, err := newRecording(w, deploy.HistoryFolder)
	if err != nil {
		return err
	}
	player, registry, err := newPlayer(w, index, rec)
	if err != nil {
		return err
	}
	server, err := metrics.Serve(addresses.metrics, registry)
	if err != nil {
		return err
	}
	defer server.Close() //nolint:errcheck // the process ends
	if err := serveOperator(ctx, addresses.admin, credentials, rec); err != nil {
		return err
	}

	waiting, cancel := context.WithDeadline(ctx, w.Deadline)
	defer cancel()
	t, took, err := clientOf(waiting, w, index)
	if err != nil {
		return err
	}
	defer t.Close() //nolint:errcheck // connections of a process that ends
	if err := player.Connect(waiting, t); err != nil {
		return err
	}
	defer player.Close() //nolint:errcheck // connections of a process that ends
	// Report ready only once the clients are connected: the start must not wait for connections.
	if err := place.Ready(waiting, os.Getenv("POD_NAME")); err != nil {
		return err
	}
	start, err := place.AwaitStart(waiting)
	if err != nil {
		return err
	}
	// A worker that starts late would measure a different window from the other workers.
	if late := time.Since(start); late > 0 {
		return fmt.Errorf("the common start was %s ago when this worker learned of it: the clocks of its node and the operator's disagree, or the API server was away", late.Round(time.Millisecond))
	}

	// Report the progress in the background: a slow API server must not delay the clients.
	told := make(chan struct{})
	telling, stop := context.WithCancel(ctx)
	go func() {
		defer close(told)
		tellProgress(telling, place, player)
	}()
	began := time.Now()
	report, err := player.Run(ctx, start)
	ended := time.Now()
	// Stop the progress reports before the final report, so that none follows it.
	stop()
	<-told
	if err != nil {
		return err
	}
	report.Incidents = append(report.Incidents, t.Incidents()...)
	// Round(0) strips the monotonic reading, so the first difference is by the wall clock.
	report.Incidents = append(report.Incidents, load.Standstill(w.Region, ended.Round(0).Sub(began.Round(0)), ended.Sub(began))...)
	for i := range report.Workers {
		report.Workers[i].TargetRTTMicroseconds = result.Microseconds(took)
		if native, ok := t.(*target.Native); ok {
			report.Workers[i].NodeRTTMicroseconds = result.Microseconds(native.RoundTrip())
		}
	}
	h := &deploy.HandIn{Run: w.UID, Region: w.Region, Index: index, Config: w.Digest(), StartAt: start.UTC().Format(time.RFC3339Nano)}
	if h.Report, err = report.Encode(); err != nil {
		return err
	}
	// Close the history before sealing: the seal covers its size and counts.
	if rec != nil {
		recorded, err := rec.close()
		if err != nil {
			return fmt.Errorf("the history: %w", err)
		}
		b, err := json.Marshal(recorded)
		if err != nil {
			return err
		}
		h.History = string(b)
	}
	seal, err := h.Seal(key)
	if err != nil {
		return err
	}
	if err := place.Done(ctx, h, seal); err != nil {
		return err
	}
	// Keep running: the operator still fetches the history and reads the clock. It deletes the pod once it has
	// everything.
	<-ctx.Done()
	return nil
}

// clientOf returns the connection of a worker's clients, and the round-trip time to the database. For Geobench's nodes
// the time is 0, because the connection measures it itself.
func clientOf(ctx context.Context, w *deploy.Worker, index int) (target.Target, time.Duration, error) {
	region := w.Database.Topology.Index(w.Region)
	if w.Database.Client == nil {
		l, err := loadOf(w)
		if err != nil {
			return nil, 0, err
		}
		return target.NewNative(&w.Database, region, load.Coordinators(l)), 0, nil
	}
	return attach.Join(ctx, &w.Database, deploy.SecretFolder, w.Application(), region, index, w.Workers)
}

// loadOf parses the run's spec.load.
func loadOf(w *deploy.Worker) (*v1alpha1.Load, error) {
	l := &v1alpha1.Load{}
	if err := json.Unmarshal(w.Load, l); err != nil {
		return nil, fmt.Errorf("spec.load: %w", err)
	}
	return l, nil
}

// newPlayer creates the worker and a registry with its metrics.
func newPlayer(w *deploy.Worker, index int, rec *recording) (*load.Worker, *prometheus.Registry, error) {
	wl, err := catalog.Parse(w.Workload, w.Seed, &w.Database.Topology)
	if err != nil {
		return nil, nil, err
	}
	l, err := loadOf(w)
	if err != nil {
		return nil, nil, err
	}
	shards := 0
	if w.Database.Client != nil {
		shards = 1 // each shard would open all of the worker's connections
	}
	live := collect.NewWorker(collect.WorkerLabels{Run: w.Run, Database: w.Database.Name, Region: w.Region, Index: index}, wl.Types())
	player, err := load.NewWorker(load.WorkerConfig{
		Workload: wl, Topology: &w.Database.Topology, Region: w.Database.Topology.Index(w.Region),
		Index: index, Workers: w.Workers, Load: *l, Seed: w.Seed, Observer: live, Trace: rec.trace(), Fine: w.Fine, Shards: shards,
	})
	if err != nil {
		return nil, nil, err
	}
	live.Watch(player.Progress)
	registry := metrics.NewRegistry()
	registry.MustRegister(live, collect.NewDriver(w.Run, w.Database.Name, fmt.Sprintf("%s/%d", w.Region, index),
		late.CPUTime, load.CPUAllowance("/sys/fs/cgroup", runtime.GOMAXPROCS(0))))
	return player, registry, nil
}

// tellProgress reports the worker's progress to the operator until ctx is done. It ignores errors, because nothing
// depends on the reports.
func tellProgress(ctx context.Context, place *workersync.Place, player *load.Worker) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var before load.Progress
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p := player.Progress()
		_ = place.Progress(ctx, since(before, p))
		before = p
	}
}

// since returns the progress report for the interval between two states.
func since(before, now load.Progress) deploy.Progress {
	committed := now.Committed - before.Committed
	p := deploy.Progress{
		Stage: now.Stage.String(), Repetition: now.Repetition, Committed: now.Committed, Aborted: now.Aborted, Failed: now.Failed, Retried: now.Retried,
		// The interval is nominal; nothing depends on the exact rate.
		ThroughputPerSecond: committed * int64(time.Second) / int64(progressEvery),
	}
	if committed > 0 {
		p.MeanMicroseconds = (now.Latency - before.Latency).Microseconds() / committed
	}
	return p
}

// serveOperator starts a server for the operator's requests to a worker.
func serveOperator(ctx context.Context, address string, credentials identity.Folder, rec *recording) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+admin.PathClock, admin.ServeClock)
	if rec != nil {
		mux.Handle("GET "+deploy.PathHistory, rec)
	}
	strangers := &identity.Unauthenticated{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	// The operator itself reports a worker that does not answer.
	go admin.Serve(ctx, credentials.Listener(l, strangers.Turned), mux) //nolint:errcheck
	return nil
}
