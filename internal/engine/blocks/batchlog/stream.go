package batchlog

import "github.com/geobench/geobench/internal/base/geo"

// Streams. A log may include batches from other logs, the streams, which have ordered them already. An entry includes
// the batches of a stream from the end of the last such entry up to a given position of the stream. So a change of
// leader cannot lose, duplicate or reorder the batches of a stream. Any leader may propose to include a stream as far
// as it knows it, any number of times. All members alike drop entries that include no further batches.

// lastSequencer is the highest number of a node; streams have the numbers of sequencers from there on down.
const lastSequencer = 1<<16 - 1

// maxStreams bounds the streams of a log.
const maxStreams = 1 << 10

// Stream returns which stream an entry takes, up to position Batch.Number there, if it does.
func (o Ordered) Stream() (n int, ok bool) {
	n = lastSequencer - int(o.Batch.Sequencer)
	return n, n < maxStreams
}

// slot is the index of a sequencer, or a stream, in tables by sequencer; negative for none of either.
func (l *Log) slot(s geo.NodeID) int {
	if int(s) < l.c.Nodes {
		return int(s)
	}
	if n := lastSequencer - int(s); n < l.c.Streams {
		return l.c.Nodes + n
	}
	return -1
}

// Take has the log take a stream up to a position, if this node leads it; others do nothing.
func (l *Log) Take(stream int, upto uint64) {
	m := l.member
	if m == nil || !m.group.Leading() || upto < m.next[l.c.Nodes+stream] || upto <= m.taking[stream] {
		return
	}
	m.taking[stream] = upto
	m.requests = append(m.requests, Ordered{BatchID{geo.NodeID(lastSequencer - stream), upto}, 1})
	m.propose()
}
