package wire

import (
	"sync/atomic"

	"github.com/geobench/geobench/internal/base/geo"
)

// traffic counts one direction of connections. It is a geo.Traffic that other goroutines may read concurrently.
type traffic struct{ bytes, messages, segments atomic.Int64 }

// frame counts a frame of size bytes.
func (t *traffic) frame(size int) {
	t.bytes.Add(int64(size))
	t.segments.Add(geo.Segments(size))
}

func (t *traffic) load() geo.Traffic {
	return geo.Traffic{Bytes: t.bytes.Load(), Messages: t.messages.Load(), Segments: t.segments.Load()}
}
