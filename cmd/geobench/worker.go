//go:build full

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/meeting"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload/catalog"
)

const (
	// meetingPoll is how often a worker looks for its start. The operator announces it several seconds ahead.
	meetingPoll = 500 * time.Millisecond
	// progressEvery is how often a worker tells its progress.
	progressEvery = 5 * time.Second
	// lastWords bounds the time in which a worker that gave up, or was told to end, says so.
	lastWords = 4 * time.Second
)

func newWorkerCommand() *cobra.Command {
	var config, report, metrics string
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
			err = work(cmd.Context(), w, index, place, metrics)
			if err != nil {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), lastWords)
				defer cancel()
				err = errors.Join(err, place.Failed(ctx, err.Error()))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&config, "config", "/etc/geobench/worker.json", "what the operator wrote for this region's workers")
	cmd.Flags().StringVar(&report, "report", "", "name of the ConfigMaps to report in, without the index")
	cmd.Flags().StringVar(&metrics, "metrics-bind-address", ":7001", "address of the Prometheus endpoint")
	return cmd
}

func meetingPlace(name string) (*meeting.Place, error) {
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
	return &meeting.Place{ConfigMaps: clients.CoreV1().ConfigMaps(namespace), Name: name, Poll: meetingPoll}, nil
}

// work takes part in one run.
func work(ctx context.Context, w *deploy.Worker, index int, place *meeting.Place, metrics string) error {
	player, err := newPlayer(w, index)
	if err != nil {
		return err
	}
	t := target.NewNative(&w.Database, w.Database.Topology.Index(w.Region))
	defer t.Close() //nolint:errcheck // connections of a process that ends
	if err := serveMetrics(ctx, metrics, player); err != nil {
		return err
	}

	waiting, cancel := context.WithDeadline(ctx, w.Deadline)
	defer cancel()
	if err := reach(waiting, t); err != nil {
		return err
	}
	if err := place.Ready(waiting, os.Getenv("POD_NAME")); err != nil {
		return err
	}
	start, err := place.AwaitStart(waiting)
	if err != nil {
		return err
	}
	if late := time.Since(start); late > 0 {
		return fmt.Errorf("the common start was %s ago when this worker learned of it: the clocks of its node and the operator's disagree, or the API server was away", late.Round(time.Millisecond))
	}

	told := make(chan struct{})
	telling, stop := context.WithCancel(ctx)
	go func() {
		defer close(told)
		tellProgress(telling, place, player)
	}()
	report, err := player.Run(ctx, t, start)
	stop()
	<-told
	if err != nil {
		return err
	}
	report.Incidents = append(report.Incidents, t.Incidents()...)
	packed, err := report.Encode()
	if err != nil {
		return err
	}
	return place.Done(ctx, packed)
}

// reach connects to all nodes of the region once, so that a worker that says it is ready can start.
func reach(ctx context.Context, t *target.Native) error {
	session, err := t.Open(ctx, func([]txn.Outcome) {})
	if err != nil {
		return err
	}
	return session.Close()
}

func newPlayer(w *deploy.Worker, index int) (*load.Worker, error) {
	wl, err := catalog.Parse(w.Workload, w.Seed, &w.Database.Topology)
	if err != nil {
		return nil, err
	}
	var l v1alpha1.Load
	if err := json.Unmarshal(w.Load, &l); err != nil {
		return nil, fmt.Errorf("spec.load: %w", err)
	}
	return load.NewWorker(load.WorkerConfig{
		Workload: wl, Topology: &w.Database.Topology, Region: w.Database.Topology.Index(w.Region),
		Index: index, Workers: w.Workers, Load: l, Seed: w.Seed,
	})
}

// tellProgress tells the operator how far the worker is until ctx ends. Nobody depends on it, so failures are passed over.
func tellProgress(ctx context.Context, place *meeting.Place, player *load.Worker) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var before int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p := player.Progress()
		_ = place.Progress(ctx, deploy.Progress{
			Stage: p.Stage.String(), Repetition: p.Repetition, Committed: p.Committed, Aborted: p.Aborted,
			ThroughputPerSecond: (p.Committed - before) * int64(time.Second) / int64(progressEvery),
		})
		before = p.Committed
	}
}

// serveMetrics shows the worker's progress to Prometheus until ctx ends.
func serveMetrics(ctx context.Context, address string, player *load.Worker) error {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, m := range []struct {
		name, help string
		value      func(load.Progress) int64
	}{
		{"geobench_worker_committed_total", "Transactions committed, warm-up included.", func(p load.Progress) int64 { return p.Committed }},
		{"geobench_worker_aborted_total", "Transactions aborted, warm-up included.", func(p load.Progress) int64 { return p.Aborted }},
		{"geobench_worker_failed_total", "Transactions refused or without an answer, warm-up included.", func(p load.Progress) int64 { return p.Failed }},
		{"geobench_worker_dropped_total", "Transactions of an open loop dropped because the queue was full.", func(p load.Progress) int64 { return p.Dropped }},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: m.name, Help: m.help},
			func() float64 { return float64(m.value(player.Progress())) }))
	}
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "geobench_worker_in_flight", Help: "Transactions under way."},
		func() float64 { return float64(player.Progress().Underway) }))

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // the process ends
	go server.Serve(listener)                         //nolint:errcheck // ends with the process
	return nil
}
