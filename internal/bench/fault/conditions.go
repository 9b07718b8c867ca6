package fault

import (
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// Node describes the disturbance of one node. The zero value is an undisturbed node.
type Node struct {
	// Down nodes do not run.
	Down bool
	// SlowPercent is the additional CPU time of all its work: 100 is twice the time.
	SlowPercent int64
	// Hold is the time for which the node's messages wait for its disk, in HoldPercent of its steps.
	Hold        time.Duration
	HoldPercent int64
	// ClockOffset is the additional offset by which its clock is ahead; a negative offset means that it lags.
	ClockOffset time.Duration
}

// Conditions are what all active faults together do.
type Conditions struct {
	// Links are the required links, by region and region: the declared links with the active faults merged in.
	Links [][]geo.Link
	// Correlation is the correlation, in percent, between the fates of consecutive packets on each link. It is 0 if links
	// lose TCP segments of messages, rather than single packets: see Timeline.Packets.
	Correlation [][]int32
	// Nodes by geo.NodeID.
	Nodes []Node

	cuts []cut
}

// cut is a set of broken connections, from each node of one side to each node of the other side.
type cut struct {
	from, to []geo.NodeID
	by       string // the fault, or empty for a link that is severed
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

// Cuts is true when any connection shall be broken.
func (c *Conditions) Cuts() bool { return len(c.cuts) > 0 }

func has(sorted []geo.NodeID, n geo.NodeID) bool {
	_, ok := slices.BinarySearch(sorted, n)
	return ok
}

// The simulated costs of stress. These are models, named as such in docs/faults.md: memory and disks are not simulated,
// so that stress on them slows the CPU's work.
const (
	// memoryStressPercent: a stressor that constantly touches memory competes for one core like a computing thread.
	memoryStressPercent = 100
	// diskPercentPer100MB: copying 100 MB per second through the page cache takes 5% of a core.
	diskPercentPer100MB = 5
	// diskFullSpeed is the rate of 0, as fast as the disk goes, in MB/s.
	diskFullSpeed = 500
)

// Separation is two sets of nodes between which connections shall be broken, from From to To, by a fault; By is empty
// for a link that is severed.
type Separation struct {
	Targets
	By string
}

// Separated are the sets of nodes between which connections shall be broken.
func (c *Conditions) Separated() []Separation {
	var out []Separation
	for _, x := range c.cuts {
		out = append(out, Separation{Targets{x.from, x.to}, x.by})
	}
	return out
}

// Conditions returns the effects of the active faults, with their targets.
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

// change merges a fault into a link. Delays add up, independent deviations add up as variances, a packet must survive
// every loss, and the smallest bandwidth counts. It returns false if nothing gets through any more. Such a link is cut:
// packets sent into a total loss would wait for a retransmission for minutes after it. packets means that single
// packets are lost.
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
		if b := int64(s.NetworkBandwidth.BandwidthMbps); l.BandwidthMbps == 0 || b < l.BandwidthMbps {
			l.BandwidthMbps = b
		}
	}
	return true
}

// burst is the share of loss events among packets when losses come in bursts: with a correlation c the mean burst has
// 1 / (1 - c) packets, and TCP recovers from a burst as from one loss.
func burst(lossPPM int64, correlationPercent int32) int64 {
	if lossPPM >= 1e6 || correlationPercent <= 0 {
		return lossPPM
	}
	return max(1, lossPPM*int64(100-min(correlationPercent, 99))/100)
}

// disturb adds the effect of a fault to a node.
func (f *Fault) disturb(n *Node) {
	switch s := f.Spec; {
	case f.Kills():
		n.Down = true
	case s.CPUStress != nil:
		// The node has one core, which the scheduler shares evenly among the node and the competing threads.
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
