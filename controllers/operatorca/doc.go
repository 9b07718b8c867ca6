// Package operatorca keeps what the operator proves itself with and derives all other credentials from: a Secret in its
// own namespace. It also says what a seal on a ConfigMap is over, which proves that the operator has written it.
package operatorca

// +kubebuilder:rbac:groups="",resources=secrets,namespace=geobench-system,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=geobench-authority,namespace=geobench-system,verbs=get;patch
