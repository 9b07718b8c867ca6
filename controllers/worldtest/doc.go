// Package worldtest simulates a cluster for the tests of reconcilers. It has a real API server; controllers, kubelet,
// nodes, load generators, Chaos Mesh and the clock are simulated. Each package of controllers has a TestMain that calls
// Main, and each test makes a separate World.
package worldtest
