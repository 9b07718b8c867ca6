// Package database deploys GeoDatabases.
//
// A GeoDatabase lives through incarnations (incarnation.go): a set of nodes that started together from one immutable
// ConfigMap. Nodes keep their data in memory, so a database that lost a node is made anew.
//
// A database of several roles has steps that are carried out on pods that run (init.go).
//
// A plan says what a spec asks for (plan.go), builders turn it into objects (objects.go, programs.go), a backend that
// is chosen per database emulates the network (emulation_choice.go, emulation.go), and nodes are asked what they see of
// it (nodes.go, network.go) and in which mesh they are (mesh.go). Package run uses the same functions to find the nodes
// and the network that it measures.
package database

// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases/status,verbs=patch
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases/finalizers,verbs=update
// +kubebuilder:rbac:groups=geobench.dev,resources=networkprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns,verbs=get
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=chaos-mesh.org,resources=networkchaos,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=security.istio.io,resources=peerauthentications,verbs=list
