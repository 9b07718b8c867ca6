package servers

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// cluster describes, as data, a vendor's database with several kinds of servers. Neither these databases nor their
// clients have been run in Geobench yet.
type cluster struct {
	facts Facts
	parts []part
	// copies is set if the parameter replicas sets the number of copies of the rows. Each copy is in a different region.
	copies bool
	// leader is the name of the part that has a leader. The parameter leader chooses the region in which the leader runs.
	// leader is "" if the database has no such parameter.
	leader string
	// logins are the users of the database, the clients' user first. database is the name of the clients' database.
	logins   []login
	database string
	// knobs adds to set the settings that depend on the longest round trip, and reports incompatible settings. The keys of
	// set are the names of settings.
	knobs func(r *reading, set map[string]string)
	// steps returns the steps of spec.init.
	steps func(*reading) []v1alpha1.InitStep
}

// part is one kind of server.
type part struct {
	name string
	// image is pinned to a version. user is the numeric user ID that the server runs as.
	image string
	user  int64
	ports []v1alpha1.PodPort
	ready *v1alpha1.PodReady
	after []v1alpha1.RoleAfter
	lists []v1alpha1.HostList
	env   []v1alpha1.PodEnv
	// secret is the environment variable for the password of the database's first user, or "" if the part needs none.
	secret string
	// copies is set if the part runs only in the first regions, one region for each copy. first is set if the part runs
	// only in the first region.
	copies, first bool
	client        bool
	// settings are the settings that the parameters settings.NAME may set, with the pattern of their values. Several parts
	// may share a setting. defaults replace vendor defaults that assume a dedicated machine.
	settings map[string]*regexp.Regexp
	defaults map[string]string
	// script is the script that shell runs. It ends with an exec of the server.
	shell, script string
	// args returns the script's arguments for the part's settings.
	args func(settings map[string]string) []string
	// servicePerPod is set if servers identify each other by IP address. Each pod then has a Service with a permanent
	// address.
	servicePerPod bool
	// volumes are the volumes in addition to the volume data. disk is the size limit of data; "" means 8Gi.
	volumes []v1alpha1.PodVolume
	disk    string
	memory  string
}

// server returns the server that renders the cluster.
func (c cluster) server() server {
	settings := map[string]*regexp.Regexp{}
	for _, p := range c.parts {
		for name, rule := range p.settings {
			settings["settings."+name] = rule
		}
	}
	known := c.parameters(settings)
	return server{
		product: c.facts.Product, settings: settings, image: c.parts[0].image, user: c.parts[0].user, shared: true, logins: c.logins, facts: &c.facts,
		images: len(c.images()) > 1,
		own: func(r *reading, name, value string) bool {
			family, what, _ := strings.Cut(name, ".")
			switch {
			case name == "replicas" && c.copies:
				// An even number of copies tolerates no more failures than the next lower odd number.
				n, err := strconv.Atoi(value)
				if err != nil || n < 1 || n > 5 || n%2 == 0 || n > len(r.regions) {
					r.bad(name, value, "%q is not 1, 3 or 5, and at most the number of regions, which is %d", value, len(r.regions))
				}
				r.words[name] = value
			case name == "leader" && c.leader != "":
				r.words[name] = value // checked against the regions in render, once the number of copies is known
			case family == "perRegion" && slices.ContainsFunc(c.parts, func(p part) bool { return p.name == what && !p.copies && !p.first }):
				if n, err := strconv.Atoi(value); err != nil || n < 1 || n > 9 {
					r.bad(name, value, "%q is not a number of servers from 1 to 9", value)
				}
				r.words[name] = value
			case family == "image" && len(c.images()) > 1 && slices.Contains(c.images(), what):
				if !isImage(value) {
					r.bad(name, value, "%q is not REGISTRY/NAME:TAG", value)
				}
				r.words[name] = value
			default:
				return r.unknown(name, value, known)
			}
			return true
		},
		roles: func(r *reading) ([]v1alpha1.Role, []v1alpha1.InitStep) { return c.render(r) },
	}
}

// images returns, for each distinct image, the name of the first part that uses it.
func (c cluster) images() (parts []string) {
	seen := map[string]bool{}
	for _, p := range c.parts {
		if !seen[p.image] {
			parts = append(parts, p.name)
		}
		seen[p.image] = true
	}
	return parts
}

// parameters returns the names of all parameters.
func (c cluster) parameters(settings map[string]*regexp.Regexp) []string {
	known := append(slices.Sorted(maps.Keys(settings)), "user")
	if images := c.images(); len(images) == 1 {
		known = append(known, "image")
	} else {
		for _, name := range images {
			known = append(known, "image."+name)
		}
	}
	for _, p := range c.parts {
		if !p.copies && !p.first {
			known = append(known, "perRegion."+p.name)
		}
	}
	if c.copies {
		known = append(known, "replicas")
	}
	if c.leader != "" {
		known = append(known, "leader")
	}
	slices.Sort(known)
	return known
}

// copiesOf returns the number of copies of a database's rows. The default is three, or one if there are fewer than
// three regions.
func copiesOf(r *reading) int {
	if n, err := strconv.Atoi(r.words["replicas"]); err == nil {
		return n
	}
	if len(r.regions) < 3 {
		return 1
	}
	return 3
}

func (c cluster) render(r *reading) ([]v1alpha1.Role, []v1alpha1.InitStep) {
	if n := r.Spec.ReplicasPerPartition; n > 1 {
		var counts []string
		for _, name := range c.parameters(nil) {
			if strings.HasPrefix(name, "perRegion.") {
				counts = append(counts, "spec.engine.parameters."+name)
			}
		}
		r.problems = append(r.problems, Problem{Field: "spec.replicasPerPartition", Value: fmt.Sprint(n), Message: fmt.Sprintf(
			"%s has several kinds of servers: leave replicasPerPartition out, or 1, and say by %s how many a region has", c.facts.Product, strings.Join(counts, " and "))})
	}
	if at := r.words["leader"]; at != "" {
		may := r.regions
		if c.copies {
			may = may[:min(copiesOf(r), len(may))]
		}
		if !slices.Contains(may, at) {
			r.bad("leader", at, "region %s has no server that could lead; those that have are %s", at, strings.Join(may, ", "))
		}
	}
	set := map[string]string{}
	for name, value := range r.settings {
		set[strings.TrimPrefix(name, "settings.")] = value
	}
	if c.knobs != nil {
		c.knobs(r, set)
	}
	images, roles := c.images(), []v1alpha1.Role{}
	for _, p := range c.parts {
		image := p.image
		switch {
		case len(images) == 1:
			image = r.image
		case r.words["image."+p.name] != "":
			image = r.words["image."+p.name]
		}
		own := maps.Clone(p.defaults)
		if own == nil {
			own = map[string]string{}
		}
		for name := range p.settings {
			if value, ok := set[name]; ok {
				own[name] = value
			}
		}
		user := p.user
		// The parameter user replaces the user of every part.
		if r.user != c.parts[0].user {
			user = r.user
		}
		role := v1alpha1.Role{
			Name: p.name, PerRegion: 1, After: p.after, Lists: p.lists, ServicePerPod: p.servicePerPod,
			Program: v1alpha1.Program{
				Image: image, Command: []string{p.shell, "-c", p.script, p.name}, Args: p.args(own), Env: slices.Clone(p.env), Ports: p.ports, Ready: p.ready, User: &user,
				Volumes:                       append([]v1alpha1.PodVolume{{Name: "data", MountPath: "/data", SizeLimit: ptr.To(resource.MustParse(cmp.Or(p.disk, "8Gi")))}}, p.volumes...),
				TerminationGracePeriodSeconds: ptr.To[int32](10),
			},
		}
		if p.client {
			role.Client = &v1alpha1.RoleClient{ProgramClient: v1alpha1.ProgramClient{Database: c.database}}
			if len(c.logins) > 0 {
				role.Client.SecretRef = &v1alpha1.LocalReference{Name: r.secret(0)}
			}
		}
		if p.secret != "" {
			role.Env = append(role.Env, r.password(p.secret, 0))
		}
		switch {
		case p.first && len(r.regions) > 1:
			role.FirstRegions = ptr.To[int32](1)
		case p.copies && copiesOf(r) < len(r.regions):
			role.FirstRegions = ptr.To(int32(copiesOf(r)))
		}
		if n, err := strconv.Atoi(r.words["perRegion."+p.name]); err == nil {
			role.PerRegion = int32(n)
		}
		// The part's memory is only a default; the spec's resources apply to all parts.
		if len(r.Spec.Resources.Requests) == 0 && len(r.Spec.Resources.Limits) == 0 {
			role.Resources = requests(p.memory)
		}
		roles = append(roles, role)
	}
	return roles, c.steps(r)
}

// flags returns the settings as command-line arguments.
func flags(settings map[string]string) (args []string) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "--"+name+"="+settings[name])
	}
	return args
}

// none returns no arguments.
func none(map[string]string) []string { return nil }

// milliseconds returns d in milliseconds, rounded up.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// fill sets a setting unless it is already set.
func fill(set map[string]string, name, value string) {
	if _, ok := set[name]; !ok {
		set[name] = value
	}
}

// step returns a step of spec.init with a timeout of 10 minutes.
func step(name, role string, command ...string) v1alpha1.InitStep {
	return v1alpha1.InitStep{Name: name, Role: role, Command: command, Timeout: v1alpha1.DurationOf(10 * time.Minute)}
}

// leaderOf returns the region that must lead; the default is the first region.
func leaderOf(r *reading) string { return cmp.Or(r.words["leader"], r.regions[0]) }
