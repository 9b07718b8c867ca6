package plan

import (
	"errors"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

func ms(n int) v1alpha1.Duration { return v1alpha1.DurationOf(time.Duration(n) * time.Millisecond) }

func TestTopologyFromProfile(t *testing.T) {
	profile := &v1alpha1.NetworkProfileSpec{
		IntraRegion: v1alpha1.IntraRegion{RTT: ms(2)},
		Links: []v1alpha1.Link{
			{From: "a", To: "b", RTT: ms(100), Jitter: ms(10), LossPPM: 7, BandwidthMbps: 9},
			{From: "a", To: "c", RTT: ms(60)},
			{From: "c", To: "a", RTT: ms(80)},
			{From: "c", To: "b", RTT: ms(30)},
			{From: "c", To: "c", RTT: ms(4)},
		},
	}
	db := &v1alpha1.GeoDatabaseSpec{PartitionsPerRegion: 2, ReplicasPerPartition: 1,
		Regions: []v1alpha1.Region{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	top, err := Topology(db, profile)
	if err != nil {
		t.Fatal(err)
	}
	delays := map[[2]geo.Region]time.Duration{
		{0, 0}: time.Millisecond,      // intraRegion
		{2, 2}: 2 * time.Millisecond,  // a link to itself overrides it
		{0, 1}: 50 * time.Millisecond, // half of the round trip
		{1, 0}: 50 * time.Millisecond, // symmetric
		{0, 2}: 30 * time.Millisecond, // both directions are listed: half of each direction's own time
		{2, 0}: 40 * time.Millisecond,
		{1, 2}: 15 * time.Millisecond,
	}
	for pair, want := range delays {
		if got := top.Links[pair[0]][pair[1]].Delay; got != want {
			t.Errorf("%s -> %s: delay %v, want %v", top.Regions[pair[0]], top.Regions[pair[1]], got, want)
		}
	}
	if l := top.Links[1][0]; l.LossPPM != 7 || l.BandwidthMbps != 9 || l.Jitter.Round(10*time.Microsecond) != 7070*time.Microsecond {
		t.Errorf("b -> a is %+v; loss, bandwidth and 1/sqrt(2) of the jitter of a -> b belong to it", l)
	}

	db.Homes = []string{"a", "b"}
	if top, err = Topology(db, profile); err != nil || top.Homes != 2 || top.Placement().Cells() != 4 {
		t.Errorf("two homes of two partitions: %d homes, %d cells (%v)", top.Homes, top.Placement().Cells(), err)
	}

	db.Regions = append(db.Regions, v1alpha1.Region{Name: "d"})
	var missing *MissingLinkError
	if _, err := Topology(db, profile); !errors.As(err, &missing) || missing.From != "a" || missing.To != "d" {
		t.Errorf("a region without links: %v", err)
	}
}

func TestPrices(t *testing.T) {
	if Prices(nil) != nil {
		t.Error("no price table must stand for the default one")
	}
	p := Prices(&v1alpha1.Prices{Currency: "EUR", NodePerHourMicros: 500_000, Transfer: []v1alpha1.TransferPrice{
		{From: "a", To: "*", PerGBMicros: 20_000}, {From: "a", To: "b", PerGBMicros: 10_000},
	}})
	for to, want := range map[string]int64{"b": 10_000, "c": 20_000} {
		if got := p.Transfer("a", to); got != want {
			t.Errorf("a -> %s costs %d, want %d", to, got, want)
		}
	}
	if p.Transfer("b", "a") != 0 || p.Currency != "EUR" {
		t.Errorf("b -> a costs %d %s", p.Transfer("b", "a"), p.Currency)
	}
}
