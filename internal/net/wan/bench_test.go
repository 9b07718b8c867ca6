//go:build full && linux

package wan

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat. It is the same on all architectures that Go supports.
const clockTick = 10 * time.Millisecond

// cpu returns the processor time that a process has used.
func cpu(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		tb.Fatal(err)
	}
	// The values are fields 14 and 15, counted after the command, which may contain spaces.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// BenchmarkWAN compares a bare pair of namespaces with a pair that has a sidecar on each side. It reports the error of
// one direction, the TCP throughput, and the processor share of the receiver's sidecar during the transfer.
//
// The error is half the difference between the round trip and twice the delay. It includes the round trip of the bare
// network. The benchmark also reports the latter, so that readers can subtract it.
func BenchmarkWAN(b *testing.B) {
	for _, bench := range []struct {
		name    string
		sidecar bool
		delay   time.Duration
	}{{"bare", false, 0}, {"0ms", true, 0}, {"25ms", true, 25 * time.Millisecond}, {"50ms", true, 50 * time.Millisecond}} {
		b.Run(bench.name, func(b *testing.B) {
			left, right := podPair(b)
			right.echo()
			right.sink()
			var processes []*process
			if bench.sidecar {
				for _, n := range [][2]*namespace{{left, right}, {right, left}} {
					config := oneWay(n[1], 1, Link{DelayMicros: bench.delay.Microseconds()})
					config.QueueBytes = 1 << 30 // enough for 50 ms of the fastest TCP here
					n[0].write(config)
					processes = append(processes, n[0].start())
				}
			}
			for b.Loop() {
				pings := left.pings(right, 300, max(2*bench.delay, time.Millisecond)+2*time.Millisecond, time.Second)
				if len(pings) < 290 {
					b.Fatalf("%d of 300 round trips", len(pings))
				}
				slices.Sort(pings)
				for _, p := range []int{50, 99} {
					off := (pings[len(pings)*p/100] - 2*bench.delay) / 2
					b.ReportMetric(float64(off.Microseconds()), "us-off-p"+strconv.Itoa(p))
				}
				for _, streams := range []int{1, 4} {
					var before time.Duration
					if bench.sidecar {
						before = cpu(b, processes[1].Process.Pid)
					}
					const warmup, length = 2 * time.Second, 3 * time.Second
					acknowledged, stop := left.send(right, streams)
					<-time.After(warmup)
					first, at := acknowledged(), time.Now()
					<-time.After(length)
					bytes, took := acknowledged()-first, time.Since(at)
					stop()
					b.ReportMetric(float64(bytes)*8/took.Seconds()/1e6, "Mbit/s-x"+strconv.Itoa(streams))
					if bench.sidecar {
						share := 100 * float64(cpu(b, processes[1].Process.Pid)-before) / float64(took+warmup)
						b.ReportMetric(share, "%cpu-x"+strconv.Itoa(streams))
					}
				}
			}
			b.ReportMetric(0, "ns/op") // omitted, because it is meaningless here
			for _, p := range processes {
				p.end(syscall.SIGTERM)
			}
		})
	}
}
