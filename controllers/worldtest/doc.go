// Package worldtest plays a cluster for the tests of reconcilers: a real API server, on which controllers, kubelet,
// nodes, load generators, Chaos Mesh and the clock are played. Each package of controllers has a TestMain that calls
// Main, and each test makes a World of its own.
package worldtest
