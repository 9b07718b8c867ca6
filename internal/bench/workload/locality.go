package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// Locality says how many home regions and partitions transactions touch. It has the shares, in percent, of the
// transactions that touch more than one, and the numbers that these touch. A number of 0 stands for two, in workloads
// whose manifests have no such field.
type Locality struct {
	MultiHomePercent  int32
	HomesPerMultiHome int32
	// HomesThetaPercent, if it is set, takes the place of HomesPerMultiHome: multi-home transactions touch k + 1 homes, up
	// to all there are, in proportion to 1 / k^theta. It is theta in hundredths.
	HomesThetaPercent *int32
	// OtherHomesThetaPercent, if it is set, draws the homes other than the client's by distance. The k-th nearest region
	// has a probability in proportion to 1 / k^theta. Distance is the round trip and, if two are equal, the order of the
	// regions. The field is theta in hundredths. Without it all homes have equal probabilities.
	OtherHomesThetaPercent *int32
	// OtherHomesRanks, if set, replaces round trips as the distance. For each region that rows call home it lists all
	// other such regions, the nearest first.
	OtherHomesRanks             []v1alpha1.HomeRanks
	MultiPartitionPercent       int32
	PartitionsPerMultiPartition int32
	// ForeignSingleHomePercent is the share, in percent, of the single-home transactions that touch another home than the
	// client's. All other homes have equal probabilities (delftdata/Penteract's foreign single-home transactions).
	ForeignSingleHomePercent int32
}

// most returns the largest number of homes and of partitions that a transaction touches, given the number of regions.
func (l Locality) most(regions int64) (homes, partitions int64) {
	homes, partitions = 1, 1
	switch {
	case l.MultiHomePercent == 0:
	case l.HomesThetaPercent != nil:
		homes = regions
	default:
		homes = int64(orTwo(l.HomesPerMultiHome))
	}
	if l.MultiPartitionPercent > 0 {
		partitions = int64(orTwo(l.PartitionsPerMultiPartition))
	}
	return homes, partitions
}

func orTwo(n int32) int32 {
	if n == 0 {
		return 2
	}
	return n
}

// Validate checks that a topology has the homes and partitions. field, such as spec.workload.rmw, holds the fields that
// errors name; these have the names of the fields of Locality.
func (l Locality) Validate(t *geo.Topology, field string) error {
	regions, partitions := int64(t.Placement().Regions), int64(t.Partitions)
	homes, parts := l.most(regions)
	switch {
	case l.MultiHomePercent < 0 || l.MultiHomePercent > 100:
		return fmt.Errorf("%s.multiHomePercent: %d is not between 0 and 100", field, l.MultiHomePercent)
	case l.MultiPartitionPercent < 0 || l.MultiPartitionPercent > 100:
		return fmt.Errorf("%s.multiPartitionPercent: %d is not between 0 and 100", field, l.MultiPartitionPercent)
	case l.MultiHomePercent > 0 && regions < 2:
		return fmt.Errorf("%s.multiHomePercent: %d needs two regions, the database has one; make it 0", field, l.MultiHomePercent)
	case l.HomesThetaPercent != nil && (*l.HomesThetaPercent < 0 || *l.HomesThetaPercent > 1000):
		return fmt.Errorf("%s.homesThetaPercent: %d is not between 0 and 1000", field, *l.HomesThetaPercent)
	case l.OtherHomesThetaPercent != nil && (*l.OtherHomesThetaPercent < 0 || *l.OtherHomesThetaPercent > 1000):
		return fmt.Errorf("%s.otherHomesThetaPercent: %d is not between 0 and 1000", field, *l.OtherHomesThetaPercent)
	case l.OtherHomesThetaPercent != nil && len(l.OtherHomesRanks) == 0 && t.Links != nil && regions > 1 && t.LongestRTT() == 0:
		return fmt.Errorf("%s.otherHomesThetaPercent: %d needs to know which regions are near, and no round trips are declared; leave it out", field, *l.OtherHomesThetaPercent)
	case l.MultiPartitionPercent > 0 && partitions < 2:
		return fmt.Errorf("%s.multiPartitionPercent: %d needs two partitions per region, the database has one; make it 0", field, l.MultiPartitionPercent)
	case l.ForeignSingleHomePercent < 0 || l.ForeignSingleHomePercent > 100:
		return fmt.Errorf("%s.foreignSingleHomePercent: %d is not between 0 and 100", field, l.ForeignSingleHomePercent)
	case l.ForeignSingleHomePercent > 0 && regions < 2:
		return fmt.Errorf("%s.foreignSingleHomePercent: %d needs two regions, the database has one; make it 0", field, l.ForeignSingleHomePercent)
	case l.MultiHomePercent > 0 && (homes < 2 || homes > regions):
		return fmt.Errorf("%s.homesPerMultiHome: %d is not between 2 and the number of regions (%d)", field, homes, regions)
	case l.MultiPartitionPercent > 0 && (parts < 2 || parts > partitions):
		return fmt.Errorf("%s.partitionsPerMultiPartition: %d is not between 2 and partitionsPerRegion (%d)", field, parts, partitions)
	}
	return l.validateRanks(t, field+".otherHomesRanks")
}

// validateRanks checks that the ranks, which field holds, list for each home all other homes.
func (l Locality) validateRanks(t *geo.Topology, field string) error {
	if len(l.OtherHomesRanks) == 0 {
		return nil
	}
	if l.OtherHomesThetaPercent == nil {
		return fmt.Errorf("%s: %d orders, and otherHomesThetaPercent, which draws by them, is not set; set it, or leave them out", field, len(l.OtherHomesRanks))
	}
	homes := t.Regions[:t.Placement().Regions]
	for i, r := range l.OtherHomesRanks {
		if !slices.Contains(homes, r.Region) {
			return fmt.Errorf("%s[%d].region: no row calls %s home; take one of %v", field, i, r.Region, homes)
		}
		if got, want := slices.Sorted(slices.Values(append(slices.Clone(r.Others), r.Region))), slices.Sorted(slices.Values(homes)); !slices.Equal(got, want) {
			return fmt.Errorf("%s[%d].others: %v are not all regions that rows call home but %s, each once; these are %v", field, i, r.Others, r.Region, homes)
		}
	}
	for _, home := range homes {
		n := 0
		for _, r := range l.OtherHomesRanks {
			if r.Region == home {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%s: %d orders for %s; each region that rows call home has one", field, n, home)
		}
	}
	return nil
}

// ValidateItems checks that transactions have enough items to touch all their homes and partitions. It is for workloads
// whose manifests set the number of items in field, such as spec.workload.rmw.recordsPerTransaction. Errors call the
// items by noun.
func (l Locality) ValidateItems(t *geo.Topology, field string, items int64, noun string) error {
	if homes, parts := l.most(int64(t.Placement().Regions)); max(homes, parts) > items {
		return fmt.Errorf("%s: %d %s cannot lie in %d homes and %d partitions; make it at least %d", field, items, noun, homes, parts, max(homes, parts))
	}
	return nil
}

// Cells draws, for one transaction after another, the cells that it touches.
type Cells struct {
	locality            Locality
	regions, partitions int
	rng                 *rand.Rand
	further             *Zipf // of the homes other than the client's, if their number is drawn
	nearer              *Zipf // of the other homes' ranks by distance, if these are used
	ranks               [][]int
	homes, parts        []int // of the transaction
	foreign             bool  // the transaction's one home is not the client's
	meet                int   // after this number of items, homes and parts are both at their start again
}

// NewCells returns a Cells for a valid locality, with rng as the random generator.
func NewCells(l Locality, t *geo.Topology, rng *rand.Rand) *Cells {
	c := &Cells{locality: l, regions: t.Placement().Regions, partitions: t.Partitions, rng: rng}
	if l.HomesThetaPercent != nil {
		c.further = NewZipf(float64(*l.HomesThetaPercent) / 100)
	}
	if l.OtherHomesThetaPercent != nil {
		c.nearer = NewZipf(float64(*l.OtherHomesThetaPercent) / 100)
		for home := range c.regions {
			c.ranks = append(c.ranks, l.nearest(t, home, c.regions))
		}
	}
	return c
}

// nearest returns the regions but home, the nearest first.
func (l Locality) nearest(t *geo.Topology, home, regions int) (others []int) {
	if i := slices.IndexFunc(l.OtherHomesRanks, func(r v1alpha1.HomeRanks) bool { return r.Region == t.Regions[home] }); i >= 0 {
		for _, name := range l.OtherHomesRanks[i].Others {
			others = append(others, slices.Index(t.Regions, name))
		}
		return others
	}
	return byDistance(t, home, regions)
}

// byDistance returns the regions except home, sorted by round trip.
func byDistance(t *geo.Topology, home, regions int) []int {
	var others []int
	for r := range regions {
		if r != home {
			others = append(others, r)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int {
		return cmp.Compare(t.RTT(geo.Region(home), geo.Region(a)), t.RTT(geo.Region(home), geo.Region(b)))
	})
	return others
}

// Draw chooses the homes, home and others at random, and the partitions, all at random, of the next transaction.
func (c *Cells) Draw(home geo.Region) {
	homes, parts := 1, 1
	if c.rng.Int32N(100) < c.locality.MultiHomePercent {
		homes = int(orTwo(c.locality.HomesPerMultiHome))
		if c.further != nil {
			homes = 1 + int(c.further.Draw(c.rng, uint64(c.regions-1)))
		}
	}
	// Random numbers are drawn only for configured features, so that workloads without them stay unchanged.
	c.foreign = homes == 1 && c.locality.ForeignSingleHomePercent > 0 && c.rng.Int32N(100) < c.locality.ForeignSingleHomePercent
	if c.foreign {
		home = Other(c.rng, home, c.regions)
	}
	if c.rng.Int32N(100) < c.locality.MultiPartitionPercent {
		parts = int(orTwo(c.locality.PartitionsPerMultiPartition))
	}
	c.homes = choose(c.homes[:0], int(home), homes, func() int { return c.otherHome(home) })
	c.parts = choose(c.parts[:0], c.rng.IntN(c.partitions), parts, func() int { return c.rng.IntN(c.partitions) })
	c.meet = homes * parts / GCD(homes, parts)
}

// Of returns the cell of the transaction's i-th item, counted from 0: items go round the chosen homes and partitions by
// turns. Of(0) is in the home that Draw was given, the client's own, unless the transaction is foreign.
func (c *Cells) Of(i int) geo.Cell {
	// Both rings turn together, and shift by one when they meet again, so that all pairs occur.
	return geo.Cell{Home: geo.Region(c.homes[i%len(c.homes)]), Partition: c.parts[(i+i/c.meet)%len(c.parts)]}
}

// Homes returns the number of homes that the transaction touches. The first items of the transaction, up to this
// number, are in different homes.
func (c *Cells) Homes() int { return len(c.homes) }

// Foreign reports whether the transaction touches exactly one home, and that home is not the client's.
func (c *Cells) Foreign() bool { return c.foreign }

// Other draws uniformly from 0 .. n-1 without x.
func Other[T ~int](rng *rand.Rand, x T, n int) T {
	o := T(rng.IntN(n - 1))
	if o >= x {
		o++
	}
	return o
}

// otherHome draws a region, which may be home where all are drawn alike.
func (c *Cells) otherHome(home geo.Region) int {
	if c.nearer == nil {
		return c.rng.IntN(c.regions)
	}
	return c.ranks[home][c.nearer.Draw(c.rng, uint64(c.regions-1))-1]
}

// choose appends to dst first and n-1 others in the order in which they are drawn.
func choose(dst []int, first, n int, draw func() int) []int {
	dst = append(dst, first)
	for len(dst) < n {
		if x := draw(); !slices.Contains(dst, x) {
			dst = append(dst, x)
		}
	}
	return dst
}

// GCD returns the greatest common divisor of two numbers of 0 or more.
func GCD[T int | uint64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// DrawPair draws the cells of a transaction that touches one cell or, if it is global, two. The first cell is in the
// home of its client. The second is any other cell, with equal probabilities.
func DrawPair(rng *rand.Rand, t *geo.Topology, home geo.Region, global bool) (first, second geo.Cell) {
	first = geo.Cell{Home: home, Partition: rng.IntN(t.Partitions)}
	if !global {
		return first, first
	}
	own := int(home)*t.Partitions + first.Partition
	other := rng.IntN(t.Placement().Cells() - 1)
	if other >= own {
		other++
	}
	return first, geo.Cell{Home: geo.Region(other / t.Partitions), Partition: other % t.Partitions}
}

// CheckGlobal checks the share of transactions that touch two cells. field, such as spec.workload.micro.globalPercent,
// holds it in the manifest.
func CheckGlobal(field string, percent int32, t *geo.Topology) error {
	switch {
	case percent < 0 || percent > 100:
		return fmt.Errorf("%s: %d is not between 0 and 100", field, percent)
	case percent > 0 && t.Placement().Cells() < 2:
		return fmt.Errorf("%s: %d needs two partitions, the database has one region with one partition; make it 0", field, percent)
	}
	return nil
}
