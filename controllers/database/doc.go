// Package database deploys GeoDatabases.
//
// A database has a sequence of incarnations (incarnation.go). An incarnation is a set of nodes that started together
// from one immutable ConfigMap. Nodes keep their data in memory, so a database that has lost a node gets a new
// incarnation.
//
// A database with several roles can have init steps, which run once its pods are running (init.go).
//
// A plan resolves a spec (plan.go), and builders turn the plan into objects (objects.go, programs.go). Each database
// has a backend that emulates its network (emulation_choice.go, emulation.go). The operator queries nodes for their
// measurements of the network (nodes.go, network.go) and detects their service mesh (mesh.go). Package run uses the
// same functions to find the nodes and the network that a run measures.
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
