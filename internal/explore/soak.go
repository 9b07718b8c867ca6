package explore

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Summary adds up the seeds of one engine.
type Summary struct {
	Engine string
	// First is the first seed; Passed and Failed count those that were run.
	First          uint64
	Passed, Failed int
	// Transactions were sent by clients; Lost counts the seeds in which a region was lost, Restarted those in which nodes
	// crashed and started again.
	Transactions, Committed int64
	Lost, Restarted         int
	Virtual                 time.Duration
}

// String is one line that ends with "N passed, N failed".
func (s *Summary) String() string {
	return fmt.Sprintf("%s: seeds %d to %d, %d transactions, %d committed, %v of virtual time, %d seeds lost a region, %d restarted nodes: %d passed, %d failed",
		s.Engine, s.First, s.First+uint64(s.Passed+s.Failed)-1, s.Transactions, s.Committed, s.Virtual.Round(time.Second), s.Lost, s.Restarted, s.Passed, s.Failed)
}

// Soak runs n seeds, from c.Seed on, on all cores, and calls each for every result in the order of seeds. It ends early
// with ctx. c.Trace is not used.
func Soak(ctx context.Context, c Config, n uint64, each func(*Result)) Summary {
	c.Trace = nil
	sum := Summary{Engine: c.Engine.Name, First: c.Seed}
	var (
		mu    sync.Mutex
		next  uint64 // to be run
		tell  uint64 // to be told
		ready = map[uint64]*Result{}
		group sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < n && ctx.Err() == nil {
				i := next
				next++
				one := c
				one.Seed += i
				mu.Unlock()
				r := Run(one)
				mu.Lock()
				ready[i] = r
				for ready[tell] != nil {
					sum.add(ready[tell])
					if each != nil {
						each(ready[tell])
					}
					delete(ready, tell)
					tell++
				}
			}
		})
	}
	group.Wait()
	return sum
}

// Add adds the seeds of other worlds of the same engine.
func (s *Summary) Add(o Summary) {
	s.Passed += o.Passed
	s.Failed += o.Failed
	s.Transactions += o.Transactions
	s.Committed += o.Committed
	s.Lost += o.Lost
	s.Restarted += o.Restarted
	s.Virtual += o.Virtual
}

func (s *Summary) add(r *Result) {
	if r.Passed() {
		s.Passed++
	} else {
		s.Failed++
	}
	if r.Lost {
		s.Lost++
	}
	if r.Restarted {
		s.Restarted++
	}
	s.Transactions += int64(r.Transactions)
	s.Committed += int64(r.Committed)
	s.Virtual += r.Virtual
}
