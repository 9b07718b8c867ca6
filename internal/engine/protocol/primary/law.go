package primary

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// law is Engine.Law, for a transaction that reads and writes a row of each home, before any failover. It adds up the
// client's round trip to its node and a round trip to the writer for each statement. It also adds a round trip inside
// the writer's region to store the log. The result is the mean over the nodes of the client's region.
func law(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	writer := geo.Region(p.Int("primary"))
	each := t.Partitions * t.Replicas
	// hop is the mean round trip from the region's nodes to the region's instance.
	hop := t.RTT(c, c) * time.Duration(each-1) / time.Duration(each)
	d := t.RTT(c, c)
	// If the region has other nodes, a commit waits for acknowledgements from its storage.
	if each > 1 {
		d += t.RTT(writer, writer)
	}
	if c == writer {
		return d + hop
	}
	reads, rows := p.Word("reads"), len(homes)
	if reads == readsSession || p.Word("readers") == readersInstance {
		d += hop
	}
	if p.Word("forward") == forwardProcedures {
		return d + t.RTT(c, writer)
	}
	return d + time.Duration(trips(p, rows))*t.RTT(c, writer)
}

// lightRows is the maximum number of rows that a transaction of a light load reads, and the maximum number that it
// writes.
const lightRows = 16

// trips returns the number of round trips to the writer of a transaction that reads and writes the given number of
// rows.
func trips(p protocol.Params, rows int) int {
	n := rows + int(p.Int("overhead"))
	if p.Word("reads") == readsGlobal {
		asked := 1
		if p.Word("barrier") == barrierStatement {
			// One barrier precedes each read and each write.
			asked = 2 * rows
		}
		n += asked * int(p.Int("barrierRoundTrips"))
	}
	return n
}
