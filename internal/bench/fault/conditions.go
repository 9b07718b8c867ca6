package fault

import (
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// Node describes how faults disturb a node. The zero value is an undisturbed node.
type Node struct {
	// Down is set if the node is stopped.
	Down bool
	// SlowPercent is the additional CPU time of all of the node's work, in percent: 100 doubles it.
	SlowPercent int64
	// Hold is how long the node's messages wait for the node's disk. HoldPercent is the percentage of the node's steps
	// whose messages wait.
	Hold        time.Duration
	HoldPercent int64
	// ClockOffset is the offset by which the fault sets the node's clock ahead; a negative offset means that the clock
	// lags.
	ClockOffset time.Duration
}

// Conditions holds the combined effects of all active faults.
type Conditions struct {
	// Links holds the links that the network must have, by source and destination region: the declared links combined with
	// the active faults.
	Links [][]geo.Link
	// Correlation is the correlation, in percent, between the losses of consecutive packets on each link. It is 0 if
	// links lose TCP segments of messages rather than single packets: see Timeline.Packets.
	Correlation [][]int32
	// Nodes is indexed by geo.NodeID.
	Nodes []Node

	cuts []cut
}

// cut is a set of broken connections, from each node in from to each node in to.
type cut struct {
	from, to []geo.NodeID
	by       string // name of the fault; empty for a link with total loss
}

// Cut reports whether the connection from one node to another must be broken.
func (c *Conditions) Cut(from, to geo.NodeID) bool {
	for i := range c.cuts {
		if has(c.cuts[i].from, from) && has(c.cuts[i].to, to) {
			return true
		}
	}
	return false
}

// Cuts reports whether any connection must be broken.
func (c *Conditions) Cuts() bool { return len(c.cuts) > 0 }

func has(sorted []geo.NodeID, n geo.NodeID) bool {
	_, ok := slices.BinarySearch(sorted, n)
	return ok
}

// These constants are the simulated costs of stress. As docs/faults.md states, they are models: memory and disks are
// not simulated, so stress on them slows down the CPU.
const (
	// memoryStressPercent is 100 because a stressor that constantly touches memory competes for a core like a computing
	// thread.
	memoryStressPercent = 100
	// diskPercentPer100MB is 5 because copying 100 MB per second through the page cache takes about 5% of a core.
	diskPercentPer100MB = 5
	// diskFullSpeed is the rate in MB/s for a configured rate of 0, which means as fast as the disk allows.
	diskFullSpeed = 500
)

// Separation is a set of connections that a fault must break: all connections from a node in From to a node in To. By
// is the name of the fault, and empty for a link with total loss.
type Separation struct {
	Targets
	By string
}

// Separated returns the sets of nodes between which connections must be broken.
func (c *Conditions) Separated() []Separation {
	var out []Separation
	for _, x := range c.cuts {
		out = append(out, Separation{Targets{x.from, x.to}, x.by})
	}
	return out
}

// Conditions returns the combined effects of the active faults on their targets.
func (p *Plan) Conditions(active []*Life) *Conditions { return p.conditions(active, false) }

func (p *Plan) conditions(active []*Life, packets bool) *Conditions {
	t := p.Topology
	c := &Conditions{Nodes: make([]Node, t.Nodes())}
	for _, row := range t.Links {
		c.Links = append(c.Links, slices.Clone(row))
		c.Correlation = append(c.Correlation, make([]int32, len(row)))
	}
	var severed []Link
	for _, l := range active {
		f := l.Fault
		if b := f.Between(); b != nil {
			for _, link := range Links(b, t) {
				if !f.change(&c.Links[link.From][link.To], packets) {
					severed = append(severed, link)
				}
				if s := f.Spec.NetworkLoss; s != nil && packets {
					correlation := &c.Correlation[link.From][link.To]
					// Losses of overlapping faults can be combined, but their correlations cannot; the largest applies.
					*correlation = max(*correlation, s.CorrelationPercent)
				}
			}
			continue
		}
		if s := f.Spec.NetworkPartition; s != nil {
			c.cuts = append(c.cuts, cut{l.Targets.From, l.Targets.To, f.Name})
			if !s.OneWay {
				c.cuts = append(c.cuts, cut{l.Targets.To, l.Targets.From, f.Name})
			}
			continue
		}
		for _, n := range l.Targets.From {
			f.disturb(&c.Nodes[n])
		}
	}
	for _, link := range severed {
		c.cuts = append(c.cuts, cut{nodesOf(t, link.From), nodesOf(t, link.To), ""})
	}
	return c
}

func nodesOf(t *geo.Topology, r geo.Region) []geo.NodeID {
	var out []geo.NodeID
	for i := range t.Partitions * t.Replicas {
		if n := t.Node(r, 0, 0) + geo.NodeID(i); t.Present(n) {
			out = append(out, n)
		}
	}
	return out
}

// change adds the effect of a fault to a link. Delays add up, jitters add up as variances, a packet must survive every
// loss, and the smallest bandwidth counts. change returns false for a total loss. Such a link is cut instead: packets
// sent into it would wait for a retransmission for minutes after the fault. packets is set if single packets are lost.
func (f *Fault) change(l *geo.Link, packets bool) bool {
	switch s := f.Spec; {
	case s.NetworkDelay != nil:
		l.Delay += s.NetworkDelay.Delay.Duration
		l.Jitter = time.Duration(math.Round(math.Hypot(float64(l.Jitter), float64(s.NetworkDelay.Jitter.Duration))))
	case s.NetworkLoss != nil:
		loss := int64(s.NetworkLoss.LossPPM)
		if !packets {
			loss = burst(loss, s.NetworkLoss.CorrelationPercent)
		}
		if loss >= 1e6 {
			return false
		}
		l.LossPPM = 1e6 - (1e6-l.LossPPM)*(1e6-loss)/1e6
	case s.NetworkBandwidth != nil:
		// A bandwidth of 0 is unlimited, so any limit is smaller.
		if b := int64(s.NetworkBandwidth.BandwidthMbps); l.BandwidthMbps == 0 || b < l.BandwidthMbps {
			l.BandwidthMbps = b
		}
	}
	return true
}

// burst returns the number of loss events per million packets, given the loss of single packets and the correlation of
// consecutive losses. With a correlation c, the mean burst has 1 / (1 - c) packets, and TCP recovers from a burst as
// from a single loss.
func burst(lossPPM int64, correlationPercent int32) int64 {
	if lossPPM >= 1e6 || correlationPercent <= 0 {
		return lossPPM
	}
	// A declared loss must not be rounded to 0.
	return max(1, lossPPM*int64(100-min(correlationPercent, 99))/100)
}

// disturb adds the effect of a fault to a node.
func (f *Fault) disturb(n *Node) {
	switch s := f.Spec; {
	case f.Kills():
		n.Down = true
	case s.CPUStress != nil:
		// The node has one core, which the scheduler shares evenly with the competing threads.
		n.SlowPercent += int64(s.CPUStress.Workers) * int64(s.CPUStress.LoadPercent)
	case s.MemoryStress != nil:
		n.SlowPercent += memoryStressPercent
	case s.DiskReadLoad != nil:
		n.SlowPercent += diskShare(s.DiskReadLoad.MegabytesPerSecond)
	case s.DiskWriteLoad != nil:
		n.SlowPercent += diskShare(s.DiskWriteLoad.MegabytesPerSecond)
	case s.IODelay != nil:
		n.Hold += s.IODelay.Delay.Duration
		n.HoldPercent = max(n.HoldPercent, int64(s.IODelay.Percent))
	case s.ClockSkew != nil:
		n.ClockOffset += s.ClockSkew.Offset.Duration
	}
}

func diskShare(megabytesPerSecond int32) int64 {
	rate := int64(megabytesPerSecond)
	if rate == 0 {
		rate = diskFullSpeed
	}
	return max(1, rate*diskPercentPer100MB/100)
}
