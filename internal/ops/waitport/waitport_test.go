package waitport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Run returns once every required server has accepted a connection at some time. It does not wait for Self.
func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		need   v1alpha1.RoleHosts
		self   string
		begins map[string]int // by host, the first attempt that the host answers; hosts not in the map never answer
		looks  int            // expected number of attempts
	}{
		"any":                          {need: v1alpha1.RoleHostsAny, begins: map[string]int{"b": 3}, looks: 3},
		"all":                          {need: v1alpha1.RoleHostsAll, begins: map[string]int{"a": 2, "b": 1, "c": 4}, looks: 4},
		"the first, whoever else does": {need: v1alpha1.RoleHostsFirst, begins: map[string]int{"a": 5, "b": 1}, looks: 5},
		"the first itself":             {need: v1alpha1.RoleHostsFirst, self: "a", looks: 0},
		"others than itself":           {need: v1alpha1.RoleHostsFirst, self: "b", begins: map[string]int{"a": 2}, looks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			look, looked := 1, 0
			o := Options{Hosts: []string{"a", "b", "c"}, Port: 7, Need: tc.need, Self: tc.self, Log: slog.New(slog.DiscardHandler)}
			o.dial = func(_ context.Context, address string) error {
				mu.Lock()
				defer mu.Unlock()
				looked = look
				host, _, _ := strings.Cut(address, ":")
				if at, ok := tc.begins[host]; ok && look >= at {
					if look > at && tc.need == v1alpha1.RoleHostsAll {
						t.Errorf("%s had answered, and is asked again", host)
					}
					return nil
				}
				return errors.New("connection refused")
			}
			o.after = func(time.Duration) <-chan time.Time {
				mu.Lock()
				defer mu.Unlock()
				look++
				now := make(chan time.Time, 1)
				now <- time.Time{}
				return now
			}
			if err := Run(t.Context(), o); err != nil || looked != tc.looks {
				t.Errorf("%d looks, want %d: %v", looked, tc.looks, err)
			}
		})
	}
}

func TestRunConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	o := Options{Hosts: []string{"127.0.0.1"}, Port: n, Need: v1alpha1.RoleHostsAll, Log: slog.New(slog.DiscardHandler)}
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	o.after = func(time.Duration) <-chan time.Time { cancel(); return nil }
	if err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody listens, and it ends with %v", err)
	}
	if err := Run(t.Context(), Options{Hosts: []string{"a"}, Need: "Some"}); err == nil || !strings.Contains(err.Error(), `"Some" is not one of Any, All and First`) {
		t.Error(err)
	}
	if err := Run(t.Context(), Options{Need: v1alpha1.RoleHostsAny}); err == nil {
		t.Error("it waits for nobody")
	}
}
