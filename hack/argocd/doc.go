// Package argocd applies Argo CD's own code to Geobench's objects: the functions by which its application controller
// finds the health of a resource, and its server the actions. It is a separate module, because that code has many
// dependencies in older releases.
package argocd
