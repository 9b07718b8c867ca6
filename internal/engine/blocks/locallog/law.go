package locallog

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// SingleHomeLaw is the latency model of a single-home transaction, without the client's hop. It consists of a batch at
// the home and, if the home is another region, the forwarder's batch and the round trip. Nodes other than the first
// node of the home region also request a position from that node. The model includes the mean delay of this request.
//
// With replicated home logs, there is no forwarder. A position then takes the agreement of a majority and, if batches
// need proof, the reports of their readers.
func SingleHomeLaw(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	home := c
	if len(homes) > 0 {
		home = homes[0]
	}
	if Replicated(p) { // the coordinator is a sequencer of the home's log
		return p.Duration("batch") + PlaceLaw(t, p, c, home) + FromFirst(t, home, c)
	}
	order := ToFirst(t, home, home)
	if home == c {
		return p.Duration("batch") + order + FromFirst(t, c, c)
	}
	return p.Duration("forward") + t.Links[c][home].Delay + p.Duration("batch") + order + t.Links[home][c].Delay
}

// ToFirst returns the mean delay from the nodes of region c to the first node of region r.
func ToFirst(t *geo.Topology, c, r geo.Region) time.Duration {
	return mean(t, t.Links[c][r].Delay, c == r)
}

// FromFirst returns the mean delay from the first node of region r to the nodes of region c.
func FromFirst(t *geo.Topology, r, c geo.Region) time.Duration {
	return mean(t, t.Links[r][c].Delay, c == r)
}

// mean returns the mean of hop over a region's nodes. If inside is set, one of the nodes needs no hop.
func mean(t *geo.Topology, hop time.Duration, inside bool) time.Duration {
	if !inside {
		return hop
	}
	n := time.Duration(t.Partitions * t.Replicas)
	return hop * (n - 1) / n
}

// ReturnLaw returns the time until a multi-home transaction has executed and the client's region c has its outcome. The
// time starts when the homes' first nodes put the parts into their batches; inserted returns that time for each home.
// The time to collect a batch is not included.
//
// With full replication, c executes the transaction once the parts from all logs have arrived. With home-only
// replication, the homes exchange their reads. Then c executes the transaction if it is a home, and otherwise receives
// the result from the first home. The formula applies to transactions that write in all homes.
func ReturnLaw(t *geo.Topology, homeOnly bool, c geo.Region, homes []geo.Region, inserted func(geo.Region) time.Duration) (d time.Duration) {
	if !homeOnly {
		for _, r := range homes {
			d = max(d, inserted(r)+FromFirst(t, r, c))
		}
		return d
	}
	at, back := c, time.Duration(0)
	if !slices.Contains(homes, c) {
		// The lowest active participant answers, and it is in the lowest home.
		at = slices.Min(homes)
		back = t.Links[at][c].Delay
	}
	for _, r := range homes {
		hop := time.Duration(0)
		if r != at {
			hop = t.Links[r][at].Delay
		}
		d = max(d, inserted(r)+FromFirst(t, r, r)+hop)
	}
	return d + back
}
