package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// pods checks spec.pods. The environment must be able to run containers. If the program has no supported client, its
// parameters must be set in spec.pods instead of spec.engine.
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
			break // these are the parameters of the clients
		}
		ps.add("spec.engine.parameters."+name, value, "a program in pods of its own has no parameters here: set them by spec.pods.args or spec.pods.env")
	}
	distinctPaths("spec.pods", &d.Spec.Pods.Program, ps)
}

// client checks that the clients' region exists. A database must be named if clients of the engine require one, and
// must not be named if the engine has no databases.
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
		// Kubernetes refuses a container with two mounts at the same path.
		if other, ok := paths[v.MountPath]; ok {
			ps.add(fmt.Sprintf("%s.volumes[%d].mountPath", field, i), v.MountPath, "volume %s is mounted at %s too; choose another path", other, v.MountPath)
		}
		paths[v.MountPath] = v.Name
	}
}

// programs checks that a manifest that runs programs other than Geobench's nodes uses no feature that only Geobench's
// nodes have.
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

// programsFrom returns the field that names the program of the pods.
func (d *database) programsFrom() string {
	if d.Spec.Pods != nil {
		return "spec.pods"
	}
	return "spec.roles"
}

// hosts checks that each list of hosts fits into an environment variable. Otherwise no program could start.
func (d *database) hosts(ps *Problems) {
	const most = 128 << 10 // Linux: MAX_ARG_STRLEN
	db := d.DeepCopy()
	// The names of hosts contain the namespace, which files usually omit.
	db.Namespace = cmp.Or(d.Namespace, "default")
	longest := func(role *v1alpha1.Role) (name string, length int) {
		for _, v := range deploy.HostVariables(db, role) {
			if n := len(v.Name) + len("=") + len(v.Value) + 1; n > length { // including the terminating byte
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
			return // the other roles have mostly the same lists, so report only one
		}
	}
}

// roles checks that all named roles exist, that no role waits for itself through other roles, and that clients connect
// to only one role.
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
			break // these are the parameters of the clients
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
		// Report each cycle only once, at its alphabetically first role.
		if circle := d.circle(r.Name); len(circle) > 0 && circle[0] == slices.Min(circle) && circle[0] == r.Name {
			ps.add(path+".after", "", "roles wait for each other for ever: %s; take one of them out of after", strings.Join(append(circle, circle[0]), " after "))
		}
	}
}

// roleClient checks that the client's role has pods in the client's region. Fields that only clients with a Secret use
// must not be set without a Secret.
func (d *database) roleClient(field string, role int, ps *Problems) {
	r := &d.Spec.Roles[role]
	c := r.Client
	before := len(*ps)
	d.client(field, &c.ProgramClient, ps)
	if c.SecretRef == nil && c.Database != "" {
		ps.add(field+".database", c.Database, "nobody uses it without %s.secretRef, which lets BenchmarkRuns measure the database: set that, too, or leave database out", field)
	}
	// An unknown region has already been reported.
	if len(*ps) == before && c.Region != "" && !deploy.InRegion(r, slices.Index(d.Spec.RegionNames(), c.Region)) {
		ps.add(field+".region", c.Region, "role %s has no pods there, but in the first %d regions alone: name one of them, or raise firstRegions", r.Name, *r.FirstRegions)
	}
}

// isRole checks that a role of this name exists.
func (d *database) isRole(ps *Problems, field, name string) {
	var names []string
	for i := range d.Spec.Roles {
		names = append(names, d.Spec.Roles[i].Name)
	}
	if !slices.Contains(names, name) {
		ps.add(field, name, "there is no role %s%s; the roles are %s", name, didYouMean(name, names), list(names))
	}
}

// circle returns the cycle of roles that wait for each other and that includes start, beginning with start. It returns
// nil if there is no such cycle.
func (d *database) circle(start string) []string {
	seen := map[string]bool{}
	var walk func(name string) []string
	walk = func(name string) []string {
		role := d.Spec.Role(name)
		// Another rule reports unknown roles. A role that was already visited leads to no new path.
		if role == nil || seen[name] {
			return nil
		}
		seen[name] = true
		for _, a := range role.After {
			switch {
			case a.Role == name: // pods wait for the first pod of their own role
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

// initSteps checks that the roles and regions of spec.init exist.
func (d *database) initSteps(ps *Problems) {
	regions := d.Spec.RegionNames()
	for i, step := range d.Spec.Init {
		d.isRole(ps, fmt.Sprintf("spec.init[%d].role", i), step.Role)
		if step.Region != "" && !slices.Contains(regions, step.Region) {
			ps.add(fmt.Sprintf("spec.init[%d].region", i), step.Region, "region %s is not in spec.regions%s; they are %s", step.Region, didYouMean(step.Region, regions), list(regions))
		}
	}
}
