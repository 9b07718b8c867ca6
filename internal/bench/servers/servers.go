// Package servers renders a well-known database, of which a manifest names only spec.engine, into spec.pods or
// spec.roles: image, command, environment, ports, volumes and client access. The rest of the operator deals only with
// pods and roles. Rendering is deterministic: the same spec gives the same pods, byte for byte. Passwords are in a
// Secret that the operator creates and the pods refer to.
package servers

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// The keys of the Secrets. Every Secret for clients has these keys.
const (
	KeyUsername = "username"
	KeyPassword = "password"
)

// Problem is a parameter that cannot be rendered.
type Problem struct {
	// Field is the path in the GeoDatabase, and Value the field's value.
	Field, Value string
	// Message describes the error and states a correct value.
	Message string
	// Known are the valid names for the last part of Field, if that part is unknown.
	Known []string
}

// login is a user that is created together with the server.
type login struct {
	secret, user string
}

// server is a kind of database.
type server struct {
	// product is the product's common name. settings are the parameters that are passed to the servers unchanged: the full
	// name of each parameter, and the pattern of its values. The renderer fixes all other options of the servers, because
	// other values would make the database a different one.
	product  string
	settings map[string]*regexp.Regexp
	// image is the default image, and user the numeric user ID that it runs as.
	image string
	user  int64
	// logins are the users of the database, the clients' user first. A database without logins has no clients.
	logins []login
	// shared is set if the servers distribute the rows themselves, so that not every server has all rows.
	shared bool
	// own handles a parameter that is neither a setting nor common to all databases. It returns false if the parameter
	// belongs to the clients.
	own func(r *reading, name, value string) bool
	// pods returns the fields that differ between databases; the caller fills in image, user and the fields that all
	// databases share. A database with several kinds of servers has roles instead, which returns its roles and
	// initialization steps.
	pods  func(*reading) *v1alpha1.Pods
	roles func(*reading) ([]v1alpha1.Role, []v1alpha1.InitStep)
	// images is set if the kinds of servers have separate images and there is no common image.
	images bool
	// facts are the facts of a database that has not been run yet, and nil for any other database.
	facts *Facts
}

var kinds = map[string]server{"postgres": postgres, "galera": galera, "etcd": etcd, "cockroachdb": cockroachdb.server(),
	"yugabytedb": yugabytedb.server(), "tidb": tidb.server(), "citus": citus.server(), "oceanbase": oceanbase.server()}

// reading is a database with its parameters, grouped by their purpose.
type reading struct {
	*v1alpha1.GeoDatabase
	kind     server
	regions  []string
	image    string
	user     int64
	settings map[string]string
	words    map[string]string // parameters that kind.own handled
	clients  map[string]string
	// longest is the longest round trip between two regions of the database, or 0 if it is unknown.
	longest  time.Duration
	problems []Problem
}

func (r *reading) bad(name, value, format string, args ...any) {
	r.problems = append(r.problems, Problem{Field: "spec.engine.parameters." + name, Value: value, Message: fmt.Sprintf(format, args...)})
}

// word sets a parameter whose value must be one of words.
func (r *reading) word(name, value string, words []string) {
	if !slices.Contains(words, value) {
		r.bad(name, value, "%q is not one of %s", value, strings.Join(words, ", "))
		return
	}
	r.words[name] = value
}

// servers returns the number of servers.
func (r *reading) servers() int { return len(r.regions) * r.perRegion() }

func (r *reading) perRegion() int { return int(max(r.Spec.NodesPerRegion(), 1)) }

// hosts returns the hosts of all servers, ordered by region and number.
func (r *reading) hosts() (hosts []string) {
	for _, region := range r.regions {
		for i := range r.perRegion() {
			hosts = append(hosts, deploy.Host(r.Name, region, r.Namespace, i))
		}
	}
	return hosts
}

// secret returns the name of the Secret of login i.
func (r *reading) secret(i int) string { return secretName(r.GeoDatabase, r.kind.logins[i]) }

// password returns an environment variable with the password of login i.
func (r *reading) password(variable string, i int) v1alpha1.PodEnv {
	return v1alpha1.PodEnv{Name: variable, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: r.secret(i), Key: KeyPassword}}
}

// field returns the manifest field in which a user can configure such a database in full detail.
func (r *reading) field() string {
	if r.kind.roles != nil {
		return "spec.roles"
	}
	return "spec.pods"
}

func (r *reading) parameter(name, value string) {
	rule, isSetting := r.kind.settings[name]
	family, setting, _ := strings.Cut(name, ".")
	switch {
	case isSetting && !rule.MatchString(value):
		r.bad(name, value, "%q is not %s", value, form(rule))
	case isSetting:
		r.settings[name] = value
	// A name with the prefix of the settings is a misspelled or disallowed setting, not a parameter of the clients.
	case slices.ContainsFunc(slices.Collect(maps.Keys(r.kind.settings)), func(known string) bool { return strings.HasPrefix(known, family+".") }):
		r.problems = append(r.problems, Problem{Field: "spec.engine.parameters." + name, Value: value, Known: slices.Sorted(maps.Keys(r.kind.settings)),
			Message: fmt.Sprintf("%s is no setting of %s that can be set here; use %s for a server of another make", setting, r.kind.product, r.field())})
	case name == "image" && !r.kind.images:
		if !isImage(value) {
			r.bad(name, value, "%q is not REGISTRY/NAME:TAG", value)
			return
		}
		r.image = value
	case name == "user":
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			r.bad(name, value, "%q is not the number of a user of the image, from 1 on: root runs no server", value)
			return
		}
		r.user = n
	case name == "tls" && value != "disable":
		r.bad(name, value, "a server that the operator makes has no certificate: set tls to disable or leave it out; spec.pods can bring a server that has one")
	case !r.kind.own(r, name, value):
		r.clients[name] = value
	}
}

// unknown reports whether a parameter of a vendor's database belongs neither to the database nor to its clients. If so,
// it adds a problem.
func (r *reading) unknown(name, value string, own []string) bool {
	var known []string
	if e, ok := (targets.Targets{}).Lookup(r.Spec.Engine.Name); ok {
		for _, p := range e.Parameters {
			known = append(known, p.Name)
		}
	}
	if slices.Contains(known, name) {
		return false
	}
	known = slices.Sorted(slices.Values(append(known, own...)))
	r.problems = append(r.problems, Problem{Field: "spec.engine.parameters." + name, Value: value, Known: known,
		Message: name + " is no parameter of " + r.kind.product + " and its clients: leave it out; they have " + strings.Join(known, ", ")})
	return true
}

// isImage reports whether text is a valid image reference.
func isImage(text string) bool {
	u, err := url.Parse("docker://" + text)
	return err == nil && u.Path != "" && !strings.ContainsAny(text, " \t\n")
}

func read(db *v1alpha1.GeoDatabase, kind server) *reading {
	r := &reading{
		GeoDatabase: db, kind: kind, regions: db.Spec.RegionNames(), image: kind.image, user: kind.user,
		settings: map[string]string{}, words: map[string]string{}, clients: map[string]string{}, problems: nodes(db, kind),
	}
	if len(kind.logins) > 0 {
		// Deployed servers have no certificates, but clients require encryption by default.
		r.clients["tls"] = "disable"
	}
	// Sort the parameters, so that problems and pods do not depend on the order of the map.
	for _, name := range slices.Sorted(maps.Keys(db.Spec.Engine.Parameters)) {
		r.parameter(name, db.Spec.Engine.Parameters[name])
	}
	return r
}

// Names returns the names of the databases that can be rendered, sorted.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// Renders reports whether the pods of a database must be rendered: its engine is in Names, and neither pods, roles nor
// external is set.
func Renders(db *v1alpha1.GeoDatabase) bool {
	_, ok := kinds[db.Spec.Engine.Name]
	return ok && !db.Spec.RunsPrograms() && db.Spec.External == nil
}

// Longest returns the longest round trip between two of a database's regions. It returns 0 if the profile is nil or has
// no round trips.
func Longest(db *v1alpha1.GeoDatabase, profile *v1alpha1.NetworkProfileSpec) (longest time.Duration) {
	if profile == nil {
		return 0
	}
	names := db.Spec.RegionNames()
	for i, a := range names {
		for _, b := range names[i+1:] {
			if l, ok := profile.Link(a, b); ok {
				longest = max(longest, l.RTT.Duration)
			}
		}
	}
	return longest
}

// Render writes the pods or roles of a database into its spec, and replaces the parameters with the clients'
// parameters. longest is the longest round trip between its regions (see Longest); some timeouts derive from it. If
// there are problems or there is nothing to render, Render changes nothing.
func Render(db *v1alpha1.GeoDatabase, longest time.Duration) []Problem {
	if !Renders(db) {
		return nil
	}
	r := read(db, kinds[db.Spec.Engine.Name])
	r.longest = longest
	var pods *v1alpha1.Pods
	var roles []v1alpha1.Role
	var steps []v1alpha1.InitStep
	if r.kind.roles != nil {
		roles, steps = r.kind.roles(r)
	} else {
		pods = r.kind.pods(r)
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
		return r.problems
	}
	if roles != nil {
		db.Spec.Roles, db.Spec.Init, db.Spec.Engine.Parameters = roles, steps, r.clients
		return nil
	}
	pods.Image, pods.User = r.image, &r.user
	pods.Volumes = []v1alpha1.PodVolume{{Name: "data", MountPath: "/data", SizeLimit: ptr.To(resource.MustParse("8Gi"))}}
	pods.TerminationGracePeriodSeconds = ptr.To[int32](10)
	if len(r.kind.logins) > 0 {
		pods.Client.SecretRef = v1alpha1.LocalReference{Name: r.secret(0)}
	}
	db.Spec.Pods, db.Spec.Engine.Parameters = pods, r.clients
	return nil
}

// Secrets returns the Secrets that contain the passwords of a database's users. It maps the name of each Secret to its
// user.
func Secrets(db *v1alpha1.GeoDatabase) map[string]string {
	out := map[string]string{}
	for _, l := range kinds[db.Spec.Engine.Name].logins {
		out[secretName(db, l)] = l.user
	}
	return out
}

func secretName(db *v1alpha1.GeoDatabase, l login) string {
	return db.Name + "-" + db.Spec.Engine.Name + "-" + l.secret
}

// nodes returns a problem if partitionsPerRegion is greater than 1, which no server in this package supports. kind
// determines the hint in the message.
func nodes(db *v1alpha1.GeoDatabase, kind server) []Problem {
	if n := db.Spec.PartitionsPerRegion; n > 1 {
		message := fmt.Sprintf("every server of %s has all rows: leave partitionsPerRegion out, or 1", db.Spec.Engine.Name)
		switch {
		case kind.roles != nil:
			message = fmt.Sprintf("the servers of %s share the rows out themselves: leave partitionsPerRegion out, or 1", db.Spec.Engine.Name)
		case kind.shared:
			message = fmt.Sprintf("the servers of %s share the rows out themselves: leave partitionsPerRegion out, or 1, and say by replicasPerPartition how many servers a region has", db.Spec.Engine.Name)
		}
		return []Problem{{Field: "spec.partitionsPerRegion", Value: fmt.Sprint(n), Message: message}}
	}
	return nil
}

// The patterns of settings' values.
var (
	boolean  = regexp.MustCompile(`^(on|off)$`)
	integer  = regexp.MustCompile(`^[0-9]+$`)
	number   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	size     = regexp.MustCompile(`^[0-9]+(B|kB|MB|GB)$`)
	duration = regexp.MustCompile(`^(0|-1|[0-9]+(us|ms|s|min|h|d))$`)
)

// form describes the required form of a value for error messages.
func form(r *regexp.Regexp) string {
	switch r {
	case boolean:
		return "on or off"
	case integer:
		return "a whole number, 0 or more"
	case number:
		return "a number like 0.9"
	case size:
		return "a size with its unit, B, kB, MB or GB, like 256MB"
	case duration:
		return "a duration with its unit, us, ms, s, min, h or d, like 30s"
	case shortSize:
		return "a size with its unit, K, M or G, like 256M"
	case period:
		return "a period of ISO 8601 in seconds, like PT5S"
	case goDuration:
		return "a duration with its unit, ms, s, m or h, like 100ms"
	case binarySize:
		return "a size above 0 with its unit, MiB or GiB, like 128MiB"
	case someInteger:
		return "a whole number above 0"
	case yugabyteBool:
		return "true or false"
	case someDuration:
		return "a duration above 0 with its unit, ms or s, like 250ms"
	}
	return "of the form " + r.String()
}
