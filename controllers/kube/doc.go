// Package kube contains the code for Kubernetes that all controllers share. It concludes reconciliations, creates and
// maintains objects, and defines events, logs, and the names, labels and annotations of Geobench's objects. It does not
// depend on the stages of databases, runs and experiments.
package kube

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
