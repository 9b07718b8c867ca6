package database

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/servers"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/health"
	"github.com/geobench/geobench/internal/ops/presets"
)

// Plan is the resolved form of a GeoDatabase's spec.
type Plan struct {
	// Profile is the network, and the name of its NetworkProfile.
	Profile *Profile
	// Database is complete except for the fields that differ between incarnations: Epoch and Incarnation.
	Database deploy.Database
	// Emulation is the backend, never Auto. Why is the reason for its choice in one sentence.
	Emulation v1alpha1.Emulation
	Why       string
	// Mounted are the ConfigMaps that pods mount.
	Mounted []Mounted
	// Hash identifies everything on which all nodes must agree. A different hash requires a new incarnation.
	Hash string
}

// Chooser returns the backend that emulates a database's network, never Auto, and the reason for it in one sentence.
type Chooser func(ctx context.Context, db *v1alpha1.GeoDatabase) (v1alpha1.Emulation, string, error)

// NewPlan determines what to deploy for db from image. It reads the ConfigMaps that pods mount from live. It returns a
// *kube.Refusal for an error that the user must correct.
func NewPlan(ctx context.Context, reader, live client.Reader, abilities check.Abilities, choose Chooser, db *v1alpha1.GeoDatabase, image string) (*Plan, error) {
	profile, err := ResolveProfile(ctx, reader, db)
	if err != nil {
		return nil, err
	}
	if problems := check.Database(db, profile.Spec, abilities); len(problems) > 0 {
		return nil, kube.Refuse("InvalidSpec", "%s", problems)
	}
	params, err := resolveParameters(abilities, db)
	if err != nil {
		return nil, err
	}
	topology, err := plan.Topology(&db.Spec, profile.Spec)
	if err != nil {
		return nil, kube.Refuse("InvalidSpec", "spec.network: %s", err)
	}
	p := &Plan{Profile: profile}
	if p.Emulation, p.Why, err = choose(ctx, db); err != nil {
		return nil, err
	}
	if p.Mounted, err = FindMounted(ctx, live, db); err != nil {
		return nil, err
	}
	p.Database = deploy.Database{
		Name:       db.Name,
		Engine:     db.Spec.Engine.Name,
		Parameters: params,
		Topology:   topology,
		Emulate:    p.Emulation == v1alpha1.EmulationBuiltIn,
		Meshed:     db.Spec.Network.Mesh == v1alpha1.MeshSidecar || db.Spec.Network.Mesh == v1alpha1.MeshAmbient,
		Seed:       1,
		Nodes:      nodeAddresses(db),
		Client:     deploy.ClientOf(db, &topology),
	}
	// Settings that affect only the pods, and not the engine, are also part of the hash. If such a setting changes, all
	// pods must be replaced together.
	parts := []any{&p.Database, db.Spec.Regions, db.Spec.Placement, db.Spec.Resources, image}
	if len(db.Spec.Roles) > 0 {
		parts = append(parts, db.Spec.Roles, db.Spec.Init)
	}
	if db.Spec.RunsPrograms() || p.Emulation != v1alpha1.EmulationBuiltIn && p.Emulation != v1alpha1.EmulationNone {
		parts = append(parts, db.Spec.Pods, p.Emulation)
	}
	if db.Spec.Durability == v1alpha1.DurabilityJournal {
		parts = append(parts, db.Spec.Durability)
	}
	if m := db.Spec.Network.Mesh; m != "" && m != v1alpha1.MeshAuto {
		parts = append(parts, m)
	}
	// Programs read their configuration when they start. Pods with different configurations do not form one database.
	if digests := DigestsOf(p.Mounted); digests != nil {
		parts = append(parts, digests)
	}
	if db.Spec.External == nil {
		parts = append(parts, kube.NodesAccountName(db))
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	p.Hash = deploy.ShortHash(string(b))
	return p, nil
}

// Profile is the network of a database and the name of its NetworkProfile. The name is empty for an inline or built-in
// profile.
type Profile struct {
	Spec *v1alpha1.NetworkProfileSpec
	Name string
}

// ResolveProfile returns the network of a database: the inline profile, the NetworkProfile in its namespace, or else
// the built-in profile with that name.
func ResolveProfile(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase) (*Profile, error) {
	if db.Spec.Network.Profile != nil {
		return &Profile{Spec: db.Spec.Network.Profile}, nil
	}
	if db.Spec.External != nil { // package check refuses every profile
		return &Profile{Spec: &v1alpha1.NetworkProfileSpec{}}, nil
	}
	if db.Spec.Network.ProfileRef == nil {
		return nil, kube.Refuse("InvalidSpec", "spec.network: neither profile nor profileRef is set")
	}
	name := db.Spec.Network.ProfileRef.Name
	profile := &v1alpha1.NetworkProfile{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: name}, profile)
	if err == nil {
		return &Profile{&profile.Spec, name}, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if preset, ok := presets.Lookup(name); ok {
		return &Profile{Spec: &preset.Spec}, nil
	}
	return nil, kube.Refuse(health.ProfileNotFound, "spec.network.profileRef.name: namespace %s has no NetworkProfile %q, and it is not one of the built-in %s",
		db.Namespace, name, strings.Join(presets.Names(), ", "))
}

// Render replaces a spec that only names the engine of a vendor with the full configuration of its servers, and reports
// whether it did. It does nothing if the profile or the parameters are invalid.
func Render(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase) (bool, error) {
	if !servers.Renders(db) {
		return false, nil
	}
	profile, err := ResolveProfile(ctx, reader, db)
	if kube.AsRefusal(err) != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return len(servers.Render(db, servers.Longest(db, profile.Spec))) == 0, nil
}

// resolveParameters returns the complete parameters of the engine. For a user's program, they are the parameters of its
// clients, or nil if it has none.
func resolveParameters(abilities check.Abilities, db *v1alpha1.GeoDatabase) (map[string]string, error) {
	engines := abilities.Engines
	switch {
	case db.Spec.External != nil:
		engines = abilities.Targets
	case db.Spec.Talked():
		engines = abilities.Clients
	case db.Spec.RunsPrograms():
		return nil, nil
	}
	engine, ok := engines.Lookup(db.Spec.Engine.Name)
	if !ok {
		return nil, kube.Refuse("InvalidSpec", "spec.engine.name: %q is not one of %s", db.Spec.Engine.Name, strings.Join(engines.Names(), ", "))
	}
	params, problems := engine.Resolve(db.Spec.Engine.Parameters)
	if len(problems) > 0 {
		return nil, kube.Refuse("InvalidSpec", "spec.engine.parameters.%s", problems[0])
	}
	return params, nil
}

// nodeAddresses returns the addresses of the nodes of db, in the order of geo.NodeID values. Pod names are stable, so
// the addresses stay valid when pods are replaced. If the roles of a database give some regions fewer pods than others,
// these regions have entries without addresses.
func nodeAddresses(db *v1alpha1.GeoDatabase) []deploy.Node {
	var nodes []deploy.Node
	if db.Spec.External != nil {
		return nil
	}
	most := deploy.MostPods(db)
	for _, region := range db.Spec.RegionNames() {
		pods := deploy.PodsIn(db, region)
		for _, pod := range pods {
			port := ports.Peer
			switch {
			case pod.Role != nil:
				port = int(pod.Role.Ports[0].Port)
			case db.Spec.Pods != nil:
				port = int(db.Spec.Pods.Ports[0].Port)
			}
			nodes = append(nodes, deploy.Node{
				Address: net.JoinHostPort(pod.Host, strconv.Itoa(port)),
				Admin:   net.JoinHostPort(pod.Host, strconv.Itoa(ports.Admin)),
			})
		}
		nodes = append(nodes, make([]deploy.Node, most-len(pods))...)
	}
	return nodes
}
