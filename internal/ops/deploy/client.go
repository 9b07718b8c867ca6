package deploy

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// Client describes how clients reach a database other than Geobench's engines. It never contains credentials, because
// these are in a Secret.
type Client struct {
	// Endpoints contains the address for the clients of each region, in the order of the database's regions.
	Endpoints []Endpoint `json:"endpoints"`
	// Database is the name of the database on its server; empty for the user's default.
	Database string `json:"database,omitempty"`
	// Secret is the name of the Secret with username, password and, optionally, ca.crt; empty for none.
	Secret string `json:"secret,omitempty"`
	// Deployed is set if the database runs in pods of the GeoDatabase, with an emulated network. Otherwise the database
	// runs elsewhere.
	Deployed bool `json:"deployed,omitempty"`
	// Field is the manifest field that describes how clients reach a deployed database; empty for spec.pods.client.
	Field string `json:"field,omitempty"`
	// Steward is the region of the pod that loads and audits the data.
	Steward string `json:"steward"`
}

// Endpoint is the host:port to which the clients of a region connect.
type Endpoint struct {
	Region  string `json:"region"`
	Address string `json:"address"`
}

// SecretFolder is the folder in workers and stewards that contains the keys of Client.Secret as files.
const SecretFolder = "/etc/geobench-database"

// ClientOf returns the Client of a database. It returns nil for Geobench's engines and for a program without clients.
func ClientOf(db *v1alpha1.GeoDatabase, t *geo.Topology) *Client {
	switch {
	case db.Spec.External != nil:
		x := db.Spec.External
		c := &Client{Database: x.Database, Steward: db.Spec.Regions[0].Name}
		if x.SecretRef != nil {
			c.Secret = x.SecretRef.Name
		}
		for _, r := range db.Spec.RegionNames() {
			if i := slices.IndexFunc(x.Endpoints, func(e v1alpha1.ExternalEndpoint) bool { return e.Region == r }); i >= 0 {
				c.Endpoints = append(c.Endpoints, Endpoint{Region: r, Address: x.Endpoints[i].Address})
			}
		}
		return c
	case !db.Spec.Talked():
		return nil
	case db.Spec.Pods != nil:
		p := db.Spec.Pods.Client
		return &Client{Database: p.Database, Secret: p.SecretRef.Name, Deployed: true, Steward: cmp.Or(p.Region, db.Spec.Regions[0].Name), Endpoints: Endpoints(db, t)}
	}
	i := slices.IndexFunc(db.Spec.Roles, func(r v1alpha1.Role) bool { return r.Client != nil })
	c := db.Spec.Roles[i].Client
	at := clientRegions(db, t)
	return &Client{
		Field: fmt.Sprintf("spec.roles[%d].client", i), Database: c.Database, Secret: c.SecretRef.Name, Deployed: true, Steward: at[0], Endpoints: Endpoints(db, t),
	}
}

// Endpoints returns the addresses to which the clients of each region connect in a deployed database. Each address is
// the first pod for clients in the target region. The target region is the client's region field if that is set.
// Otherwise it is the clients' own region, or the nearest region with pods for clients. Endpoints returns nil if the
// spec has no clients.
func Endpoints(db *v1alpha1.GeoDatabase, t *geo.Topology) (out []Endpoint) {
	var program *v1alpha1.Program
	var c *v1alpha1.ProgramClient
	name := ""
	if role := db.Spec.ClientRole(); role != nil {
		program, c, name = &role.Program, &role.Client.ProgramClient, role.Name
	} else if p := db.Spec.Pods; p != nil && p.Client != nil {
		program, c = &p.Program, &p.Client.ProgramClient
	} else {
		return nil
	}
	port := strconv.Itoa(int(cmp.Or(c.Port, program.Ports[0].Port)))
	for r, at := range clientRegions(db, t) {
		pods := PodsIn(db, at)
		if name != "" {
			pods = OfRole(pods, name)
		}
		out = append(out, Endpoint{Region: db.Spec.Regions[r].Name, Address: net.JoinHostPort(pods[0].Host, port)})
	}
	return out
}

// clientRegions returns the target region for the clients of each region: the region of the pods to which they connect.
func clientRegions(db *v1alpha1.GeoDatabase, t *geo.Topology) (at []string) {
	role := db.Spec.ClientRole()
	for r, own := range db.Spec.RegionNames() {
		switch {
		case role == nil:
			at = append(at, cmp.Or(db.Spec.Pods.Client.Region, own))
			continue
		case role.Client.Region != "":
			at = append(at, role.Client.Region)
			continue
		}
		nearest := -1
		for other := range db.Spec.Regions {
			// Prefer the clients' region to any other region, regardless of the declared round trip within it.
			if InRegion(role, other) && (nearest < 0 || other == r || nearest != r && t.RTT(geo.Region(r), geo.Region(other)) < t.RTT(geo.Region(r), geo.Region(nearest))) {
				nearest = other
			}
		}
		at = append(at, db.Spec.Regions[nearest].Name)
	}
	return at
}
