//go:build full

package wan

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/identity"
	table "github.com/geobench/geobench/internal/ops/metrics"
)

const (
	// look is the interval at which the configuration file is read.
	look = 250 * time.Millisecond
	// lookUp is the minimum interval between two lookups of all names. With many names, the interval is lookUpPerName
	// times the number of names.
	lookUp        = time.Second
	lookUpPerName = 20 * time.Millisecond
	lookUpTimeout = 2 * time.Second
	lookUpAtOnce  = 16
	// loopTimeout is how long callers wait for an answer of the packet loop.
	loopTimeout = 2 * time.Second
	// processors is the minimum number of processors for the Go runtime. The loop occupies one of them, and with a
	// container's CPU limit there might be none left for other goroutines.
	processors = 4
)

// Options contains the settings of a sidecar.
type Options struct {
	// ConfigPath is the path of the file with a Config.
	ConfigPath string
	// Pod is the name of the pod.
	Pod string
	// Credentials authenticate the operator to the sidecar. If empty, only the pod itself can query the sidecar.
	Credentials identity.Folder
	Log         *slog.Logger
	// LookUp resolves a host. If nil, the pod's resolver is used.
	LookUp func(ctx context.Context, host string) ([]netip.Addr, error)
}

// sidecar is the state of a `geobench wan` process.
type sidecar struct {
	Options
	plane   *plane
	rules   *rules
	process string
	metrics *metrics
	late    *late.Recorder

	mu          sync.Mutex
	config      *Config // as in the file, with phases
	inForce     *Config // the network in effect, without phases
	log         Log
	configError string
	applied     error
	ready       bool
	peers       int
	unresolved  []string
}

// Run emulates the network until ctx ends, and then removes its changes from the network namespace of the process. If
// Run fails, Config.FailPolicy determines whether packets pass or are dropped.
func Run(ctx context.Context, o Options) error {
	if o.LookUp == nil {
		o.LookUp = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	file, err := os.ReadFile(o.ConfigPath)
	if err != nil {
		return err
	}
	config, err := ParseConfig(file)
	if err != nil {
		return fmt.Errorf("%s: %w", o.ConfigPath, err)
	}
	runtime.GOMAXPROCS(max(processors, runtime.GOMAXPROCS(0)))
	s := &sidecar{Options: o, rules: newRules(), process: rand.Text(), config: config, inForce: config}
	s.log = Log{Process: s.process, Since: time.Now().UTC()}
	s.late = late.NewRecorder(admin.Monotonic, late.CPUTime)
	go s.late.Run(ctx)
	s.metrics = newMetrics(s)
	if s.plane, err = newPlane(o.Pod, o.Log, s.metrics.lateness); err != nil {
		return err
	}
	stopServers, err := s.serve(config.Listen)
	if err != nil {
		s.plane.close()
		return fmt.Errorf("listen: %w", err)
	}
	defer stopServers()

	// The loop must outlive ctx: it handles queued packets until the rules queue no further packets.
	loop, stopLoop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.plane.run(loop) }()
	defer s.plane.close()
	finish := func() error {
		stopLoop()
		return <-ended
	}

	control, stopControl := context.WithCancelCause(ctx)
	defer stopControl(nil)
	failed := make(chan error, 1)
	go func() {
		// The loop ends on its own only if it fails.
		err := <-ended
		ended <- err
		if err != nil {
			failed <- err
			stopControl(err)
		}
	}()
	if err := s.follow(control, file); err != nil {
		return errors.Join(err, finish())
	}
	select {
	case err := <-failed:
		stopLoop()
		return err
	default:
	}
	// Removing the chains from their hooks drops the queued packets, so release these packets first.
	err = errors.Join(quiet(), finish())
	_, failure := Cleanup()
	return errors.Join(err, failure)
}

// follow applies the configuration and then, until ctx ends, follows changes of its file and of the addresses of its
// host names. It returns an error only if the first configuration cannot be applied.
func (s *sidecar) follow(ctx context.Context, file []byte) error {
	addresses := s.lookUpAll(ctx, s.config, nil)
	phase, err := s.apply(ctx, s.config, addresses)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s.Log.Info("the network is emulated", "generation", s.config.Generation, "links", len(s.config.Links), "peers", s.peers)

	tick := time.NewTicker(look)
	defer tick.Stop()
	lookedUp, own := time.Now(), ownText()
	for {
		// The ticker is for the file; the timer is only for the next phase.
		var turn <-chan time.Time
		if !phase.IsZero() {
			turn = time.After(time.Until(phase))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turn:
			if phase, err = s.apply(ctx, s.config, addresses); err != nil {
				s.Log.Error("the next phase is not in force; it is tried again", "error", err)
			}
			continue
		case <-tick.C:
		}
		config, dirty := s.config, s.appliedError() != nil
		if changed, err := os.ReadFile(s.ConfigPath); err != nil || !bytes.Equal(changed, file) {
			var next *Config
			if err == nil {
				// Remember even a file with errors, so that it is parsed and reported only once.
				file = changed
				next, err = ParseConfig(changed)
			}
			// The server is already listening on the old address.
			if err == nil && next.Listen != config.Listen {
				err = fmt.Errorf("listen: %q can't replace %q while the sidecar runs", next.Listen, config.Listen)
			}
			s.refuse(err)
			if err == nil {
				config, dirty = next, true
			}
		}
		names := hosts(config)
		if dirty || time.Since(lookedUp) >= max(lookUp, time.Duration(len(names))*lookUpPerName) {
			lookedUp = time.Now()
			found := s.lookUpAll(ctx, config, addresses)
			// The rules also depend on the pod's own addresses, which are never delayed.
			if now := ownText(); now != own || !maps.EqualFunc(found, addresses, slices.Equal) {
				own, dirty = now, true
			}
			addresses = found
		}
		if !dirty || ctx.Err() != nil {
			continue
		}
		if phase, err = s.apply(ctx, config, addresses); err != nil {
			s.Log.Error("the configuration is not in force; it is tried again", "generation", config.Generation, "error", err)
			continue
		}
		s.Log.Info("the configuration is in force", "generation", config.Generation, "links", len(config.Links), "peers", s.peers)
	}
}

// refuse records why the file is not in effect; nil clears it.
func (s *sidecar) refuse(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	news := text != s.configError
	s.configError = text
	s.mu.Unlock()
	// The file is read several times a second, so report each error only once.
	if err != nil && news {
		s.metrics.configErrors.Inc()
		s.Log.Error("the configuration is refused; the last good one stays", "error", err)
	}
}

func (s *sidecar) appliedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// apply applies a configuration as of the current time, and returns the time of its next phase.
func (s *sidecar) apply(ctx context.Context, file *Config, addresses map[string][]netip.Addr) (next time.Time, err error) {
	c, next := file.At(time.Now())
	err = s.enforce(ctx, c, addresses)
	s.mu.Lock()
	defer s.mu.Unlock()
	// After an error, s.config remains the configuration that was last applied.
	if s.applied = err; err == nil {
		s.config, s.inForce, s.ready = file, c, true
		s.log.Change(time.Now().UTC(), c)
	}
	return next, err
}

// enforce applies a network to the pod.
func (s *sidecar) enforce(ctx context.Context, c *Config, addresses map[string][]netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	var queues map[string]uint16
	var prepared error
	if err := s.plane.do(ctx, func() { queues, prepared = s.plane.prepare(c) }); err != nil {
		return err
	}
	if prepared != nil {
		return prepared
	}
	own, err := interfaceAddresses()
	if err != nil {
		return err
	}
	// A pod's own addresses have no link. They take precedence, because they are more specific than any prefix that
	// includes them.
	matches := ownAddresses(own)
	var unresolved []string
	for i := range c.Peers {
		p := &c.Peers[i]
		to := p.Link
		// Packets from a peer whose link is not configured pass without delay.
		if _, ok := queues[to]; !ok {
			to = ""
		}
		if p.Host == "" {
			prefix, err := p.Prefix()
			if err != nil {
				return err
			}
			matches = append(matches, match{prefix, to})
			continue
		}
		if len(addresses[p.Host]) == 0 {
			unresolved = append(unresolved, p.Host)
		}
		for _, a := range addresses[p.Host] {
			matches = append(matches, match{netip.PrefixFrom(a, a.BitLen()), to})
		}
	}
	set := &ruleset{
		queues: queues, spans4: spansOf(matches, true), spans6: spansOf(matches, false),
		exempt: c.ExemptPorts, bypass: c.FailPolicy == FailOpen,
	}
	// The operator must reach the sidecar without the emulated delay and loss.
	set.exempt = append(slices.Clone(set.exempt), ports.WANAdmin)
	if _, port, err := net.SplitHostPort(c.Listen); err == nil {
		if n, err := net.LookupPort("tcp", port); err == nil {
			set.exempt = append(set.exempt, n)
		}
	}
	slices.Sort(set.exempt)
	set.exempt = slices.Compact(set.exempt)
	if err := s.rules.install(set); err != nil {
		return err
	}
	s.mu.Lock()
	s.peers, s.unresolved = len(matches)-len(own), unresolved
	s.mu.Unlock()
	// Forget old links and addresses only now: until the new rules are in place, the old rules may queue packets for them.
	return s.plane.do(ctx, func() { s.plane.forget(queues, set.spans4, set.spans6) })
}

func hosts(c *Config) []string {
	var out []string
	for i := range c.Peers {
		if h := c.Peers[i].Host; h != "" {
			out = append(out, h)
		}
	}
	return out
}

// lookUpAll resolves the hosts of a configuration. A host that does not exist has no addresses; if a lookup fails, the
// host keeps its previous addresses.
func (s *sidecar) lookUpAll(ctx context.Context, c *Config, before map[string][]netip.Addr) map[string][]netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	out := map[string][]netip.Addr{}
	var mu sync.Mutex
	var group sync.WaitGroup
	tokens := make(chan struct{}, lookUpAtOnce)
	for _, host := range hosts(c) {
		tokens <- struct{}{}
		group.Go(func() {
			defer func() { <-tokens }()
			found, err := s.LookUp(ctx, host)
			if unknown := (*net.DNSError)(nil); err != nil && !(errors.As(err, &unknown) && unknown.IsNotFound) {
				found = before[host]
			}
			found = slices.Clone(found)
			for i := range found {
				// The rules match IPv4 packets by their IPv4 addresses, and packets contain no zones.
				found[i] = found[i].Unmap().WithZone("")
			}
			// Sort, because follow compares the addresses with the previous ones, and resolvers rotate their order.
			slices.SortFunc(found, netip.Addr.Compare)
			mu.Lock()
			out[host] = slices.Compact(found)
			mu.Unlock()
		})
	}
	group.Wait()
	return out
}

func interfaceAddresses() ([]netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of the pod: %w", err)
	}
	var out []netip.Addr
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

func ownText() string {
	own, err := interfaceAddresses()
	return fmt.Sprint(own, err)
}

// status returns the response to GET /status.
func (s *sidecar) status(ctx context.Context) (*Status, error) {
	out := &Status{Pod: s.Pod, Process: s.process}
	s.mu.Lock()
	out.Region, out.Ready, out.ConfigError = s.config.Region, s.ready, s.configError
	if s.ready {
		out.Generation = s.config.Generation
	}
	switch {
	case s.applied != nil:
		out.Ready, out.Reason = false, s.applied.Error()
	case !s.ready:
		out.Reason = "the rules are not in place yet"
	}
	out.Peers, out.Unresolved = s.peers, s.unresolved
	links := s.inForce.Links
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	var all map[string]LinkStatus
	if err := s.plane.do(ctx, func() { all = s.plane.linkStatus() }); err != nil {
		return nil, fmt.Errorf("the packets' loop does not answer: %w", err)
	}
	drops := kernelDrops()
	for _, l := range links {
		one, ok := all[l.From]
		if !ok {
			continue
		}
		if n := drops[one.queue]; n > 0 {
			if one.Dropped == nil {
				one.Dropped = map[Cause]int64{}
			}
			one.Dropped[QueueCause] += n
		}
		out.Links = append(out.Links, one)
	}
	return out, nil
}

// history returns the response to GET /log.
func (s *sidecar) history() *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.log
	out.Entries = slices.Clone(out.Entries)
	out.Now, out.Monotonic = time.Now().UTC(), admin.Monotonic()
	out.Late = s.late.Record()
	return &out
}

func (p *plane) linkStatus() map[string]LinkStatus {
	out := map[string]LinkStatus{}
	for name, i := range p.byName {
		c := p.slots[i].counters
		l := LinkStatus{
			From: name, Packets: c.packets.Load(), Bytes: c.bytes.Load(), QueuedPackets: c.queuedPackets.Load(), QueuedBytes: c.queuedBytes.Load(),
			queue: firstQueue + i,
		}
		for _, cause := range causes {
			if n := c.dropped(cause).Load(); n > 0 {
				if l.Dropped == nil {
					l.Dropped = map[Cause]int64{}
				}
				l.Dropped[cause] = n
			}
		}
		out[name] = l
	}
	return out
}

// kernelDrops returns, by queue number, the number of packets that the kernel dropped because the sidecar did not read
// fast enough.
func kernelDrops() map[int]int64 {
	b, err := os.ReadFile("/proc/thread-self/net/netfilter/nfnetlink_queue")
	if err != nil {
		return nil
	}
	out := map[int]int64{}
	for line := range bytes.Lines(b) {
		// Columns: queue number, port, packets waiting, copy mode, copy range, dropped by the queue, dropped by the socket,
		// ...
		f := bytes.Fields(line)
		if len(f) < 7 {
			continue
		}
		var n [7]int64
		for i := range n {
			n[i], _ = strconv.ParseInt(string(f[i]), 10, 64)
		}
		out[int(n[0])] = n[5] + n[6]
	}
	return out
}

// serve answers requests of the operator, and public requests at address, until stop is called.
func (s *sidecar) serve(address string) (stop func(), err error) {
	public, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	// Without credentials, only processes in the pod's network namespace may send requests.
	asks := "127.0.0.1"
	if s.Credentials != "" {
		asks = ""
	}
	private, err := net.Listen("tcp", net.JoinHostPort(asks, strconv.Itoa(ports.WANAdmin)))
	if err != nil {
		return nil, errors.Join(err, public.Close())
	}
	if s.Credentials != "" {
		strangers := &identity.Unauthenticated{Log: s.Log}
		private = s.Credentials.Listener(private, strangers.Turned)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var servers sync.WaitGroup
	for l, h := range map[net.Listener]http.Handler{public: s.public(), private: s.administration()} {
		servers.Go(func() { _ = admin.Serve(ctx, l, h) }) // a failure shows up as unanswered probes
	}
	return func() { cancel(); servers.Wait() }, nil
}

func (s *sidecar) administration() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		st, err := s.status(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(st)
	})
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.history())
	})
	return mux
}

func (s *sidecar) public() http.Handler {
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		st, err := s.status(r.Context())
		if err == nil && !st.Ready {
			err = errors.New(st.Reason)
		}
		say(w, err)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), loopTimeout)
		defer cancel()
		// The loop executes even an empty call only while it makes progress.
		say(w, s.plane.do(ctx, func() {}))
	})
	mux.Handle("GET /metrics", table.Handler(s.metrics.registry))
	return mux
}

// metrics holds the metrics of a sidecar.
type metrics struct {
	registry     *prometheus.Registry
	lateness     prometheus.Observer
	configErrors prometheus.Counter
}

func newMetrics(s *sidecar) *metrics {
	labels := []string{s.Pod, s.config.Region}
	lateness, configErrors := table.WANLateness.HistogramVec(labels...), table.WANConfigErrors.CounterVec(labels...)
	m := &metrics{registry: prometheus.NewRegistry(), lateness: lateness.WithLabelValues(), configErrors: configErrors.WithLabelValues()}
	m.registry.MustRegister(lateness, configErrors, table.NewCollector([]*table.Definition{
		table.WANPackets, table.WANBytes, table.WANDropped, table.WANQueuedPackets, table.WANQueuedBytes, table.WANGeneration, table.WANReady,
	}, s.collect, labels...))
	return m
}

// collect exports the loop's counters. If the loop does not answer, collect reports only that the sidecar is not ready.
func (s *sidecar) collect(put table.Put) {
	st, err := s.status(context.Background())
	if err != nil {
		put(table.WANReady, 0)
		return
	}
	for _, l := range st.Links {
		put(table.WANPackets, float64(l.Packets), l.From)
		put(table.WANBytes, float64(l.Bytes), l.From)
		put(table.WANQueuedPackets, float64(l.QueuedPackets), l.From)
		put(table.WANQueuedBytes, float64(l.QueuedBytes), l.From)
		for _, cause := range causes {
			put(table.WANDropped, float64(l.Dropped[cause]), l.From, string(cause))
		}
	}
	put(table.WANGeneration, float64(st.Generation))
	ready := 0.0
	if st.Ready {
		ready = 1
	}
	put(table.WANReady, ready)
}
