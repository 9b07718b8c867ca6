package batchlog

import "github.com/geobench/geobench/internal/base/geo"

// Streams. A log may include batches of other logs, the streams, which already have an order. An entry includes the
// batches of a stream from the end of the stream's previous entry up to a position of the stream. A change of leader
// therefore cannot lose, duplicate or reorder the batches of a stream.
//
// Any leader may propose to include the known part of a stream, any number of times. All members drop entries that
// include no further batches.

// lastSequencer is the highest possible node number. Streams use the sequencer numbers from lastSequencer downwards.
const lastSequencer = 1<<16 - 1

// maxStreams bounds the number of streams of a log.
const maxStreams = 1 << 10

// Stream returns the stream that an entry includes, up to position Batch.Number of the stream. ok is false for other
// entries.
func (o Ordered) Stream() (n int, ok bool) {
	n = lastSequencer - int(o.Batch.Sequencer)
	return n, n < maxStreams
}

// slot returns the index of a sequencer or stream in tables by sequencer, or -1 if there is no such node or stream.
func (l *Log) slot(s geo.NodeID) int {
	if int(s) < l.c.Nodes {
		return int(s)
	}
	if n := lastSequencer - int(s); n < l.c.Streams {
		return l.c.Nodes + n
	}
	return -1
}

// Take proposes to include a stream up to a position. It does nothing unless this node leads the log.
func (l *Log) Take(stream int, upto uint64) {
	m := l.member
	// Skip a part that the log already includes, or that this leader has proposed in this term.
	if m == nil || !m.group.Leading() || upto < m.next[l.c.Nodes+stream] || upto <= m.taking[stream] {
		return
	}
	m.taking[stream] = upto
	m.requests = append(m.requests, Ordered{BatchID{geo.NodeID(lastSequencer - stream), upto}, 1})
	m.propose()
}
