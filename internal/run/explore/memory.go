package explore

import (
	"runtime"
	"runtime/metrics"
)

// maxBytes is the default bound of the memory of all concurrent scenarios. Passing scenarios take less than 200 MB
// each.
const maxBytes = 3 << 30

// memoryEvents is the number of events between two memory checks.
const memoryEvents = 1 << 16

// heapInUse is the metric of the bytes of live objects and of garbage that is not collected yet.
const heapInUse = "/memory/classes/heap/objects:bytes"

// bloated reports whether the process uses more memory than a bound after a garbage collection, and how much.
func bloated(most uint64) (bytes uint64, is bool) {
	sample := []metrics.Sample{{Name: heapInUse}}
	for collected := false; ; collected = true {
		metrics.Read(sample)
		if bytes = sample[0].Value.Uint64(); bytes <= most || collected {
			return bytes, bytes > most
		}
		runtime.GC()
	}
}
