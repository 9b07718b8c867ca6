package simload

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// IntraRTT is the round-trip time inside a region of the topologies in this package.
const IntraRTT = 400 * time.Microsecond

// Topology returns a topology with regions a, b, c, ... delays[i][j] is the one-way delay from region i to region j, in
// milliseconds. It ignores the diagonal. It panics if the topology is invalid.
func Topology(partitions, replicas int, delays [][]float64) *geo.Topology {
	t := &geo.Topology{Partitions: partitions, Replicas: replicas}
	for a, row := range delays {
		t.Regions = append(t.Regions, string(rune('a'+a)))
		var links []geo.Link
		for b, d := range row {
			l := geo.Link{Delay: time.Duration(d * float64(time.Millisecond))}
			if a == b {
				l.Delay = IntraRTT / 2
			}
			links = append(links, l)
		}
		t.Links = append(t.Links, links)
	}
	if err := t.Validate(); err != nil {
		panic(fmt.Sprintf("simload: %v", err))
	}
	return t
}

// TwoRegions returns two regions with a round trip of 100 ms.
func TwoRegions(partitions int) *geo.Topology {
	return Topology(partitions, 1, [][]float64{{0, 50}, {50, 0}})
}

// ThreeRegions returns three regions with round trips of 100 ms (a-b), 90 ms (a-c) and 170 ms (b-c).
func ThreeRegions(partitions int) *geo.Topology {
	return Topology(partitions, 1, [][]float64{{0, 50, 45}, {50, 0, 85}, {45, 85, 0}})
}

// EightRegions returns a topology with the regions of the Detock paper: us-east-1, us-east-2, eu-west-1, eu-west-2,
// ap-northeast-1, ap-northeast-2, ap-southeast-1, ap-southeast-2.
func EightRegions(partitions int) *geo.Topology {
	return Topology(partitions, 1, [][]float64{
		{0, 6, 33, 38, 74, 87, 106, 99},
		{6, 0, 38, 43, 66, 80, 99, 94},
		{33, 38, 0, 6, 101, 114, 92, 127},
		{38, 43, 6, 0, 105, 118, 86, 132},
		{74, 66, 101, 105, 0, 16, 36, 64},
		{87, 80, 114, 118, 16, 0, 36, 74},
		{106, 99, 92, 86, 36, 36, 0, 46},
		{99, 94, 127, 132, 64, 74, 46, 0},
	})
}
