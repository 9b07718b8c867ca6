package batchlog

import "github.com/geobench/geobench/internal/base/geo"

// Streams. A log may take batches over from other logs, which have them in order already: an entry says that at its
// place come those of another log, the stream, up to a position there, from where the last such entry ended. So what
// comes from a stream can be neither lost, nor doubled, nor change its order when the log's leader changes: any leader
// may ask for a stream to be taken as far as it knows it, as often as it likes, and entries that take nothing more are
// dropped by all members alike.

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
