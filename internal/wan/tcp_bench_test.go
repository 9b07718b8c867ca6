//go:build full && linux

package wan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/geo"
)

// BenchmarkTCPUnderLoss puts the kernel's TCP, whose packets a sidecar delays and loses, beside the model of it that simulations and BuiltIn
// links have: what a connection carries while it always has something to send, in Mbit/s.
func BenchmarkTCPUnderLoss(b *testing.B) {
	for _, congestion := range []geo.Congestion{geo.CongestionReno, geo.CongestionCubic} {
		for _, rtt := range []time.Duration{400 * time.Microsecond, 20 * time.Millisecond, 100 * time.Millisecond} {
			for _, ppm := range []int64{1000, 5000, 10_000, 20_000, 50_000, 100_000} {
				b.Run(fmt.Sprintf("%s/%v/%v%%", congestion, rtt, float64(ppm)/1e4), func(b *testing.B) {
					for b.Loop() {
						kernel, seen := kernelUnderLoss(b, congestion, rtt, ppm)
						// Where the sidecar's own work counts, the round trip is longer than declared.
						model := modelUnderLoss(congestion, seen, ppm)
						b.ReportMetric(float64(seen.Microseconds()), "us-rtt")
						b.ReportMetric(kernel, "kernel-Mbit/s")
						b.ReportMetric(model, "model-Mbit/s")
						b.ReportMetric(model/kernel, "model/kernel")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// kernelUnderLoss returns the rate of a connection, and its smoothed round trip meanwhile.
func kernelUnderLoss(b *testing.B, congestion geo.Congestion, rtt time.Duration, ppm int64) (mbps float64, seen time.Duration) {
	from, to := podPair(b)
	to.sink()
	from.congestion = strings.ToLower(string(congestion))
	var sidecars []*process
	for _, side := range []struct {
		n, peer *namespace
		loss    int64
	}{{to, from, ppm}, {from, to, 0}} {
		c := oneWay(side.peer, 1, Link{DelayMicros: rtt.Microseconds() / 2, LossPPM: side.loss})
		c.QueueBytes = 1 << 30
		side.n.write(c)
		sidecars = append(sidecars, side.n.start())
	}
	// So many connections at once that there are enough losses, and not more packets than the sidecar takes.
	connections := 30
	if rtt < time.Millisecond {
		connections = 1
	}
	flows := from.flood(to, connections)
	<-time.After(5 * time.Second)
	before, at := flows.acknowledged(), time.Now()
	var rtts []time.Duration
	for range 15 {
		<-time.After(time.Second)
		rtts = append(rtts, flows.roundTrips()...)
	}
	bits, took := float64(flows.acknowledged()-before)*8, time.Since(at)
	slices.Sort(rtts)
	flows.stop()
	for _, p := range sidecars {
		p.end(syscall.SIGTERM)
	}
	return bits / took.Seconds() / 1e6 / float64(connections), rtts[len(rtts)/2]
}

func modelUnderLoss(congestion geo.Congestion, rtt time.Duration, ppm int64) float64 {
	link := geo.Link{Delay: rtt / 2, LossPPM: ppm, Congestion: congestion}
	path, rng := geo.NewPath(link, link), rand.New(rand.NewPCG(1, 1))
	const frame, bytes = 64 << 10, 400 << 20
	var arrival time.Duration
	for range bytes / frame {
		arrival, _ = path.Send(0, frame, rng) // all wait for the window from the beginning
	}
	return bytes * 8 / arrival.Seconds() / 1e6
}
