// Package background runs work that takes too long for a reconciliation. Examples are loading a data set, checking a
// history, or reading the results of thousands of points. A controller starts a job, polls its outcome in each
// reconciliation, and is woken up when the job has finished. A job stops when the operator exits. The next operator
// process starts the job again, so a job must be idempotent.
package background

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Key identifies a job.
type Key struct {
	// Object is the object that needs the job. Its controller is woken up when the job has finished.
	Object types.NamespacedName
	// Phase identifies the state of the object for which the job works: the object's UID, attempt and stage. Once the
	// object is in another phase, the outcome of the job is useless.
	Phase string
	Name  string
}

// State is the progress of a job.
type State int

// The states of a job.
const (
	// None means that no job was started, or that the failure of the last job was reported.
	None State = iota
	// Queued means that the job waits for its share of the budget.
	Queued
	// Running means that the job is executing.
	Running
	// Done means that the job has an outcome.
	Done
)

// job is a started job.
type job struct {
	cancel context.CancelFunc
	// ended is closed once outcome and err are set.
	ended   chan struct{}
	outcome any
	err     error
	running bool
}

// Runner executes jobs.
type Runner struct {
	// News receives an event for each job that finishes without being cancelled. The controller of the jobs' objects
	// reads it.
	News chan event.GenericEvent

	mu      sync.Mutex
	stopped bool
	jobs    map[Key]*job
	done    sync.WaitGroup
}

// NewRunner returns a runner without jobs.
func NewRunner() *Runner {
	return &Runner{News: make(chan event.GenericEvent, newsWaiting), jobs: map[Key]*job{}}
}

// newsWaiting is the capacity of News. Events beyond the capacity are dropped, which is safe because controllers also
// poll.
const newsWaiting = 1024

// Start implements manager.Runnable: when the manager stops, it cancels all jobs and waits for them.
func (r *Runner) Start(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.stopped = true
	for _, e := range r.jobs {
		e.cancel()
	}
	r.mu.Unlock()
	r.done.Wait()
	return nil
}

// Go starts a job unless a job with the same key exists. The job runs once budget b grants its share, or immediately if
// b is nil. A share larger than the budget is reduced to the whole budget. Cancelling the job cancels the context of
// work. A panic in work counts as a failure.
func Go[T any](r *Runner, key Key, b *Budget, share int64, work func(context.Context) (T, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.jobs[key] != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &job{cancel: cancel, ended: make(chan struct{}), running: b == nil}
	r.jobs[key] = e
	r.done.Go(func() {
		defer cancel()
		carryOut(ctx, r, key, e, b, share, work)
		// ctx must be checked before the deferred cancel, and the outcome must be visible before the controller is woken
		// up.
		cancelled := ctx.Err() != nil
		close(e.ended)
		if !cancelled {
			r.tell(key.Object)
		}
	})
}

// carryOut runs the work of a job once the job has its share of the budget.
func carryOut[T any](ctx context.Context, r *Runner, key Key, e *job, b *Budget, share int64, work func(context.Context) (T, error)) {
	if b != nil {
		share = min(max(share, 1), b.size)
		if e.err = b.acquire(ctx, key.Object.Namespace, share); e.err != nil {
			return
		}
		defer b.release(key.Object.Namespace, share)
		r.mu.Lock()
		e.running = true
		r.mu.Unlock()
	}
	// As in controller-runtime, a panic that one object causes must not stop the work for all others.
	defer func() {
		if p := recover(); p != nil {
			e.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	e.outcome, e.err = work(ctx)
}

func (r *Runner) tell(object types.NamespacedName) {
	select {
	case r.News <- event.GenericEvent{Object: named(object)}:
	default:
	}
}

// named returns an object with only a name and a namespace.
func named(object types.NamespacedName) client.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
}

// Outcome returns the state of a job and its outcome. A failure is returned only once; then the job can be started
// again. A success is kept until Retain, Drop or Forget.
func Outcome[T any](r *Runner, key Key) (outcome T, state State, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.jobs[key]
	if e == nil {
		return outcome, None, nil
	}
	select {
	case <-e.ended:
	default:
		if e.running {
			return outcome, Running, nil
		}
		return outcome, Queued, nil
	}
	if e.err != nil {
		delete(r.jobs, key)
		return outcome, Done, e.err
	}
	outcome, ok := e.outcome.(T)
	if !ok {
		err = fmt.Errorf("job %s has a %T for an outcome", key.Name, e.outcome)
	}
	return outcome, Done, err
}

// Retain cancels and removes the jobs of an object that belong to other phases.
func (r *Runner) Retain(object types.NamespacedName, phase string) {
	r.drop(func(k Key) bool { return k.Object == object && k.Phase != phase })
}

// Drop cancels and removes one job.
func (r *Runner) Drop(key Key) {
	r.drop(func(k Key) bool { return k == key })
}

// Forget cancels and removes all jobs of an object.
func (r *Runner) Forget(object types.NamespacedName) {
	r.drop(func(k Key) bool { return k.Object == object })
}

func (r *Runner) drop(which func(Key) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, e := range r.jobs {
		if which(k) {
			e.cancel()
			delete(r.jobs, k)
		}
	}
}

// Underway returns the number of queued and running jobs.
func (r *Runner) Underway() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.jobs {
		select {
		case <-e.ended:
		default:
			n++
		}
	}
	return n
}

// Wait blocks until all started jobs have ended.
func (r *Runner) Wait() { r.done.Wait() }
