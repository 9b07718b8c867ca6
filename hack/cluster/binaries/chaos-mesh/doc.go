// Package chaosmesh pins the modules that Chaos Mesh is built from for the tests on the local node.
package chaosmesh
