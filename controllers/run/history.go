package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// recorded reports whether workers record the run's history.
func recorded(run *v1alpha1.BenchmarkRun) bool { return history.Needed(run.Spec.Verify) }

const (
	// historySlack is the difference between the size limit of the history folder and deploy.MaxHistory, in bytes. It is
	// needed because a kubelet evicts pods whose history folder exceeds its limit.
	historySlack = 16 << 20

	// leastHistoryMemory and mostHistoryMemory bound the memory that the operator uses for checks, in bytes, whatever its
	// memory limit.
	leastHistoryMemory = 32 << 20
	mostHistoryMemory  = 4 << 30

	// clockDrift is the maximum drift between the clocks of two machines after the workers have read them.
	clockDrift = time.Millisecond
)

// addHistoryFolder adds a folder for the history to a worker's pod.
func addHistoryFolder(pod *corev1.PodSpec, limit int64) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "history", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(*resource.NewQuantity(limit+historySlack, resource.BinarySI))},
	}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "history", MountPath: deploy.HistoryFolder})
}

// HistoryMemory returns half of the Go runtime's memory limit (GOMEMLIMIT) in bytes, within bounds, or 1 GiB without a
// limit.
func HistoryMemory() int64 {
	limit := debug.SetMemoryLimit(-1)
	// This is the runtime's default, which means that no limit is set.
	if limit == math.MaxInt64 {
		return 1 << 30
	}
	return min(max(limit/2, leastHistoryMemory), mostHistoryMemory)
}

// history fetches the recorded histories of the workers. The error is a *trouble if a history is lost, and a
// *notYetError if it could not be read yet.
func (s *scope) history(ctx context.Context, workers []workerState) (*history.History, error) {
	h := &history.History{}
	var clocks clockSpread
	for i := range workers {
		w := &workers[i]
		addr, machine, err := s.workerAddress(ctx, w)
		if ended := (*podEndedError)(nil); errors.As(err, &ended) {
			return nil, troubled(result.ReasonHistoryLost, "the history that %s recorded is lost: its pod has ended", w.name())
		}
		if err != nil {
			return nil, err
		}
		if err := s.readHistory(ctx, h, addr, w); err != nil {
			return nil, notYet("HistoryNotRead", "the history of %s: %s", w.name(), err)
		}
		clock, err := s.Pods.Nodes(s.db.UID).Clock(ctx, addr)
		if err != nil {
			return nil, notYet("ClockNotRead", "the clock of %s: %s", w.name(), err)
		}
		clocks.add(machine, clock.Ahead, clock.Within)
	}
	h.ClockError = clocks.bound()
	return h, nil
}

// historyFits returns the memory in bytes that a check of the history needs. problem is the reason if the history
// cannot be checked: it is incomplete, or the operator has too little memory.
func (s *scope) historyFits(workers []workerState) (memory int64, problem *result.Reason) {
	say := func(reason, format string, args ...any) (int64, *result.Reason) {
		return 0, &result.Reason{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	var transactions, operations int64
	for i := range workers {
		w := &workers[i]
		var h deploy.History
		if err := json.Unmarshal([]byte(w.report.Data[deploy.KeyHistory]), &h); err != nil {
			return say(result.ReasonHistoryLost, "%s has not said what it recorded: %s", w.name(), err)
		}
		if h.Full {
			return say(result.ReasonHistoryTooLarge, "%s stopped recording after %d transactions, at %d MiB; %s", w.name(), h.Transactions, deploy.MaxHistory>>20, smaller)
		}
		transactions, operations = transactions+h.Transactions, operations+h.Operations
	}
	if needs, has := history.Memory(transactions, operations), s.Memory.Size(); needs > has {
		return say(result.ReasonHistoryTooLarge, "checking %d transactions with %d operations takes about %d MiB, and the operator has %d MiB for it; %s, or give the operator more memory",
			transactions, operations, needs>>20, has>>20, smaller)
	}
	return history.Memory(transactions, operations), nil
}

// smaller is the advice on how to make a history smaller.
const smaller = "choose fewer spec.load.clientsPerRegion or a shorter spec.load.duration"

// readHistory appends a worker's history to h. After an error h must not be used.
func (s *scope) readHistory(ctx context.Context, h *history.History, addr string, w *workerState) error {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	body, err := s.Pods.Nodes(s.db.UID).History(ctx, addr)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it was read completely, or the error does not matter
	var said deploy.History
	if err := json.Unmarshal([]byte(w.report.Data[deploy.KeyHistory]), &said); err != nil {
		return err
	}
	before := h.Len()
	if err := h.ReadFile(body, history.Size{Transactions: said.Transactions, Operations: said.Operations}); err != nil {
		return err
	}
	// A truncated history could hide a violation.
	if got := int64(h.Len() - before); got != said.Transactions {
		return fmt.Errorf("it holds %d transactions, but the worker recorded %d", got, said.Transactions)
	}
	return nil
}

// clockSpread bounds the difference between the clocks of several machines.
type clockSpread struct {
	machines    []string
	first, last time.Duration // bounds of the interval that contains all clocks, relative to the operator's clock
}

// add includes a worker's clock reading. The worker's clock is ahead of the operator's clock by ahead, with an error of
// at most within.
func (c *clockSpread) add(machine string, ahead, within time.Duration) {
	if len(c.machines) == 0 {
		c.first, c.last = ahead-within, ahead+within
	}
	c.first, c.last = min(c.first, ahead-within), max(c.last, ahead+within)
	if !slices.Contains(c.machines, machine) {
		c.machines = append(c.machines, machine)
	}
}

// bound returns the maximum difference between two of the clocks. It is 0 for a single machine, because its processes
// share one clock.
func (c *clockSpread) bound() time.Duration {
	if len(c.machines) < 2 {
		return 0
	}
	return c.last - c.first + clockDrift
}
