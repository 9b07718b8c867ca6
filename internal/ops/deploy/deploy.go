// Package deploy defines the description of a database that its nodes and workers receive. The operator writes this
// description into a ConfigMap, and geobench run keeps it in memory. Both use the same JSON.
package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/hostlist"
)

// Database describes a deployed database.
type Database struct {
	// Name is the name of the GeoDatabase.
	Name string `json:"name"`
	// Engine is the name of a protocol. Parameters contains the parameters that the user has set.
	Engine     string            `json:"engine"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Topology   geo.Topology      `json:"topology"`
	// Emulate makes nodes and workers delay their messages according to Topology.Links (the BuiltIn emulation).
	Emulate bool `json:"emulate"`
	// Meshed is set if the pods' connections should use a service mesh. The pods then measure each link both below the
	// mesh and through it (package ping).
	Meshed bool `json:"meshed,omitempty"`
	// Seed seeds the random generators of all nodes.
	Seed uint64 `json:"seed"`
	// Epoch is the time at which the nodes' clocks read zero.
	Epoch time.Time `json:"epoch"`
	// Incarnation identifies this deployment of the database. Nodes with different incarnations reject each other.
	Incarnation string `json:"incarnation"`
	// Nodes contains the addresses of the nodes, by geo.NodeID.
	Nodes Nodes `json:"nodes"`
	// Client describes how clients reach a database other than Geobench's engines; nil for Geobench's engines.
	Client *Client `json:"client,omitempty"`

	// Run and ClientKey are the clients' credentials if nodes require them. They are secret, so JSON omits them.
	Run       string `json:"-"`
	ClientKey []byte `json:"-"`
}

// Elsewhere reports whether the database runs outside the pods of the GeoDatabase.
func (d *Database) Elsewhere() bool { return d.Client != nil && !d.Client.Deployed }

// NodeCount returns the number of nodes in pods of the GeoDatabase: all nodes of the topology, or 0 for a database that
// runs elsewhere.
func (d *Database) NodeCount() int {
	if d.Elsewhere() {
		return 0
	}
	return d.Topology.Nodes()
}

// Node contains the addresses on which a node listens.
type Node struct {
	// Address is host:port for peers and clients.
	Address string `json:"address"`
	// Admin is the host:port of the administration server, if the node has one.
	Admin string `json:"admin,omitempty"`
}

// Host returns the host name of a node in a cluster. ordinal is the number of the node in its region: partition x
// replicas + replica.
func Host(database, region, namespace string, ordinal int) string {
	set := SetName(database, region, "")
	return fmt.Sprintf("%s-%d.%s.%s.svc", set, ordinal, set, namespace)
}

func (n *Node) names() []*string { return []*string{&n.Address, &n.Admin} }

// Nodes are the nodes of a database. In JSON, nodes with consecutive addresses share an entry (package hostlist). This
// saves space: a database has up to 16,384 nodes, and the ConfigMap is limited to 1 MiB.
type Nodes []Node

// MarshalJSON implements json.Marshaler.
func (n Nodes) MarshalJSON() ([]byte, error) {
	return json.Marshal(hostlist.Fold([]Node(n), (*Node).names))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nodes) UnmarshalJSON(b []byte) error {
	var folded []Node
	if err := json.Unmarshal(b, &folded); err != nil {
		return err
	}
	nodes, err := hostlist.Unfold(folded, (*Node).names)
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	*n = nodes
	return nil
}

// Validate checks that the description is complete.
func (d *Database) Validate() error {
	if err := d.Topology.Validate(); err != nil {
		return fmt.Errorf("topology.%w", err)
	}
	// A database that runs elsewhere has a topology, but no nodes with addresses.
	if len(d.Nodes) != d.NodeCount() {
		return fmt.Errorf("nodes: %d addresses for %d nodes", len(d.Nodes), d.NodeCount())
	}
	if d.Engine == "" || d.Incarnation == "" {
		return fmt.Errorf("engine and incarnation: both are needed, got %q and %q", d.Engine, d.Incarnation)
	}
	return nil
}

// ReadFile reads a Database from a JSON file and validates it.
func ReadFile(path string) (*Database, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Database{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}
