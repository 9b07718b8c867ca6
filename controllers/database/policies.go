package database

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/deploy/netpol"
)

// admit makes the NetworkPolicies of the database, before its pods: who reaches its nodes and the workers of its
// runs. Where the operator was told nothing of the cluster, it makes none. While a change waits for a run, they are those of the nodes that
// run.
func (s *scope) admit(ctx context.Context) error {
	if s.Around == nil || s.db.Status.ActiveRun != "" && !s.upToDate() {
		return nil
	}
	for _, p := range netpol.Policies(policed(s.db), s.Around) {
		if err := kube.Ensure(ctx, s.Client, s.Live, s.db, p); err != nil {
			return err
		}
	}
	return nil
}

// policed is a database as its policies see it.
func policed(db *v1alpha1.GeoDatabase) *netpol.Database {
	pods := func(role string) map[string]string {
		return map[string]string{kube.LabelDatabase: db.Name, kube.LabelRole: role, kube.LabelManagedBy: kube.ManagedBy}
	}
	out := &netpol.Database{
		Name: db.Name, Namespace: db.Namespace, Labels: kube.DatabaseLabels(db, kube.RoleNetwork),
		Nodes: pods(kube.RoleNode), Workers: pods(kube.RoleWorker), Mesh: db.Spec.Network.Mesh,
	}
	if m := db.Status.Mesh; m != nil && (out.Mesh == "" || out.Mesh == v1alpha1.MeshAuto) {
		out.Mesh = m.Mode
	}
	if db.Spec.External != nil {
		for _, e := range db.Spec.External.Endpoints {
			if _, port, err := net.SplitHostPort(e.Address); err == nil {
				if n, err := strconv.ParseUint(port, 10, 16); err == nil && !slices.Contains(out.Endpoints, int32(n)) {
					out.Endpoints = append(out.Endpoints, int32(n))
				}
			}
		}
		slices.Sort(out.Endpoints)
	}
	if db.Spec.Pods != nil {
		for _, p := range db.Spec.Pods.Ports {
			out.Programs = append(out.Programs, p.Port)
		}
	}
	for _, role := range db.Spec.Roles { // steps of spec.init are workers, and talk to any of them
		for _, p := range role.Ports {
			if !slices.Contains(out.Programs, p.Port) {
				out.Programs = append(out.Programs, p.Port)
			}
		}
	}
	return out
}
