// Package argocd has Argo CD's own code judge Geobench's objects: the functions by which its application controller
// finds the health of a resource, and its server the actions. It is a module of its own, because that code brings in a
// lot, of older releases.
package argocd
