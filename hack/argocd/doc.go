// Package argocd applies Argo CD's own code to Geobench's objects: the functions with which its application controller
// determines the health of a resource, and its server the actions. It is a separate module, because that code has many
// dependencies in older versions.
package argocd
