package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// Locality configures how many home regions and partitions transactions access. MultiHomePercent and
// MultiPartitionPercent are the percentages of transactions that access several homes or several partitions.
// HomesPerMultiHome and PartitionsPerMultiPartition are the numbers of homes and partitions that such a transaction
// accesses. They are 0 for workloads whose manifests lack the fields; 0 means 2.
type Locality struct {
	MultiHomePercent  int32
	HomesPerMultiHome int32
	// HomesThetaPercent is theta in hundredths. If it is set, it replaces HomesPerMultiHome. A multi-home
	// transaction accesses k + 1 homes with a probability in proportion to 1 / k^theta, up to all homes.
	HomesThetaPercent *int32
	// OtherHomesThetaPercent is theta in hundredths. If it is set, homes other than the client's are drawn by distance:
	// the k-th nearest region has a probability in proportion to 1 / k^theta. Distance is the round-trip time; the order
	// of the regions breaks ties. If it is nil, all homes have equal probabilities.
	OtherHomesThetaPercent *int32
	// OtherHomesRanks, if set, replaces round-trip times as the distance. For each home region it lists all other home
	// regions, nearest first.
	OtherHomesRanks             []v1alpha1.HomeRanks
	MultiPartitionPercent       int32
	PartitionsPerMultiPartition int32
	// ForeignSingleHomePercent is the share, in percent, of single-home transactions whose home is not the client's. All
	// other homes have equal probabilities (the foreign single-home transactions of delftdata/Penteract).
	ForeignSingleHomePercent int32
}

// most returns the largest number of homes and of partitions that a transaction accesses, given the number of regions.
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

// Validate checks the parameters against the homes and partitions of t. Errors name fields of Locality, prefixed with
// field, such as spec.workload.rmw.
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
	// Without round-trip times, all distances are equal, and the order of the regions would determine the draws.
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

// validateRanks checks that OtherHomesRanks has one entry per home and that each entry lists all other homes. Errors
// name field.
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

// ValidateItems checks that a transaction has enough items to access all its homes and partitions. field is the
// manifest's number of items, such as spec.workload.rmw.recordsPerTransaction. noun is the word for the items in
// errors.
func (l Locality) ValidateItems(t *geo.Topology, field string, items int64, noun string) error {
	// Consecutive items use the next home and also the next partition, so the larger of the two numbers suffices.
	if homes, parts := l.most(int64(t.Placement().Regions)); max(homes, parts) > items {
		return fmt.Errorf("%s: %d %s cannot lie in %d homes and %d partitions; make it at least %d", field, items, noun, homes, parts, max(homes, parts))
	}
	return nil
}

// Cells draws the cells that each transaction accesses.
type Cells struct {
	locality            Locality
	regions, partitions int
	rng                 *rand.Rand
	further             *Zipf // draws the number of further homes; nil if it is fixed
	nearer              *Zipf // draws the rank of another home by distance; nil if all are equally likely
	ranks               [][]int
	homes, parts        []int // of the current transaction
	foreign             bool  // the transaction has one home, which is not the client's
	// meet is the least common multiple of len(homes) and len(parts): the number of items after which both cycles restart
	// together.
	meet int
}

// NewCells returns a Cells for a valid locality. It draws from rng.
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

// nearest returns the regions except home, nearest first.
func (l Locality) nearest(t *geo.Topology, home, regions int) (others []int) {
	if i := slices.IndexFunc(l.OtherHomesRanks, func(r v1alpha1.HomeRanks) bool { return r.Region == t.Regions[home] }); i >= 0 {
		for _, name := range l.OtherHomesRanks[i].Others {
			others = append(others, slices.Index(t.Regions, name))
		}
		return others
	}
	return byDistance(t, home, regions)
}

// byDistance returns the regions except home, sorted by round-trip time.
func byDistance(t *geo.Topology, home, regions int) []int {
	var others []int
	for r := range regions {
		if r != home {
			others = append(others, r)
		}
	}
	// A stable sort keeps the order of the regions for equal round-trip times.
	slices.SortStableFunc(others, func(a, b int) int {
		return cmp.Compare(t.RTT(geo.Region(home), geo.Region(a)), t.RTT(geo.Region(home), geo.Region(b)))
	})
	return others
}

// Draw draws the homes and partitions of the next transaction. The first home is home, unless the transaction is
// foreign; all other homes, and the partitions, are random.
func (c *Cells) Draw(home geo.Region) {
	homes, parts := 1, 1
	if c.rng.Int32N(100) < c.locality.MultiHomePercent {
		homes = int(orTwo(c.locality.HomesPerMultiHome))
		if c.further != nil {
			homes = 1 + int(c.further.Draw(c.rng, uint64(c.regions-1)))
		}
	}
	// Draw random numbers only for configured features. A new feature then does not change the transactions of workloads
	// that do not use it.
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

// Of returns the cell of the transaction's i-th item, counted from 0. Items cycle through the chosen homes and
// partitions. Of(0) is in the home passed to Draw, unless the transaction is foreign.
func (c *Cells) Of(i int) geo.Cell {
	// Both cycles advance together. After meet items the partitions shift by one, so that all pairs occur.
	return geo.Cell{Home: geo.Region(c.homes[i%len(c.homes)]), Partition: c.parts[(i+i/c.meet)%len(c.parts)]}
}

// Homes returns the number of homes that the transaction accesses. Its first Homes() items are in different homes.
func (c *Cells) Homes() int { return len(c.homes) }

// Foreign reports whether the transaction accesses a single home that is not the client's.
func (c *Cells) Foreign() bool { return c.foreign }

// Other draws uniformly from 0 .. n-1 except x; n must be at least 2.
func Other[T ~int](rng *rand.Rand, x T, n int) T {
	o := T(rng.IntN(n - 1))
	if o >= x {
		o++
	}
	return o
}

// otherHome draws a region. If all homes are equally likely, it may return home itself.
func (c *Cells) otherHome(home geo.Region) int {
	if c.nearer == nil {
		return c.rng.IntN(c.regions)
	}
	return c.ranks[home][c.nearer.Draw(c.rng, uint64(c.regions-1))-1]
}

// choose appends first and n-1 further distinct values to dst, in the order in which draw returns them.
func choose(dst []int, first, n int, draw func() int) []int {
	dst = append(dst, first)
	for len(dst) < n {
		if x := draw(); !slices.Contains(dst, x) {
			dst = append(dst, x)
		}
	}
	return dst
}

// GCD returns the greatest common divisor of two numbers >= 0.
func GCD[T int | uint64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// DrawPair draws the cells of a transaction that accesses one cell or, if global is set, two. The first cell is in
// home, the client's home. The second is any other cell, with equal probabilities. For one cell, second equals first.
func DrawPair(rng *rand.Rand, t *geo.Topology, home geo.Region, global bool) (first, second geo.Cell) {
	first = geo.Cell{Home: home, Partition: rng.IntN(t.Partitions)}
	if !global {
		return first, first
	}
	own := int(home)*t.Partitions + first.Partition
	other := rng.IntN(t.Placement().Cells() - 1)
	// Skip the first cell, because the draw above covers only the other cells.
	if other >= own {
		other++
	}
	return first, geo.Cell{Home: geo.Region(other / t.Partitions), Partition: other % t.Partitions}
}

// CheckGlobal checks the share, in percent, of transactions that access two cells. field is the path of the share in
// the manifest, such as spec.workload.micro.globalPercent.
func CheckGlobal(field string, percent int32, t *geo.Topology) error {
	switch {
	case percent < 0 || percent > 100:
		return fmt.Errorf("%s: %d is not between 0 and 100", field, percent)
	case percent > 0 && t.Placement().Cells() < 2:
		return fmt.Errorf("%s: %d needs two partitions, the database has one region with one partition; make it 0", field, percent)
	}
	return nil
}
