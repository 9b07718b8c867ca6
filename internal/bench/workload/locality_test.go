package workload

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// Transactions touch the configured numbers of homes and partitions at the configured frequencies, and always include
// the client's home. With enough items, a transaction touches every pair of its homes and partitions.
func TestCells(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a", "b", "c", "d"}, Partitions: 4, Replicas: 1}
	for name, l := range map[string]Locality{
		"local": {},
		"mixed": {MultiHomePercent: 30, HomesPerMultiHome: 2, MultiPartitionPercent: 60, PartitionsPerMultiPartition: 2},
		"wide":  {MultiHomePercent: 100, HomesPerMultiHome: 3, MultiPartitionPercent: 100, PartitionsPerMultiPartition: 4},
		"two":   {MultiHomePercent: 50, MultiPartitionPercent: 40},
		"even":  {MultiHomePercent: 50, HomesPerMultiHome: 4, MultiPartitionPercent: 50, PartitionsPerMultiPartition: 4},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(l.Validate(top, "w"), l.ValidateItems(top, "w.items", 4, "items")); err != nil {
				t.Fatal(err)
			}
			cells := NewCells(l, top, rand.New(rand.NewPCG(1, 2)))
			const n = 5000
			multiHome, multiPartition := 0, 0
			for range n {
				cells.Draw(2)
				homes, parts, pairs := map[geo.Region]bool{}, map[int]bool{}, map[geo.Cell]bool{}
				for i := range 4 {
					homes[cells.Of(i).Home], parts[cells.Of(i).Partition] = true, true
				}
				for i := range 4 * 4 * 4 {
					pairs[cells.Of(i)] = true
				}
				if len(homes) > 1 {
					multiHome++
				}
				if len(parts) > 1 {
					multiPartition++
				}
				if !homes[2] || len(homes) != 1 && len(homes) != int(orTwo(l.HomesPerMultiHome)) ||
					len(parts) != 1 && len(parts) != int(orTwo(l.PartitionsPerMultiPartition)) || len(pairs) != len(homes)*len(parts) {
					t.Fatalf("homes %v, partitions %v, cells %v", homes, parts, pairs)
				}
			}
			for what, s := range map[string][2]int{"multi-home": {multiHome, int(l.MultiHomePercent)}, "multi-partition": {multiPartition, int(l.MultiPartitionPercent)}} {
				p := float64(s[1]) / 100
				if off := math.Abs(float64(s[0])/n - p); off > 4*math.Sqrt(p*(1-p)/n) {
					t.Errorf("%s: %d of %d, want %d%%", what, s[0], n, s[1])
				}
			}
		})
	}
}

// The number of homes follows the configured exponent. On six regions, SunStorm's multi-region transactions touch 2, 3,
// 4, 5 and 6 homes in 79.1, 13.0, 4.5, 2.1 and 1.2% of the cases.
func TestCellsDrawTheNumberOfHomes(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a", "b", "c", "d", "e", "f"}, Partitions: 1, Replicas: 1}
	cells := NewCells(Locality{MultiHomePercent: 50, HomesThetaPercent: new(int32(260))}, top, rand.New(rand.NewPCG(1, 2)))
	const n = 100_000
	var got [7]int
	for range n {
		cells.Draw(4)
		homes := map[geo.Region]bool{}
		for i := range cells.Homes() {
			homes[cells.Of(i).Home] = true
		}
		if !homes[4] || len(homes) != cells.Homes() {
			t.Fatalf("the first %d items are in homes %v", cells.Homes(), homes)
		}
		got[len(homes)]++
	}
	for homes, p := range map[int]float64{1: 0.5, 2: 0.3953, 3: 0.0652, 4: 0.0227, 5: 0.0107, 6: 0.0060} {
		if off := math.Abs(float64(got[homes])/n - p); off > 4*math.Sqrt(p*(1-p)/n) {
			t.Errorf("%d homes: %d of %d, want %.2f%%", homes, got[homes], n, 100*p)
		}
	}
}

// ranks returns one HomeRanks per order of regions. Each order starts with the clients' region, followed by the other
// regions.
func ranks(orders ...string) (out []v1alpha1.HomeRanks) {
	for _, o := range orders {
		f := strings.Fields(o)
		out = append(out, v1alpha1.HomeRanks{Region: f[0], Others: f[1:]})
	}
	return out
}

func TestLocalityIsRefused(t *testing.T) {
	two := &geo.Topology{Regions: []string{"a", "b"}, Partitions: 2, Replicas: 1}
	one := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1}
	real := &geo.Topology{Regions: two.Regions, Partitions: 2, Replicas: 1, Links: [][]geo.Link{{{}, {}}, {{}, {}}}}
	for _, c := range []struct {
		top  *geo.Topology
		l    Locality
		want string
	}{
		{two, Locality{MultiHomePercent: 101}, "w.multiHomePercent: 101 is not between 0 and 100"},
		{two, Locality{MultiPartitionPercent: -1}, "w.multiPartitionPercent: -1 is not between 0 and 100"},
		{two, Locality{MultiHomePercent: 1, HomesPerMultiHome: 3}, "w.homesPerMultiHome: 3 is not between 2 and the number of regions (2)"},
		{two, Locality{MultiHomePercent: 1, HomesThetaPercent: new(int32(1001))}, "w.homesThetaPercent: 1001 is not between 0 and 1000"},
		{two, Locality{MultiHomePercent: 1, OtherHomesThetaPercent: new(int32(-1))}, "w.otherHomesThetaPercent: -1 is not between 0 and 1000"},
		{two, Locality{MultiHomePercent: 1, OtherHomesRanks: ranks("a b", "b a")}, "w.otherHomesRanks: 2 orders, and otherHomesThetaPercent, which draws by them, is not set; set it, or leave them out"},
		{two, Locality{MultiHomePercent: 1, OtherHomesThetaPercent: new(int32(100)), OtherHomesRanks: ranks("a b", "c a")}, "w.otherHomesRanks[1].region: no row calls c home; take one of [a b]"},
		{two, Locality{MultiHomePercent: 1, OtherHomesThetaPercent: new(int32(100)), OtherHomesRanks: ranks("a b", "b c")}, "w.otherHomesRanks[1].others: [c] are not all regions that rows call home but b, each once; these are [a b]"},
		{two, Locality{MultiHomePercent: 1, OtherHomesThetaPercent: new(int32(100)), OtherHomesRanks: ranks("a b")}, "w.otherHomesRanks: 0 orders for b; each region that rows call home has one"},
		{real, Locality{MultiHomePercent: 1, OtherHomesThetaPercent: new(int32(100))}, "w.otherHomesThetaPercent: 100 needs to know which regions are near, and no round trips are declared; leave it out"},
		{two, Locality{MultiHomePercent: 1, HomesThetaPercent: new(int32(260))}, "w.count: 1 items cannot lie in 2 homes and 1 partitions; make it at least 2"},
		{two, Locality{MultiPartitionPercent: 1, PartitionsPerMultiPartition: 1}, "w.partitionsPerMultiPartition: 1 is not between 2 and partitionsPerRegion (2)"},
		{two, Locality{MultiHomePercent: 1}, "w.count: 1 items cannot lie in 2 homes and 1 partitions; make it at least 2"},
		// With one region, the error must not name the number of homes, because the number is a default or the workload has
		// no such field.
		{one, Locality{MultiHomePercent: 10}, "w.multiHomePercent: 10 needs two regions, the database has one; make it 0"},
		{one, Locality{MultiHomePercent: 10, HomesPerMultiHome: 2}, "w.multiHomePercent: 10 needs two regions, the database has one; make it 0"},
		{one, Locality{MultiPartitionPercent: 10}, "w.multiPartitionPercent: 10 needs two partitions per region, the database has one; make it 0"},
	} {
		err := c.l.Validate(c.top, "w")
		if err == nil {
			err = c.l.ValidateItems(c.top, "w.count", 1, "items")
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%+v in %d regions: error %v, want %q", c.l, len(c.top.Regions), err, c.want)
		}
	}
}

// Homes other than the client's are drawn by distance. With four regions, the nearest other region is drawn 6 times out
// of 11, the next 3 times, and the farthest twice.
func TestNearHomesAreDrawnMore(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a", "b", "c", "d"}, Partitions: 1, Replicas: 1}
	ms := [][]int{{0, 30, 10, 20}, {30, 0, 40, 50}, {10, 40, 0, 60}, {20, 50, 60, 0}} // nearest to a first: c, d, b
	for i := range ms {
		top.Links = append(top.Links, make([]geo.Link, len(ms)))
		for j := range ms {
			top.Links[i][j].Delay = time.Duration(ms[i][j]) * time.Millisecond / 2
		}
	}
	const draws = 60_000
	for name, c := range map[string]struct {
		ranks []v1alpha1.HomeRanks
		want  [4]float64
	}{
		"by round trips": {nil, [4]float64{0, 2. / 11, 6. / 11, 3. / 11}},
		"by ranks":       {ranks("b a c d", "a d b c", "d a b c", "c a b d"), [4]float64{0, 3. / 11, 2. / 11, 6. / 11}},
	} {
		l := Locality{MultiHomePercent: 100, OtherHomesThetaPercent: new(int32(100)), OtherHomesRanks: c.ranks}
		if err := l.Validate(top, "w"); err != nil {
			t.Fatal(err)
		}
		cells := NewCells(l, top, rand.New(rand.NewPCG(1, 2)))
		var drawn [4]int
		for range draws {
			cells.Draw(0)
			if cells.Homes() != 2 || cells.Of(0).Home != 0 {
				t.Fatalf("%d homes, the first %d", cells.Homes(), cells.Of(0).Home)
			}
			drawn[cells.Of(1).Home]++
		}
		for region, share := range c.want {
			if got := float64(drawn[region]) / draws; math.Abs(got-share) > 0.01 {
				t.Errorf("%s: region %d is drawn %.3f of the time, want %.3f", name, region, got, share)
			}
		}
	}
}
