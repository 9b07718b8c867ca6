package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/health"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/presets"
)

const (
	// peerPort is where nodes listen for peers and clients, adminPort for the operator, and metricsPort for everybody: probes and
	// Prometheus.
	peerPort    = 7000
	metricsPort = 7001
	adminPort   = 7004
)

// refusal is a spec that cannot be carried out. It is shown in the status and waits for the user.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// asRefusal returns the refusal that err is, if it is one: a name that somebody else has is for the user to settle, too.
func asRefusal(err error) *refusal {
	var r *refusal
	var taken *nameTakenError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &taken):
		return &refusal{health.NameTaken, taken.Error()}
	}
	return nil
}

// databasePlan is what a GeoDatabase's spec asks for.
type databasePlan struct {
	profile *resolvedProfile
	// database is complete but for what differs between incarnations: Epoch and Incarnation.
	database deploy.Database
	// emulation is the backend, never Auto; why says in a sentence why that one.
	emulation v1alpha1.Emulation
	why       string
	// hash stands for everything that nodes must agree on.
	hash string
}

// chooser picks the backend that emulates a database's network, never Auto, and says in a sentence why that one.
type chooser func(ctx context.Context, db *v1alpha1.GeoDatabase) (v1alpha1.Emulation, string, error)

// planDatabase works out what to deploy for db from image. An error of type *refusal is the user's to mend.
func planDatabase(ctx context.Context, reader client.Reader, abilities check.Abilities, choose chooser, db *v1alpha1.GeoDatabase, image string) (*databasePlan, error) {
	profile, err := resolveProfile(ctx, reader, db)
	if err != nil {
		return nil, err
	}
	if problems := check.Database(db, profile.spec, abilities); len(problems) > 0 {
		return nil, refuse("InvalidSpec", "%s", problems)
	}
	params, err := resolveParameters(abilities, db)
	if err != nil {
		return nil, err
	}
	topology, err := plan.Topology(&db.Spec, profile.spec)
	if err != nil {
		return nil, refuse("InvalidSpec", "spec.network: %s", err)
	}
	p := &databasePlan{profile: profile}
	if p.emulation, p.why, err = choose(ctx, db); err != nil {
		return nil, err
	}
	p.database = deploy.Database{
		Name:       db.Name,
		Engine:     db.Spec.Engine.Name,
		Parameters: params,
		Topology:   topology,
		Emulate:    p.emulation == v1alpha1.EmulationBuiltIn,
		Seed:       1,
		Nodes:      nodeAddresses(db),
	}
	// What makes no difference to the engine but to its pods is part of the hash too: pods are replaced together or not
	// at all.
	parts := []any{&p.database, db.Spec.Regions, db.Spec.Placement, db.Spec.Resources, image}
	if db.Spec.Pods != nil || p.emulation != v1alpha1.EmulationBuiltIn && p.emulation != v1alpha1.EmulationNone {
		parts = append(parts, db.Spec.Pods, p.emulation)
	}
	if db.Spec.Durability == v1alpha1.DurabilityJournal {
		parts = append(parts, db.Spec.Durability)
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	p.hash = shortHash(string(b))
	return p, nil
}

// resolvedProfile is the network of a database, and the name of the NetworkProfile that it is from; empty for one that is inline
// or built in.
type resolvedProfile struct {
	spec *v1alpha1.NetworkProfileSpec
	name string
}

// resolveProfile finds the network of a database: inline, a NetworkProfile of its namespace, or else a built-in
// one of that name.
func resolveProfile(ctx context.Context, reader client.Reader, db *v1alpha1.GeoDatabase) (*resolvedProfile, error) {
	if db.Spec.Network.Profile != nil {
		return &resolvedProfile{spec: db.Spec.Network.Profile}, nil
	}
	if db.Spec.Network.ProfileRef == nil {
		return nil, refuse("InvalidSpec", "spec.network: neither profile nor profileRef is set")
	}
	name := db.Spec.Network.ProfileRef.Name
	profile := &v1alpha1.NetworkProfile{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: name}, profile)
	if err == nil {
		return &resolvedProfile{&profile.Spec, name}, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if preset, ok := presets.Lookup(name); ok {
		return &resolvedProfile{spec: &preset.Spec}, nil
	}
	return nil, refuse(health.ProfileNotFound, "spec.network.profileRef.name: namespace %s has no NetworkProfile %q, and it is not one of the built-in %s",
		db.Namespace, name, strings.Join(presets.Names(), ", "))
}

// resolveParameters returns the engine's parameters, complete; a program of the user's own has none.
func resolveParameters(abilities check.Abilities, db *v1alpha1.GeoDatabase) (map[string]string, error) {
	if db.Spec.Pods != nil {
		return nil, nil
	}
	engine, ok := abilities.Engines.Lookup(db.Spec.Engine.Name)
	if !ok {
		return nil, refuse("InvalidSpec", "spec.engine.name: %q is not one of %s", db.Spec.Engine.Name, strings.Join(abilities.Engines.Names(), ", "))
	}
	params, problems := engine.Resolve(db.Spec.Engine.Parameters)
	if len(problems) > 0 {
		return nil, refuse("InvalidSpec", "spec.engine.parameters.%s", problems[0])
	}
	return params, nil
}

// nodeAddresses lists where the nodes of db listen, in the order of geo.NodeID. Pod names are stable, so the addresses
// outlive the pods.
func nodeAddresses(db *v1alpha1.GeoDatabase) []deploy.Node {
	var nodes []deploy.Node
	for _, region := range db.Spec.Regions {
		for ordinal := range nodesPerRegion(db) {
			host := nodeHost(db, region.Name, ordinal)
			n := deploy.Node{
				Address: net.JoinHostPort(host, strconv.Itoa(peerPort)),
				Admin:   net.JoinHostPort(host, strconv.Itoa(adminPort)),
			}
			if db.Spec.Pods != nil {
				n.Address = programAddress(db, host)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func nodesPerRegion(db *v1alpha1.GeoDatabase) int {
	return int(db.Spec.PartitionsPerRegion) * int(db.Spec.ReplicasPerPartition)
}
