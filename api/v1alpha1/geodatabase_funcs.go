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

// RunsPrograms reports whether the database's pods run programs that know nothing of Geobench.
func (s *GeoDatabaseSpec) RunsPrograms() bool { return s.Pods != nil || len(s.Roles) > 0 }

// Role is the role of that name; nil when there is none.
func (s *GeoDatabaseSpec) Role(name string) *Role {
	for i := range s.Roles {
		if s.Roles[i].Name == name {
			return &s.Roles[i]
		}
	}
	return nil
}

// ClientRole is the role that clients connect to; nil when there is none.
func (s *GeoDatabaseSpec) ClientRole() *Role {
	for i := range s.Roles {
		if s.Roles[i].Client != nil {
			return &s.Roles[i]
		}
	}
	return nil
}

// Talked reports whether the database is a program for which the spec configures a client of the load generators.
func (s *GeoDatabaseSpec) Talked() bool {
	role := s.ClientRole()
	return s.Pods != nil && s.Pods.Client != nil || role != nil && role.Client.SecretRef != nil
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
