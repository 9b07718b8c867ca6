package spanner

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// tolerates is Engine.Tolerates. The database tolerates the loss of any regions without which every group has a
// majority. It settles once groups have elected leaseholders and resolved the transactions of lost coordinators.
//
// After that, a transaction locks and prepares, and each step takes a round trip to leaseholders and from there to
// majorities. The transaction may wait equally long for the locks of other transactions. In addition, it may first send
// a request to a lost member, and wait for another transaction that has done the same.
func tolerates(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	s, rtt := raftgroup.Tolerates(t, t.Placed()), t.LongestRTT()
	s.Settles = raftgroup.Settles(p.Duration("election"), p.Duration("recovery"), rtt)
	s.Answers = protocol.InTime(6*rtt) + 2*(patience+rtt)
	return s
}

// law is Engine.Law, for a transaction that reads the rows that it writes. The latency is the client's round trip plus
// two round trips to the farthest leaseholder of the transaction's homes: to read and to commit. The commit includes
// the leaseholder's round trip to a majority of its group. law returns the mean over all coordinators in the client's
// region, since the distance to the leaseholder may differ between them.
func law(t *geo.Topology, _ protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	if len(homes) == 0 {
		homes = []geo.Region{c}
	}
	layout := t.Placed()
	var sum time.Duration
	for partition := range t.Partitions {
		for replica := range t.Replicas {
			var read, commit time.Duration
			for _, home := range homes {
				g := layout.Group(int(home)*t.Partitions + partition)
				d := raftgroup.Distance(t, t.Node(c, partition, replica), g.Leader)
				read = max(read, d)
				commit = max(commit, d+raftgroup.Quorum(t, g))
			}
			sum += read + commit
		}
	}
	return t.RTT(c, c) + sum/time.Duration(t.Partitions*t.Replicas)
}
