package background

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

var run = types.NamespacedName{Namespace: "n", Name: "r"}

// A job continues while its controller reconciles the object, wakes the controller up, and keeps its outcome.
func TestOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b, key := NewRunner(), NewBudget(1), Key{run, "load", "load"}
		finish := make(chan struct{})
		started := 0
		begin := func() {
			Go(r, key, b, 1, func(context.Context) (int, error) { started++; <-finish; return 42, nil })
			synctest.Wait()
		}
		expect(t, r, key, 0, None, nil)
		begin()
		begin() // again, like an operator that was woken up by another event
		expect(t, r, key, 0, Running, nil)
		close(finish)
		synctest.Wait()
		for range 2 {
			expect(t, r, key, 42, Done, nil)
		}
		if started != 1 {
			t.Errorf("the job was started %d times", started)
		}
		if e := <-r.News; e.Object.GetName() != "r" || e.Object.GetNamespace() != "n" {
			t.Errorf("news of %v", e.Object)
		}
		r.Retain(run, "warm-up")
		expect(t, r, key, 0, None, nil)
	})
}

// A failure is returned once. Then the job can be started again.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, key, refused := NewRunner(), Key{run, "load", "load"}, errors.New("refused")
		Go(r, key, NewBudget(1), 1, func(context.Context) (int, error) { return 0, refused })
		synctest.Wait()
		expect(t, r, key, 0, Done, refused)
		expect(t, r, key, 0, None, nil)
	})
}

// A panic fails only its own job, which releases its share of the budget.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b, key := NewRunner(), NewBudget(1), Key{run, "judge", "judge"}
		Go(r, key, b, 1, func(context.Context) (int, error) { panic("too many operations") })
		synctest.Wait()
		if _, state, err := Outcome[int](r, key); state != Done || err == nil || !strings.Contains(err.Error(), "panic: too many operations") {
			t.Errorf("state %d, %v", state, err)
		}
		Go(r, key, b, 1, func(context.Context) (int, error) { return 1, nil })
		r.Wait()
		expect(t, r, key, 1, Done, nil)
	})
}

// When an event is received, the outcome is available and the share of the budget is free.
func TestNewsComeLast(t *testing.T) {
	r, b := NewRunner(), NewBudget(1)
	for i := range 1000 {
		key := Key{run, "p", strconv.Itoa(i)}
		Go(r, key, b, 1, func(context.Context) (int, error) { return i, nil })
		<-r.News
		expect(t, r, key, i, Done, nil)
	}
}

// Without a budget a job does not wait.
func TestWithoutBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, key := NewRunner(), Key{run, "p", "a"}
		finish := make(chan struct{})
		Go(r, key, nil, 0, func(context.Context) (int, error) { <-finish; return 1, nil })
		expect(t, r, key, 0, Running, nil)
		close(finish)
		r.Wait()
		expect(t, r, key, 1, Done, nil)
	})
}

// Jobs wait for their share of a budget. A job that requests more than the whole budget gets the whole budget.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := NewRunner(), NewBudget(10)
		finish := make(chan struct{})
		keys := []Key{{run, "p", "a"}, {run, "p", "b"}, {run, "p", "all"}}
		for i, share := range []int64{4, 4, 99} {
			Go(r, keys[i], b, share, func(ctx context.Context) (int, error) { <-finish; return i, nil })
			synctest.Wait()
		}
		for i, want := range []State{Running, Running, Queued} {
			if _, state, _ := Outcome[int](r, keys[i]); state != want {
				t.Errorf("job %s is in state %d, want %d", keys[i].Name, state, want)
			}
		}
		close(finish)
		r.Wait()
		expect(t, r, keys[2], 2, Done, nil)
	})
}

// Jobs are cancelled, whether they run or wait, when their object enters another phase or is deleted. No controller is
// woken up.
func TestCancelled(t *testing.T) {
	for name, cancel := range map[string]func(*Runner, context.CancelFunc){
		"another phase": func(r *Runner, _ context.CancelFunc) { r.Retain(run, "failed") },
		"gone":          func(r *Runner, _ context.CancelFunc) { r.Forget(run) },
		"the end":       func(_ *Runner, stop context.CancelFunc) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				r, b := NewRunner(), NewBudget(1)
				over := make(chan error)
				go func() { over <- r.Start(ctx) }()
				ended := 0
				for _, key := range []Key{{run, "load", "runs"}, {run, "load", "waits"}, {types.NamespacedName{Name: "other"}, "load", "waits too"}} {
					Go(r, key, b, 1, func(ctx context.Context) (int, error) { <-ctx.Done(); ended++; return 0, ctx.Err() })
					synctest.Wait()
				}
				cancel(r, stop)
				synctest.Wait()
				if ended != 1 {
					t.Errorf("%d jobs of those that ran have ended, want 1", ended)
				}
				if len(r.News) > 0 {
					t.Error("somebody was woken up")
				}
				stop()
				if err := <-over; err != nil {
					t.Error(err)
				}
				Go(r, Key{run, "load", "late"}, b, 1, func(context.Context) (int, error) { t.Error("started after the end"); return 0, nil })
				r.Wait()
			})
		})
	}
}

func expect(t *testing.T, r *Runner, key Key, want int, state State, failure error) {
	t.Helper()
	if got, is, err := Outcome[int](r, key); got != want || is != state || !errors.Is(err, failure) {
		t.Errorf("outcome %d in state %d, %v; want %d in state %d, %v", got, is, err, want, state, failure)
	}
}

// A namespace with many jobs does not block other namespaces. Shares are granted to the namespaces in turn, and each
// namespace uses at most its part of the budget.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := NewRunner(), NewSharedBudget(2, 1)
		finish := map[string]chan struct{}{}
		var begun []string
		start := func(namespace, name string, share int64) {
			end := make(chan struct{})
			finish[name] = end
			Go(r, Key{types.NamespacedName{Namespace: namespace, Name: name}, "", "check"}, b, share, func(context.Context) (int, error) {
				begun = append(begun, name)
				<-end
				return 0, nil
			})
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(begun, names) {
				t.Errorf("%q have begun, want %q", begun, names)
			}
		}
		for i := range 5 {
			start("many", "m"+strconv.Itoa(i), 1)
		}
		want("m0")
		start("few", "f0", 1)
		start("few", "f1", 1)
		want("m0", "f0")
		start("other", "o0", 2) // uses the whole budget
		close(finish["f0"])
		want("m0", "f0") // the next job in turn waits for the whole budget and is not overtaken
		close(finish["m0"])
		want("m0", "f0", "o0")
		close(finish["o0"])
		want("m0", "f0", "o0", "f1", "m1")
		r.Forget(types.NamespacedName{Namespace: "many", Name: "m2"})
		close(finish["m1"])
		want("m0", "f0", "o0", "f1", "m1", "m3")
		for _, name := range []string{"f1", "m3", "m4", "m2"} {
			close(finish[name])
		}
		r.Wait()
		if b.used != 0 || len(b.usedBy)+len(b.lastTurn)+len(b.waiting) > 0 {
			t.Errorf("the budget keeps %+v", b)
		}
	})
}
