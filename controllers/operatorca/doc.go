// Package operatorca keeps the operator's root credentials, from which all other credentials derive, in a Secret in the
// operator's namespace. It also defines the contents that a seal on a ConfigMap covers; a seal proves that the operator
// has written it.
package operatorca

// +kubebuilder:rbac:groups="",resources=secrets,namespace=geobench-system,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=geobench-authority,namespace=geobench-system,verbs=get;patch
