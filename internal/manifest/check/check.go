// Package check holds the rules about manifests that need more than one object, or knowledge of what this build can do:
// whether a region is in the profile, whether the engine has such a parameter, whether the workload fits the shape of the
// database. They are pure functions on typed, defaulted objects, shared by `geobench validate` and the operator's Preflight, so that
// both refuse the same manifests with the same words. Rules about one object alone are in the CRDs.
//
// Each rule is one function of a chain, and adds a Problem that names the field, its value and what would be right.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/deploy/servers"
	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/fault"
	"github.com/geobench/geobench/internal/functional"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/protocol"
	targets "github.com/geobench/geobench/internal/target/catalog"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/workload/catalog"
)

// EngineCatalog is the engines that can be deployed.
type EngineCatalog interface {
	// Names of all engines, sorted.
	Names() []string
	// Lookup an engine by name.
	Lookup(name string) (*protocol.Engine, bool)
}

// Abilities say what the place that runs the manifests can do.
type Abilities struct {
	// Engines that can be deployed.
	Engines EngineCatalog
	// Targets are the databases of others that can be reached by spec.external; nil for none.
	Targets EngineCatalog
	// Pods: databases that are programs of any image can be deployed. Clients are those of them that can be talked to, by
	// spec.pods.client.
	Pods    bool
	Clients EngineCatalog
	// Emulations that work, Auto included.
	Emulations []v1alpha1.Emulation
	// Verifications that work.
	Verifications []v1alpha1.Verification
	// Faults that can be injected, as the fields of a fault are called.
	Faults []string
	// Timeline is the most that a run may measure, all repetitions together; 0 is without limit.
	Timeline time.Duration
	// Machine is the one that runs all nodes; the zero value for nodes that have machines or containers of their own.
	Machine Machine
	// History limits recorded and checked histories.
	History HistoryLimits
	// RealTime: what is not emulated is real, so that no fault can change the links of a database with emulation None.
	RealTime bool
	// Place names who runs the manifests, for messages: geobench run, for example. Empty is anybody.
	Place string
}

// Default is what a cluster can do: the given engines (nil: those of package engines), programs of any image, every way of
// network emulation, and every verification.
func Default(engines EngineCatalog) Abilities {
	if engines == nil {
		engines = builtEngines{}
	}
	return Abilities{
		Engines:    engines,
		Pods:       true,
		Clients:    targets.Targets{},
		Targets:    targets.Elsewhere{},
		Emulations: []v1alpha1.Emulation{v1alpha1.EmulationAuto, v1alpha1.EmulationChaosMesh, v1alpha1.EmulationSidecar, v1alpha1.EmulationBuiltIn, v1alpha1.EmulationNone},
		Verifications: []v1alpha1.Verification{
			v1alpha1.VerifyInvariants, v1alpha1.VerifyIsolation, v1alpha1.VerifyReadCommitted, v1alpha1.VerifySnapshotIsolation, v1alpha1.VerifySessionSnapshotIsolation,
			v1alpha1.VerifyStrongSnapshotIsolation, v1alpha1.VerifySerializable, v1alpha1.VerifySessionSerializable,
			v1alpha1.VerifyStrictSerializable, v1alpha1.VerifyConvergence,
		},
		Faults:   fault.ClusterKinds,
		Timeline: 6 * time.Hour, // longer ones would be reported in minutes: see result.Resolution
		History:  HistoryLimits{FileBytes: deploy.MaxHistory},
		Place:    "the operator",
	}
}

// local is what Default can but for containers. Every emulation but None is that of the links of
// the simulator or the process.
func local(engines EngineCatalog, place string, faults []string) Abilities {
	a := Default(engines)
	a.Pods, a.Clients, a.Targets = false, nil, nil
	a.Faults, a.Timeline, a.History, a.Place = faults, 0, HistoryLimits{}, place
	return a
}

// Simulator is what geobench simulate can do: every fault, too.
func Simulator(engines EngineCatalog) Abilities {
	return local(engines, "geobench simulate", fault.SimulatorKinds)
}

// Process is what geobench run can do.
func Process(engines EngineCatalog) Abilities {
	a := local(engines, "geobench run", fault.BuiltInKinds)
	a.RealTime, a.Targets = true, targets.Elsewhere{}
	return a
}

// Isolation is what geobench isolation can do: it plays engines in the simulator, and databases that run already.
func Isolation(engines EngineCatalog) Abilities {
	a := local(engines, "geobench isolation", fault.SimulatorKinds)
	a.Targets = targets.Elsewhere{}
	return a
}

// Target is what can be done with a database that runs already and is not geobench's: it is loaded, measured and verified, and
// no fault is injected into it.
func Target() Abilities {
	return local(nil, "a target, whose nodes are not geobench's", nil)
}

type builtEngines struct{}

func (builtEngines) Names() []string                             { return engines.Names() }
func (builtEngines) Lookup(name string) (*protocol.Engine, bool) { return engines.Lookup(name) }

// Profile checks a network profile by itself.
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

// Database checks a database against its network profile (spec.network.profile, or the one that profileRef names).
func Database(db *v1alpha1.GeoDatabase, profile *v1alpha1.NetworkProfileSpec, a Abilities) Problems {
	db, ps := rendered(db, profile, a)
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

// rendered is the database with the pods that its engine's name stands for, where there are containers.
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

// external: a database that already runs is of a kind that can be reached, each region has an endpoint, and nothing is asked of it
// that is said of nodes which geobench deploys.
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

// ownHost tells whether a host is another one for everybody who asks, or none. What a name resolves to is found out by who connects.
func ownHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return OwnAddress(ip)
}

var (
	// metadata are where clouds tell a machine who it is, beside link-local addresses.
	metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}
	// translated are IPv4 addresses in IPv6 (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// OwnAddress tells whether an address leads whoever connects to it to itself, or to the metadata of a cloud.
func OwnAddress(ip netip.Addr) bool {
	if ip = ip.Unmap().WithZone(""); translated.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || slices.Contains(metadata, ip)
}

// OwnMessage says what is wrong with a host that leads to an OwnAddress.
func OwnMessage(host string) string {
	return host + " leads a worker to its own pod or machine, or to a cloud's metadata: name the database by an address that pods of the cluster reach"
}

// catalog is where the engine's name is looked up.
func (d *database) catalog() EngineCatalog {
	switch {
	case d.Spec.External != nil:
		return d.Targets
	case d.talked():
		return d.Clients
	}
	return d.Engines
}

// talked: it is a program that clients can talk to.
func (d *database) talked() bool { return d.Spec.Talked() }

// pods: there are containers here, and the program takes its parameters from them.
func (d *database) pods(ps *Problems) {
	if d.Spec.Pods == nil {
		return
	}
	if !d.Pods {
		ps.add("spec.pods", d.Spec.Pods.Image, "image %s needs a cluster to run in: apply the manifest to one, or remove pods to use one of the engines %s",
			d.Spec.Pods.Image, list(d.Engines.Names()))
	}
	if d.talked() {
		d.client("spec.pods.client", &d.Spec.Pods.Client.ProgramClient, ps)
	}
	for name, value := range d.Spec.Engine.Parameters {
		if d.talked() {
			break // they are those of its clients
		}
		ps.add("spec.engine.parameters."+name, value, "a program in pods of its own has no parameters here: set them by spec.pods.args or spec.pods.env")
	}
	distinctPaths("spec.pods", &d.Spec.Pods.Program, ps)
}

// client: clients are sent to a region and a database that are there.
func (d *database) client(field string, c *v1alpha1.ProgramClient, ps *Problems) {
	if regions := d.Spec.RegionNames(); c.Region != "" && !slices.Contains(regions, c.Region) {
		ps.add(field+".region", c.Region, "region %s is not in spec.regions%s; they are %s", c.Region, didYouMean(c.Region, regions), list(regions))
	}
	if !d.talked() {
		return
	}
	must, may := targets.Databases(d.Spec.Engine.Name)
	switch name := c.Database; {
	case must && name == "":
		ps.add(field+".database", "", "a server of %s has no database of its own accord: name one that is there, whose user the Secret has", d.Spec.Engine.Name)
	case !may && name != "":
		ps.add(field+".database", name, "%s has no databases: leave it out", d.Spec.Engine.Name)
	}
}

func distinctPaths(field string, p *v1alpha1.Program, ps *Problems) {
	paths := map[string]string{}
	for i, v := range p.Volumes {
		if other, ok := paths[v.MountPath]; ok {
			ps.add(fmt.Sprintf("%s.volumes[%d].mountPath", field, i), v.MountPath, "volume %s is mounted at %s too; choose another path", other, v.MountPath)
		}
		paths[v.MountPath] = v.Name
	}
}

// programs: nothing is asked of programs that know nothing of Geobench which only its own nodes can do.
func (d *database) programs(ps *Problems) {
	if !d.Spec.RunsPrograms() {
		return
	}
	from := d.programsFrom()
	if d.Spec.Network.Emulation == v1alpha1.EmulationBuiltIn {
		ps.add("spec.network.emulation", string(v1alpha1.EmulationBuiltIn), "emulation BuiltIn is inside the connections of Geobench's own engines; with %s choose Sidecar, ChaosMesh, None or Auto", from)
	}
	for i := range d.Spec.Roles {
		if role := &d.Spec.Roles[i]; role.ServicePerPod && d.Spec.Network.Emulation == v1alpha1.EmulationChaosMesh {
			ps.add("spec.network.emulation", string(v1alpha1.EmulationChaosMesh), "ChaosMesh delays packets to the addresses of pods, and those of role %s are reached by Services of their own (servicePerPod): choose Sidecar, None or Auto", role.Name)
		}
	}
	if d.Spec.Durability == v1alpha1.DurabilityJournal {
		volumes := "spec.pods.volumes"
		if d.Spec.Pods == nil {
			volumes = "spec.roles[].volumes"
		}
		ps.add("spec.durability", string(v1alpha1.DurabilityJournal), "the nodes of Geobench's own engines keep journals; a program in pods of its own keeps what it keeps: use durability None, and %s for its files", volumes)
	}
	d.hosts(ps)
}

// programsFrom is the field that says what the pods run.
func (d *database) programsFrom() string {
	if d.Spec.Pods != nil {
		return "spec.pods"
	}
	return "spec.roles"
}

// hosts: their lists fit into variables of the environment, or no program would start.
func (d *database) hosts(ps *Problems) {
	const most = 128 << 10 // of Linux: MAX_ARG_STRLEN
	db := d.DeepCopy()
	db.Namespace = cmp.Or(d.Namespace, "default")
	longest := func(role *v1alpha1.Role) (name string, length int) {
		for _, v := range deploy.HostVariables(db, role) {
			if n := len(v.Name) + len("=") + len(v.Value) + 1; n > length { // and a byte that ends it
				name, length = v.Name, n
			}
		}
		return name, length
	}
	nodes := len(deploy.Pods(db))
	if len(db.Spec.Roles) == 0 {
		if variable, length := longest(nil); length > most {
			ps.add("spec.partitionsPerRegion", strconv.Itoa(int(d.Spec.PartitionsPerRegion)),
				"the list of %d hosts that programs find in %s has %d bytes, and a variable can have %d: at most some %d nodes are possible with spec.pods", nodes, variable, length, most, nodes*most/length)
		}
	}
	for i := range db.Spec.Roles {
		if variable, length := longest(&db.Spec.Roles[i]); length > most {
			ps.add(fmt.Sprintf("spec.roles[%d]", i), db.Spec.Roles[i].Name,
				"the hosts that its programs find in %s have %d bytes, and a variable can have %d: take fewer pods, or a shorter format", variable, length, most)
			return // the others have the same lists
		}
	}
}

// roles: those that are named are there, none waits for one that waits for it, and clients know where to go.
func (d *database) roles(ps *Problems) {
	if len(d.Spec.Roles) == 0 {
		return
	}
	if !d.Pods {
		ps.add("spec.roles", d.Spec.Roles[0].Image, "image %s needs a cluster to run in: apply the manifest to one, or remove roles to use one of the engines %s",
			d.Spec.Roles[0].Image, list(d.Engines.Names()))
	}
	for name, value := range d.Spec.Engine.Parameters {
		if d.talked() {
			break // they are those of its clients
		}
		ps.add("spec.engine.parameters."+name, value, "a database of several roles has no parameters here: set them by the args or env of spec.roles; those of its clients it has with roles[].client.secretRef")
	}
	client := ""
	for i := range d.Spec.Roles {
		r, path := &d.Spec.Roles[i], fmt.Sprintf("spec.roles[%d]", i)
		distinctPaths(path, &r.Program, ps)
		for j, a := range r.After {
			d.isRole(ps, fmt.Sprintf("%s.after[%d].role", path, j), a.Role)
		}
		for j, l := range r.Lists {
			if l.Role != "" {
				d.isRole(ps, fmt.Sprintf("%s.lists[%d].role", path, j), l.Role)
			}
		}
		switch {
		case r.Client != nil && client != "":
			ps.add(path+".client", "", "clients connect to role %s already: they go to one role", client)
		case r.Client != nil:
			client = r.Name
			d.roleClient(path+".client", i, ps)
		}
		if circle := d.circle(r.Name); len(circle) > 0 && circle[0] == slices.Min(circle) && circle[0] == r.Name {
			ps.add(path+".after", "", "roles wait for each other for ever: %s; take one of them out of after", strings.Join(append(circle, circle[0]), " after "))
		}
	}
}

// roleClient: the role has pods where its clients are sent, and what only clients that have a Secret need is not said without one.
func (d *database) roleClient(field string, role int, ps *Problems) {
	r := &d.Spec.Roles[role]
	c := r.Client
	before := len(*ps)
	d.client(field, &c.ProgramClient, ps)
	if c.SecretRef == nil && c.Database != "" {
		ps.add(field+".database", c.Database, "nobody uses it without %s.secretRef, which lets BenchmarkRuns measure the database: set that, too, or leave database out", field)
	}
	if len(*ps) == before && c.Region != "" && !deploy.InRegion(r, slices.Index(d.Spec.RegionNames(), c.Region)) {
		ps.add(field+".region", c.Region, "role %s has no pods there, but in the first %d regions alone: name one of them, or raise firstRegions", r.Name, *r.FirstRegions)
	}
}

// isRole: a role of that name is there.
func (d *database) isRole(ps *Problems, field, name string) {
	var names []string
	for i := range d.Spec.Roles {
		names = append(names, d.Spec.Roles[i].Name)
	}
	if !slices.Contains(names, name) {
		ps.add(field, name, "there is no role %s%s; the roles are %s", name, didYouMean(name, names), list(names))
	}
}

// circle is a way from a role over those that it waits for back to it, or nothing.
func (d *database) circle(start string) []string {
	seen := map[string]bool{}
	var walk func(name string) []string
	walk = func(name string) []string {
		role := d.Spec.Role(name)
		if role == nil || seen[name] {
			return nil
		}
		seen[name] = true
		for _, a := range role.After {
			switch {
			case a.Role == name: // the first of its own
			case a.Role == start:
				return []string{name}
			default:
				if rest := walk(a.Role); rest != nil {
					return append([]string{name}, rest...)
				}
			}
		}
		return nil
	}
	return walk(start)
}

// initSteps: their roles and regions are there.
func (d *database) initSteps(ps *Problems) {
	regions := d.Spec.RegionNames()
	for i, step := range d.Spec.Init {
		d.isRole(ps, fmt.Sprintf("spec.init[%d].role", i), step.Role)
		if step.Region != "" && !slices.Contains(regions, step.Region) {
			ps.add(fmt.Sprintf("spec.init[%d].region", i), step.Region, "region %s is not in spec.regions%s; they are %s", step.Region, didYouMean(step.Region, regions), list(regions))
		}
	}
}

// names: no two of the objects that are named after regions and roles have the same name.
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

// engine: its name and each of its parameters are known, and the values allowed.
func (d *database) engine(ps *Problems) {
	engines := d.catalog()
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

// deployedOnly tells whether clusters deploy a database by its name, and nobody measures one that runs elsewhere.
func deployedOnly(name string) bool {
	_, elsewhere := targets.Elsewhere{}.Lookup(name)
	return !elsewhere && slices.Contains(servers.Names(), name)
}

// wantsExternal says what is missing where the engine is a database of others.
func (d *database) wantsExternal(name string) string {
	if d.Targets == nil {
		return ""
	}
	if _, ok := d.Targets.Lookup(name); !ok {
		return ""
	}
	return fmt.Sprintf("; a %s that runs already is reached by spec.external", name)
}

// emulation: the backend works here, and what only our own connections can do is asked of them.
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

// regions: each is in the profile, and so is the link between each two.
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

// homes: they are the first regions, so that the number of a region is that of its home.
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

// groups: homes, partitions and replicas are there, no partition is placed twice, and the engine can take the layout.
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
			if other, twice := placed[cell]; twice {
				ps.add(path+"partitions", strconv.Itoa(c.Partition), "partition %d of %s is in spec.groups[%d] too; name it once", c.Partition, g.Home, other)
			}
			placed[cell] = i
		}
	}
	e, ok := d.Engines.Lookup(d.Spec.Engine.Name)
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

// inlineProfile: it obeys the rules of a NetworkProfile.
func (d *database) inlineProfile(ps *Problems) {
	if d.Spec.Network.Profile != nil {
		*ps = append(*ps, profileSpec("spec.network.profile", d.Spec.Network.Profile)...)
	}
}

// Run checks a run against its database, which has no problems of its own.
func Run(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, a Abilities) Problems {
	if t := Target(); db.Spec.External != nil {
		a.Faults, a.Place = t.Faults, t.Place
	}
	db, _ = rendered(db, nil, a) // how long its servers wait for each other is no matter here
	r := benchmarkRun{run, db, a}
	var ps Problems
	for _, rule := range []func(*Problems){
		r.target,
		r.workload,
		r.deadline,
		r.timeline,
		r.objectives,
		r.faults,
		r.verify,
		r.history,
		r.functionalTests,
	} {
		rule(&ps)
	}
	return ps.about("BenchmarkRun", run.Name)
}

type benchmarkRun struct {
	*v1alpha1.BenchmarkRun
	db *v1alpha1.GeoDatabase
	Abilities
}

// target: the load generators can talk to the database.
func (r *benchmarkRun) target(ps *Problems) {
	d := database{GeoDatabase: r.db, Abilities: r.Abilities}
	if c := r.Spec.Load.Coordinator; c != "" && (r.db.Spec.RunsPrograms() || r.db.Spec.External != nil) {
		ps.add("spec.load.coordinator", string(c), "clients choose among the nodes of Geobench's own engines; those of GeoDatabase %s have the connections that it gives them: leave coordinator out", r.db.Name)
	}
	if sb := r.Spec.Workload.SmallBank; sb != nil && sb.PaddingBytes > 0 && (r.db.Spec.RunsPrograms() || r.db.Spec.External != nil) {
		ps.add("spec.workload.smallbank.paddingBytes", strconv.Itoa(int(sb.PaddingBytes)), "messages of Geobench's own engines alone can be padded, and GeoDatabase %s has messages of its own: leave paddingBytes out, or name a database with one of the engines %s",
			r.db.Name, list(r.Engines.Names()))
	}
	if !r.db.Spec.RunsPrograms() && (r.db.Spec.External == nil || !r.Pods) || len(Database(r.db, nil, r.Abilities)) > 0 {
		return
	}
	if name := r.db.Spec.Engine.Name; r.db.Spec.RunsPrograms() && !d.talked() && deployedOnly(name) {
		why := ""
		if f := servers.FactsOf(name); f != nil && f.Unmeasured != "" {
			why = ": " + f.Unmeasured
		}
		ps.add("spec.databaseRef.name", r.db.Name, "GeoDatabase %s is %s, of which no client is built in%s; it is deployed over the emulated network (untested), and cannot be loaded; name a database of %s, or with one of the engines %s",
			r.db.Name, name, why, list(r.Clients.Names()), list(r.Engines.Names()))
		return
	}
	if len(r.db.Spec.Roles) > 0 && !d.talked() {
		ps.add("spec.databaseRef.name", r.db.Name, "GeoDatabase %s has roles, and does not say how load generators talk to it: set client.secretRef of one of its spec.roles, for one of %s, or name a database with one of the engines %s",
			r.db.Name, list(r.Clients.Names()), list(r.Engines.Names()))
		return
	}
	if r.db.Spec.Pods != nil && !d.talked() {
		ps.add("spec.databaseRef.name", r.db.Name, "GeoDatabase %s runs a program of its own, and does not say how load generators talk to it: set its spec.pods.client, for one of %s, or name a database with one of the engines %s",
			r.db.Name, list(r.Clients.Names()), list(r.Engines.Names()))
		return
	}
	engine, ok := d.catalog().Lookup(r.db.Spec.Engine.Name)
	if !ok {
		return
	}
	params, errs := engine.Resolve(r.db.Spec.Engine.Parameters)
	if len(errs) > 0 {
		return
	}
	if name, with := r.Spec.Workload.Name(), catalog.WithSQL(); targets.WantsSQL(engine.Name, params) && !slices.Contains(with, name) {
		ps.add("spec.workload", name, "the workload has no SQL of its own, and GeoDatabase %s has spec.engine.parameters.form: %s: leave that out, or take one of %s",
			r.db.Name, sqltarget.FormSQL, list(with))
	}
	if sb := r.Spec.Workload.SmallBank; sb != nil && sb.DependentPercent > 0 && targets.WantsSQL(engine.Name, params) {
		ps.add("spec.workload.smallbank.dependentPercent", strconv.Itoa(int(sb.DependentPercent)), "transactions that are not split into phases have no SQL of their own, and GeoDatabase %s has spec.engine.parameters.form: %s: make it 0, or leave form out",
			r.db.Name, sqltarget.FormSQL)
	}
	if n := targets.Connections(params); n > 0 && int(r.Spec.Load.WorkersPerRegion) > n {
		ps.add("spec.load.workersPerRegion", strconv.Itoa(int(r.Spec.Load.WorkersPerRegion)), "%d workers share the %d connections that the clients of a region have: take at most as many workers, or raise spec.engine.parameters.connections of GeoDatabase %s",
			r.Spec.Load.WorkersPerRegion, n, r.db.Name)
	}
}

// workload: it fits the regions and partitions of the database.
func (r *benchmarkRun) workload(ps *Problems) {
	shape := geo.Topology{
		Regions:    r.db.Spec.RegionNames(),
		Partitions: int(r.db.Spec.PartitionsPerRegion),
		Replicas:   int(r.db.Spec.ReplicasPerPartition),
	}
	if sb := r.Spec.Workload.SmallBank; sb != nil {
		r.sunflower(ps, sb)
		if len(*ps) > 0 {
			return
		}
	}
	w, err := catalog.New(r.Spec.Workload, uint64(r.Spec.Seed), &shape)
	if err != nil {
		*ps = append(*ps, fromError(err))
		return
	}
	r.memory(ps, w)
}

func (r *benchmarkRun) sunflower(ps *Problems, sb *v1alpha1.SmallBank) {
	regions := r.db.Spec.RegionNames()
	for i, s := range sb.Sunflower {
		if !slices.Contains(regions, s.Region) {
			ps.add(fmt.Sprintf("spec.workload.smallbank.sunflower[%d].region", i), s.Region, "region %s is not in GeoDatabase %s%s; its regions are %s",
				s.Region, r.db.Name, didYouMean(s.Region, regions), list(regions))
		}
	}
}

// fromError splits the "field: message" of a workload's own checks.
func fromError(err error) Problem {
	field, message, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.ContainsAny(field, " ") {
		return Problem{Field: "spec.workload", Message: err.Error()}
	}
	return Problem{Field: field, Message: message}
}

// deadline: the load fits into it.
func (r *benchmarkRun) deadline(ps *Problems) {
	l := &r.Spec.Load
	takes := v1alpha1.DurationOf(load.PlanOf(*l, 0).LastWindow())
	if d := r.Spec.Deadline; d != nil && d.Duration <= takes.Duration {
		ps.add("spec.deadline", d.String(), "deadline %s is not longer than the load takes: %d x (warmup %s + duration %s) and the pauses between are %s; leave the deadline out for %s more than that",
			d, l.Repetitions, l.Warmup, l.Duration, takes, v1alpha1.DurationOf(v1alpha1.DeadlineMargin))
	}
}

// timeline: what is measured fits into a result.
func (r *benchmarkRun) timeline(ps *Problems) {
	l := &r.Spec.Load
	if total := l.Duration.Duration * time.Duration(l.Repetitions); r.Timeline > 0 && total > r.Timeline {
		ps.add("spec.load.duration", l.Duration.String(), "%s x repetitions %d is %s; a result holds at most %s of timeline: take a shorter duration or fewer repetitions",
			l.Duration, l.Repetitions, v1alpha1.DurationOf(total), v1alpha1.DurationOf(r.Timeline))
	}
}

// objectives: each names a transaction of the workload that runs, a region of the database, and bounds that can hold.
func (r *benchmarkRun) objectives(ps *Problems) {
	types, regions := catalog.TypesOf(r.Spec.Workload), r.db.Spec.RegionNames()
	for i := range r.Spec.Objectives {
		o := &r.Spec.Objectives[i]
		path := fmt.Sprintf("spec.objectives[%d]", i)
		switch why := catalog.Never(r.Spec.Workload, o.Transaction); {
		case o.Transaction == "":
		case !slices.Contains(types, o.Transaction):
			ps.add(path+".transaction", o.Transaction, "workload %s has no transaction %s%s; it has %s",
				r.Spec.Workload.Name(), o.Transaction, didYouMean(o.Transaction, types), list(types))
		case why != "":
			ps.add(path+".transaction", o.Transaction, "%s never runs: %s", o.Transaction, why)
		}
		if o.Region != "" && !slices.Contains(regions, o.Region) {
			ps.add(path+".region", o.Region, "region %s is not in GeoDatabase %s%s; its regions are %s",
				o.Region, r.db.Name, didYouMean(o.Region, regions), list(regions))
		}
		lo, hi, err := o.Limits()
		switch {
		case err != nil:
			field, _, _ := strings.Cut(err.Error(), ":")
			ps.add(path+"."+field, "", "%s", strings.TrimPrefix(err.Error(), field+": "))
		case lo != nil && hi != nil && *lo > *hi:
			ps.add(path+".min", o.Min.String(), "min %s is greater than max (%s): no value can hold", o.Min.String(), o.Max.String())
		case (o.Metric == v1alpha1.MetricAbortPPM || o.Metric == v1alpha1.MetricUnknownPPM) && lo != nil && *lo > 1_000_000:
			ps.add(path+".min", o.Min.String(), "min %s is more than 1000000 parts per million: no value can hold", o.Min.String())
		}
	}
}

// verify: each check works here.
func (r *benchmarkRun) verify(ps *Problems) {
	for i, v := range r.Spec.Verify {
		if !slices.Contains(r.Verifications, v) {
			ps.add(fmt.Sprintf("spec.verify[%d]", i), string(v), "verification %s is not available; choose from %s", v, list(r.Verifications))
		}
	}
}

// functionalTests: their runs can have names, and can be played on the database.
func (r *benchmarkRun) functionalTests(ps *Problems) {
	const field = "spec.functionalTests"
	if len(r.Spec.FunctionalTests) > 0 && len(r.Name) > functional.MaxName {
		ps.add("metadata.name", r.Name, "%s names the BenchmarkRuns of %s too, with -deadlock and -snapshot behind: make it at most %d characters, or leave %[2]s out",
			r.Name, field, functional.MaxName)
	}
	for i, test := range functional.Runs(r.BenchmarkRun) {
		for _, p := range Run(test, r.db, r.Abilities) {
			if slices.ContainsFunc(*ps, func(own Problem) bool { return own.Field == p.Field && own.Message == p.Message }) {
				continue // it is the run's as well
			}
			ps.add(fmt.Sprintf("%s[%d]", field, i), string(r.Spec.FunctionalTests[i]), "%s cannot be played on GeoDatabase %s: %s: %s", r.Spec.FunctionalTests[i], r.db.Name, p.Field, p.Message)
		}
	}
}

// about fills in the object.
func (ps Problems) about(kind, name string) Problems {
	for i := range ps {
		ps[i].Object = kind + " " + name
	}
	return ps
}

// As extracts the problems from an error, if they are what it is.
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
