package tpcc

import "math/rand/v2"

// random is a SplitMix64 generator. Each row has its own generator, because a row depends only on the seed and its key.
type random uint64

// randomOf returns the generator of a row.
func randomOf(seed uint64, table uint8, w uint32, row uint64) random {
	r := random(seed*0xd1342543de82ef95 + uint64(table)<<56 + uint64(w))
	return random(r.next() + row*0x9e3779b97f4a7c15)
}

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	x := uint64(*r)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// between returns a number uniform over low .. high, inclusive (clause 4.3.2.1).
func (r *random) between(low, high int) int {
	return low + int((r.next()>>32)*uint64(high-low+1)>>32)
}

// percent returns true with a probability of n percent.
func (r *random) percent(n int) bool { return r.between(1, 100) <= n }

// noiseSize is the number of positions in the noise at which a text may start.
const noiseSize = 1 << 16

// noise is random text from which columns are cut at random positions. letters contains letters and digits, and digits
// contains only digits (clause 4.3.2.2). Drawing each character separately would dominate the loading time.
type noise struct{ letters, digits []byte }

func newNoise(seed uint64) *noise {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	n := &noise{make([]byte, noiseSize+maxData), make([]byte, noiseSize+16)}
	r := randomOf(seed, 0xff, 0, 0)
	for i := range n.letters {
		n.letters[i] = alphabet[r.between(0, len(alphabet)-1)]
	}
	for i := range n.digits {
		n.digits[i] = alphabet[r.between(0, 9)]
	}
	return n
}

// letter returns an a-string of low to high characters (clause 4.3.2.2). The string shares the memory of the noise.
func (n *noise) letter(r *random, low, high int) []byte {
	at := r.next() >> 48
	return n.letters[at:][:r.between(low, high)]
}

// digit returns an n-string of size digits, which shares the memory of the noise.
func (n *noise) digit(r *random, size int) []byte { return n.digits[r.next()>>48:][:size] }

// syllables of last names (clause 4.3.2.3).
var syllables = [10]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

// appendLastName appends the last name with a number from 0 to 999 (clause 4.3.2.3).
func appendLastName(b []byte, number int) []byte {
	b = append(b, syllables[number/100%10]...)
	b = append(b, syllables[number/10%10]...)
	return append(b, syllables[number%10]...)
}

// nonUniform returns NURand(A, x, y) with the constant C (clause 2.1.6). first must be uniform over 0 .. A, and second
// uniform over x .. y.
func nonUniform(a, c, x, y, first, second int) int {
	return ((first|second)+c)%(y-x+1) + x
}

// Constants A of NURand (clause 2.1.6).
const (
	aLast     = 255  // C_LAST
	aCustomer = 1023 // C_ID
	aItem     = 8191 // OL_I_ID
)

// constants are the constants C of NURand, which are the same for all terminals (clause 2.1.6.1).
type constants struct {
	lastLoad, lastRun, customer, item int
}

// constantsOf draws the constants. The constant of last names differs between loading and transactions. Clause 2.1.6.1
// requires a difference of 65 to 119, except 96 and 112. Names that are frequent among customers are therefore not
// frequent in transactions.
func constantsOf(seed uint64) constants {
	r := randomOf(seed, 0xfe, 0, 0)
	c := constants{lastLoad: r.between(0, aLast), customer: r.between(0, aCustomer), item: r.between(0, aItem)}
	delta := r.between(65, 119-2)
	if delta >= 96 {
		delta++
	}
	if delta >= 112 {
		delta++
	}
	if up := c.lastLoad + delta; up <= aLast {
		c.lastRun = up
	} else {
		c.lastRun = c.lastLoad - delta
	}
	return c
}

// drawCustomer draws a customer's number (clause 2.4.1.2).
func (c *constants) drawCustomer(rng *rand.Rand, customers int) uint16 {
	return uint16(nonUniform(aCustomer, c.customer, 1, customers, rng.IntN(aCustomer+1), 1+rng.IntN(customers)))
}

// drawItem draws an item's number (clause 2.4.1.5).
func (c *constants) drawItem(rng *rand.Rand, items int) uint32 {
	return uint32(nonUniform(aItem, c.item, 1, items, rng.IntN(aItem+1), 1+rng.IntN(items)))
}

// drawName draws the number of a last name in a transaction (clause 2.5.1.2).
func (c *constants) drawName(rng *rand.Rand, names int) uint16 {
	return uint16(nonUniform(aLast, c.lastRun, 0, names-1, rng.IntN(aLast+1), rng.IntN(names)))
}

// loadedName draws the number of the last name of a loaded customer (clause 4.3.3.1).
func (c *constants) loadedName(r *random) int {
	return nonUniform(aLast, c.lastLoad, 0, lastNames-1, r.between(0, aLast), r.between(0, lastNames-1))
}
