package ycsb

import (
	"math/rand/v2"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/workload"
)

// position identifies a record by its cell and its number in the cell. stream is the stream that inserted the record,
// plus 1, or 0 for a loaded record.
type position struct {
	cell   geo.Cell
	n      uint64
	stream uint32
}

// pool is the set of records from which a generator chooses: the records of a cell, or of the whole database. Loaded
// records come first. Records that the generator has inserted follow once their commit is known.
type pool struct {
	w        *YCSB
	rng      *rand.Rand
	cell     geo.Cell // of the records; unused if the pool is the whole database
	loaded   uint64
	inserted []position
	stride   uint64 // coprime to loaded
	zipf     *workload.Zipf
}

// newPool returns the pool of a cell, or the pool of all records if clients access records regardless of their home.
func newPool(w *YCSB, rng *rand.Rand, c geo.Cell) *pool {
	p := &pool{w: w, rng: rng, cell: c, loaded: w.loaded(c), zipf: workload.NewZipf(float64(w.spec.ThetaPercent) / 100)}
	if w.anywhere() {
		p.loaded = uint64(w.spec.Records)
	}
	for p.stride = max(1, p.loaded*61/100); workload.GCD(p.stride, p.loaded) != 1; p.stride++ {
	}
	return p
}

// choose draws a record from the workload's distribution. If hot is set and the home has hot records, it draws a hot
// record.
func (p *pool) choose(hot bool) position {
	known := p.loaded + uint64(len(p.inserted))
	switch p.w.distribution {
	case v1alpha1.YCSBUniform:
		return p.at(p.rng.Uint64N(known))
	case v1alpha1.YCSBHotspot:
		first := max(1, p.loaded*uint64(p.w.spec.HotRecordsPercent)/100)
		if first == known || p.rng.Int32N(100) < p.w.spec.HotOperationsPercent {
			return p.at(p.scatter(p.rng.Uint64N(first)))
		}
		return p.at(p.scatter(first + p.rng.Uint64N(known-first)))
	case v1alpha1.YCSBOneHotPerHome:
		first := uint64(*p.w.spec.HotRecords)
		if hot {
			return p.at(p.rng.Uint64N(first))
		}
		return p.at(first + p.rng.Uint64N(known-first))
	}
	rank := p.zipf.Draw(p.rng, known) - 1
	if p.w.distribution == v1alpha1.YCSBLatest {
		// YCSB's "latest": the newest record has rank 1.
		return p.at(known - 1 - rank)
	}
	return p.at(p.scatter(rank))
}

// scatter maps a rank to a record, so that popular records with ordered keys are not neighbours.
func (p *pool) scatter(rank uint64) uint64 {
	if !p.w.ordered || rank >= p.loaded {
		return rank
	}
	// The stride is coprime to loaded, so the mapping is a permutation.
	return rank * p.stride % p.loaded
}

// at returns the record with index i in the pool.
func (p *pool) at(i uint64) position {
	switch {
	case i >= p.loaded:
		return p.inserted[i-p.loaded]
	case p.w.anywhere():
		c, n := p.w.placement.Locate(i)
		return position{c, n, 0}
	}
	return position{p.cell, i, 0}
}
