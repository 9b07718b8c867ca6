// Package plan converts manifests into the input of drivers: a topology, an engine with its parameters, a workload and
// a load. The operator, geobench run and geobench simulate share this package, so that a manifest always has the same
// meaning.
package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// MissingLinkError reports that a profile lacks the round-trip time between two regions.
type MissingLinkError struct{ From, To string }

func (e *MissingLinkError) Error() string {
	return fmt.Sprintf("the network profile has no link between %s and %s; add one with its rtt", e.From, e.To)
}

// Topology places a database on a network profile. A link's round-trip time is split into two halves, one per
// direction. If the profile also lists the reverse pair, each direction takes half of its own round-trip time. Jitter
// is the standard deviation of the round trip. Variances add up, so the jitter of each direction is 1/sqrt(2) of the
// jitter of the round trip.
func Topology(db *v1alpha1.GeoDatabaseSpec, profile *v1alpha1.NetworkProfileSpec) (geo.Topology, error) {
	t := geo.Topology{Homes: len(db.Homes), Partitions: int(db.PartitionsPerRegion), Replicas: int(db.ReplicasPerPartition)}
	declared := make(map[[2]string]geo.Link, len(profile.Links))
	for _, l := range profile.Links {
		declared[[2]string{l.From, l.To}] = oneWay(l.RTT.Duration, l.Jitter.Duration, int64(l.LossPPM), int64(l.BandwidthMbps))
	}
	Places(&t, db)
	intra := oneWay(profile.IntraRegion.RTT.Duration, profile.IntraRegion.Jitter.Duration, 0, 0)
	for _, r := range db.Regions {
		t.Regions = append(t.Regions, r.Name)
	}
	for _, a := range t.Regions {
		var row []geo.Link
		for _, b := range t.Regions {
			l, ok := declared[[2]string{a, b}]
			if !ok {
				// A link that is listed in only one direction applies to both directions.
				l, ok = declared[[2]string{b, a}]
			}
			// A profile may override the network within a region by a link to itself.
			if !ok && a == b {
				l, ok = intra, true
			}
			if !ok && db.External == nil { // links of a database that runs elsewhere are not declared
				return t, &MissingLinkError{a, b}
			}
			if c := db.Network.Congestion; c != v1alpha1.CongestionOpen {
				l.Congestion = geo.Congestion(c)
			}
			row = append(row, l)
		}
		t.Links = append(t.Links, row)
	}
	t.Groups = Groups(db)
	return t, t.Validate()
}

// Places adds the places of pods to the topology of a database with roles. Each region gets as many places as the
// region with the most pods; unused places are absent. Places does nothing for a database without roles.
func Places(t *geo.Topology, spec *v1alpha1.GeoDatabaseSpec) {
	if len(spec.Roles) == 0 {
		return
	}
	db := &v1alpha1.GeoDatabase{Spec: *spec}
	t.Replicas = deploy.MostPods(db)
	for r, region := range spec.RegionNames() {
		for i := len(deploy.PodsIn(db, region)); i < t.Replicas; i++ {
			t.Absent = append(t.Absent, geo.NodeID(r*t.Replicas+i))
		}
	}
}

// Groups converts spec.groups, which must have been checked, into groups of cells.
func Groups(db *v1alpha1.GeoDatabaseSpec) (groups []geo.CellGroup) {
	names := geo.Topology{Regions: db.RegionNames()}
	for _, g := range db.Groups {
		replicas := make([]int, len(names.Regions))
		for _, r := range g.Replicas {
			if i := names.Index(r.Region); i >= 0 {
				replicas[i] = int(r.Count)
			}
		}
		home := names.Index(g.Home)
		leader := names.Index(g.LeaderRegion())
		partitions := g.Partitions
		// An empty list stands for all partitions.
		if len(partitions) == 0 {
			for p := range db.PartitionsPerRegion {
				partitions = append(partitions, p)
			}
		}
		for _, p := range partitions {
			groups = append(groups, geo.CellGroup{Cell: geo.Cell{Home: home, Partition: int(p)}, Replicas: replicas, Leader: leader})
		}
	}
	return groups
}

func oneWay(rtt, jitter time.Duration, lossPPM, mbps int64) geo.Link {
	return geo.Link{
		Delay:         rtt / 2,
		Jitter:        time.Duration(float64(jitter) / math.Sqrt2),
		LossPPM:       lossPPM,
		BandwidthMbps: mbps,
	}
}
