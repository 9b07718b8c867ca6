// Package chaosmesh checks Geobench's Chaos Mesh objects against Chaos Mesh itself: its CRDs, generated from the module
// with its types, and its webhooks. It is a separate module, because Chaos Mesh has many dependencies.
package chaosmesh
