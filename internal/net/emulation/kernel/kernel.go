// Package kernel tests which packet operations a Linux kernel supports, by trying them in the network namespace of the
// calling process. It needs CAP_NET_ADMIN there.
package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Answer is the result of a probe.
type Answer struct {
	// Missing names each queueing discipline that the kernel has not, with the kernel's words.
	Missing map[string]string `json:"missing,omitempty"`
	// Error is the reason why the probe failed, or empty if it succeeded.
	Error string `json:"error,omitempty"`
}

// These are the queueing disciplines that Chaos Mesh uses: a prio selects the packets to some addresses, and a
// discipline below it treats them.
var (
	// Delay is what delays, losses and rates of links take.
	Delay = []string{"netem", "prio"}
	// Bandwidth lists the disciplines that a rate alone needs.
	Bandwidth = []string{"prio", "tbf"}
)

// Lacks says which of some queueing disciplines are missing, in the kernel's words; empty when none is.
func (a *Answer) Lacks(kinds []string) string {
	if a.Error != "" {
		return a.Error
	}
	var parts []string
	for _, q := range qdiscs {
		if why, ok := a.Missing[q.kind]; ok && slices.Contains(kinds, q.kind) {
			parts = append(parts, fmt.Sprintf("no queueing discipline %s: %s", q.kind, why))
		}
	}
	return strings.Join(parts, "; ")
}

// qdiscs are what Chaos Mesh puts on an interface, with options that the kernel accepts.
var qdiscs = []struct {
	kind    string
	options []byte
}{
	{"netem", netemOptions()},
	{"prio", prioOptions()},
	{"tbf", tbfOptions()},
}

// netemOptions is a struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter.
func netemOptions() []byte {
	var b []byte
	for _, v := range []uint32{0, 1000, 0, 0, 0, 0} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// prioOptions is a struct tc_prio_qopt: bands and a map of 16 priorities.
func prioOptions() []byte {
	return append(binary.NativeEndian.AppendUint32(nil, 4), make([]byte, 16)...)
}

// tbfOptions is an attribute with a struct tc_tbf_qopt: twice a struct tc_ratespec (for Ethernet, 1 MB/s and none),
// limit, buffer, MTU.
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
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
