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
	// lookUp is the interval at which names are looked up; it grows with the number of names.
	lookUp        = time.Second
	lookUpPerName = 20 * time.Millisecond
	lookUpTimeout = 2 * time.Second
	lookUpAtOnce  = 16
	// loopTimeout is the timeout for an answer of the packet loop.
	loopTimeout = 2 * time.Second
	// processors is the minimum number of processors of the Go runtime. The loop occupies one, and a container's limit may
	// leave no other.
	processors = 4
)

// Options of a sidecar.
type Options struct {
	// ConfigPath is the file that holds a Config.
	ConfigPath string
	// Pod is the pod's name.
	Pod string
	// Credentials authenticate the operator to the sidecar; if empty, only the pod itself can query the sidecar.
	Credentials identity.Folder
	Log         *slog.Logger
	// LookUp resolves a host; by default as the pod does.
	LookUp func(ctx context.Context, host string) ([]netip.Addr, error)
}

// sidecar is a process of geobench wan.
type sidecar struct {
	Options
	plane   *plane
	rules   *rules
	process string
	metrics *metrics
	late    *late.Recorder

	mu          sync.Mutex
	config      *Config // as in the file
	inForce     *Config // the present configuration
	log         Log
	configError string
	applied     error
	ready       bool
	peers       int
	unresolved  []string
}

// Run emulates the network until ctx ends, and then removes its changes from the network namespace of the process. If
// Run fails instead, packets pass or are dropped according to Config.FailPolicy.
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

	// The loop outlives ctx: packets are handled until no rule leads any to it.
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
		// The loop ends by itself only when it fails.
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

// follow puts the configuration in force, then follows changes of its file and of what its names resolve to until ctx
// ends. It fails only when it can't begin.
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
		// The ticker looks at the file; the timer is for the next phase alone.
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
				file = changed
				next, err = ParseConfig(changed)
			}
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

// refuse remembers why the file is not in force; nil clears it.
func (s *sidecar) refuse(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	news := text != s.configError
	s.configError = text
	s.mu.Unlock()
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

// apply puts a configuration in force as of the present time, and returns the time of its next phase change.
func (s *sidecar) apply(ctx context.Context, file *Config, addresses map[string][]netip.Addr) (next time.Time, err error) {
	c, next := file.At(time.Now())
	err = s.enforce(ctx, c, addresses)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied = err; err == nil {
		s.config, s.inForce, s.ready = file, c, true
		s.log.Change(time.Now().UTC(), c)
	}
	return next, err
}

// enforce puts a network in force in the pod.
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
	matches := ownAddresses(own)
	var unresolved []string
	for i := range c.Peers {
		p := &c.Peers[i]
		to := p.Link
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

// lookUpAll resolves the hosts of a configuration. An unknown host has no addresses; a host with a failed lookup keeps
// its previous addresses.
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
				found[i] = found[i].Unmap().WithZone("")
			}
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

// status is what GET /status answers.
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

// history is what GET /log answers.
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

// kernelDrops counts, by queue number, packets that the kernel dropped because the sidecar did not read fast enough.
func kernelDrops() map[int]int64 {
	b, err := os.ReadFile("/proc/thread-self/net/netfilter/nfnetlink_queue")
	if err != nil {
		return nil
	}
	out := map[int]int64{}
	for line := range bytes.Lines(b) {
		// Number, port, packets waiting, copy mode, copy range, dropped by the queue, dropped by the socket, ...
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

// serve answers the operator, and public requests at address, until stop is called.
func (s *sidecar) serve(address string) (stop func(), err error) {
	public, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	// Processes that share the pod's network need no credentials.
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
		servers.Go(func() { _ = admin.Serve(ctx, l, h) }) // a probe that is not answered tells of it
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
		say(w, s.plane.do(ctx, func() {}))
	})
	mux.Handle("GET /metrics", table.Handler(s.metrics.registry))
	return mux
}

// metrics of a sidecar.
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

// collect reads the loop's counters. A loop that does not answer is not ready, and has no other figures.
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
