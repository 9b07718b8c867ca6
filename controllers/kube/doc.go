// Package kube has the controllers' shared code for Kubernetes. It concludes reconciliations, creates and maintains
// objects, and has events, logs, and the names, labels and annotations of Geobench's objects. It knows nothing about
// the course of a database, a run or an experiment.
package kube

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
