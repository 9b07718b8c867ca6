package detock

import (
	"fmt"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	kindProbe = iota + 1
	kindEcho
	kindGraph
	kindResolution
	kindGraphSince
	kindResolutionSince
)

// signed encodes a time, which may be negative, as an unsigned number with the sign in the lowest bit.
func signed(d time.Duration) uint64 { return uint64(d<<1) ^ uint64(d>>63) }

func sizeSigned(d time.Duration) int { return codec.SizeUvarint(signed(d)) }

func appendSigned(b []byte, d time.Duration) []byte { return codec.AppendUvarint(b, signed(d)) }

func readSigned(r *codec.Reader) time.Duration {
	v := r.Uvarint()
	return time.Duration(v>>1) ^ -time.Duration(v&1)
}

// Probe measures the latency to another region.
type Probe struct {
	Sent time.Duration `codec:"as=signed"`
}

func (m *Probe) String() string { return "probe" }

// Echo answers a probe.
type Echo struct {
	OneWay time.Duration `codec:"as=signed"`
}

func (m *Echo) String() string { return fmt.Sprintf("echo %.3fms", float64(m.OneWay)/1e6) }

// Graph sends the changes of a partition's waits-for graph to the gatherer: see deterministic.Executor.Graph.
type Graph struct {
	// Since is the sender's locallog.Node.Since, which identifies the last restart of its copy; 0 if it never restarted.
	Since    uint64 `codec:"kind=kindGraphSince"`
	Vertices []deterministic.Vertex
	Over     []deterministic.Place
}

func (m *Graph) String() string {
	var words []string
	for i := range m.Vertices {
		v := &m.Vertices[i]
		word := fmt.Sprintf("t%v", v.Place)
		if len(v.After) > 0 {
			word += " after"
		}
		for _, a := range v.After {
			word += fmt.Sprintf(" t%v", a)
		}
		words = append(words, word)
	}
	for _, at := range m.Over {
		words = append(words, fmt.Sprintf("t%v is over", at))
	}
	return "graph: " + strings.Join(words, ", ")
}

// Resolution sends the detected deadlocks to the partitions of a copy, each in the order in which its members run.
type Resolution struct {
	// Since is the sender's locallog.Node.Since, which identifies the last restart of its copy; 0 if it never restarted.
	Since     uint64 `codec:"kind=kindResolutionSince"`
	Deadlocks [][]deterministic.Place
}

func (m *Resolution) String() string {
	s := "resolution:"
	for i, d := range m.Deadlocks {
		if i > 0 {
			s += ","
		}
		for _, at := range d {
			s += fmt.Sprintf(" t%v", at)
		}
	}
	return s
}

var decode = protocol.Decode("detock", decodeMessage, locallog.Decode)
