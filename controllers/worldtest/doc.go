// Package worldtest simulates a cluster for the tests of reconcilers. Only the API server is real. The controllers of
// Kubernetes, the kubelet, nodes, load generators, Chaos Mesh and the clock are simulated. Each tested package has a
// TestMain that calls Main, and each test creates its own cluster with NewWorld.
package worldtest
