//go:build full && linux

package wan

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestLookUp(t *testing.T) {
	answers := map[string]struct {
		found []string
		err   error
	}{
		"one":     {[]string{"10.0.0.2", "10.0.0.1", "::ffff:10.0.0.1"}, nil},
		"gone":    {nil, &net.DNSError{IsNotFound: true}},
		"trouble": {nil, errors.New("no name server answers")},
	}
	s := &sidecar{Options: Options{LookUp: func(_ context.Context, host string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, a := range answers[host].found {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, answers[host].err
	}}}
	before := map[string][]netip.Addr{
		"gone":    {netip.MustParseAddr("10.0.0.3")},
		"trouble": {netip.MustParseAddr("10.0.0.4")},
	}
	c := &Config{Peers: []Peer{{Host: "one"}, {Host: "gone"}, {Host: "trouble"}, {Address: "10.0.0.5"}}}
	got := s.lookUpAll(t.Context(), c, before)
	want := map[string][]netip.Addr{
		"one":     {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
		"gone":    nil,
		"trouble": {netip.MustParseAddr("10.0.0.4")},
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestParsePacket(t *testing.T) {
	body := []byte{0, 0, 27, 188} // family, version, queue 7100
	body = attribute(body, attrPacketHeader, 0, 0, 0, 9, 8, 0, 0, 0)
	body = attribute(body, attrTimestamp, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3)
	body = attribute(body, attrWholeLength, 0, 0, 5, 220)
	body = attribute(body, attrPacketInfo, 0, 0, 0, infoWhole)
	header := make([]byte, 20)
	header[0] = 0x45
	copy(header[12:], []byte{10, 0, 0, 1})
	body = attribute(body, attrPayload, header...)
	p, ok := parsePacket(body)
	if !ok || p.id != 9 || p.queue != 7100 || p.bytes != 1500 || !p.whole || p.stamp != 2_000_003_000 {
		t.Errorf("packet %+v (%t)", p, ok)
	}
	if from, ok := sourceOf(p.payload); !ok || from != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("from %s (%t)", from, ok)
	}
	if from, ok := sourceOf(header[:19]); ok {
		t.Errorf("half a header comes from %s", from)
	}
	header = make([]byte, 40)
	header[0] = 0x60
	header[23] = 7
	if from, ok := sourceOf(header); !ok || from != netip.MustParseAddr("::7") {
		t.Errorf("from %s (%t)", from, ok)
	}
	if _, ok := parsePacket(body[:6]); ok {
		t.Error("a message without attributes is a packet")
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add([]byte{0, 0, 27, 188, 12, 0, 1, 0, 0, 0, 0, 9, 8, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return // too short: the kernel never passes it to parsePacket
		}
		p, _ := parsePacket(b)
		if len(p.payload) > len(b) {
			t.Errorf("a payload of %d bytes from %d", len(p.payload), len(b))
		}
		_, _ = sourceOf(p.payload)
	})
}
