package worldtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
)

// playWorkers simulates the workers of existing pods.
func (w *World) playWorkers() {
	w.T.Helper()
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleWorker}))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || isSteward(pod) || pod.Labels[kube.LabelInit] != "" {
			continue
		}
		config := &corev1.ConfigMap{}
		if w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: pod.Spec.Volumes[0].ConfigMap.Name}, config) != nil {
			continue
		}
		var dw deploy.Worker
		w.Must(json.Unmarshal([]byte(config.Data[run.WorkerKey]), &dw))
		args := pod.Spec.Containers[0].Args
		report := args[len(args)-1] + "-" + pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		w.playWorker(pod, &dw, identity.Digest([]byte(config.Data[run.WorkerKey])), report)
	}
}

// ReportKey returns the key of a worker's report that is mounted into its pod.
func (w *World) ReportKey(pod *corev1.Pod) []byte {
	w.T.Helper()
	index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath != deploy.ReportKeyFile {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			for _, item := range v.Secret.Items {
				if item.Path == strings.ReplaceAll(m.SubPathExpr, "$(JOB_COMPLETION_INDEX)", index) {
					return w.Get(v.Secret.SecretName, &corev1.Secret{}).(*corev1.Secret).Data[item.Key]
				}
			}
		}
	}
	w.T.Fatalf("pod %s has no key for its report", pod.Name)
	return nil
}

func (w *World) playWorker(pod *corev1.Pod, dw *deploy.Worker, digest, report string) {
	w.T.Helper()
	cm := &corev1.ConfigMap{}
	if w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: report}, cm) != nil {
		return
	}
	state := cm.Data[deploy.KeyState]
	if w.WorkersHang != nil && state == *w.WorkersHang {
		return
	}
	base := cm.DeepCopy()
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	var spec v1alpha1.Load
	w.Must(json.Unmarshal(dw.Load, &spec))
	switch state {
	case "":
		cm.Data[deploy.KeyState], cm.Data[deploy.KeyPod] = deploy.StateReady, pod.Name
	case deploy.StateReady:
		at := cm.Data[deploy.KeyStartAt]
		if at == "" {
			return
		}
		start, err := time.Parse(time.RFC3339Nano, at)
		w.Must(err)
		// A worker that receives the start time too late cannot start together with the other workers.
		if late := w.FakeClock.Now().Sub(start); late > 0 {
			w.T.Errorf("worker %s was told %s too late", pod.Name, late)
		}
		w.Starts[dw.UID] = append(w.Starts[dw.UID], at)
		cm.Data[deploy.KeyState] = deploy.StateRunning
	case deploy.StateRunning:
		start, err := time.Parse(time.RFC3339Nano, cm.Data[deploy.KeyStartAt])
		w.Must(err)
		if w.FakeClock.Now().Before(start.Add(load.PlanOf(spec, 0).LastWindow())) {
			return
		}
		index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		w.Must(err)
		h := &deploy.HandIn{Run: dw.UID, Region: dw.Region, Index: index, Config: digest, StartAt: start.UTC().Format(time.RFC3339Nano)}
		h.Report, err = w.Report(dw, &spec, index).Encode()
		w.Must(err)
		if dw.HistoryLimit > 0 {
			h.History = w.recordHistory(pod, dw)
			cm.Data[deploy.KeyHistory] = h.History
		}
		cm.Data[deploy.KeySeal], err = h.Seal(w.ReportKey(pod))
		w.Must(err)
		cm.Data[deploy.KeyState] = deploy.StateDone
		cm.BinaryData = map[string][]byte{deploy.KeyReport: h.Report}
	default:
		return
	}
	w.Must(w.Client.Patch(w.Ctx, cm, client.MergeFrom(base)))
}

// recordHistory stores the history of a worker, and returns the description of the history for the worker's report.
func (w *World) recordHistory(pod *corev1.Pod, dw *deploy.Worker) string {
	w.T.Helper()
	var file bytes.Buffer
	h := deploy.History{Full: w.HistoryFull}
	writer := history.NewWriter(&file, history.Header{Region: dw.Region})
	if w.RecordedHistory != nil {
		for _, x := range w.RecordedHistory(dw.Region) {
			writer.Add(&x)
			h.Transactions++
			h.Operations += int64(len(x.Ops))
		}
	}
	w.Must(writer.Close())
	h.Bytes = int64(file.Len())
	w.histories[pod.Status.PodIP] = file.Bytes()
	text, err := json.Marshal(h)
	w.Must(err)
	return string(text)
}

// Sidecars implements podclient.Clients.
func (w *World) Sidecars(types.UID) emulation.Sidecars { return w.PlayedSidecars }

// Proxies implements podclient.Clients.
func (w *World) Proxies() podclient.Proxies { return w }

// Counters implements podclient.Proxies.
func (w *World) Counters(_ context.Context, addr, path string, read func(io.Reader) error) error {
	if w.ProxyCounters == nil {
		return fmt.Errorf("dial tcp %s: connection refused", addr)
	}
	text, err := w.ProxyCounters(addr, path)
	if err != nil {
		return err
	}
	return read(strings.NewReader(text))
}

// History implements podclient.Nodes.
func (w *World) History(_ context.Context, addr string) (io.ReadCloser, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	file, ok := w.histories[ip]
	if w.HistoryAway > 0 {
		w.HistoryAway--
		file = file[:len(file)/2]
	}
	if !ok {
		return nil, fmt.Errorf("dial tcp %s: connection refused", addr)
	}
	return io.NopCloser(bytes.NewReader(file)), nil
}

// Clock implements podclient.Nodes.
func (w *World) Clock(ctx context.Context, addr string) (podclient.Clock, error) {
	if n, err := w.node(addr); err == nil {
		return podclient.Clock{Ahead: n.Ahead, Zero: n.Zero, Within: time.Millisecond}, nil
	}
	pods := &corev1.PodList{}
	if err := w.Client.List(ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: kube.RoleWorker}); err != nil {
		return podclient.Clock{}, err
	}
	for i := range pods.Items {
		if strings.HasPrefix(addr, pods.Items[i].Status.PodIP+":") {
			return podclient.Clock{Ahead: -w.ClockBehind[pods.Items[i].Labels[kube.LabelRegion]], Within: time.Millisecond}, nil
		}
	}
	return podclient.Clock{}, fmt.Errorf("dial tcp %s: connection refused", addr)
}

// targetRTT returns the round trip that a worker measures to a database that is not Geobench's own.
func targetRTT(dw *deploy.Worker) int64 {
	if dw.Database.Client == nil {
		return 0
	}
	return 1234
}

// dealt returns the number of clients that a worker of a region runs: its share of the region's clients.
func dealt(spec *v1alpha1.Load, index int) int {
	n, workers := int(spec.ClientsPerRegion), max(1, int(spec.WorkersPerRegion))
	share := n / workers
	if index < n%workers {
		share++
	}
	return share
}

// Report returns the report of a worker. Its transactions only read, so no ledger changes.
func (w *World) Report(dw *deploy.Worker, spec *v1alpha1.Load, index int) *result.Report {
	wl, err := catalog.Parse(dw.Workload, dw.Seed, &dw.Database.Topology)
	w.Must(err)
	r := &result.Report{
		Kind: result.ReportKind, Version: result.ReportVersion, Workload: wl.Name(), Types: wl.Types(), Arrival: string(spec.Arrival),
		DurationMicroseconds: spec.Duration.Microseconds(), Repetitions: int(spec.Repetitions),
		Workers: []result.LoadGenerator{{Region: dw.Region, Index: index, Clients: dealt(spec, index), TargetRTTMicroseconds: targetRTT(dw),
			Driver: &result.Driver{MeasuredMicroseconds: spec.Duration.Microseconds(), AllowanceMilliCPU: 1000, LateMicroseconds: &result.Lateness{}}}},
		Ledger: workload.Ledger{}, Shares: make([]workload.Count, len(wl.Shares())),
	}
	h := result.NewHistogram()
	committed := w.Committed
	if n, ok := w.CommittedOn[dw.Database.Engine]; ok {
		committed = n
	}
	w.Must(h.RecordValues(1500, committed))
	var unknown int64
	one := result.NewHistogram()
	if slices.Contains(w.UnknownIn, dw.Run) {
		unknown = 1
		w.Must(one.RecordValue(1500))
	}
	for rep := range r.Repetitions {
		r.Windows = append(r.Windows, result.Window{Region: dw.Region, Repetition: rep + 1, MeasuredMicroseconds: r.DurationMicroseconds,
			Due: committed + unknown, Sent: committed + unknown, Classified: committed})
		if unknown > 0 {
			r.Series = append(r.Series, result.Series{
				Region: dw.Region, Repetition: rep + 1, Type: r.Types[0], Class: txn.ClassOf(false, false).String(), Outcome: txn.Unknown.String(),
				Attempts: result.SeriesAttempts{Count: unknown}, Latency: result.Distribution{Count: unknown, SumMicroseconds: 1500, MaxMicroseconds: 1500, Histogram: result.EncodeHistogram(one)},
			})
		}
		r.Series = append(r.Series, result.Series{
			Region: dw.Region, Repetition: rep + 1, Type: r.Types[0], Class: txn.ClassOf(false, false).String(), Outcome: txn.Committed.String(),
			Attempts: result.SeriesAttempts{Count: committed},
			Latency:  result.Distribution{Count: committed, SumMicroseconds: 1500 * committed, MaxMicroseconds: 1500, Histogram: result.EncodeHistogram(h)},
		})
	}
	return r
}
