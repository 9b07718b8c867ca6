// Package deploy defines the description of a database that its nodes and workers receive. The operator writes it into
// a ConfigMap, and geobench run keeps it in memory. Both use the same JSON.
package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/hostlist"
)

// Database is a deployed database.
type Database struct {
	// Name of the GeoDatabase.
	Name string `json:"name"`
	// Engine is the name of a protocol, Parameters the values set by the user.
	Engine     string            `json:"engine"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Topology   geo.Topology      `json:"topology"`
	// Emulate makes nodes and workers delay their messages according to Topology.Links (the BuiltIn emulation).
	Emulate bool `json:"emulate"`
	// Meshed is set if a service mesh should carry the pods' connections. The pods then measure each link below the mesh
	// and through it (package ping).
	Meshed bool `json:"meshed,omitempty"`
	// Seed is the seed of every node's random generator.
	Seed uint64 `json:"seed"`
	// Epoch is the instant that nodes' clocks count from.
	Epoch time.Time `json:"epoch"`
	// Incarnation names this life of the database. Nodes with different incarnations don't talk to each other.
	Incarnation string `json:"incarnation"`
	// Nodes are the addresses, in the order of geo.NodeID.
	Nodes Nodes `json:"nodes"`
	// Client describes how clients reach a database that does not consist of Geobench's nodes; nil for Geobench's nodes.
	Client *Client `json:"client,omitempty"`

	// Run and ClientKey are the credentials of clients, where nodes require them. They are secret.
	Run       string `json:"-"`
	ClientKey []byte `json:"-"`
}

// Elsewhere reports whether no part of the database runs in pods of the GeoDatabase.
func (d *Database) Elsewhere() bool { return d.Client != nil && !d.Client.Deployed }

// NodeCount returns the number of nodes in pods of the GeoDatabase: all nodes of the topology, or 0 for a database that
// runs elsewhere.
func (d *Database) NodeCount() int {
	if d.Elsewhere() {
		return 0
	}
	return d.Topology.Nodes()
}

// Node holds the addresses at which a node listens.
type Node struct {
	// Address is host:port for peers and clients.
	Address string `json:"address"`
	// Admin is the host:port of the administration server, if the node has one.
	Admin string `json:"admin,omitempty"`
}

// Host is the name under which pods find the node of a region on a cluster: ordinal is partition x replicas + replica.
func Host(database, region, namespace string, ordinal int) string {
	set := SetName(database, region, "")
	return fmt.Sprintf("%s-%d.%s.%s.svc", set, ordinal, set, namespace)
}

func (n *Node) names() []*string { return []*string{&n.Address, &n.Admin} }

// Nodes are the nodes of a database. In JSON, nodes with consecutive addresses are a single entry (package hostlist).
// The reason is their ConfigMap, which holds 1 MiB, whereas a database has up to 16,384 nodes.
type Nodes []Node

// MarshalJSON folds.
func (n Nodes) MarshalJSON() ([]byte, error) {
	return json.Marshal(hostlist.Fold([]Node(n), (*Node).names))
}

// UnmarshalJSON unfolds.
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
