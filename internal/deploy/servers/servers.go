// Package servers renders a database that people run, named by spec.engine alone, into what spec.pods says of any program: image, command,
// environment, ports, volumes, and how clients reach it. Everything behind it knows pods only. It is pure: the same spec gives the same
// pods, byte for byte, and the passwords are in a Secret that the operator makes and that pods name.
package servers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// The keys of the Secrets: those of every Secret of clients.
const (
	KeyUsername = "username"
	KeyPassword = "password"
)

// Problem is a parameter that cannot be rendered.
type Problem struct {
	// Field is the path in the GeoDatabase, Value what it holds.
	Field, Value string
	// Message says what is wrong and what would be right.
	Message string
	// Known are the names that the last part of Field could have had, where it is none of them.
	Known []string
}

// login is a user that a server is made with.
type login struct {
	secret, user string
}

// server is one kind of database.
type server struct {
	// logins are its users, the clients' first.
	logins []login
	render func(*v1alpha1.GeoDatabase) (*v1alpha1.Pods, map[string]string, []Problem)
}

var kinds = map[string]server{"postgres": {
	logins: postgresLogins,
	render: renderPostgres,
}}

// Names of the databases that can be rendered, sorted.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// Renders tells whether the pods of a database are to be rendered: it is of a kind that Names has, and neither pods nor external say where it runs.
func Renders(db *v1alpha1.GeoDatabase) bool {
	_, ok := kinds[db.Spec.Engine.Name]
	return ok && db.Spec.Pods == nil && db.Spec.External == nil
}

// Render writes the pods of a database into its spec, and leaves there the parameters of its clients. It changes nothing where there are
// problems, or nothing to render.
func Render(db *v1alpha1.GeoDatabase) []Problem {
	if !Renders(db) {
		return nil
	}
	pods, clients, problems := kinds[db.Spec.Engine.Name].render(db)
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
		return problems
	}
	db.Spec.Pods, db.Spec.Engine.Parameters = pods, clients
	return nil
}

// Secrets are the names of the Secrets that the pods of a database log in by, and the user of each. The first is the clients'.
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

// nodes lists problems of a shape that no such database has.
func nodes(db *v1alpha1.GeoDatabase) []Problem {
	if n := db.Spec.PartitionsPerRegion; n > 1 {
		return []Problem{{Field: "spec.partitionsPerRegion", Value: fmt.Sprint(n), Message: fmt.Sprintf("every server of %s has all rows: leave partitionsPerRegion out, or 1", db.Spec.Engine.Name)}}
	}
	return nil
}

func oneOf(words []string) string { return strings.Join(words, ", ") }
