// Package deploy says what a node and a worker are told about the database that they belong to. The operator writes it
// into a ConfigMap, geobench run keeps it in memory; both sides read the same JSON.
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
	// Engine is a protocol's name, Parameters what the user gave it.
	Engine     string            `json:"engine"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Topology   geo.Topology      `json:"topology"`
	// Emulate tells nodes and workers to delay what they send as Topology.Links says (the BuiltIn emulation).
	Emulate bool `json:"emulate"`
	// Meshed tells pods that a service mesh is to carry their connections, so that they measure each link below it and
	// through it (package ping).
	Meshed bool `json:"meshed,omitempty"`
	// Seed starts every node's source of chance.
	Seed uint64 `json:"seed"`
	// Epoch is the instant that nodes' clocks count from.
	Epoch time.Time `json:"epoch"`
	// Incarnation names this life of the database. Nodes with different incarnations don't talk to each other.
	Incarnation string `json:"incarnation"`
	// Nodes are the addresses, in the order of geo.NodeID.
	Nodes Nodes `json:"nodes"`
	// Client is how to talk to a database that is not made of Geobench's own nodes; nil for one that is.
	Client *Client `json:"client,omitempty"`

	// Run and ClientKey are what clients prove themselves with, where nodes ask for it. They are nobody else's business.
	Run       string `json:"-"`
	ClientKey []byte `json:"-"`
}

// Elsewhere tells whether nothing of the database runs in pods of the GeoDatabase.
func (d *Database) Elsewhere() bool { return d.Client != nil && !d.Client.Deployed }

// NodeCount is how many nodes run in pods of the GeoDatabase: as many as the topology has, or none of a database that
// runs elsewhere.
func (d *Database) NodeCount() int {
	if d.Elsewhere() {
		return 0
	}
	return d.Topology.Nodes()
}

// Node is where a node listens.
type Node struct {
	// Address is host:port for peers and clients.
	Address string `json:"address"`
	// Admin is host:port of the administration server, for nodes that have one.
	Admin string `json:"admin,omitempty"`
}

// Host is the name under which pods find the node of a region on a cluster: ordinal is partition x replicas + replica.
func Host(database, region, namespace string, ordinal int) string {
	set := SetName(database, region, "")
	return fmt.Sprintf("%s-%d.%s.%s.svc", set, ordinal, set, namespace)
}

func (n *Node) names() []*string { return []*string{&n.Address, &n.Admin} }

// Nodes are the nodes of a database. In JSON, those whose addresses count up are one entry (package hostlist): the
// ConfigMap that they are in holds 1 MiB, and a database up to 16,384 nodes.
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
