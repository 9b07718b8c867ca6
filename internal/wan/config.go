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
	"time"
)

// Defaults of fields that are left out, and where things listen.
const (
	// ConfigPath is where a sidecar looks for its configuration.
	ConfigPath = "/etc/geobench/wan/config.json"
	// StatusPort is the port of DefaultListen.
	StatusPort = 7003
	// DefaultListen is the address of the HTTP endpoint.
	DefaultListen = ":7003"
	// DefaultQueueBytes bounds what all links of a pod hold together.
	DefaultQueueBytes = 128 << 20
)

// FailPolicy says what becomes of packets from peers while no sidecar process handles them, after a crash or during a restart
// of its container.
type FailPolicy string

const (
	// FailOpen lets them pass without emulation.
	FailOpen FailPolicy = "Open"
	// FailClosed drops them.
	FailClosed FailPolicy = "Closed"
)

// Distribution is how the deviations of the delay from its mean are spread.
type Distribution string

const (
	// Wander is the jitter of the BuiltIn emulation (see geo.Path): the deviation runs in straight lines between uniform
	// draws, slowly enough that no packet overtakes another and that the mean and the median stay.
	Wander Distribution = "Wander"
	// Uniform draws a deviation per packet; packets overtake each other.
	Uniform Distribution = "Uniform"
	// Normal draws a deviation per packet; packets overtake each other.
	Normal Distribution = "Normal"
	// Pareto draws a deviation per packet with a long tail of late packets (shape 3); packets overtake each other.
	Pareto Distribution = "Pareto"
)

// Config is the network of one pod.
type Config struct {
	// Generation is echoed in Status and metrics, so that the writer sees what is in force.
	Generation int64 `json:"generation"`
	// Region is the pod's own.
	Region string `json:"region"`
	// Seed starts the sidecar's source of chance, together with the pod's name and the link.
	Seed uint64 `json:"seed"`
	// FailPolicy is Open by default.
	FailPolicy FailPolicy `json:"failPolicy,omitempty"`
	// Listen is the address of the HTTP endpoint, DefaultListen by default. A change needs a restart.
	Listen string `json:"listen,omitempty"`
	// ExemptPorts are left alone: TCP and UDP packets from or to one of these ports pass without emulation. The port of
	// Listen is exempt always.
	ExemptPorts []int `json:"exemptPorts,omitempty"`
	// QueueBytes bounds what all links hold together; packets beyond it are dropped. DefaultQueueBytes by default. A
	// link needs its rate times its delay.
	QueueBytes int64 `json:"queueBytes,omitempty"`
	// Peers are the pods of all regions. Addresses must be distinct; the most specific prefix counts.
	Peers []Peer `json:"peers"`
	// Links are what lies between its peers and this pod. Packets from peers without a link are left alone.
	Links []Link `json:"links"`
}

// Peer is where packets come from that a link holds up: one address, one prefix, or all addresses of one name.
type Peer struct {
	// Address is an IP address or a prefix (10.2.0.0/16).
	Address string `json:"address,omitempty"`
	// Host is a name, in place of Address; it stands for all addresses that it resolves to, looked up every second.
	Host string `json:"host,omitempty"`
	// Region of the peer.
	Region string `json:"region"`
	// Link is the link that leads from it to this pod, its region by default.
	Link string `json:"link,omitempty"`
}

// Link is one direction, from some of the peers to the pod. Shares are in parts per million.
type Link struct {
	// From is a region, or a name that peers' Link fields use.
	From string `json:"from"`
	// DelayMicros is the mean one-way delay: half the round trip where the peers' sidecars add the other half.
	DelayMicros int64 `json:"delayMicros,omitempty"`
	// JitterMicros is the standard deviation of the one-way delay. It is cut where a delay would fall below 0.
	JitterMicros int64 `json:"jitterMicros,omitempty"`
	// JitterDistribution is Wander by default.
	JitterDistribution Distribution `json:"jitterDistribution,omitempty"`
	// JitterCorrelationPPM is the correlation of the deviations of successive packets; not for Wander.
	JitterCorrelationPPM int64 `json:"jitterCorrelationPPM,omitempty"`
	// LossPPM is the share of packets lost, counted in packets of the network even where the kernel hands over many at once.
	LossPPM int64 `json:"lossPPM,omitempty"`
	// LossCorrelationPPM is the correlation of the fates of successive packets: losses come in bursts, their share stays.
	LossCorrelationPPM int64 `json:"lossCorrelationPPM,omitempty"`
	// RateBitsPerSecond is what each peer address sends at most, headers from IP upwards included; 0 is unlimited.
	RateBitsPerSecond int64 `json:"rateBitsPerSecond,omitempty"`
	// RateQueueBytes is the room in front of the rate limit, per peer address; packets beyond it are dropped. By default
	// what the rate carries in 200 ms, at least 128 KiB.
	RateQueueBytes int64 `json:"rateQueueBytes,omitempty"`
	// ReorderPPM is the share of packets held up for ReorderMicros longer, so that later packets overtake them.
	ReorderPPM int64 `json:"reorderPPM,omitempty"`
	// ReorderMicros is by default 1000, one millisecond.
	ReorderMicros int64 `json:"reorderMicros,omitempty"`
	// Cut drops everything.
	Cut bool `json:"cut,omitempty"`
}

// Status is what GET /status answers.
type Status struct {
	// Pod is the pod's name and Region its region.
	Pod    string `json:"pod"`
	Region string `json:"region"`
	// Process is a name made up by this process when it started.
	Process string `json:"process"`
	// Generation is that of the configuration in force.
	Generation int64 `json:"generation"`
	// Ready: the rules are in place. Reason says in words why not.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// ConfigError says why the file, as it is now, is not in force; empty if it is.
	ConfigError string `json:"configError,omitempty"`
	// Peers is the number of peer addresses and prefixes that packets are held up for.
	Peers int `json:"peers"`
	// Links are what came over each link, in the order of the configuration. Counters only grow during a process.
	Links []LinkStatus `json:"links"`
	// Unresolved are hosts that have no address now.
	Unresolved []string `json:"unresolved,omitempty"`
}

// LinkStatus counts what came over a link. Packets are those of the network, also where the kernel hands over many at once.
type LinkStatus struct {
	From string `json:"from"`
	// Packets and Bytes that came, with headers from IP upwards.
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
	// Dropped packets by cause.
	Dropped map[Cause]int64 `json:"dropped,omitempty"`
	// QueuedPackets and QueuedBytes are being held now. What the kernel hands over at once counts as one packet here.
	QueuedPackets int64 `json:"queuedPackets"`
	QueuedBytes   int64 `json:"queuedBytes"`

	queue int // the kernel's number
}

const (
	million = 1_000_000
	// maxDelay bounds every time in a Config.
	maxDelay = 60 * time.Second
	maxPeers = 4096
	maxLinks = 1024
)

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// SetDefaults fills in what was left out.
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
	for i := range c.Links {
		l := &c.Links[i]
		if l.JitterDistribution == "" {
			l.JitterDistribution = Wander
		}
		if l.ReorderPPM > 0 && l.ReorderMicros == 0 {
			l.ReorderMicros = 1000
		}
		if l.RateBitsPerSecond > 0 && l.RateQueueBytes == 0 {
			l.RateQueueBytes = max(l.RateBitsPerSecond/8/5, 128<<10)
		}
	}
}

// Validate returns everything that is wrong, joined. Defaults must have been set.
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
	links := map[string]int{}
	for i := range c.Links {
		l := &c.Links[i]
		at := func(field string) string { return fmt.Sprintf("links[%d].%s", i, field) }
		name(at("from"), l.From)
		if first, ok := links[l.From]; ok {
			wrong("%s: %q is links[%d] too", at("from"), l.From, first)
		}
		links[l.From] = i
		within(at("delayMicros"), l.DelayMicros, 0, maxDelay.Microseconds())
		within(at("jitterMicros"), l.JitterMicros, 0, maxDelay.Microseconds())
		switch l.JitterDistribution {
		case Wander:
			if l.JitterCorrelationPPM != 0 {
				wrong("%s: %d is not for %s, whose deviations are correlated by themselves; leave it out", at("jitterCorrelationPPM"), l.JitterCorrelationPPM, Wander)
			}
		case Uniform, Normal, Pareto:
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

	if len(c.Peers) > maxPeers {
		wrong("peers: %d are more than %d", len(c.Peers), maxPeers)
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
			key = prefix.String()
		}
		if first, ok := seen[key]; ok {
			wrong("peers[%d]: %s is peers[%d] too", i, key, first)
		}
		seen[key] = i
	}
	return errors.Join(errs...)
}

// Prefix returns the peer's address as a prefix, a single address being the longest one.
func (p *Peer) Prefix() (netip.Prefix, error) {
	if a, err := netip.ParseAddr(p.Address); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q has a zone: leave out %q", p.Address, "%"+a.Zone())
		}
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

// ParseConfig reads JSON, sets defaults and validates. Unknown fields are errors.
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

// ReadConfig parses the file at path.
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
