// Package kernel tests which queueing disciplines a Linux kernel supports, by trying them in the network namespace of
// the calling process. This requires CAP_NET_ADMIN in that namespace.
package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Answer is the result of a probe.
type Answer struct {
	// Missing maps each queueing discipline that the kernel does not support to the kernel's error.
	Missing map[string]string `json:"missing,omitempty"`
	// Error is the reason why the probe failed; empty if it succeeded.
	Error string `json:"error,omitempty"`
}

// Chaos Mesh uses these queueing disciplines: a prio selects the packets to certain addresses, and a discipline below
// it delays, drops or shapes them.
var (
	// Delay lists the disciplines that links with a delay or a loss need.
	Delay = []string{"netem", "prio"}
	// Bandwidth lists the disciplines that links with only a rate need.
	Bandwidth = []string{"prio", "tbf"}
)

// Lacks describes which of the given queueing disciplines are missing, with the kernel's errors; it returns "" if none
// is missing. If the probe failed, Lacks returns Error.
func (a *Answer) Lacks(kinds []string) string {
	if a.Error != "" {
		return a.Error
	}
	var parts []string
	// Iterate over qdiscs rather than Missing for a deterministic order.
	for _, q := range qdiscs {
		if why, ok := a.Missing[q.kind]; ok && slices.Contains(kinds, q.kind) {
			parts = append(parts, fmt.Sprintf("no queueing discipline %s: %s", q.kind, why))
		}
	}
	return strings.Join(parts, "; ")
}

// qdiscs lists the queueing disciplines that Chaos Mesh uses, each with options that the kernel accepts.
var qdiscs = []struct {
	kind    string
	options []byte
}{
	{"netem", netemOptions()},
	{"prio", prioOptions()},
	{"tbf", tbfOptions()},
}

// netemOptions returns a struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter.
func netemOptions() []byte {
	var b []byte
	for _, v := range []uint32{0, 1000, 0, 0, 0, 0} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// prioOptions returns a struct tc_prio_qopt: the number of bands and a map of 16 priorities.
func prioOptions() []byte {
	return append(binary.NativeEndian.AppendUint32(nil, 4), make([]byte, 16)...)
}

// tbfOptions returns an attribute with a struct tc_tbf_qopt. It consists of two structs tc_ratespec (the rate, 1 MB/s
// on Ethernet, and no peak rate), the limit, the buffer, and the MTU.
func tbfOptions() []byte {
	const ethernet, parms = 1, 1
	var b []byte
	for _, rate := range []uint32{1_000_000, 0} {
		b = append(b, 0, ethernet, 0, 0, 0, 0, 0, 0)
		b = binary.NativeEndian.AppendUint32(b, rate)
	}
	for _, v := range []uint32{100_000, 1_000_000, 0} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return attribute(nil, parms, b)
}

func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	// Attributes are aligned to 4 bytes, but the length in their header excludes the padding.
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
