//go:build full && linux

package wan

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// BenchmarkTCPUnderLoss compares the kernel's TCP with the TCP model that simulations and BuiltIn links use. A sidecar
// delays and loses the kernel's packets. The result is the throughput of a connection that always has data to send, in
// Mbit/s.
func BenchmarkTCPUnderLoss(b *testing.B) {
	for _, congestion := range []geo.Congestion{geo.CongestionReno, geo.CongestionCubic} {
		for _, rtt := range []time.Duration{400 * time.Microsecond, 20 * time.Millisecond, 100 * time.Millisecond} {
			for _, ppm := range []int64{1000, 5000, 10_000, 20_000, 50_000, 100_000} {
				b.Run(fmt.Sprintf("%s/%v/%v%%", congestion, rtt, float64(ppm)/1e4), func(b *testing.B) {
					for b.Loop() {
						kernel, seen := kernelUnderLoss(b, congestion, rtt, ppm)
						// Use the measured round trip in the model, because the sidecar's own work may make it longer than declared.
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

// lossyPair returns a pair of namespaces. Until end is called, their sidecars delay packets in both directions, and
// lose some of the packets that the namespace from sends.
func lossyPair(b *testing.B, rtt time.Duration, ppm int64) (from, to *namespace, end func()) {
	b.Helper()
	from, to = podPair(b)
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
	return from, to, func() {
		for _, p := range sidecars {
			p.end(syscall.SIGTERM)
		}
	}
}

// kernelUnderLoss returns the throughput of a connection, and its smoothed round trip during the transfer.
func kernelUnderLoss(b *testing.B, congestion geo.Congestion, rtt time.Duration, ppm int64) (mbps float64, seen time.Duration) {
	from, to, end := lossyPair(b, rtt, ppm)
	defer end()
	to.sink()
	from.congestion = strings.ToLower(string(congestion))
	// Use enough connections to observe many losses, but so few that the sidecar can handle all packets.
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
	return bits / took.Seconds() / 1e6 / float64(connections), rtts[len(rtts)/2]
}

func modelUnderLoss(congestion geo.Congestion, rtt time.Duration, ppm int64) float64 {
	link := geo.Link{Delay: rtt / 2, LossPPM: ppm, Congestion: congestion}
	path, rng := geo.NewPath(link, link), rand.New(rand.NewPCG(1, 1))
	const frame, bytes = 64 << 10, 400 << 20
	var arrival time.Duration
	for range bytes / frame {
		arrival, _ = path.Send(0, frame, rng) // all frames wait for the window from the start
	}
	return bytes * 8 / arrival.Seconds() / 1e6
}

// BenchmarkThinTCPUnderLoss makes the same comparison for connections that send a small frame at regular intervals,
// like a log that is sent in batches. It reports the additional delay of frames compared to a link without loss: the
// mean and the 99th percentile, in ms.
func BenchmarkThinTCPUnderLoss(b *testing.B) {
	const ppm = 20_000
	for _, rtt := range []time.Duration{400 * time.Microsecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		for _, every := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 500 * time.Millisecond} {
			b.Run(fmt.Sprintf("%v/every %v", rtt, every), func(b *testing.B) {
				for b.Loop() {
					kernel := thinKernel(b, rtt, every, ppm)
					b.ReportMetric(mean(kernel), "kernel-ms")
					b.ReportMetric(p99(kernel), "kernel-p99-ms")
					for name, congestion := range map[string]geo.Congestion{"cubic": geo.CongestionCubic, "open": geo.CongestionOpen} {
						model := thinModel(congestion, rtt, every, ppm)
						b.ReportMetric(mean(model), name+"-ms")
						b.ReportMetric(p99(model), name+"-p99-ms")
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func mean(all []time.Duration) float64 {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum.Seconds() * 1000 / float64(len(all))
}

func p99(all []time.Duration) float64 {
	slices.Sort(all)
	return all[len(all)*99/100].Seconds() * 1000
}

// thinFrame is the size of a frame in bytes. A frame starts with the time at which it was sent.
const thinFrame = 100

// thinKernel returns the additional delays of frames with the kernel's TCP.
func thinKernel(b *testing.B, rtt, every time.Duration, ppm int64) (late []time.Duration) {
	const lasts, mostConnections, framesPerSecond = 15 * time.Second, 200, 5000
	from, to, end := lossyPair(b, rtt, ppm)
	defer end()
	var listener net.Listener
	to.run(func() (err error) {
		listener, err = net.Listen("tcp4", to.address+":10")
		return err
	})
	defer listener.Close() //nolint:errcheck // it has served
	connections := int(min(mostConnections, framesPerSecond*every/time.Second))
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range connections {
		var conn net.Conn
		from.run(func() (err error) {
			conn, err = net.Dial("tcp4", listener.Addr().String())
			return err
		})
		peer, err := listener.Accept()
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			defer peer.Close() //nolint:errcheck // it has read all
			var frame [thinFrame]byte
			var own []time.Duration
			for {
				if _, err := io.ReadFull(peer, frame[:]); err != nil {
					break
				}
				own = append(own, time.Since(began)-time.Duration(binary.BigEndian.Uint64(frame[:])))
			}
			usual := slices.Clone(own)
			slices.Sort(usual)
			mu.Lock()
			defer mu.Unlock()
			for _, d := range own[len(own)/10:] {
				late = append(late, max(0, d-usual[len(usual)/4]))
			}
		})
		all.Go(func() {
			defer conn.Close() //nolint:errcheck // it has sent all
			<-time.After(every * time.Duration(i) / time.Duration(connections))
			tick := time.NewTicker(every)
			defer tick.Stop()
			for time.Since(began) < lasts {
				var frame [thinFrame]byte
				binary.BigEndian.PutUint64(frame[:], uint64(time.Since(began)))
				if _, err := conn.Write(frame[:]); err != nil {
					return
				}
				<-tick.C
			}
		})
	}
	all.Wait()
	return late
}

// thinModel returns the additional delays of frames with the model.
func thinModel(congestion geo.Congestion, rtt, every time.Duration, ppm int64) (late []time.Duration) {
	link := geo.Link{Delay: rtt / 2, LossPPM: ppm, Congestion: congestion}
	path, rng := geo.NewPath(link, link), rand.New(rand.NewPCG(1, 1))
	for now := time.Duration(0); len(late) < 200_000; now += every {
		arrival, _ := path.Send(now, thinFrame, rng)
		late = append(late, arrival-now-rtt/2)
	}
	return late
}
