// Package chaosmesh pins the modules from which Chaos Mesh is built for the tests on the local node.
package chaosmesh
