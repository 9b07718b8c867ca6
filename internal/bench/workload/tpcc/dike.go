package tpcc

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Dike (Qu et al., "How Good is the Distributed Databases in Supporting Transaction Processing", 2022) adds
// quantitative control to TPC-C. A node of Dike corresponds to a cell here: one partition of one region.

// The warehouse and the district of the row that contending new orders write: data x of definition 1, as in Dike's
// code.
const (
	contendedWarehouse = 1
	contendedDistrict  = 1
)

// dikeOf returns d with the defaults of unset parameters filled in. d may be nil.
func dikeOf(d *v1alpha1.TPCCDike) v1alpha1.TPCCDike {
	out := v1alpha1.TPCCDike{}
	if d != nil {
		out = *d
	}
	if out.CoAccessPartitions == 0 {
		out.CoAccessPartitions = 2
	}
	if out.BalanceGroup == 0 {
		out.BalanceGroup = 4
	}
	if out.BalancesThetaPercent == nil {
		theta := int32(80)
		out.BalancesThetaPercent = &theta
	}
	return out
}

// phasesOf returns the consecutive mixes by type, or an error if a mix is invalid.
func phasesOf(spec *v1alpha1.TPCC) (out [][allTypes]int32, err error) {
	field := "spec.workload.tpcc.mix"
	for i, m := range mixes(spec) {
		if len(spec.MixPhases) > 0 {
			field = fmt.Sprintf("spec.workload.tpcc.mixPhases[%d]", i)
		}
		shares := mix(&m)
		if err := workload.CheckMix(field, shares[:]...); err != nil {
			return nil, err
		}
		out = append(out, shares)
	}
	return out, nil
}

// checkDike checks Dike's parameters. Its error names the invalid field.
func (t *TPCC) checkDike() error {
	const field = "spec.workload.tpcc."
	r, d, n := &t.spec.Remote, &t.dike, int32(t.cells.number())
	degree := percentOf(r.DistributionDegree)
	for _, p := range []struct {
		name string
		of   *int32
	}{
		{"warehousesThetaPercent", d.WarehousesThetaPercent}, {"partitionsThetaPercent", d.PartitionsThetaPercent},
		{"balancesThetaPercent", d.BalancesThetaPercent},
	} {
		if v := percentOf(p.of); v < 0 || v > 1000 {
			return fmt.Errorf(field+"dike.%s: %d is not between 0 and 1000", p.name, v)
		}
	}
	for i, c := range d.ContentionIntensities {
		if c < 1 {
			return fmt.Errorf(field+"dike.contentionIntensities[%d]: %d is not at least 1", i, c)
		}
	}
	switch {
	case set(r.DistributionRatioPercent) != set(r.DistributionDegree):
		return fmt.Errorf(field + "remote: distributionRatioPercent and distributionDegree go together: set both, or neither")
	case r.DistributionDegree != nil && (degree < 2 || degree > maxOrderLines):
		return fmt.Errorf(field+"remote.distributionDegree: %d is not between 2 and %d, the most lines of an order", degree, maxOrderLines)
	case degree > n:
		return fmt.Errorf(field+"remote.distributionDegree: %d is more than the partitions of all regions (%d); make it at most that", degree, n)
	case d.WarehousesThetaPercent != nil && t.placesRemote():
		return fmt.Errorf(field + "dike.warehousesThetaPercent: remote.multiHomePercent and remote.multiPartitionPercent need as many warehouses " +
			"in each partition; leave them out, or spread the warehouses evenly")
	case t.runs(typeUpdateStock) && d.CoAccessPercent > 0 && (d.CoAccessPartitions < 2 || d.CoAccessPartitions > min(n, maxOrderLines)):
		return fmt.Errorf(field+"dike.coAccessPartitions: %d is not between 2 and the partitions of all regions (%d), and at most %d",
			d.CoAccessPartitions, n, maxOrderLines)
	case t.balances() && (d.BalanceGroup < 2 || d.BalanceGroup > maxOrderLines || int(d.BalanceGroup) > t.warehouses()):
		return fmt.Errorf(field+"dike.balanceGroup: %d is not between 2 and the number of warehouses (%d), and at most %d",
			d.BalanceGroup, t.warehouses(), maxOrderLines)
	case len(d.ContentionIntensities) > 0 && !t.runs(typeNewOrder):
		return fmt.Errorf(field + "dike.contentionIntensities: new orders contend, and the mix has none; give newOrder a share")
	}
	return nil
}

// runs reports whether any mix includes transactions of a type.
func (t *TPCC) runs(kind int) bool {
	return slices.ContainsFunc(t.phases, func(m [allTypes]int32) bool { return m[kind] > 0 })
}

// balances reports whether the database needs the table of balances.
func (t *TPCC) balances() bool { return t.runs(typeUpdateBalance) || t.runs(typeSelectBalance) }

// zipfShares returns shares of ranks 1 .. n in proportion to 1 / rank^theta. They sum to 1.
func zipfShares(n int, thetaPercent int32) []float64 {
	out, sum := make([]float64, n), 0.
	for i := range out {
		out[i] = math.Pow(float64(i+1), -float64(thetaPercent)/100)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// cells contains the number of warehouses of each cell. Cells are ordered by region, then by partition.
type cells struct {
	topology *geo.Topology
	ends     []int // cumulative numbers of warehouses, by cell
	even     int   // number of warehouses per cell if all are equal, else 0
}

// cellsOf distributes the warehouses over the cells: evenly, or by Zipf's law if thetaPercent is set.
func cellsOf(t *geo.Topology, perPartition int32, thetaPercent *int32) cells {
	n := t.Placement().Cells()
	c := cells{topology: t, ends: make([]int, n)}
	if thetaPercent == nil {
		c.even = int(perPartition)
		for i := range c.ends {
			c.ends[i] = (i + 1) * c.even
		}
		return c
	}
	// Each cell has at least one warehouse. The rest is distributed by the largest remainder; on a tie the first cell
	// wins.
	shares, all := zipfShares(n, *thetaPercent), n*int(perPartition)
	counts, left := make([]int, n), all
	for i, p := range shares {
		counts[i] = max(1, int(p*float64(all)))
		left -= counts[i]
	}
	for ; left != 0; left -= sign(left) {
		best := -1
		for i := range counts {
			if left < 0 && counts[i] == 1 {
				continue
			}
			if off := shares[i]*float64(all) - float64(counts[i]); best < 0 ||
				float64(sign(left))*off > float64(sign(left))*(shares[best]*float64(all)-float64(counts[best])) {
				best = i
			}
		}
		counts[best] += sign(left)
	}
	sum := 0
	for i, k := range counts {
		sum += k
		c.ends[i] = sum
	}
	return c
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

func (c *cells) number() int { return len(c.ends) }
func (c *cells) all() int    { return c.ends[len(c.ends)-1] }

// cell returns the i-th cell; index is its inverse.
func (c *cells) cell(i int) geo.Cell {
	return geo.Cell{Home: geo.Region(i / c.topology.Partitions), Partition: i % c.topology.Partitions}
}
func (c *cells) index(x geo.Cell) int { return int(x.Home)*c.topology.Partitions + x.Partition }

// name returns the name of cell i, such as us-east-1/0.
func (c *cells) name(i int) string {
	x := c.cell(i)
	return fmt.Sprintf("%s/%d", c.topology.Regions[x.Home], x.Partition)
}

// warehouses returns the number of warehouses of a cell.
func (c *cells) warehouses(x geo.Cell) int {
	i := c.index(x)
	if i == 0 {
		return c.ends[0]
	}
	return c.ends[i] - c.ends[i-1]
}

// own returns the warehouses of a region: the first warehouse of each partition, then the second of each, and so on.
func (t *TPCC) own(home geo.Region) (out []uint32) {
	for i, more := 0, true; more; i++ {
		more = false
		for p := range t.topology.Partitions {
			if c := (geo.Cell{Home: home, Partition: p}); i < t.cells.warehouses(c) {
				out, more = append(out, t.nth(c, i)), true
			}
		}
	}
	return out
}

// nthOfAll returns the i-th of all warehouses, counted from 0. placeOf is its inverse.
func (t *TPCC) nthOfAll(i int) uint32 {
	if t.cells.even > 0 {
		return uint32(i) + 1
	}
	k, _ := slices.BinarySearch(t.cells.ends, i+1)
	if k > 0 {
		i -= t.cells.ends[k-1]
	}
	return t.nth(t.cells.cell(k), i)
}

func (t *TPCC) placeOf(w uint32) int {
	if t.cells.even > 0 {
		return int(w) - 1
	}
	c, i := t.cellOf(w)
	if k := t.cells.index(c); k > 0 {
		i += t.cells.ends[k-1]
	}
	return i
}

// contention keeps the configured number of new orders in flight on the contended row.
//
// Dike's paper draws each transaction with a probability computed from the throughput of contending and other
// transactions. Its code measures the throughput only once, in seconds 10 to 20. Here a transaction contends if fewer
// transactions than configured are contending. No transaction has to wait, as the paper requires, and no throughput has
// to be measured first.
type contention struct {
	targets  []int // by part of the measured time, for this generator
	measured time.Duration
	now      int // contending transactions in flight
	// before is the number of contending transactions in flight after this generator's last transaction started. sample is
	// the next instant to sample, and last is the elapsed time of the last call of observe.
	before       int
	sample, last time.Duration
}

// sampleGap is the time between two samples of the number of contending transactions. Dike samples every second. Here
// the interval is shorter, because a part of the measured time may be shorter than a second.
const sampleGap = 10 * time.Millisecond

// newContention distributes the contention intensities over the homes, and over the clients of each home.
func newContention(t *TPCC, c workload.GeneratorConfig) contention {
	x := contention{measured: c.Measured}
	homes := t.topology.Placement().Regions
	all := max(c.RegionClients, c.FirstClient+c.Clients)
	for _, intensity := range t.dike.ContentionIntensities {
		of := int(intensity) / homes
		if int(c.Region) < int(intensity)%homes {
			of++
		}
		x.targets = append(x.targets, (c.FirstClient+c.Clients)*of/all-c.FirstClient*of/all)
	}
	return x
}

// wants reports whether a transaction that starts at elapsed should contend.
func (x *contention) wants(elapsed time.Duration) bool {
	return len(x.targets) > 0 && x.now < x.targets[workload.PartOf(elapsed, x.measured, len(x.targets))]
}

// observe counts the samples up to elapsed. No transaction of this generator has started since the last call of
// observe. The number in flight at that call therefore applies to all these samples.
func (x *contention) observe(elapsed time.Duration, first bool, counts []workload.Count) {
	if len(x.targets) == 0 {
		return
	}
	if elapsed < x.last { // a new repetition
		x.sample = 0
	}
	x.last = elapsed
	for ; x.sample <= elapsed && x.sample < x.measured; x.sample += sampleGap {
		// Every generator adds its transactions in flight, but only the first generator counts the sample.
		n := &counts[workload.PartOf(x.sample, x.measured, len(x.targets))]
		n.Hits += int64(x.before)
		if first {
			n.Of++
		}
	}
}
