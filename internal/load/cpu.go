package load

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/geobench/geobench/internal/result"
)

// MeasureDriver adds up the CPU time that this process uses in the windows of s.
func MeasureDriver(ctx context.Context, s Schedule, epoch time.Time) *result.Driver {
	d := &result.Driver{AllowanceMilliCPU: CPUAllowance("/sys/fs/cgroup", runtime.GOMAXPROCS(0))}
	started := time.Now()
	offset := started.Sub(epoch)
	until := func(at time.Duration) bool {
		t := time.NewTimer(at - offset - time.Since(started))
		defer t.Stop()
		select {
		case <-t.C:
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
		cpu, begun := CPUTime(), time.Now()
		complete := until(to)
		d.CPUMicroseconds += (CPUTime() - cpu).Microseconds()
		d.MeasuredMicroseconds += time.Since(begun).Microseconds()
		if !complete {
			break
		}
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		d.PeakMemoryBytes = u.Maxrss * 1024 // Linux counts in kilobytes
	}
	return d
}

// CPUTime is the user and system time that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUAllowance is how much CPU this process may use, in thousandths of a core: its threads or its cgroup's quota,
// whichever is less. root is where cgroups are mounted, version 2 or 1.
func CPUAllowance(root string, threads int) int64 {
	allowance := int64(threads) * 1000
	quota, period := int64(-1), int64(0)
	if b, err := os.ReadFile(filepath.Join(root, "cpu.max")); err == nil {
		if f := strings.Fields(string(b)); len(f) == 2 {
			quota, period = number(f[0]), number(f[1]) // "max" is no number: -1
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
