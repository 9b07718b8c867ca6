package load

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/bench/result"
)

// MeasureDriver measures this process in the windows of s: its CPU time, the periods in which a quota stopped it, and
// its lateness. It returns when the last window closes, or when ctx is cancelled.
func MeasureDriver(ctx context.Context, s Schedule, epoch time.Time) *result.Driver {
	d := &result.Driver{AllowanceMilliCPU: CPUAllowance(late.Cgroups, runtime.GOMAXPROCS(0))}
	// Durations come from the monotonic clock, so that a step of the wall clock does not move the windows.
	started := time.Now()
	offset := started.Sub(epoch)
	now := func() time.Duration { return offset + time.Since(started) }
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	until := func(at time.Duration) bool {
		alarm.Reset(at - now())
		select {
		case <-alarm.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for rep := 1; rep <= s.Repetitions; rep++ {
		from, to := s.Window(rep)
		if !until(from) {
			break
		}
		before, begun := usageNow(), time.Now()
		by, complete := lateness(from, to, now, until)
		addWindow(d, before, usageNow(), time.Since(begun), by)
		if !complete {
			break
		}
	}
	d.PeakMemoryBytes = late.PeakMemory()
	return d
}

// usage is the CPU time of this process since its start, and the quota periods of its cgroup.
type usage struct {
	cpu                time.Duration
	periods, throttled int64
}

func usageNow() usage {
	u := usage{cpu: late.CPUTime()}
	u.periods, u.throttled = late.Throttled(late.Cgroups)
	return u
}

// addWindow adds the usage and the lateness of the process in a window of length took.
func addWindow(d *result.Driver, before, after usage, took time.Duration, by result.Lateness) {
	w := result.Driver{CPUMicroseconds: (after.cpu - before.cpu).Microseconds(), MeasuredMicroseconds: took.Microseconds(), AllowanceMilliCPU: d.AllowanceMilliCPU}
	d.CPUMicroseconds += w.CPUMicroseconds
	d.MeasuredMicroseconds += w.MeasuredMicroseconds
	// The average over all windows would hide a single saturated window.
	d.BusiestPPM = max(d.BusiestPPM, w.SharePPM())
	d.Periods += after.periods - before.periods
	d.ThrottledPeriods += after.throttled - before.throttled
	if d.LateMicroseconds == nil {
		d.LateMicroseconds = &result.Lateness{}
	}
	if !ignoreLateness {
		d.LateMicroseconds.Worst(by)
	}
}

// CPUAllowance returns the CPU allowance of this process in thousandths of a core: its threads or the quota of its
// cgroup, whichever is less. root is the mount point of cgroups, version 2 or 1.
func CPUAllowance(root string, threads int) int64 {
	allowance := int64(threads) * 1000
	quota, period := int64(-1), int64(0)
	if b, err := os.ReadFile(filepath.Join(root, "cpu.max")); err == nil {
		if f := strings.Fields(string(b)); len(f) == 2 {
			quota, period = number(f[0]), number(f[1]) // "max" is not a number and yields -1
		}
	} else {
		for _, dir := range []string{"cpu", "cpu,cpuacct"} {
			q, err1 := os.ReadFile(filepath.Join(root, dir, "cpu.cfs_quota_us"))
			p, err2 := os.ReadFile(filepath.Join(root, dir, "cpu.cfs_period_us"))
			if err1 == nil && err2 == nil {
				quota, period = number(string(q)), number(string(p))
				break
			}
		}
	}
	if quota > 0 && period > 0 {
		allowance = min(allowance, quota*1000/period)
	}
	return allowance
}

func number(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
