package explore

import (
	"runtime"
	"runtime/metrics"
)

// maxBytes bounds the memory of all scenarios that are run at a time, unless the Config does. Those that pass take less than 200 MB each.
const maxBytes = 3 << 30

// memoryEvents is after how many events of a scenario the memory is looked at again.
const memoryEvents = 1 << 16

// heapInUse is the metric of the bytes that objects take, also those that nobody holds any more and no collection has found yet.
const heapInUse = "/memory/classes/heap/objects:bytes"

// bloated reports whether the process takes more memory than a bound, and how much: once what nobody holds is collected.
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
