package identity

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Log lines appear at a bounded rate, regardless of the number of rejected peers.
func TestStrangersAreLoggedAtABoundedRate(t *testing.T) {
	var b bytes.Buffer
	s := &Unauthenticated{Log: slog.New(slog.NewTextHandler(&b, nil))}
	for range 10_000 {
		s.Turned(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 5}, os.ErrPermission)
	}
	if lines := strings.Count(b.String(), "\n"); lines != 1 || s.Count() != 10_000 || !strings.Contains(b.String(), "from=10.0.0.9:5") {
		t.Errorf("%d lines about %d strangers: %s", lines, s.Count(), b.String())
	}
	s.last = time.Now().Add(-strangersEvery)
	s.Turned(&net.TCPAddr{}, os.ErrPermission)
	if !strings.Contains(b.String(), "count=10000") {
		t.Error(b.String())
	}
}
