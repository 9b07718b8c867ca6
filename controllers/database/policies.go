package database

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/deploy/netpol"
)

// admit creates the NetworkPolicies of the database, before its pods. They control access to its nodes and to the
// workers of its runs. If Around is nil, admit creates none. While a change of the spec waits for a run, the policies
// continue to match the running nodes.
func (s *scope) admit(ctx context.Context) error {
	if s.Around == nil || s.db.Status.ActiveRun != "" && !s.upToDate() {
		return nil
	}
	database := policed(s.db)
	if database.Elsewhere && len(s.Around.ExternalCIDRs) > 0 {
		if s.db.Status.ActiveRun != "" {
			return nil // names may resolve to other addresses by now, but the run continues with the original addresses
		}
		var err error
		if database.Endpoints, err = s.elsewhere(ctx); err != nil {
			return err
		}
	}
	for _, p := range netpol.Policies(database, s.Around) {
		if err := kube.Ensure(ctx, s.Client, s.Live, s.db, p); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere resolves the endpoints of an external database. It refuses an endpoint with an address outside the networks
// that the administrator permits for databases. An endpoint that does not resolve is omitted, and resolved again in the
// next reconciliation.
func (s *scope) elsewhere(ctx context.Context) (out []netip.AddrPort, err error) {
	resolve := s.Resolve
	if resolve == nil {
		resolve = net.DefaultResolver.LookupNetIP
	}
	for i, e := range s.db.Spec.External.Endpoints {
		host, port, err := net.SplitHostPort(e.Address)
		if err != nil {
			continue // the checks report this error
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			continue
		}
		found, err := resolve(ctx, "ip", host)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue
		}
		for _, address := range found {
			if !s.Around.MayBeElsewhere(address) {
				return nil, kube.Refuse("EndpointNotAllowed", "spec.external.endpoints[%d].address: %s is %s, and the operator lets workers out to databases in %s alone: name one there, or ask the administrator to add its network to networkPolicy.databases.externalCIDRs of the chart",
					i, e.Address, address.Unmap(), strings.Join(s.Around.ExternalCIDRs, ", "))
			}
			out = append(out, netip.AddrPortFrom(address.Unmap(), uint16(n)))
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out), nil
}

// policed returns the facts about a database that determine its NetworkPolicies.
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
	out.Elsewhere = db.Spec.External != nil
	if db.Spec.Pods != nil {
		for _, p := range db.Spec.Pods.Ports {
			out.Programs = append(out.Programs, p.Port)
		}
	}
	for _, role := range db.Spec.Roles { // steps of spec.init count as workers and may connect to any role
		for _, p := range role.Ports {
			if !slices.Contains(out.Programs, p.Port) {
				out.Programs = append(out.Programs, p.Port)
			}
		}
	}
	return out
}
