package explore

import (
	"runtime"
	"runtime/metrics"
)

// maxBytes is the default value of Config.MaxBytes. A scenario that passes takes less than 200 MB.
const maxBytes = 3 << 30

// memoryEvents is the number of events between two memory checks.
const memoryEvents = 1 << 16

// heapInUse is the metric of the heap's size in bytes: live objects, and garbage that has not been collected yet.
const heapInUse = "/memory/classes/heap/objects:bytes"

// bloated returns the heap size in bytes, and reports whether it exceeds most even after a garbage collection.
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
