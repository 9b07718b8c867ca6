package workload

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A mix draws each kind in proportion to its share. It never draws a kind with share 0, whether first, last or in
// between.
func TestMix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, shares := range map[string][]int32{
		"even": {50, 50}, "one": {100}, "gaps": {0, 30, 0, 0, 69, 1, 0}, "last": {0, 0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 100_000
			mix, got := NewMix(shares...), make([]int, len(shares))
			for range n {
				got[mix.Draw(rng)]++
			}
			for kind, share := range shares {
				// Four standard deviations are at most 0.63 percent.
				if want := n / 100 * int(share); share == 0 && got[kind] > 0 || got[kind] < want-630 || got[kind] > want+630 {
					t.Errorf("kind %d: %d of %d, its share is %d%%", kind, got[kind], n, share)
				}
			}
		})
	}
}

func TestCheckMix(t *testing.T) {
	for want, shares := range map[string][]int32{
		"": {0, 40, 60}, "f: the shares sum to 101; ": {41, 60}, "f: the shares sum to 100; ": {-1, 101}, "f: the shares sum to 0; ": nil,
		"f: the shares sum to 4294967396; ": {1<<31 - 1, 1<<31 - 1, 102}, // overflows to 100 in 32 bits
	} {
		if err := CheckMix("f", shares...); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", shares, err, want)
		}
	}
}
