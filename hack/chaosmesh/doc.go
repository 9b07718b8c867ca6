// Package chaosmesh holds what Geobench makes for Chaos Mesh against Chaos Mesh itself: its CRDs, generated from the module
// with its types, and what its webhooks say. It is a module of its own, because that module brings in a lot.
package chaosmesh
