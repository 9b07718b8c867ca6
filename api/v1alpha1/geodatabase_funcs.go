package v1alpha1

// NodesPerRegion returns the number of nodes in each region: partitionsPerRegion x replicasPerPartition.
func (s *GeoDatabaseSpec) NodesPerRegion() int32 {
	return s.PartitionsPerRegion * s.ReplicasPerPartition
}

// RegionNames returns the names of the regions in the order of the spec.
func (s *GeoDatabaseSpec) RegionNames() []string {
	names := make([]string, len(s.Regions))
	for i, r := range s.Regions {
		names[i] = r.Name
	}
	return names
}

// RunsPrograms reports whether the pods of the database run programs that are not part of Geobench (pods or roles).
func (s *GeoDatabaseSpec) RunsPrograms() bool { return s.Pods != nil || len(s.Roles) > 0 }

// Role returns the role with the given name, or nil if there is none.
func (s *GeoDatabaseSpec) Role(name string) *Role {
	for i := range s.Roles {
		if s.Roles[i].Name == name {
			return &s.Roles[i]
		}
	}
	return nil
}

// ClientRole returns the role that clients connect to, or nil if there is none.
func (s *GeoDatabaseSpec) ClientRole() *Role {
	for i := range s.Roles {
		if s.Roles[i].Client != nil {
			return &s.Roles[i]
		}
	}
	return nil
}

// Talked reports whether the spec configures the client with which load generators connect to the programs of the
// database.
func (s *GeoDatabaseSpec) Talked() bool {
	role := s.ClientRole()
	return s.Pods != nil && s.Pods.Client != nil || role != nil && role.Client.SecretRef != nil
}

// LeaderRegion returns the region of the group's initial leader. This is Leader if it is set, else Home if Home has a
// replica, else the first region of Replicas. LeaderRegion returns "" if the group has no replicas.
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
