package sdur

import (
	"math/bits"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// probes is the number of bits that a Bloom filter sets for each hash.
const probes = 7

// hashOf returns the hash that identifies row k in certification.
func hashOf(k txn.Key) uint64 { return store.DigestRow(k, nil) }

// markOf returns the hash that stands for all scans and writes in a group of rows with ordered keys: the group that
// contains key group. It is a complement, so that it differs from the hashes of rows.
func markOf(group txn.Key) uint64 { return ^hashOf(group.Unit()) }

// bit returns the index of the i-th bit of hash h in a filter of size bits.
func bit(h uint64, i uint32, size int) uint32 {
	// Double hashing: the step is odd and thus never 0. The multiplication maps 32 bits to a size that need not be a
	// power of two.
	return uint32(uint64(uint32(h)+i*(uint32(h>>32)|1)) * uint64(size) >> 32)
}

// bloom is the Bloom filter of one set. nil means that the filter has not been built yet.
type bloom []uint64

func newBloom(size int) bloom { return make(bloom, (size+63)/64) }

func (b bloom) add(h uint64, size int) {
	for i := range uint32(probes) {
		at := bit(h, i, size)
		b[at/64] |= 1 << (at % 64)
	}
}

func (b bloom) has(h uint64, size int) bool {
	for i := range uint32(probes) {
		if at := bit(h, i, size); b[at/64]>>(at%64)&1 == 0 {
			return false
		}
	}
	return true
}

// filters are the Bloom filters of the last completed transactions, numbered from 1. The same bit of 64 consecutive
// filters is in one word, so that a lookup checks 64 filters together.
type filters struct {
	size   int        // bits of a filter
	blocks [][]uint64 // a ring of blocks of 64 filters; a block has size words
	last   uint64
}

func newFilters(size, kept int) filters {
	// The window may start inside a block. The extra block keeps the oldest filters of the window while the newest block
	// is filled.
	return filters{size: size, blocks: make([][]uint64, (kept+63)/64+1)}
}

// begin makes room for the filter of transaction n, which follows the last transaction.
func (f *filters) begin(n uint64) {
	at := n / 64 % uint64(len(f.blocks))
	switch {
	case f.blocks[at] == nil:
		f.blocks[at] = make([]uint64, f.size)
	// The first transaction of a block reuses the block of filters that have left the window.
	case n/64 != f.last/64:
		clear(f.blocks[at])
	}
	f.last = n
}

// add adds a hash to the filter of transaction n.
func (f *filters) add(n, h uint64) {
	block := f.blocks[n/64%uint64(len(f.blocks))]
	for i := range uint32(probes) {
		block[bit(h, i, f.size)] |= 1 << (n % 64)
	}
}

// remove removes a hash from the filter of transaction n. Hashes may share bits, so the caller must remove all hashes
// of n.
func (f *filters) remove(n, h uint64) {
	block := f.blocks[n/64%uint64(len(f.blocks))]
	for i := range uint32(probes) {
		block[bit(h, i, f.size)] &^= 1 << (n % 64)
	}
}

// grow adds a block of 64 filters.
func (f *filters) grow() { f.blocks = append(f.blocks, make([]uint64, f.size)) }

// next returns the first transaction in [n, last] whose filter contains hash h, or 0 if there is none.
func (f *filters) next(h, n, last uint64) uint64 {
	for ; n <= last; n = n/64*64 + 64 {
		word := ^uint64(0) << (n % 64)
		if last/64 == n/64 {
			// n and last are in the same block, so the filters after last are masked out.
			word &= ^uint64(0) >> (63 - last%64)
		}
		block := f.blocks[n/64%uint64(len(f.blocks))]
		for i := uint32(0); i < probes && word != 0; i++ {
			word &= block[bit(h, i, f.size)]
		}
		if word != 0 {
			return n/64*64 + uint64(bits.TrailingZeros64(word))
		}
	}
	return 0
}
