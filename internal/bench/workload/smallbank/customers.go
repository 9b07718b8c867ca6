package smallbank

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strconv"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// nameSize is the length of a padded name, in bytes.
const nameSize = 24

// appendName appends the name of customer id, padded with spaces to nameSize bytes: "Client17" and 16 spaces.
func appendName(b []byte, id uint64) []byte {
	n := len(b)
	b = append(b, "Client"...)
	b = strconv.AppendUint(b, id, 10)
	for len(b) < n+nameSize {
		b = append(b, ' ')
	}
	return b
}

func nameKey(id uint64) txn.Key {
	var b [nameSize]byte
	return txn.StringKey(tableAccount, string(appendName(b[:0], id)))
}

// customers indexes customers by the location of their data. Different hashes place a customer's name and ID, so the
// two generally have different homes. A client that must not leave its region needs a customer whose name and ID both
// have this region as home.
type customers struct {
	placement geo.Placement
	// cells lists customers by the home of the name and the cell of the ID, in ascending order. cellIndex computes the
	// index.
	cells [][]uint32
	// home lists customers by the home of the name and the home of the ID, in ascending order. homeIndex computes the
	// index.
	home [][]uint32
}

// homeIndex returns the index in customers.home for a home of the name and a home of the ID. cellIndex returns the
// index in customers.cells.
func homeIndex(p geo.Placement, name, id geo.Region) int { return int(name)*p.Regions + int(id) }

func cellIndex(p geo.Placement, name geo.Region, id geo.Cell) int {
	return homeIndex(p, name, id.Home)*p.Partitions + id.Partition
}

func (c *customers) cell(name, id geo.Region, partition int) []uint32 {
	return c.cells[cellIndex(c.placement, name, geo.Cell{Home: id, Partition: partition})]
}

func (c *customers) all(name, id geo.Region) []uint32 {
	return c.home[homeIndex(c.placement, name, id)]
}

func newCustomers(n uint64, p geo.Placement) *customers {
	c := &customers{placement: p}
	c.cells = make([][]uint32, p.Regions*p.Regions*p.Partitions)
	c.home = make([][]uint32, p.Regions*p.Regions)
	for id := range n {
		own, _ := p.Locate(id)
		name := p.Home(nameKey(id))
		home, cell := homeIndex(p, name, own.Home), cellIndex(p, name, own)
		c.home[home] = append(c.home[home], uint32(id))
		c.cells[cell] = append(c.cells[cell], uint32(id))
	}
	return c
}

// namesByCell returns, for each cell, the customers whose name rows it stores, in ascending order. A name's cell
// depends on a hash, so every call inspects all names.
func namesByCell(n uint64, p geo.Placement) map[geo.Cell][]uint32 {
	cells := map[geo.Cell][]uint32{}
	for id := range n {
		c := p.Cell(nameKey(id))
		cells[c] = append(cells[c], uint32(id))
	}
	return cells
}

// need returns the number of customers that the mix requires with a given home of the name and a given cell of the ID.
// If name and ID have the same home, the number is 2 with Amalgamate, else 1. If their homes differ, the number is 1 if
// Amalgamate must find local names, else 0.
func need(name, id geo.Region, amalgamate, localNames bool) int {
	switch {
	case name == id && amalgamate:
		return 2
	case name == id:
		return 1
	case amalgamate && localNames:
		return 1
	}
	return 0
}

// checkCustomers returns an error if there are too few customers for some combination of homes and partition that the
// function need requires. The error names a sufficient number of customers.
func checkCustomers(n uint64, p geo.Placement, amalgamate, localNames bool) error {
	missing := 0
	short := make([]int, p.Regions*p.Regions*p.Partitions)
	for name := range geo.Region(p.Regions) {
		for id := range geo.Region(p.Regions) {
			for partition := range p.Partitions {
				i := cellIndex(p, name, geo.Cell{Home: id, Partition: partition})
				short[i] = need(name, id, amalgamate, localNames)
				missing += short[i]
			}
		}
	}
	least := uint64(0)
	// Customers are numbered in ascending order, so the final value of least is the smallest sufficient number of
	// customers.
	for ; missing > 0; least++ {
		own, _ := p.Locate(least)
		i := cellIndex(p, p.Home(nameKey(least)), own)
		if short[i] > 0 {
			short[i]--
			missing--
		}
	}
	if n < least {
		return fmt.Errorf("spec.workload.smallbank.customers: %d customers leave a combination of regions and partitions without one; "+
			"%d regions with %d partitions each need at least %d", n, p.Regions, p.Partitions, least)
	}
	return nil
}

// skew draws indexes of lists. With a probability of hot percent it uses NURand, and otherwise a uniform distribution.
// If ranged is set, it always uses NURand, with A equal to hot percent of the length of the list.
type skew struct {
	hot    int32
	ranged bool
	seed   uint64
}

// draw returns a number below n; n must be at least 1. NURand is the distribution of TPC-C (clause 2.1.6),
//
//	(((random(0, A) | random(0, n-1)) + C) mod n
//
// where A is the largest 2^k - 1 that is at most n/8, or hot percent of n if ranged is set. C is derived from the seed
// and is at most A.
func (s skew) draw(rng *rand.Rand, n uint64) uint64 {
	x := rng.Uint64N(n)
	if s.hot == 0 {
		return x
	}
	if s.ranged {
		a := uint64(s.hot) * n / 100
		return ((rng.Uint64N(a+1) | x) + s.seed%(a+1)) % n
	}
	if rng.Int32N(100) >= s.hot {
		return x
	}
	a := uint64(1)<<(bits.Len64(n/8+1)-1) - 1
	c := s.seed & a
	return ((rng.Uint64()&a | x) + c) % n
}
