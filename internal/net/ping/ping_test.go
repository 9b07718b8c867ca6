package ping

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// pair starts two probers, in different regions, on loopback.
func pair(t *testing.T) (a, b *Prober) { return pairOf(t, false) }

// pairOf is like pair. If meshed is set, the database is declared to use a service mesh.
func pairOf(t *testing.T, meshed bool) (a, b *Prober) {
	t.Helper()
	db := &deploy.Database{Name: "db", Incarnation: "i", Meshed: meshed, Topology: geo.Topology{
		Regions: []string{"a", "b"}, Partitions: 1, Replicas: 1, Links: [][]geo.Link{make([]geo.Link, 2), make([]geo.Link, 2)}}}
	var conns []net.PacketConn
	port := 0
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		conn, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			t.Fatal(err)
		}
		conns, port = append(conns, conn), conn.LocalAddr().(*net.UDPAddr).Port
		db.Nodes = append(db.Nodes, deploy.Node{Admin: "host-" + host + ":1"})
	}
	var probers []*Prober
	for i, conn := range conns {
		p, err := New(db, geo.NodeID(i), conn, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(strings.TrimPrefix(host, "host-"))}, nil
		}
		if err := p.Ready(); err == nil || !strings.Contains(err.Error(), "is not known yet") {
			t.Errorf("before it runs: %v", err)
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { done <- p.Run(ctx) }()
		if meshed {
			sink, err := net.Listen("tcp4", conn.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = Sink(ctx, sink) }()
		}
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		probers = append(probers, p)
	}
	return probers[0], probers[1]
}

func TestProbersMeasureEachOther(t *testing.T) {
	a, b := pair(t)
	deadline := time.Now().Add(20 * time.Second)
	for _, p := range []*Prober{a, b} {
		for {
			s, err := p.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			other := 1 - s.ID
			h, err := s.Links[other].Histogram()
			if err != nil {
				t.Fatal(err)
			}
			if s.Ready && h != nil && h.TotalCount() >= 3 {
				if s.Node != []string{"a/0/0", "b/0/0"}[s.ID] || s.Incarnation != "i" || h.Max() > 10_000_000 || s.Links[s.ID].RTT != "" {
					t.Errorf("status %+v", s)
				}
				if l := s.Links[other]; l.Answered < 3 || l.Probes < l.Answered {
					t.Errorf("%d of %d packets came back", l.Answered, l.Probes)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("status %+v", s)
			}
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Metrics())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			shown[f.GetName()] += m.GetGauge().GetValue()
		}
	}
	if shown["geobench_node_ready"] != 1 || shown["geobench_network_rtt_samples"] < 3 || shown["geobench_network_median_rtt_seconds"] <= 0 || len(shown) != 6 {
		t.Errorf("Prometheus is shown %v", shown)
	}
	if sa, _ := a.Status(t.Context()); sa.Process == b.process {
		t.Error("both processes have one name")
	}
}

// Round trips through the mesh are measured with TCP, and below the mesh with UDP. The status of the link reports the
// round trips through the mesh, because transactions use it.
func TestProbersInAMesh(t *testing.T) {
	a, b := pairOf(t, true)
	const enough = 3
	count := func(l *admin.LinkStatus) (below, through int64) {
		hb, ht, err := l.MeshHistograms()
		if err != nil {
			t.Fatal(err)
		}
		if hb != nil {
			below = hb.TotalCount()
		}
		if ht != nil {
			through = ht.TotalCount()
		}
		return below, through
	}
	deadline := time.Now().Add(time.Minute)
	for _, p := range []*Prober{a, b} {
		for {
			s, err := p.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l := &s.Links[1-s.ID]
			if below, through := count(l); below >= enough && through >= enough {
				if l.RTT != l.Mesh.Through || s.Links[s.ID].Mesh != nil {
					t.Errorf("links %+v: want what went through the mesh", s.Links)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("links %+v", s.Links)
			}
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Metrics())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, f := range families {
		shown[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	if below, through := shown["geobench_network_below_mesh_rtt_seconds"], shown["geobench_network_through_mesh_rtt_seconds"]; below <= 0 || through <= 0 {
		t.Errorf("Prometheus is shown %v", shown)
	}
}

// The sink reports the number of bytes that it has discarded, even if there are few. This includes data that has the
// size of a packet but is not a probe.
func TestSinkCounts(t *testing.T) {
	sink, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = Sink(t.Context(), sink) }()
	for _, size := range []int{0, 1, packetSize - 1, packetSize, packetSize + 1, 100_000} {
		conn, err := net.Dial("tcp4", sink.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		var total [8]byte
		if _, err := io.ReadFull(conn, total[:]); err != nil || binary.BigEndian.Uint64(total[:]) != uint64(size) {
			t.Errorf("of %d bytes, %d came: %v", size, binary.BigEndian.Uint64(total[:]), err)
		}
		_ = conn.Close()
	}
}

func TestMeasureCountsLoss(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { // answers three of every four packets
		b := make([]byte, 100)
		for i := 0; ; i++ {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if m, ok := parse(b[:n]); ok && i%4 != 0 {
				m.kind = reply
				_, _ = conn.WriteTo(m.append(nil), from)
			}
		}
	}()
	f, err := Measure(t.Context(), conn.LocalAddr().String(), 100, 100*time.Microsecond, 500*time.Millisecond)
	if err != nil || f.Sent != 100 || f.Received != 75 || f.LossPPM != 250_000 || f.RTTMicroseconds["p50"] < 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestStreamCountsWhatArrives(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Sink(ctx, l) }()
	rate, err := Stream(t.Context(), l.Addr().String(), 50*time.Millisecond)
	if err != nil || rate < 1_000_000 {
		t.Errorf("%d bit/s, %v", rate, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWindowForgets(t *testing.T) {
	w := &window{}
	for second := range int64(25) {
		w.record(second, time.Duration(second+1)*time.Millisecond)
	}
	h := w.merged(24)
	if h.TotalCount() != 10 || h.Min() < 15_900 || w.merged(40) != nil {
		t.Errorf("%d round trips, least %d us", h.TotalCount(), h.Min())
	}
}

func FuzzParse(f *testing.F) {
	f.Add(packet{request, 1, 2, 3}.append(nil))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parse(b); ok && string(p.append(nil)) != string(b[:packetSize]) {
			t.Errorf("%x is read as %+v", b, p)
		}
	})
}

func TestJudge(t *testing.T) {
	const least = 95 * time.Millisecond
	for name, tc := range map[string]struct {
		rtts string // s is a short round trip, l a long round trip; one per second
		want int    // the second since which the link has been complete, or -1 if it is not
	}{
		"long from the start":       {"lllll", 0},
		"not believed yet":          {"ll", -1},
		"one late answer":           {"slsss", -1},
		"becomes long":              {"sssslll", 4},
		"one short under way":       {"lllsl", 0},
		"becomes short":             {"lllsss", -1},
		"short, then long again":    {"lllssslll", 6},
		"long until it is believed": {"slslll", 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := &peer{}
			start := time.Unix(1000, 0)
			for i, c := range tc.rtts {
				p.judge(start.Add(time.Duration(i)*time.Second), map[rune]time.Duration{'s': time.Millisecond, 'l': 100 * time.Millisecond}[c], least)
			}
			got := -1
			if !p.complete.IsZero() {
				got = int(p.complete.Sub(start) / time.Second)
			}
			if got != tc.want {
				t.Errorf("complete since %d, want %d", got, tc.want)
			}
		})
	}
}
