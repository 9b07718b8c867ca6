// Package check contains the rules for manifests that involve more than one object, or the abilities of this build. For
// example, a region must be in the profile, and the workload must fit the topology of the database. The rules are pure
// functions on typed objects with defaults. `geobench validate` and the operator's Preflight share the rules, so both
// refuse the same manifests with the same messages. The rules for single objects are in the CRDs.
//
// Each rule is a function in a list. It adds a Problem that names the field, its value and a correct value.
package check

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/servers"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Profile checks a network profile on its own.
func Profile(p *v1alpha1.NetworkProfile) Problems {
	ps := profileSpec("spec", &p.Spec)
	return ps.about("NetworkProfile", p.Name)
}

func profileSpec(path string, s *v1alpha1.NetworkProfileSpec) Problems {
	var ps Problems
	if s.Prices == nil {
		return nil
	}
	regions := s.Regions()
	for i, t := range s.Prices.Transfer {
		for _, end := range []struct{ field, region string }{{"from", t.From}, {"to", t.To}} {
			if end.region == v1alpha1.AnyRegion || slices.Contains(regions, end.region) {
				continue
			}
			ps.add(fmt.Sprintf("%s.prices.transfer[%d].%s", path, i, end.field), end.region,
				"region %s is in no link%s; the profile's regions are %s", end.region, didYouMean(end.region, regions), list(regions))
		}
	}
	return ps
}

// Database checks a database against its network profile, which is spec.network.profile or the profile named by
// profileRef.
func Database(db *v1alpha1.GeoDatabase, profile *v1alpha1.NetworkProfileSpec, a Abilities) Problems {
	db, ps := rendered(db, profile, a)
	// If pods could not be rendered, the other rules would only report consequences.
	if len(ps) > 0 {
		return ps.about("GeoDatabase", db.Name)
	}
	d := database{db, profile, a}
	for _, rule := range []func(*Problems){
		d.external,
		d.pods,
		d.roles,
		d.initSteps,
		d.programs,
		d.names,
		d.engine,
		d.emulation,
		d.regions,
		d.homes,
		d.groups,
		d.inlineProfile,
		d.machine,
	} {
		rule(&ps)
	}
	return ps.about("GeoDatabase", db.Name)
}

// rendered returns a copy of db with the pods or roles that package servers renders for its engine. It returns db
// itself if the environment has no containers or there is nothing to render.
func rendered(db *v1alpha1.GeoDatabase, profile *v1alpha1.NetworkProfileSpec, a Abilities) (*v1alpha1.GeoDatabase, Problems) {
	var ps Problems
	if !a.Pods || !servers.Renders(db) {
		return db, nil
	}
	db = db.DeepCopy()
	for _, p := range servers.Render(db, servers.Longest(db, profile)) {
		hint := ""
		if len(p.Known) > 0 {
			const path = "spec.engine.parameters."
			hint = didYouMean(strings.TrimPrefix(p.Field, path), p.Known)
		}
		ps.add(p.Field, p.Value, "%s%s", p.Message, hint)
	}
	return db, ps
}

type database struct {
	*v1alpha1.GeoDatabase
	profile *v1alpha1.NetworkProfileSpec
	Abilities
}

// external checks a database that already runs. The database must be of a supported kind, and each region must have an
// endpoint. No field that applies only to deployed nodes may be set.
func (d *database) external(ps *Problems) {
	x := d.Spec.External
	switch {
	case x == nil:
		return
	case d.Targets == nil:
		ps.add("spec.external", "", "a database that runs already cannot be simulated: use geobench run or a cluster, or remove external to deploy one of the engines %s",
			list(d.Engines.Names()))
		return
	}
	const real = "external is there already, and nobody changes it: leave %s out"
	if n := d.Spec.Network; n.Profile != nil || n.ProfileRef != nil {
		ps.add("spec.network", "", "the links to a database that is there already are real, and nobody delays them: leave network out")
	}
	if n := d.Spec.ReplicasPerPartition; n > 1 {
		ps.add("spec.replicasPerPartition", strconv.Itoa(int(n)), real, "replicasPerPartition")
	}
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"homes", len(d.Spec.Homes) > 0},
		{"groups", len(d.Spec.Groups) > 0},
		{"durability", d.Spec.Durability == v1alpha1.DurabilityJournal},
		{"resources", len(d.Spec.Resources.Limits)+len(d.Spec.Resources.Requests) > 0},
	} {
		if f.set {
			ps.add("spec."+f.field, "", real, f.field)
		}
	}
	regions := d.Spec.RegionNames()
	for i, e := range x.Endpoints {
		path := fmt.Sprintf("spec.external.endpoints[%d]", i)
		if !slices.Contains(regions, e.Region) {
			ps.add(path+".region", e.Region, "region %s is not in spec.regions%s; they are %s", e.Region, didYouMean(e.Region, regions), list(regions))
		}
		host, port, err := net.SplitHostPort(e.Address)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			ps.add(path+".address", e.Address, "%s is not host:port, with a port from 1 to 65535 and an IPv6 address in brackets", e.Address)
		} else if d.Pods && ownHost(host) {
			ps.add(path+".address", e.Address, "%s", OwnMessage(host))
		}
	}
	for i, r := range regions {
		if !slices.ContainsFunc(x.Endpoints, func(e v1alpha1.ExternalEndpoint) bool { return e.Region == r }) {
			ps.add(fmt.Sprintf("spec.regions[%d].name", i), r, "region %s has no endpoint that its clients could connect to: add {region: %s, address: host:port} to spec.external.endpoints", r, r)
		}
	}
}

// ownHost reports whether a host name refers to a different host for every client, or to no host. It does not resolve
// names, because the connecting process checks the resolved address.
func ownHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		// Host names are case-insensitive, and may end with a dot.
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return OwnAddress(ip)
}

var (
	// metadata are the addresses of clouds' metadata services that are not link-local.
	metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}
	// translated is the prefix of IPv4 addresses embedded in IPv6 (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// OwnAddress reports whether an address leads to the connecting machine itself or to the metadata service of a cloud.
func OwnAddress(ip netip.Addr) bool {
	// Mapped and translated forms of an IPv4 address lead to the same host.
	if ip = ip.Unmap().WithZone(""); translated.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || slices.Contains(metadata, ip)
}

// OwnMessage returns the message for a host that leads to an OwnAddress.
func OwnMessage(host string) string {
	return host + " leads a worker to its own pod or machine, or to a cloud's metadata: name the database by an address that pods of the cluster reach"
}

// catalog returns the catalog in which the database's engine is looked up.
func (d *database) catalog() EngineCatalog {
	switch {
	case d.Spec.External != nil:
		return d.Targets
	case d.talked():
		return d.Clients
	}
	return d.Engines
}

// talked reports whether the database is a program with a supported client.
func (d *database) talked() bool { return d.Spec.Talked() }

// names checks that objects whose names derive from regions and roles have different names.
func (d *database) names(ps *Problems) {
	if i := slices.Index(d.Spec.RegionNames(), deploy.Steward); i >= 0 {
		ps.add(fmt.Sprintf("spec.regions[%d].name", i), deploy.Steward,
			"the workers of a region with this name would be called like the Job that loads and audits the database for their run: rename the region")
	}
	if d.Spec.External != nil {
		return
	}
	taken := map[string]string{}
	for i, region := range d.Spec.RegionNames() {
		take := func(name, who string) {
			if other, ok := taken[name]; ok {
				ps.add(fmt.Sprintf("spec.regions[%d].name", i), region, "the Service of %s would be called %s, as that of %s: rename one of the regions", who, name, other)
			}
			taken[name] = who
		}
		take(deploy.GeneratorsName(d.GeoDatabase.Name, region), "the load generators of region "+region)
		last := ""
		for _, pod := range deploy.PodsIn(d.GeoDatabase, region) {
			// The pods of a set share a Service, so only the first pod of a set counts.
			if who := "region " + region; pod.Set != last {
				if pod.Role != nil {
					who = "role " + pod.Role.Name + " in " + who
				}
				take(pod.Set, who)
			}
			last = pod.Set
		}
	}
}

// engine checks that the engine and all parameters are known, and that the values are allowed.
func (d *database) engine(ps *Problems) {
	engines := d.catalog()
	// A program without a client is only deployed, so its engine may have any name.
	if d.Spec.RunsPrograms() && !d.talked() || engines == nil {
		return
	}
	name := d.Spec.Engine.Name
	e, ok := engines.Lookup(name)
	if !ok {
		names := engines.Names()
		switch _, own := d.Engines.Lookup(name); {
		case d.Spec.External != nil && own:
			ps.add("spec.engine.name", name, "engine %s is geobench's own, and runs nowhere already: leave external out to deploy it; databases that can be external are %s", name, list(names))
		case d.talked() && d.Spec.Pods == nil:
			ps.add("spec.engine.name", name, "no client of %s is built in%s; databases whose roles[].client can have a secretRef are %s: without it the database is deployed, and not measured", name, didYouMean(name, names), list(names))
		case d.talked():
			ps.add("spec.engine.name", name, "no client of %s is built in%s; programs that can have spec.pods.client are %s", name, didYouMean(name, names), list(names))
		case d.Spec.External != nil:
			ps.add("spec.engine.name", name, "no client of %s is built in%s; databases that can be external are %s", name, didYouMean(name, names), list(names))
		case !d.Pods && deployedOnly(name):
			ps.add("spec.engine.name", name, "%s needs a cluster to run in: apply the manifest to one, or use one of the engines %s", name, list(names))
		default:
			ps.add("spec.engine.name", name, "engine %s is not known%s; known engines are %s%s", name, didYouMean(name, names), list(names), d.wantsExternal(name))
		}
		return
	}
	known := make([]string, len(e.Parameters))
	for i, p := range e.Parameters {
		known[i] = p.Name
	}
	_, errs := e.Resolve(d.Spec.Engine.Parameters)
	for _, err := range errs {
		hint := ""
		if !slices.Contains(known, err.Name) {
			hint = didYouMean(err.Name, known)
		}
		ps.add("spec.engine.parameters."+err.Name, d.Spec.Engine.Parameters[err.Name], "%s%s", err.Message, hint)
	}
}

// deployedOnly reports whether the engine with this name can be measured only when it is deployed in a cluster, not as
// an external database.
func deployedOnly(name string) bool {
	_, elsewhere := targets.Elsewhere{}.Lookup(name)
	return !elsewhere && slices.Contains(servers.Names(), name)
}

// wantsExternal returns a hint about spec.external if the engine is a third-party database.
func (d *database) wantsExternal(name string) string {
	if d.Targets == nil {
		return ""
	}
	if _, ok := d.Targets.Lookup(name); !ok {
		return ""
	}
	return fmt.Sprintf("; a %s that runs already is reached by spec.external", name)
}

// emulation checks that the emulation is available, and that a congestion model is used only with Geobench's own
// connections.
func (d *database) emulation(ps *Problems) {
	if e := d.Spec.Network.Emulation; e != "" && !slices.Contains(d.Emulations, e) {
		ps.add("spec.network.emulation", string(e), "emulation %s is not available; choose one of %s", e, list(d.Emulations))
	}
	c, modelled := d.Spec.Network.Congestion, []v1alpha1.Emulation{"", v1alpha1.EmulationAuto, v1alpha1.EmulationBuiltIn}
	if c == "" || !d.Spec.RunsPrograms() && slices.Contains(modelled, d.Spec.Network.Emulation) {
		return
	}
	why := "emulation " + string(d.Spec.Network.Emulation)
	if d.Spec.RunsPrograms() {
		why = d.programsFrom()
	}
	ps.add("spec.network.congestion", string(c), "with %s connections have the congestion control of their kernel: leave congestion out, or let emulation BuiltIn delay one of Geobench's own engines", why)
}

// regions checks that each region is in the profile, and that each pair of regions has a link.
func (d *database) regions(ps *Problems) {
	if d.profile == nil || d.Spec.External != nil {
		return
	}
	known := d.profile.Regions()
	from, links := "the inline profile", "spec.network.profile.links"
	if ref := d.Spec.Network.ProfileRef; ref != nil {
		from, links = "NetworkProfile "+ref.Name, "spec.network.profileRef.name"
	}
	var names []string
	for i, r := range d.Spec.Regions {
		// A single region needs no link, so it need not be in the profile.
		if slices.Contains(known, r.Name) || len(d.Spec.Regions) == 1 {
			names = append(names, r.Name)
			continue
		}
		ps.add(fmt.Sprintf("spec.regions[%d].name", i), r.Name, "region %s is in no link of %s%s; its regions are %s",
			r.Name, from, didYouMean(r.Name, known), list(known))
	}
	for i, a := range names {
		for _, b := range names[i+1:] {
			if _, ok := d.profile.Link(a, b); !ok {
				value := ""
				if ref := d.Spec.Network.ProfileRef; ref != nil {
					value = ref.Name
				}
				ps.add(links, value, "%s has no link between %s and %s; add {from: %s, to: %s, rtt: ...} to its links", from, a, b, a, b)
			}
		}
	}
}

// homes checks that the homes are the first regions, because a home has the same number as its region.
func (d *database) homes(ps *Problems) {
	if d.Spec.RunsPrograms() && len(d.Spec.Homes) > 0 {
		ps.add("spec.homes", "", "a program in pods of its own places its rows itself; leave homes out")
		return
	}
	names := d.Spec.RegionNames()
	for i, home := range d.Spec.Homes {
		field := fmt.Sprintf("spec.homes[%d]", i)
		switch at := slices.Index(names, home); {
		case at < 0:
			ps.add(field, home, "region %s is not one of spec.regions%s; they are %s", home, didYouMean(home, names), list(names))
		case at >= len(d.Spec.Homes):
			ps.add(field, home, "the %d homes must be the first of spec.regions, which begin with %s: list regions without rows of their own behind them",
				len(d.Spec.Homes), list(names[:len(d.Spec.Homes)]))
		}
	}
}

// groups checks that homes, partitions and replicas exist, and that no partition is in two groups. The engine must also
// accept the layout.
func (d *database) groups(ps *Problems) {
	if d.Spec.RunsPrograms() && len(d.Spec.Groups) > 0 {
		ps.add("spec.groups", "", "a program in pods of its own places its rows itself; leave the groups out")
		return
	}
	before, names := len(*ps), d.Spec.RegionNames()
	region := func(field, name string) {
		if !slices.Contains(names, name) {
			ps.add(field, name, "region %s is not one of spec.regions%s; they are %s", name, didYouMean(name, names), list(names))
		}
	}
	placed := map[string]int{}
	for i, g := range d.Spec.Groups {
		path := fmt.Sprintf("spec.groups[%d].", i)
		region(path+"home", g.Home)
		if homes := d.Spec.Homes; len(homes) > 0 && slices.Contains(names, g.Home) && !slices.Contains(homes, g.Home) {
			ps.add(path+"home", g.Home, "no row calls %s home: spec.homes are %s", g.Home, list(homes))
		}
		for j, r := range g.Replicas {
			region(fmt.Sprintf("%sreplicas[%d].region", path, j), r.Region)
			if r.Count > d.Spec.ReplicasPerPartition {
				ps.add(fmt.Sprintf("%sreplicas[%d].count", path, j), strconv.Itoa(int(r.Count)),
					"a partition has %d replicas in a region: make spec.replicasPerPartition %d, or the count %d", d.Spec.ReplicasPerPartition, r.Count, d.Spec.ReplicasPerPartition)
			}
		}
		if !slices.ContainsFunc(g.Replicas, func(r v1alpha1.GroupReplicas) bool { return r.Region == g.LeaderRegion() }) {
			ps.add(path+"leader", g.Leader, "the region has no replica of the group: add it to replicas, or choose one that is there")
		}
		for _, c := range plan.Groups(&v1alpha1.GeoDatabaseSpec{Regions: d.Spec.Regions, PartitionsPerRegion: d.Spec.PartitionsPerRegion, Groups: []v1alpha1.ReplicaGroup{g}}) {
			if c.Partition >= int(d.Spec.PartitionsPerRegion) {
				ps.add(path+"partitions", strconv.Itoa(c.Partition), "there is no partition %d: spec.partitionsPerRegion is %d, and partitions count from 0", c.Partition, d.Spec.PartitionsPerRegion)
			}
			cell := fmt.Sprintf("%s/%d", g.Home, c.Partition)
			// A partition in two groups would have two sets of replicas.
			if other, twice := placed[cell]; twice {
				ps.add(path+"partitions", strconv.Itoa(c.Partition), "partition %d of %s is in spec.groups[%d] too; name it once", c.Partition, g.Home, other)
			}
			placed[cell] = i
		}
	}
	e, ok := d.Engines.Lookup(d.Spec.Engine.Name)
	// The engine may assume a consistent layout, so call it only if the checks above have passed.
	if !ok || len(*ps) > before || d.Spec.RunsPrograms() {
		return
	}
	params, errs := e.Resolve(d.Spec.Engine.Parameters)
	if len(errs) > 0 {
		return
	}
	shape := geo.Topology{Regions: names, Homes: len(d.Spec.Homes), Partitions: int(d.Spec.PartitionsPerRegion), Replicas: int(d.Spec.ReplicasPerPartition), Groups: plan.Groups(&d.Spec)}
	var refused *protocol.TopologyError
	if err := e.Accepts(&shape, params); errors.As(err, &refused) {
		ps.add(refused.Field, refused.Value, "%s", refused.Message)
	}
}

// inlineProfile checks an inline profile by the rules for a NetworkProfile.
func (d *database) inlineProfile(ps *Problems) {
	if d.Spec.Network.Profile != nil {
		*ps = append(*ps, profileSpec("spec.network.profile", d.Spec.Network.Profile)...)
	}
}

// about sets the object of all problems.
func (ps Problems) about(kind, name string) Problems {
	for i := range ps {
		ps[i].Object = kind + " " + name
	}
	return ps
}

// As returns the Problems in an error, if there are any.
func As(err error) (Problems, bool) {
	var ps Problems
	ok := errors.As(err, &ps)
	return ps, ok
}

func list[T ~string](names []T) string {
	if len(names) == 0 {
		return "none"
	}
	s := make([]string, len(names))
	for i, n := range names {
		s[i] = string(n)
	}
	return strings.Join(s, ", ")
}
