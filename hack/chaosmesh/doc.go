// Package chaosmesh tests Geobench's Chaos Mesh objects with Chaos Mesh's webhooks and CRDs. It generates the CRDs from
// the module with the types. It is a separate module, because Chaos Mesh has many dependencies.
package chaosmesh
