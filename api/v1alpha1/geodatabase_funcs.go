package v1alpha1

// NodesPerRegion is partitionsPerRegion x replicasPerPartition.
func (s *GeoDatabaseSpec) NodesPerRegion() int32 {
	return s.PartitionsPerRegion * s.ReplicasPerPartition
}

// RegionNames lists the regions in the order of the spec.
func (s *GeoDatabaseSpec) RegionNames() []string {
	names := make([]string, len(s.Regions))
	for i, r := range s.Regions {
		names[i] = r.Name
	}
	return names
}

// LeaderRegion is the region that leads the group at first.
func (g *ReplicaGroup) LeaderRegion() string {
	if g.Leader != "" {
		return g.Leader
	}
	for _, r := range g.Replicas {
		if r.Region == g.Home {
			return g.Home
		}
	}
	if len(g.Replicas) == 0 {
		return ""
	}
	return g.Replicas[0].Region
}
