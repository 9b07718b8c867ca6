package explore

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Seeds is a sequence of Count seeds: First, First+Step, First+2*Step, and so on. A Step of 0 means 1.
type Seeds struct {
	First uint64 `json:"first"`
	Count uint64 `json:"count"`
	Step  uint64 `json:"step,omitempty"`
}

// Shard returns the seeds for machine i of n machines, where i counts from 0.
func (s Seeds) Shard(i, n uint64) Seeds {
	left := s.Count - min(i, s.Count)
	return Seeds{First: s.at(i), Count: (left + n - 1) / n, Step: s.step() * n}
}

// After returns the seeds that remain after the first n have run.
func (s Seeds) After(n uint64) Seeds {
	n = min(n, s.Count)
	return Seeds{First: s.at(n), Count: s.Count - n, Step: s.Step}
}

func (s Seeds) step() uint64       { return max(s.Step, 1) }
func (s Seeds) at(i uint64) uint64 { return s.First + i*s.step() }

// String describes the seeds, such as "seeds 1 to 100" or "seeds 3, 11, ... to 99".
func (s Seeds) String() string {
	switch {
	case s.Count == 0:
		return "no seeds"
	case s.step() == 1:
		return fmt.Sprintf("seeds %d to %d", s.First, s.at(s.Count-1))
	case s.Count == 1:
		return fmt.Sprintf("seed %d", s.First)
	}
	return fmt.Sprintf("seeds %d, %d, ... to %d", s.First, s.at(1), s.at(s.Count-1))
}

// Summary sums up the results of one engine's seeds.
type Summary struct {
	Engine string `json:"engine"`
	// Seeds are the seeds that have run. Passed and Failed count the seeds that passed and failed. Least is the smallest
	// seed that failed.
	Seeds  Seeds  `json:"seeds"`
	Passed int    `json:"passed"`
	Failed int    `json:"failed"`
	Least  uint64 `json:"least,omitempty"`
	// Transactions is the number of transactions that clients sent. Lost is the number of seeds in which a region was
	// lost. Restarted is the number of seeds in which nodes crashed and restarted.
	Transactions int64         `json:"transactions"`
	Committed    int64         `json:"committed"`
	Lost         int           `json:"lost"`
	Restarted    int           `json:"restarted"`
	Virtual      time.Duration `json:"virtualNanoseconds"`
	// Torn is the number of seeds in which logs lost unsynced data. Unread is the number of seeds in which a log could not
	// be read.
	Torn   int `json:"torn,omitempty"`
	Unread int `json:"unread,omitempty"`
	// Replaced is the number of nodes that were lost and replaced.
	Replaced int `json:"replaced,omitempty"`
	// Stragglers is the number of nodes that lagged permanently at the end.
	Stragglers int `json:"stragglers,omitempty"`
	// Written is the number of checkpoints. Largest is the size of the largest one, in bytes.
	Written int `json:"written,omitempty"`
	Largest int `json:"largestBytes,omitempty"`
	// Mended is the maximum of Result.Mended over all seeds.
	Mended time.Duration `json:"mendedNanoseconds,omitempty"`
	// Slowest is the maximum of Result.Slowest over all seeds; 0 if no seed had a second phase (Config.Core).
	Slowest time.Duration `json:"slowestNanoseconds,omitempty"`
}

// String returns a line that ends with "N passed, N failed". If a seed failed, the line also states the smallest such
// seed.
func (s *Summary) String() string {
	disks := ""
	if s.Torn+s.Unread > 0 {
		disks = fmt.Sprintf(", %d lost the end of a log, %d a whole one", s.Torn, s.Unread)
	}
	if s.Replaced > 0 {
		disks += fmt.Sprintf(", %d nodes were lost and replaced, at most %v until all copies counted again", s.Replaced, s.Mended.Round(time.Millisecond))
	}
	if s.Stragglers > 0 {
		disks += fmt.Sprintf(", %d nodes lag permanently", s.Stragglers)
	}
	if s.Written > 0 {
		disks += fmt.Sprintf(", %d checkpoints of a replica, the largest of %d bytes", s.Written, s.Largest)
	}
	if s.Slowest > 0 {
		disks += fmt.Sprintf(", what was left answered within %v", s.Slowest.Round(time.Millisecond))
	}
	text := fmt.Sprintf("%s: %v, %d transactions, %d committed, %v of virtual time, %d seeds lost a region, %d restarted nodes%s: %d passed, %d failed",
		s.Engine, s.Seeds, s.Transactions, s.Committed, s.Virtual.Round(time.Second), s.Lost, s.Restarted, disks, s.Passed, s.Failed)
	if s.Failed > 0 {
		text += fmt.Sprintf(", the least of them %d", s.Least)
	}
	return text
}

// Soak runs seeds on all cores, and calls each with every result, in the order of the seeds. Once ctx is done, it
// starts no further seed. It ignores c.Seed and c.Trace.
func Soak(ctx context.Context, c Config, seeds Seeds, each func(*Result)) Summary {
	c.Trace = nil
	sum := Summary{Engine: c.Engine.Name, Seeds: Seeds{First: seeds.First, Step: seeds.Step}}
	var (
		mu    sync.Mutex
		next  uint64 // index of the next seed to run
		tell  uint64 // index of the next seed to report
		ready = map[uint64]*Result{}
		group sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < seeds.Count && ctx.Err() == nil {
				i := next
				next++
				one := c
				one.Seed = seeds.at(i)
				// The mutex also serializes the calls of each. Only the scenario runs without the mutex.
				mu.Unlock()
				r := Run(one)
				mu.Lock()
				ready[i] = r
				// A result stays in ready until all earlier seeds have been reported, so that the output does not depend on the
				// number of cores.
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

func (s *Summary) add(r *Result) {
	s.Seeds.Count++
	if r.Passed() {
		s.Passed++
	} else if s.Failed++; s.Failed == 1 || r.Seed < s.Least {
		s.Least = r.Seed
	}
	s.Transactions += int64(r.Transactions)
	s.Committed += int64(r.Committed)
	s.Virtual += r.Virtual
	s.Replaced += r.Replaced
	s.Stragglers += r.Stragglers
	s.Written += r.Written
	s.Largest = max(s.Largest, r.Largest)
	s.Mended = max(s.Mended, r.Mended)
	s.Slowest = max(s.Slowest, r.Slowest)
	for count, happened := range map[*int]bool{&s.Lost: r.Lost, &s.Restarted: r.Restarted, &s.Torn: r.Torn > 0, &s.Unread: r.Unread} {
		if happened {
			*count++
		}
	}
}
