package deploy

import (
	"net"
	"slices"
	"strconv"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Client is how clients reach a database that is not made of Geobench's own nodes. Who they are is in a Secret, and never here.
type Client struct {
	// Endpoints are what the clients of each region connect to, in the order of the database's regions.
	Endpoints []Endpoint `json:"endpoints"`
	// Database is its name there; empty is the user's.
	Database string `json:"database,omitempty"`
	// Secret is the name of the Secret with username, password and, optionally, ca.crt; empty where there is none.
	Secret string `json:"secret,omitempty"`
	// Deployed says that the database runs in pods of the GeoDatabase, whose network is emulated. Otherwise it runs elsewhere.
	Deployed bool `json:"deployed,omitempty"`
	// Steward is the region of whoever loads and audits.
	Steward string `json:"steward"`
}

// Endpoint is host:port for the clients of a region.
type Endpoint struct {
	Region  string `json:"region"`
	Address string `json:"address"`
}

// SecretFolder is where workers and stewards find the keys of Client.Secret as files.
const SecretFolder = "/etc/geobench-database"

// ClientOf is how clients reach a database; nil for one of Geobench's own engines, and for a program that has none.
func ClientOf(db *v1alpha1.GeoDatabase) *Client {
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
	case db.Spec.Pods != nil && db.Spec.Pods.Client != nil:
		p := db.Spec.Pods
		c := &Client{Database: p.Client.Database, Secret: p.Client.SecretRef.Name, Deployed: true, Steward: p.Client.Region}
		if c.Steward == "" {
			c.Steward = db.Spec.Regions[0].Name
		}
		for _, r := range db.Spec.RegionNames() {
			at := p.Client.Region
			if at == "" {
				at = r
			}
			c.Endpoints = append(c.Endpoints, Endpoint{Region: r, Address: net.JoinHostPort(Host(db.Name, at, db.Namespace, 0), strconv.Itoa(int(p.Ports[0].Port)))})
		}
		return c
	}
	return nil
}
