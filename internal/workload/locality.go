package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/geobench/geobench/internal/geo"
)

// Locality says how many home regions and partitions transactions touch: the shares, in percent, of those that touch
// more than one, and how many these touch.
type Locality struct {
	MultiHomePercent            int32
	HomesPerMultiHome           int32
	MultiPartitionPercent       int32
	PartitionsPerMultiPartition int32
}

// Validate checks that a topology has the homes and partitions, and transactions enough items, as noun calls them, to
// touch them all. Errors name the manifest's fields: those of the workload begin with field, and countField is the
// number of items.
func (l Locality) Validate(t *geo.Topology, field, countField string, items int64, noun string) error {
	regions, partitions := int64(len(t.Regions)), int64(t.Partitions)
	homes, parts := int64(1), int64(1)
	if l.MultiHomePercent > 0 {
		homes = int64(l.HomesPerMultiHome)
	}
	if l.MultiPartitionPercent > 0 {
		parts = int64(l.PartitionsPerMultiPartition)
	}
	switch {
	case l.MultiHomePercent < 0 || l.MultiHomePercent > 100:
		return fmt.Errorf("%smultiHomePercent: %d is not between 0 and 100", field, l.MultiHomePercent)
	case l.MultiPartitionPercent < 0 || l.MultiPartitionPercent > 100:
		return fmt.Errorf("%smultiPartitionPercent: %d is not between 0 and 100", field, l.MultiPartitionPercent)
	case l.MultiHomePercent > 0 && (homes < 2 || homes > regions):
		return fmt.Errorf("%shomesPerMultiHome: %d is not between 2 and the number of regions (%d)", field, homes, regions)
	case l.MultiPartitionPercent > 0 && (parts < 2 || parts > partitions):
		return fmt.Errorf("%spartitionsPerMultiPartition: %d is not between 2 and partitionsPerRegion (%d)", field, parts, partitions)
	case max(homes, parts) > items:
		return fmt.Errorf("%s%s: %d %s cannot lie in %d homes and %d partitions; make it at least %d",
			field, countField, items, noun, homes, parts, max(homes, parts))
	}
	return nil
}

// Cells draws, for one transaction after the other, the cells that it touches.
type Cells struct {
	locality            Locality
	regions, partitions int
	rng                 *rand.Rand
	homes, parts        []int // of the transaction
	meet                int   // after so many items homes and parts are at their beginnings again
}

// NewCells returns a Cells for a valid locality, which takes chance from rng.
func NewCells(l Locality, t *geo.Topology, rng *rand.Rand) *Cells {
	return &Cells{locality: l, regions: len(t.Regions), partitions: t.Partitions, rng: rng}
}

// Draw chooses the homes, home and others at random, and the partitions, all at random, of the next transaction.
func (c *Cells) Draw(home geo.Region) {
	homes, parts := 1, 1
	if c.rng.Int32N(100) < c.locality.MultiHomePercent {
		homes = int(c.locality.HomesPerMultiHome)
	}
	if c.rng.Int32N(100) < c.locality.MultiPartitionPercent {
		parts = int(c.locality.PartitionsPerMultiPartition)
	}
	c.homes = c.choose(c.homes[:0], int(home), homes, c.regions)
	c.parts = c.choose(c.parts[:0], c.rng.IntN(c.partitions), parts, c.partitions)
	c.meet = homes * parts / gcd(homes, parts)
}

// Of returns the cell of the transaction's i-th item: items go round the chosen homes and partitions by turns.
func (c *Cells) Of(i int) geo.Cell {
	// Both rings turn together, and shift by one when they meet again, so that all pairs occur.
	return geo.Cell{Home: geo.Region(c.homes[i%len(c.homes)]), Partition: c.parts[(i+i/c.meet)%len(c.parts)]}
}

// choose appends to dst first and n-1 others of 0 .. of-1, in random order.
func (c *Cells) choose(dst []int, first, n, of int) []int {
	dst = append(dst, first)
	for len(dst) < n {
		x := c.rng.IntN(of)
		if !slices.Contains(dst, x) {
			dst = append(dst, x)
		}
	}
	return dst
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
