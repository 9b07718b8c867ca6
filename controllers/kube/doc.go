// Package kube is what the controllers share of Kubernetes: how a reconciliation ends, how objects are made and kept as
// they should be, events and logs, and the names, labels and marks that Geobench's objects carry there. It knows
// nothing of how a database, a run or an experiment is led.
package kube

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
