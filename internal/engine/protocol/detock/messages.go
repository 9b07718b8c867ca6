package detock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds.
const (
	kindProbe = iota + 1
	kindEcho
	kindGraph
	kindResolution
	kindGraphSince
	kindResolutionSince
)

// signed encodes a time that may be negative, with the sign in the lowest bit. unsigned decodes it.
func signed(d time.Duration) uint64   { return uint64(d<<1) ^ uint64(d>>63) }
func unsigned(v uint64) time.Duration { return time.Duration(v>>1) ^ -time.Duration(v&1) }

// Probe measures the latency to another region.
type Probe struct{ Sent time.Duration }

// Kind implements protocol.Message.
func (m *Probe) Kind() uint8 { return kindProbe }

// Size implements protocol.Message.
func (m *Probe) Size() int { return codec.SizeUvarint(signed(m.Sent)) }

// AppendTo implements protocol.Message.
func (m *Probe) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, signed(m.Sent)) }

func (m *Probe) String() string { return "probe" }

// Echo answers a probe.
type Echo struct{ OneWay time.Duration }

// Kind implements protocol.Message.
func (m *Echo) Kind() uint8 { return kindEcho }

// Size implements protocol.Message.
func (m *Echo) Size() int { return codec.SizeUvarint(signed(m.OneWay)) }

// AppendTo implements protocol.Message.
func (m *Echo) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, signed(m.OneWay)) }

func (m *Echo) String() string { return fmt.Sprintf("echo %.3fms", float64(m.OneWay)/1e6) }

// Graph sends the changes of a partition's waits-for graph to the gatherer: see deterministic.Executor.Graph.
type Graph struct {
	Vertices []deterministic.Vertex
	Over     []deterministic.Place
	// Since is locallog.Node.Since.
	Since uint64
}

// Kind implements protocol.Message.
func (m *Graph) Kind() uint8 {
	if m.Since > 0 {
		return kindGraphSince
	}
	return kindGraph
}

func sizePlaces(places []deterministic.Place) int {
	n := codec.SizeUvarint(uint64(len(places)))
	for _, at := range places {
		n += at.Size()
	}
	return n
}

func appendPlaces(b []byte, places []deterministic.Place) []byte {
	b = codec.AppendUvarint(b, uint64(len(places)))
	for _, at := range places {
		b = at.AppendTo(b)
	}
	return b
}

func readPlaces(r *codec.Reader) (places []deterministic.Place) {
	// A Place takes at least two bytes.
	if n := r.Count(2); n > 0 {
		places = make([]deterministic.Place, n)
	}
	for i := range places {
		places[i] = deterministic.ReadPlace(r)
	}
	return places
}

// Size implements protocol.Message.
func (m *Graph) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Vertices)))
	for i := range m.Vertices {
		v := &m.Vertices[i]
		n += v.Place.Size() + codec.SizeUvarint(uint64(v.Participants)) + sizePlaces(v.After)
	}
	return n + sizePlaces(m.Over) + sizeSince(m.Since)
}

// AppendTo implements protocol.Message.
func (m *Graph) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(appendSince(b, m.Since), uint64(len(m.Vertices)))
	for i := range m.Vertices {
		v := &m.Vertices[i]
		b = v.Place.AppendTo(b)
		b = codec.AppendUvarint(b, uint64(v.Participants))
		b = appendPlaces(b, v.After)
	}
	return appendPlaces(b, m.Over)
}

// sizeSince, appendSince and readSince encode the restart of the sender's copy: see locallog.Node.Since. Messages of a
// copy that has never restarted omit this value and have another message kind.
func sizeSince(since uint64) int {
	if since == 0 {
		return 0
	}
	return codec.SizeUvarint(since)
}

func appendSince(b []byte, since uint64) []byte {
	if since == 0 {
		return b
	}
	return codec.AppendUvarint(b, since)
}

func readSince(r *codec.Reader, kind, without uint8) (since uint64) {
	if kind == without {
		return 0
	}
	// A copy that never restarted sends the other message kind, so an encoded 0 is malformed.
	if since = r.Uvarint(); since == 0 && r.Err() == nil {
		r.Fail(errors.New("rows since no cut"))
	}
	return since
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

func decodeGraph(kind uint8, body []byte) (*Graph, error) {
	r := codec.NewReader(body)
	m := &Graph{Since: readSince(&r, kind, kindGraph)}
	// A vertex takes at least four bytes: two for its position, and one each for the numbers of participants and waits.
	if n := r.Count(4); n > 0 {
		m.Vertices = make([]deterministic.Vertex, n)
	}
	for i := range m.Vertices {
		v := &m.Vertices[i]
		v.Place = deterministic.ReadPlace(&r)
		v.Participants = int(r.UvarintMax(1<<16 - 1))
		v.After = readPlaces(&r)
	}
	m.Over = readPlaces(&r)
	return m, r.Done()
}

// Resolution sends the detected deadlocks to the partitions of a copy, each in the order in which its members run.
type Resolution struct {
	Deadlocks [][]deterministic.Place
	// Since is locallog.Node.Since.
	Since uint64
}

// Kind implements protocol.Message.
func (m *Resolution) Kind() uint8 {
	if m.Since > 0 {
		return kindResolutionSince
	}
	return kindResolution
}

// Size implements protocol.Message.
func (m *Resolution) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Deadlocks)))
	for _, d := range m.Deadlocks {
		n += sizePlaces(d)
	}
	return n + sizeSince(m.Since)
}

// AppendTo implements protocol.Message.
func (m *Resolution) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(appendSince(b, m.Since), uint64(len(m.Deadlocks)))
	for _, d := range m.Deadlocks {
		b = appendPlaces(b, d)
	}
	return b
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

func decodeResolution(kind uint8, body []byte) (*Resolution, error) {
	r := codec.NewReader(body)
	m := &Resolution{Since: readSince(&r, kind, kindResolution)}
	if n := r.Count(1); n > 0 {
		m.Deadlocks = make([][]deterministic.Place, n)
	}
	for i := range m.Deadlocks {
		m.Deadlocks[i] = readPlaces(&r)
	}
	return m, r.Done()
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, err error) {
	r := codec.NewReader(body)
	switch kind {
	case kindProbe:
		m, err = &Probe{unsigned(r.Uvarint())}, r.Done()
	case kindEcho:
		m, err = &Echo{unsigned(r.Uvarint())}, r.Done()
	case kindGraph, kindGraphSince:
		m, err = decodeGraph(kind, body)
	case kindResolution, kindResolutionSince:
		m, err = decodeResolution(kind, body)
	default:
		m, known, err := locallog.Decode(kind, body, procs)
		if !known {
			return nil, fmt.Errorf("message kind %d is not one of detock's", kind)
		}
		return m, err
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}
