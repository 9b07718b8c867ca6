// Package argocd tests Geobench's objects with the code of Argo CD. It calls the functions with which Argo CD's
// application controller determines the health of a resource. It also calls the functions with which Argo CD's server
// finds and executes actions. It is a separate module, because Argo CD has many dependencies in older versions.
package argocd
