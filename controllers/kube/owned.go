package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/internal/net/emulation"
)

// OwnedBy implements emulation.Cluster for a backend of the emulation. Owner owns all objects that the backend creates.
type OwnedBy struct {
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live  client.Reader
	Owner client.Object
}

// Get implements emulation.Cluster.
func (o *OwnedBy) Get(ctx context.Context, namespace, name string, into emulation.Object) error {
	return o.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
}

// List implements emulation.Cluster.
func (o *OwnedBy) List(ctx context.Context, namespace string, labels map[string]string, into runtime.Object) error {
	return o.Live.List(ctx, into.(client.ObjectList), client.InNamespace(namespace), client.MatchingLabels(labels))
}

// Ensure implements emulation.Cluster.
func (o *OwnedBy) Ensure(ctx context.Context, obj emulation.Object) error {
	return Ensure(ctx, liveReads{o.Client, o.Live}, o.Live, o.Owner, obj)
}

// Create implements emulation.Cluster.
func (o *OwnedBy) Create(ctx context.Context, obj emulation.Object) error {
	return EnsureCreated(ctx, o.Client, o.Live, o.Owner, obj)
}

// Delete implements emulation.Cluster.
func (o *OwnedBy) Delete(ctx context.Context, obj emulation.Object) error {
	return o.Client.Delete(ctx, obj)
}

// Patch implements emulation.Cluster.
func (o *OwnedBy) Patch(ctx context.Context, obj emulation.Object, patch []byte) error {
	return o.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
}

// liveReads is a client that reads from the API server, because the cache does not contain the data of ConfigMaps.
type liveReads struct {
	client.Client
	live client.Reader
}

// Get reads from the API server.
func (l liveReads) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return l.live.Get(ctx, key, obj, opts...)
}
