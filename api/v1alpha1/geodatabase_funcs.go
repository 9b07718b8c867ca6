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
