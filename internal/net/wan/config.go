package wan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/hostlist"
	"github.com/geobench/geobench/internal/base/late"
)

// Defaults of fields that a configuration omits.
const (
	// ConfigPath is the path of a sidecar's configuration.
	ConfigPath = "/etc/geobench/wan/config.json"
	// DefaultListen is the address of the public HTTP endpoint. Its port is ports.WANStatus.
	DefaultListen = ":7003"
	// DefaultQueueBytes is the default of Config.QueueBytes.
	DefaultQueueBytes = 128 << 20
)

// FailPolicy defines what happens to packets from peers while no sidecar process handles them, for example after a
// crash or while the sidecar's container restarts.
type FailPolicy string

const (
	// FailOpen lets these packets pass without emulation.
	FailOpen FailPolicy = "Open"
	// FailClosed drops these packets.
	FailClosed FailPolicy = "Closed"
)

// Distribution is the probability distribution of the delay around its mean.
type Distribution string

const (
	// Wander is the jitter of the BuiltIn emulation (see geo.Path). The deviation changes linearly between uniform draws,
	// so slowly that no packet overtakes another packet. The mean and the median are as declared.
	Wander Distribution = "Wander"
	// Uniform draws an independent deviation for each packet; packets may overtake each other.
	Uniform Distribution = "Uniform"
	// Normal draws a deviation for each packet; packets may overtake each other.
	Normal Distribution = "Normal"
	// Pareto draws a deviation for each packet, with a long tail of late packets (shape 3); packets may overtake each
	// other.
	Pareto Distribution = "Pareto"
)

// Config describes the network of a pod.
type Config struct {
	// Generation is repeated in Status and metrics, so that the author of the configuration knows whether it is in effect.
	Generation int64 `json:"generation"`
	// Region is the region that the pod runs in.
	Region string `json:"region"`
	// Seed seeds the sidecar's random generators, each together with the pod's name, the link and the peer's address.
	Seed uint64 `json:"seed"`
	// FailPolicy is Open by default.
	FailPolicy FailPolicy `json:"failPolicy,omitempty"`
	// Listen is the address of the public HTTP endpoint, DefaultListen by default. A change requires a restart.
	Listen string `json:"listen,omitempty"`
	// ExemptPorts are not emulated: TCP and UDP packets from or to any of these ports pass unchanged. The port of Listen
	// and ports.WANAdmin are always exempt.
	ExemptPorts []int `json:"exemptPorts,omitempty"`
	// QueueBytes is the maximum number of bytes that all links hold together; further packets are dropped. A link needs
	// its rate times its delay. 0 means DefaultQueueBytes.
	QueueBytes int64 `json:"queueBytes,omitempty"`
	// Peers lists the pods of all regions. Addresses must be distinct; the most specific prefix applies.
	Peers Peers `json:"peers"`
	// Links describes the links from the peers to this pod. Packets from peers without a link are not touched.
	Links []Link `json:"links"`
	// Phases change the network at set times, in ascending order. The sidecar follows the phases on its own clock, so the
	// writer of the file need not be running at those times.
	Phases []Phase `json:"phases,omitempty"`
}

// Phase is the state of the network from a time until the next phase.
type Phase struct {
	// From is a time on the clock of the machine.
	From time.Time `json:"from"`
	// Links replace the configuration's links with the same From; all other links stay as configured.
	Links []Link `json:"links,omitempty"`
	// Cut lists peers, by their host or address, from which all packets are lost.
	Cut hostlist.Names `json:"cut,omitempty"`
}

// cutLink is the name of the link from all peers that a phase cuts off. It cannot be the name of a region, because
// region names contain no dot.
const cutLink = "cut.peers"

// At returns the network at time now, without phases. It also returns the time of the next change, or the zero time if
// there is none.
func (c *Config) At(now time.Time) (*Config, time.Time) {
	out, next := *c, time.Time{}
	out.Phases = nil
	for i := range c.Phases {
		p := &c.Phases[i]
		// Phases are in ascending order, so the first phase in the future is the next change.
		if p.From.After(now) {
			next = p.From
			break
		}
		// Clone, because c is shared and a phase must not change it.
		out.Links, out.Peers = slices.Clone(c.Links), slices.Clone(c.Peers)
		for j := range out.Links {
			if at := slices.IndexFunc(p.Links, func(l Link) bool { return l.From == out.Links[j].From }); at >= 0 {
				out.Links[j] = p.Links[at]
			}
		}
		if len(p.Cut) == 0 {
			continue
		}
		out.Links = append(out.Links, Link{From: cutLink, JitterDistribution: Wander, Cut: true})
		for j := range out.Peers {
			if q := &out.Peers[j]; slices.Contains(p.Cut, q.Host+q.Address) {
				q.Link = cutLink
			}
		}
	}
	return &out, next
}

// Same reports whether two configurations describe the same network, ignoring their generations.
func (c *Config) Same(o *Config) bool {
	return c.Region == o.Region && c.Seed == o.Seed && c.FailPolicy == o.FailPolicy && c.Listen == o.Listen && c.QueueBytes == o.QueueBytes &&
		slices.Equal(c.ExemptPorts, o.ExemptPorts) && slices.Equal(c.Peers, o.Peers) && slices.Equal(c.Links, o.Links)
}

// Differs describes how the network of c differs from the network of from.
func (c *Config) Differs(from *Config) string {
	var parts []string
	cut := 0
	for i := range c.Peers {
		if c.Peers[i].Link == cutLink {
			cut++
		}
	}
	if cut > 0 {
		parts = append(parts, fmt.Sprintf("cut off from %d peers", cut))
	}
	for _, l := range c.Links {
		at := slices.IndexFunc(from.Links, func(o Link) bool { return o.From == l.From })
		if l.From == cutLink || at >= 0 && from.Links[at] == l {
			continue
		}
		parts = append(parts, fmt.Sprintf("link %s -> %s %s", l.From, c.Region, l.text()))
	}
	for _, l := range from.Links {
		if l.From != cutLink && !slices.ContainsFunc(c.Links, func(o Link) bool { return o.From == l.From }) {
			parts = append(parts, fmt.Sprintf("no link %s -> %s", l.From, c.Region))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case c.Same(from):
		return "as declared"
	}
	return "other peers, ports or limits"
}

func (l *Link) text() string {
	if l.Cut {
		return "cut"
	}
	text := fmt.Sprintf("delay %s", time.Duration(l.DelayMicros)*time.Microsecond)
	if l.JitterMicros != 0 {
		text += fmt.Sprintf(" +- %s", time.Duration(l.JitterMicros)*time.Microsecond)
	}
	if l.LossPPM != 0 {
		text += fmt.Sprintf(", loss %d ppm", l.LossPPM)
	}
	if l.RateBitsPerSecond != 0 {
		text += fmt.Sprintf(", %d bit/s", l.RateBitsPerSecond)
	}
	return text
}

// Peer is a source of packets that a link delays: an address, a prefix, or all addresses of a host name.
type Peer struct {
	// Address is an IP address or a prefix (10.2.0.0/16).
	Address string `json:"address,omitempty"`
	// Host is a host name, used instead of Address. The peer is then every address to which the name resolves; the sidecar
	// looks up the name every second.
	Host string `json:"host,omitempty"`
	// Region is the region of the peer.
	Region string `json:"region"`
	// Link is the name of the link from the peer to this pod; by default, the name of the peer's region.
	Link string `json:"link,omitempty"`
}

func (p *Peer) names() []*string { return []*string{&p.Host} }

// Peers lists the peers of a pod. In JSON, hosts of a region with consecutive numbers form a single entry (package
// hostlist). This saves space: the files of a region's pods share a ConfigMap, which is limited to 1 MiB.
type Peers []Peer

// MarshalJSON implements json.Marshaler: it folds the hosts.
func (p Peers) MarshalJSON() ([]byte, error) {
	return json.Marshal(hostlist.Fold([]Peer(p), (*Peer).names))
}

// UnmarshalJSON implements json.Unmarshaler: it unfolds the hosts. Unknown fields are errors.
func (p *Peers) UnmarshalJSON(b []byte) error {
	var folded []Peer
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&folded); err != nil {
		return err
	}
	peers, err := hostlist.Unfold(folded, (*Peer).names)
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	*p = peers
	return nil
}

// Link describes the link from some peers to the pod, in this direction only. PPM fields are in parts per million.
type Link struct {
	// From is a region, or a name that occurs in the Link field of peers.
	From string `json:"from"`
	// DelayMicros is the mean one-way delay. It is half the round trip if the peers' sidecars add the same delay.
	DelayMicros int64 `json:"delayMicros,omitempty"`
	// JitterMicros is the standard deviation of the one-way delay. The distribution is truncated at a delay of 0.
	JitterMicros int64 `json:"jitterMicros,omitempty"`
	// JitterDistribution is Wander by default.
	JitterDistribution Distribution `json:"jitterDistribution,omitempty"`
	// JitterCorrelationPPM is the correlation of the deviations of successive packets. It must be 0 for Wander.
	JitterCorrelationPPM int64 `json:"jitterCorrelationPPM,omitempty"`
	// LossPPM is the share of network packets that are lost. It applies to single packets even if the kernel delivers many
	// packets at once.
	LossPPM int64 `json:"lossPPM,omitempty"`
	// LossCorrelationPPM is the correlation of the losses of successive packets. Losses then occur in bursts, with the
	// same overall share.
	LossCorrelationPPM int64 `json:"lossCorrelationPPM,omitempty"`
	// RateBitsPerSecond is the maximum rate for each peer address, including headers from IP upwards; 0 means unlimited.
	RateBitsPerSecond int64 `json:"rateBitsPerSecond,omitempty"`
	// RateQueueBytes is the size of the queue before the rate limit, for each peer address. Packets that exceed the queue
	// are dropped. The default is the amount that the rate carries in 200 ms, but at least 128 KiB.
	RateQueueBytes int64 `json:"rateQueueBytes,omitempty"`
	// ReorderPPM is the share of packets that are delayed by another ReorderMicros, so that later packets overtake them.
	ReorderPPM int64 `json:"reorderPPM,omitempty"`
	// ReorderMicros is 1000 (1 ms) by default.
	ReorderMicros int64 `json:"reorderMicros,omitempty"`
	// Cut drops all packets.
	Cut bool `json:"cut,omitempty"`
}

// Status is the response to GET /status.
type Status struct {
	// Pod is the pod's name and Region its region.
	Pod    string `json:"pod"`
	Region string `json:"region"`
	// Process is the name that the sidecar process chose when it started; it changes with every restart.
	Process string `json:"process"`
	// Generation is the generation of the configuration in effect.
	Generation int64 `json:"generation"`
	// Ready is set if the rules are in place. Otherwise Reason describes why not.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// ConfigError is the reason why the current file is not in effect; empty if the file is in effect.
	ConfigError string `json:"configError,omitempty"`
	// Peers is the number of peer addresses and prefixes in the rules.
	Peers int `json:"peers"`
	// Links counts the packets received over each link, in the order of the configuration. While a process runs, the
	// counters do not decrease.
	Links []LinkStatus `json:"links"`
	// Unresolved lists the hosts that currently have no address.
	Unresolved []string `json:"unresolved,omitempty"`
}

// Log lists the networks that have been in effect since the sidecar started, regardless of who configured them. It is
// the response to GET /log. Times are on the clock of the machine.
type Log struct {
	Process string `json:"process"`
	// Now is the time of the response. Since is the time at which the sidecar started.
	Now   time.Time `json:"now"`
	Since time.Time `json:"since"`
	// Entries are sorted by time. Each is in effect until the next entry.
	Entries []LogEntry `json:"entries,omitempty"`
	// ForgottenUntil is the time at which the log starts if older entries were discarded. It is omitted if the log is
	// complete.
	ForgottenUntil time.Time `json:"forgottenUntil,omitzero"`
	// Late records the sidecar's lateness for each second, on a clock that reads Monotonic at the time Now.
	Late      *late.Record  `json:"late,omitempty"`
	Monotonic time.Duration `json:"monotonicNanoseconds,omitempty"`
}

// LogEntry is a network and the time from which it was in effect.
type LogEntry struct {
	From   time.Time `json:"from"`
	Config Config    `json:"config"`
}

// MaxLog is the maximum number of entries in a log. A sidecar may run for many runs, so the log keeps only the latest
// entries.
const MaxLog = 200

// Change records that configuration c takes effect at now.
func (l *Log) Change(now time.Time, c *Config) {
	n := len(l.Entries)
	if n > 0 && l.Entries[n-1].Config.Same(c) {
		return
	}
	if n == MaxLog {
		l.Entries = slices.Delete(l.Entries, 0, 1)
		l.ForgottenUntil = l.Entries[0].From
	}
	l.Entries = append(l.Entries, LogEntry{now, *c})
}

// LinkStatus counts the packets of a link. Each network packet counts, even if the kernel delivers many of them at
// once.
type LinkStatus struct {
	From string `json:"from"`
	// Packets and Bytes count the received packets, including their headers from IP upwards.
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
	// Dropped counts the dropped packets by cause.
	Dropped map[Cause]int64 `json:"dropped,omitempty"`
	// QueuedPackets and QueuedBytes are the amounts that the link currently holds. Here, packets that the kernel delivers
	// together count as one packet.
	QueuedPackets int64 `json:"queuedPackets"`
	QueuedBytes   int64 `json:"queuedBytes"`

	queue int // number of the kernel's queue
}

// MaxPeers is the maximum number of peers of a pod.
const MaxPeers = 4096

const (
	million = 1_000_000
	// maxDelay bounds every duration in a Config.
	maxDelay  = 60 * time.Second
	maxLinks  = 1024
	maxPhases = 256
)

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// SetDefaults sets omitted fields to their defaults.
func (c *Config) SetDefaults() {
	if c.FailPolicy == "" {
		c.FailPolicy = FailOpen
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = DefaultQueueBytes
	}
	for i := range c.Peers {
		if p := &c.Peers[i]; p.Link == "" {
			p.Link = p.Region
		}
	}
	setLinkDefaults(c.Links)
	for i := range c.Phases {
		setLinkDefaults(c.Phases[i].Links)
	}
}

func setLinkDefaults(links []Link) {
	for i := range links {
		l := &links[i]
		if l.JitterDistribution == "" {
			l.JitterDistribution = Wander
		}
		if l.ReorderPPM > 0 && l.ReorderMicros == 0 {
			l.ReorderMicros = 1000
		}
		if l.RateBitsPerSecond > 0 && l.RateQueueBytes == 0 {
			// The default queue holds 200 ms of the rate, but at least 128 KiB.
			l.RateQueueBytes = max(l.RateBitsPerSecond/8/5, 128<<10)
		}
	}
}

// Validate returns all errors in the configuration, joined. Call SetDefaults first.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	name := func(field, value string) {
		if !namePattern.MatchString(value) {
			wrong("%s: %q is not a name: 1 to 63 of a-z, 0-9, - and ., beginning and ending with a letter or a digit", field, value)
		}
	}
	within := func(field string, value, low, high int64) {
		if value < low || value > high {
			wrong("%s: %d is not %d to %d", field, value, low, high)
		}
	}

	name("region", c.Region)
	if c.FailPolicy != FailOpen && c.FailPolicy != FailClosed {
		wrong("failPolicy: %q is not %s or %s", c.FailPolicy, FailOpen, FailClosed)
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil {
		wrong("listen: %q is not HOST:PORT, for example %s", c.Listen, DefaultListen)
	} else if _, err := net.LookupPort("tcp", port); err != nil {
		wrong("listen: %q has no port number, for example %s", c.Listen, DefaultListen)
	}
	for i, p := range c.ExemptPorts {
		within(fmt.Sprintf("exemptPorts[%d]", i), int64(p), 1, 65535)
	}
	within("queueBytes", c.QueueBytes, 1<<16, 1<<36)

	if len(c.Links) > maxLinks {
		wrong("links: %d are more than %d", len(c.Links), maxLinks)
	}
	checkLink := func(l *Link, at func(field string) string) {
		within(at("delayMicros"), l.DelayMicros, 0, maxDelay.Microseconds())
		within(at("jitterMicros"), l.JitterMicros, 0, maxDelay.Microseconds())
		switch l.JitterDistribution {
		case Wander:
			if l.JitterCorrelationPPM != 0 {
				wrong("%s: %d is not for %s, whose deviations are correlated by themselves; leave it out", at("jitterCorrelationPPM"), l.JitterCorrelationPPM, Wander)
			}
		case Uniform, Normal, Pareto:
			// With a correlation of 1, the first deviation would never change.
			within(at("jitterCorrelationPPM"), l.JitterCorrelationPPM, 0, million-1)
		default:
			wrong("%s: %q is not %s, %s, %s or %s", at("jitterDistribution"), l.JitterDistribution, Wander, Uniform, Normal, Pareto)
		}
		within(at("lossPPM"), l.LossPPM, 0, million)
		within(at("lossCorrelationPPM"), l.LossCorrelationPPM, 0, million-1)
		within(at("reorderPPM"), l.ReorderPPM, 0, million)
		within(at("reorderMicros"), l.ReorderMicros, 0, maxDelay.Microseconds())
		if l.RateBitsPerSecond != 0 {
			within(at("rateBitsPerSecond"), l.RateBitsPerSecond, 8_000, 1e12)
			within(at("rateQueueBytes"), l.RateQueueBytes, 2000, 1<<36)
		}
	}
	links := map[string]int{}
	for i := range c.Links {
		l := &c.Links[i]
		at := func(field string) string { return fmt.Sprintf("links[%d].%s", i, field) }
		name(at("from"), l.From)
		if first, ok := links[l.From]; ok {
			wrong("%s: %q is links[%d] too", at("from"), l.From, first)
		}
		links[l.From] = i
		checkLink(l, at)
	}

	if len(c.Peers) > MaxPeers {
		wrong("peers: %d are more than %d", len(c.Peers), MaxPeers)
	}
	seen := map[string]int{}
	for i := range c.Peers {
		p := &c.Peers[i]
		at := func(field string) string { return fmt.Sprintf("peers[%d].%s", i, field) }
		name(at("region"), p.Region)
		name(at("link"), p.Link)
		if (p.Address == "") == (p.Host == "") {
			wrong("peers[%d]: needs either an address or a host, has %q and %q", i, p.Address, p.Host)
			continue
		}
		key := p.Host
		if p.Address != "" {
			prefix, err := p.Prefix()
			if err != nil {
				wrong("%s: %w", at("address"), err)
				continue
			}
			// Prefix normalizes the address, so that two spellings of an address count as the same peer.
			key = prefix.String()
		}
		if first, ok := seen[key]; ok {
			wrong("peers[%d]: %s is peers[%d] too", i, key, first)
		}
		seen[key] = i
	}
	if len(c.Phases) > maxPhases {
		wrong("phases: %d are more than %d", len(c.Phases), maxPhases)
	}
	for i := range c.Phases {
		p := &c.Phases[i]
		// At relies on ascending order.
		if p.From.IsZero() || i > 0 && !p.From.After(c.Phases[i-1].From) {
			wrong("phases[%d].from: %s is not after the phase before", i, p.From.Format(time.RFC3339Nano))
		}
		for j := range p.Links {
			at := func(field string) string { return fmt.Sprintf("phases[%d].links[%d].%s", i, j, field) }
			// At replaces links by name, so it would ignore an unknown name.
			if _, ok := links[p.Links[j].From]; !ok {
				wrong("%s: there is no link %q to change", at("from"), p.Links[j].From)
			}
			checkLink(&p.Links[j], at)
		}
		for j, peer := range p.Cut {
			if !slices.ContainsFunc(c.Peers, func(q Peer) bool { return q.Host+q.Address == peer }) {
				wrong("phases[%d].cut[%d]: %q is neither the host nor the address of a peer", i, j, peer)
			}
		}
	}
	return errors.Join(errs...)
}

// Prefix returns the peer's address as a prefix. A single address becomes a prefix of full length.
func (p *Peer) Prefix() (netip.Prefix, error) {
	if a, err := netip.ParseAddr(p.Address); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone: leave out %q", p.Address, "%"+a.Zone())
		}
		// The kernel's rules see IPv4 packets as IPv4, never as mapped IPv6.
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(p.Address)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither an IP address nor a prefix like 10.2.0.0/16", p.Address)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its length: %s would be right", p.Address, prefix.Masked())
	}
	return prefix, nil
}

// ParseConfig decodes JSON, sets defaults and validates the result. Unknown fields are errors.
func ParseConfig(b []byte) (*Config, error) {
	c := &Config{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one JSON value")
	}
	c.SetDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// ReadConfig reads and parses the file at path.
func ReadConfig(path string) (*Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
