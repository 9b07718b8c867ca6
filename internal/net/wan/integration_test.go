//go:build full && linux

package wan

import (
	"crypto/tls"
	"encoding/json"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/identity/identitytest"
)

// oneWay returns a configuration with a single link from a peer.
func oneWay(from *namespace, generation int64, l Link) *Config {
	l.From = "other"
	return &Config{Generation: generation, Seed: 1, Peers: []Peer{{Address: from.address, Region: "other"}}, Links: []Link{l}}
}

// fast reports whether the network is not emulated, that is, at least one of ten round trips takes less than 5 ms.
func fast(a, b *namespace) bool {
	rtts := a.pings(b, 10, time.Millisecond, 100*time.Millisecond)
	return len(rtts) > 0 && slices.Min(rtts) < 5*time.Millisecond
}

func TestRoundTripIsTheSumOfBothLinks(t *testing.T) {
	a, b := podPair(t)
	b.echo()
	a.write(oneWay(b, 1, Link{DelayMicros: 20_000}))
	b.write(oneWay(a, 1, Link{DelayMicros: 30_000}))
	pa, pb := a.start(), b.start()
	rtts := a.pings(b, 60, 20*time.Millisecond, 20*time.Second)
	if len(rtts) != 60 {
		t.Errorf("%d of 60 round trips", len(rtts))
	}
	slices.Sort(rtts)
	// The shortest round trip shows the emulated delay, regardless of the load of the machine.
	if rtts[0] < 49_900*time.Microsecond || rtts[0] > 51_500*time.Microsecond {
		t.Errorf("round trips of %s to %s, want the shortest to be 50ms - 0.1ms + 1.5ms", rtts[0], rtts[len(rtts)-1])
	}
	t.Logf("median round trip %s, declared 50ms", rtts[len(rtts)/2])

	// A changed file takes effect without a restart.
	a.write(oneWay(b, 2, Link{DelayMicros: 5_000}))
	a.await(2)
	if least := slices.Min(a.pings(b, 30, 20*time.Millisecond, time.Second)); least < 34_900*time.Microsecond || least > 36_500*time.Microsecond {
		t.Errorf("round trips from %s after the change, want 35ms", least)
	}

	pa.end(syscall.SIGTERM)
	pb.end(syscall.SIGTERM)
	for _, n := range []*namespace{a, b} {
		if left := n.tables(); left != 0 {
			t.Errorf("%d tables are left after SIGTERM", left)
		}
	}
	if !fast(a, b) {
		t.Error("the network is not bare after SIGTERM")
	}
}

func TestLossPerPacket(t *testing.T) {
	for name, correlation := range map[string]int64{"independent": 0, "in bursts": 500_000} {
		t.Run(name, func(t *testing.T) {
			a, b := podPair(t)
			b.write(oneWay(a, 1, Link{LossPPM: 20_000, LossCorrelationPPM: correlation}))
			b.start()
			to := b.listen()
			defer to.Close()
			from := a.dial(b)
			defer from.Close()
			const sent = 60_000
			for i := range sent {
				if _, err := from.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				if i%250 == 249 { // the kernel queues a thousand packets for a paused sidecar and drops all further packets
					eventually(t, "the packets have come", func() bool {
						st, err := b.status()
						return err == nil && st.Links[0].Packets == int64(i+1) && st.Links[0].QueuedPackets == 0
					})
				}
			}
			received := receivedBy(to)
			lost := 100 * float64(sent-received) / sent
			if math.Abs(lost-2) > 0.3 {
				t.Errorf("%.2f%% lost, want 2%% +- 0.3 points", lost)
			}
			st, err := b.status()
			if err != nil || len(st.Links[0].Dropped) != 1 || st.Links[0].Dropped[LostCause] != int64(sent-received) {
				t.Errorf("%d packets are missing, the sidecar says %+v (%v)", sent-received, st.Links[0], err)
			}
			metrics, err := b.get("/metrics")
			if err != nil || !strings.Contains(metrics, `geobench_wan_received_packets_total{from="other",pod="b",region="b"} 60000`) {
				t.Errorf("metrics (%v):\n%s", err, metrics)
			}
		})
	}
}

// No packet bypasses the sidecar while it replaces the kernel's rules. It replaces them when peers start or stop, and
// when the pod gets an address.
func TestChangesLetNothingPass(t *testing.T) {
	a, b := podPair(t)
	// A new address would also make the sidecar replace its rules, and two replacements at the same time fail.
	b.run(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0) })
	b.write(oneWay(a, 1, Link{DelayMicros: 100}))
	b.start()
	to, from := b.listen(), a.dial(b)
	defer to.Close()
	defer from.Close()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		b.run(func() error {
			r := newRules()
			for range 150 {
				spans := spansOf([]match{{netip.PrefixFrom(netip.MustParseAddr(a.address), 32), "other"}}, true)
				if err := r.install(&ruleset{queues: map[string]uint16{"other": firstQueue}, spans4: spans, exempt: []int{ports.WANAdmin, ports.WANStatus}}); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for changing := true; changing; {
		for range 20 {
			if _, err := from.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-changed:
			changing = false
		case <-tick.C:
		}
	}
	received := receivedBy(to)
	st, err := b.status()
	if err != nil || received < 1000 || int64(received) > st.Links[0].Packets {
		t.Errorf("%d packets arrive, the sidecar says %+v (%v)", received, st, err)
	}
}

// Neither a change of the configuration nor the exit of the sidecar loses delayed packets or delays them further.
func TestChangesLoseNothing(t *testing.T) {
	a, b := podPair(t)
	config := oneWay(a, 1, Link{DelayMicros: 400_000})
	b.write(config)
	sidecar := b.start()
	to, from := b.listen(), a.dial(b)
	defer to.Close()
	defer from.Close()
	send := func() {
		t.Helper()
		for range 100 {
			if _, err := from.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the packets are held", func() bool {
			st, err := b.status()
			return err == nil && st.Links[0].QueuedPackets == 100
		})
	}
	for name, change := range map[string]func(*Config){
		"a peer comes":        func(c *Config) { c.Peers = append(c.Peers, Peer{Address: "10.199.0.9", Region: "other"}) },
		"IPv6 comes":          func(c *Config) { c.Peers = append(c.Peers, Peer{Address: "fd00::9", Region: "other"}) },
		"the peers are fewer": func(c *Config) { c.Peers = c.Peers[:1] },
		"a link comes":        func(c *Config) { c.Links = append(c.Links, Link{From: "third", Cut: true}) },
		"ports are exempt":    func(c *Config) { c.ExemptPorts = append(c.ExemptPorts, 99) },
	} {
		send()
		change(config)
		config.Generation++
		b.write(config)
		b.await(config.Generation)
		if n := receivedBy(to); n != 100 {
			t.Errorf("%s: %d of 100 packets that were held arrive", name, n)
		}
	}
	if st, err := b.status(); err != nil || len(st.Links[0].Dropped) != 0 {
		t.Errorf("the sidecar says %+v (%v)", st, err)
	}
	send()
	sidecar.end(syscall.SIGTERM)
	if n := receivedBy(to); n != 100 {
		t.Errorf("%d of 100 packets that were held arrive when the sidecar ends", n)
	}
}

// If the kernel drops packets while they are delayed, these packets are counted. The kernel drops delayed packets when
// any program removes a chain from a hook.
func TestTheKernelsDropsAreCounted(t *testing.T) {
	a, b := podPair(t)
	b.write(oneWay(a, 1, Link{DelayMicros: 300_000}))
	b.start()
	to, from := b.listen(), a.dial(b)
	defer to.Close()
	defer from.Close()
	for range 50 {
		if _, err := from.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the packets are held", func() bool {
		st, err := b.status()
		return err == nil && st.Links[0].QueuedPackets == 50
	})
	b.run(func() error {
		c, err := connect()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "other"})
		c.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter})
		if err := c.Flush(); err != nil {
			return err
		}
		c.DelTable(table)
		return c.Flush()
	})
	received := receivedBy(to)
	st, err := b.status()
	if err != nil || received+int(st.Links[0].Dropped[KernelCause]) != 50 || received == 50 {
		t.Errorf("%d of 50 packets arrive, the sidecar says %+v (%v)", received, st, err)
	}
}

// Loss applies to individual network packets, even if the kernel delivers many packets at once.
func TestLossOfTCPIsPerPacket(t *testing.T) {
	a, b := podPair(t)
	b.sink()
	b.write(oneWay(a, 1, Link{LossPPM: 10_000}))
	b.start()
	acknowledged, _ := a.send(b, 1)
	eventually(t, "ten thousand packets have come", func() bool { return acknowledged() > 15_000_000 })
	st, err := b.status()
	if err != nil {
		t.Fatal(err)
	}
	l := st.Links[0]
	if l.Packets < 10_000 || l.Bytes/l.Packets > 1500 {
		t.Errorf("%d packets of %d bytes: larger than the network's 1500", l.Packets, l.Bytes/max(1, l.Packets))
	}
	if share := float64(l.Dropped[LostCause]) / float64(l.Packets); share < 0.005 || share > 0.015 {
		t.Errorf("%.2f%% of %d packets lost, want 1%%", 100*share, l.Packets)
	}
}

func TestPartition(t *testing.T) {
	a, b := podPair(t)
	b.echo()
	b.write(oneWay(a, 1, Link{DelayMicros: 1000}))
	b.start()
	if len(a.pings(b, 5, time.Millisecond, time.Second)) == 0 {
		t.Fatal("no round trip before the cut")
	}
	b.write(oneWay(a, 2, Link{Cut: true}))
	b.await(2)
	if got := a.pings(b, 20, time.Millisecond, 20*time.Millisecond); len(got) != 0 {
		t.Errorf("%d of 20 round trips through a cut", len(got))
	}
	st, err := b.status()
	if err != nil || st.Links[0].Dropped[CutCause] != 20 {
		t.Errorf("the sidecar says %+v (%v), want 20 packets dropped by the cut", st, err)
	}
	b.write(oneWay(a, 3, Link{DelayMicros: 1000}))
	b.await(3)
	if len(a.pings(b, 5, time.Millisecond, time.Second)) == 0 {
		t.Error("no round trip after the cut")
	}
}

// A saturated link carries exactly its rate. The test uses UDP, because the amount of data that TCP sends depends on
// how fast the machine responds.
func TestRateOfAFullLink(t *testing.T) {
	a, b := podPair(t)
	const rate, size = 100e6, 1400
	b.write(oneWay(a, 1, Link{DelayMicros: 5000, RateBitsPerSecond: rate, RateQueueBytes: rate / 8}))
	b.start()
	to, from := b.listen(), a.dial(b)
	defer to.Close()
	defer from.Close()
	go func() { // twice the rate, in bursts of at most 20 ms
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; <-tick.C {
			due := min(time.Since(last), 20*time.Millisecond)
			last = time.Now()
			for range int(2 * rate / 8 * due.Seconds() / size) {
				if _, err := from.Write(make([]byte, size)); err != nil {
					return
				}
			}
		}
	}()
	var received atomic.Int64
	go func() {
		for buf := make([]byte, 2*size); ; {
			n, _, err := to.ReadFrom(buf)
			if err != nil {
				return
			}
			received.Add(int64(n) + 28) // including the IP header
		}
	}()
	// backlog returns the time that the link needs for the queued data at its rate. The link is busy during that time,
	// regardless of the load of the machine.
	backlog := func() time.Duration {
		st, err := b.status()
		if err != nil {
			return 0
		}
		return time.Duration(float64(st.Links[0].QueuedBytes)*8/rate*1e9) - 5*time.Millisecond
	}
	for deadline := time.Now().Add(time.Minute); ; {
		eventually(t, "packets wait for the rate", func() bool { return backlog() > 500*time.Millisecond })
		start, before := time.Now(), received.Load()
		busy := true
		for until := start.Add(backlog()); time.Since(start) < 3*time.Second; {
			now := time.Now()
			busy = busy && now.Before(until)
			until = now.Add(backlog())
		}
		got := float64(received.Load()-before) * 8 / time.Since(start).Seconds()
		t.Logf("%.1f Mbit/s, busy all the time: %t", got/1e6, busy)
		if busy {
			if math.Abs(got/rate-1) > 0.1 {
				t.Errorf("%.1f Mbit/s, want 100 +- 10", got/1e6)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the sender did not keep the link busy for 3 s on end")
		}
	}
}

func TestDeathOfTheSidecar(t *testing.T) {
	for _, policy := range []FailPolicy{FailOpen, FailClosed} {
		t.Run(string(policy), func(t *testing.T) {
			a, b := podPair(t)
			b.echo()
			config := oneWay(a, 1, Link{DelayMicros: 30_000})
			config.FailPolicy = policy
			b.write(config)
			first := b.start()
			slow := func() bool {
				rtts := a.pings(b, 5, time.Millisecond, time.Second)
				return len(rtts) == 5 && slices.Min(rtts) >= 29_900*time.Microsecond
			}
			if !slow() {
				t.Fatal("the delay is not there")
			}
			second := b.launch()
			<-second.ended
			if second.ProcessState.Success() || !strings.Contains(second.output.String(), "no other sidecar in this network namespace") {
				t.Errorf("a second sidecar ended with %s: %s", second.ProcessState, second.output.String())
			}
			if !slow() {
				t.Error("the second sidecar has harmed the first")
			}

			first.end(syscall.SIGKILL)
			if b.tables() == 0 {
				t.Error("the rules are gone, which nobody removed")
			}
			if policy == FailOpen && !fast(a, b) {
				t.Error("nothing gets through without a sidecar, although it fails open")
			}
			if got := a.pings(b, 20, time.Millisecond, 20*time.Millisecond); policy == FailClosed && len(got) > 0 {
				t.Errorf("%d of 20 round trips without a sidecar, although it fails closed", len(got))
			}

			third := b.start()
			if !slow() {
				t.Error("the sidecar that was started again does not delay")
			}
			if n := b.tables(); n != 1 {
				t.Errorf("%d tables after a restart, want 1", n)
			}
			third.end(syscall.SIGKILL)
			for range 2 { // cleanup is idempotent
				if out, err := b.command("cleanup").CombinedOutput(); err != nil {
					t.Fatalf("cleanup: %v: %s", err, out)
				}
				if n := b.tables(); n != 0 {
					t.Errorf("%d tables after cleanup", n)
				}
			}
			if !fast(a, b) {
				t.Error("the network is not bare after cleanup")
			}
		})
	}
}

func TestBadConfiguration(t *testing.T) {
	a, b := podPair(t)
	b.echo()
	b.writeText(`{"region":"b"`)
	p := b.launch()
	<-p.ended
	if p.ProcessState.Success() || !strings.Contains(p.output.String(), "unexpected EOF") || b.tables() != 0 {
		t.Errorf("started with a broken file: %s, %d tables: %s", p.ProcessState, b.tables(), p.output.String())
	}

	b.write(oneWay(a, 1, Link{DelayMicros: 10_000}))
	b.start()
	b.writeText(`{"region":"b","generation":2,"links":[{"from":"other","delayMicros":-1}]}`)
	eventually(t, "the file is refused", func() bool {
		st, err := b.status()
		return err == nil && strings.Contains(st.ConfigError, "links[0].delayMicros: -1 is not 0 to 60000000")
	})
	if st, err := b.status(); err != nil || st.Generation != 1 || !st.Ready {
		t.Errorf("status %+v (%v), want generation 1 to stay", st, err)
	}
	if metrics, err := b.get("/metrics"); err != nil || !strings.Contains(metrics, `geobench_wan_config_errors_total{pod="b",region="b"} 1`) {
		t.Errorf("metrics (%v):\n%s", err, metrics)
	}
	if rtts := a.pings(b, 5, time.Millisecond, time.Second); len(rtts) == 0 || slices.Min(rtts) < 9_900*time.Microsecond {
		t.Errorf("round trips %v, want the last good configuration to stay", rtts)
	}
	b.write(oneWay(a, 3, Link{DelayMicros: 1000}))
	b.await(3)
	if st, err := b.status(); err != nil || st.ConfigError != "" {
		t.Errorf("status %+v (%v), want no error any more", st, err)
	}
}

// Without credentials, only processes of the pod can query the state of a sidecar. With credentials, only the operator
// can.
func TestStatusIsTheOperators(t *testing.T) {
	a, b := podPair(t)
	private, public := "://"+b.address+":7005", "http://"+b.address+":7003"
	b.write(oneWay(a, 1, Link{DelayMicros: 10_000}))
	turnedAway := func(url string, with *tls.Config) {
		t.Helper()
		if told, err := a.ask(url, with); err == nil {
			t.Errorf("a stranger asks for %s and is told %s", url, told)
		}
	}
	p := b.start()
	turnedAway("http"+private+"/status", nil)
	p.end(syscall.SIGTERM)

	folder, operator := identitytest.Database(t)
	b.credentials = string(folder)
	b.launch()
	eventually(t, "the sidecar is ready", func() bool {
		_, err := a.ask(public+"/readyz", nil)
		return err == nil
	})
	for _, path := range []string{"/status", "/log"} {
		turnedAway("http"+private+path, nil)
		turnedAway("https"+private+path, &tls.Config{InsecureSkipVerify: true})
		turnedAway("https"+private+path, identitytest.Stranger(t))
		turnedAway(public+path, nil)
		if told, err := a.ask("https"+private+path, operator); err != nil || !strings.Contains(told, `"process":`) {
			t.Errorf("the operator asks for %s and is told %s, %v", path, told, err)
		}
	}
	for _, path := range []string{"/metrics", "/healthz"} {
		if told, err := a.ask(public+path, nil); err != nil {
			t.Errorf("anybody asks for %s and is told %s, %v", path, told, err)
		}
	}
}

// The sidecar does not touch packets of exempt ports, packets of addresses that are not peers, and packets of peers
// without a link.
func TestLeftAlone(t *testing.T) {
	a, b := podPair(t)
	b.echo()
	config := oneWay(a, 1, Link{DelayMicros: 200_000})
	config.ExemptPorts = []int{9}
	b.write(config)
	b.start()
	if !fast(a, b) {
		t.Error("an exempt port is delayed")
	}
	for i, c := range []*Config{
		{Peers: []Peer{{Address: "10.199.0.7", Region: "other"}}, Links: []Link{{From: "other", DelayMicros: 200_000}}},
		{Peers: []Peer{{Address: a.address, Region: "third"}}, Links: []Link{{From: "other", DelayMicros: 200_000}}},
		{Peers: []Peer{{Address: a.address, Region: "third"}, {Address: "10.199.0.0/24", Region: "other"}}, Links: []Link{{From: "other", DelayMicros: 200_000}}},
		{Peers: []Peer{{Address: b.address, Region: "other"}}, Links: []Link{{From: "other", DelayMicros: 200_000}}},
	} {
		c.Generation = int64(i + 2)
		b.write(c)
		b.await(c.Generation)
		if !fast(a, b) {
			t.Errorf("configuration %d delays what is not its business", c.Generation)
		}
	}
}

// A database's pods may start before their peers have addresses. The sidecar can find out which statement the kernel
// supports only once a rule has an address.
func TestPeersThatComeLater(t *testing.T) {
	a, b := podPair(t)
	b.echo()
	nobody := oneWay(b, 1, Link{DelayMicros: 20_000})
	nobody.Peers = nil
	a.write(nobody)
	a.start()
	a.write(oneWay(b, 2, Link{DelayMicros: 20_000}))
	a.await(2)
	if least := slices.Min(a.pings(b, 10, 20*time.Millisecond, time.Second)); least < 19_900*time.Microsecond {
		t.Errorf("round trips from %s, want 20ms", least)
	}
}

// Phases start and stop on their own, at their times. The log records every network that was in effect, including
// networks that the operator did not configure.
func TestPhases(t *testing.T) {
	a, b := podPair(t)
	b.echo()
	config := oneWay(a, 1, Link{DelayMicros: 1000})
	cut := time.Now().Add(2 * time.Second)
	config.Phases = []Phase{
		{From: cut, Cut: []string{a.address}},
		{From: cut.Add(time.Second), Links: []Link{{From: "other", DelayMicros: 30_000}}},
		{From: cut.Add(2 * time.Second)},
	}
	b.write(config)
	b.start()
	if len(a.pings(b, 5, time.Millisecond, time.Second)) == 0 {
		t.Fatal("no round trip before the cut")
	}
	history := func() *Log {
		text, err := b.get("/log")
		if err != nil {
			t.Fatal(err)
		}
		l := &Log{}
		if err := json.Unmarshal([]byte(text), l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	eventually(t, "the first phase is in force", func() bool { return len(history().Entries) > 1 })
	if got := a.pings(b, 20, time.Millisecond, 20*time.Millisecond); len(got) != 0 {
		t.Errorf("%d of 20 round trips through a cut", len(got))
	}
	eventually(t, "the last phase is in force", func() bool { return len(history().Entries) > 3 })
	l := history()
	declared := &l.Entries[0].Config
	var got []string
	for _, e := range l.Entries {
		got = append(got, e.Config.Differs(declared))
	}
	if want := "as declared; cut off from 1 peers; link other -> b delay 30ms; as declared"; strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
	}
	for i, e := range l.Entries[1:] {
		// A phase may start late if the machine is busy, but never early.
		if late := e.From.Sub(config.Phases[i].From); late < 0 || late > 2*time.Second {
			t.Errorf("phase %d came %v late", i, late)
		} else {
			t.Logf("phase %d came %v late", i, late)
		}
	}
	config.Phases, config.Generation, config.Links[0].DelayMicros = nil, 2, 10
	b.write(config)
	b.await(2)
	if l := history(); len(l.Entries) != 5 || l.Entries[4].Config.Differs(declared) != "link other -> b delay 10µs" || !l.Since.Before(l.Entries[0].From) || l.Now.Before(l.Entries[4].From) {
		t.Errorf("%+v", l)
	}
}
