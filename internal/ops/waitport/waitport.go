// Package waitport waits until servers accept connections. It delays the pods of a role until the pods of another role
// are available. Otherwise the pods would fail and exit, and Kubernetes would restart them with increasing pauses.
package waitport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

const (
	// pause is the time between two attempts to reach servers that have not answered yet.
	pause = time.Second
	// patience is the timeout of a connection attempt. It exceeds the round trip of any link.
	patience = 5 * time.Second
	// reportEvery is the interval between log lines that name the servers which have not answered yet.
	reportEvery = 30 * time.Second
)

// Options contains the settings of Run.
type Options struct {
	// Hosts lists all hosts of a role. Port is the port on each host.
	Hosts []string
	Port  int
	// Need defines how many of the hosts must accept a connection.
	Need v1alpha1.RoleHosts
	// Self is the host of the waiting process. The process does not wait for itself.
	Self string
	Log  *slog.Logger

	// dial and after are replaced by tests.
	dial  func(ctx context.Context, address string) error
	after func(time.Duration) <-chan time.Time
}

// Run returns nil once enough of the hosts, as defined by Need, have accepted a connection. If Need is all, every host
// must have accepted a connection, but not necessarily all at the same time.
func Run(ctx context.Context, o Options) error {
	hosts := slices.Clone(o.Hosts)
	if len(hosts) == 0 {
		return fmt.Errorf("there is no host to wait for")
	}
	switch o.Need {
	case v1alpha1.RoleHostsFirst:
		hosts = hosts[:1]
	case v1alpha1.RoleHostsAll, v1alpha1.RoleHostsAny:
	default:
		return fmt.Errorf("%q is not one of %s, %s and %s", o.Need, v1alpha1.RoleHostsAny, v1alpha1.RoleHostsAll, v1alpha1.RoleHostsFirst)
	}
	if o.dial == nil {
		o.dial = dial
	}
	if o.after == nil {
		o.after = time.After
	}
	// Remove Self only now, because RoleHostsFirst may select this process, which then need not wait.
	if hosts = slices.DeleteFunc(hosts, func(h string) bool { return h == o.Self }); len(hosts) == 0 {
		return nil
	}
	quiet := reportEvery
	for {
		var missing []string
		answers := make([]error, len(hosts))
		done := make(chan int)
		for i, host := range hosts {
			go func() {
				answers[i] = o.dial(ctx, net.JoinHostPort(host, strconv.Itoa(o.Port)))
				done <- i
			}()
		}
		for range hosts {
			<-done
		}
		for i, host := range hosts {
			if answers[i] != nil {
				missing = append(missing, host)
			}
		}
		if len(missing) == 0 || o.Need == v1alpha1.RoleHostsAny && len(missing) < len(hosts) {
			return nil
		}
		// Do not retry a host that has accepted a connection, because it may restart while other hosts start.
		hosts = missing
		if quiet += pause; quiet >= reportEvery {
			o.Log.Info("waiting for connections", "hosts", strings.Join(hosts, ","), "port", o.Port)
			quiet = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.after(pause):
		}
	}
}

func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
