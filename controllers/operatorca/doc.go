// Package operatorca manages the operator's root credentials, from which all other credentials derive, in a Secret in
// the operator's namespace. It also defines which contents of a ConfigMap a seal covers. A seal proves that the
// operator wrote these contents.
package operatorca

// +kubebuilder:rbac:groups="",resources=secrets,namespace=geobench-system,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=geobench-authority,namespace=geobench-system,verbs=get;patch
