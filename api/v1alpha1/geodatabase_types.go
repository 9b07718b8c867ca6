package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeoDatabaseSpec describes the database to deploy, and its regions and network.
//
// +kubebuilder:validation:XValidation:rule="self.engine.name == oldSelf.engine.name",messageExpression="'engine.name cannot change from ' + oldSelf.engine.name + ' to ' + self.engine.name + ': create another GeoDatabase'",fieldPath=".engine.name"
// +kubebuilder:validation:XValidation:rule="has(self.external) == has(oldSelf.external)",message="external cannot be added or removed: create another GeoDatabase"
// +kubebuilder:validation:XValidation:rule="has(self.pods) == has(oldSelf.pods)",message="pods cannot be added or removed: create another GeoDatabase"
// +kubebuilder:validation:XValidation:rule="has(self.network) || has(self.external)",message="network is required: neither profile nor profileRef is set; name a NetworkProfile in network.profileRef or write one inline in network.profile"
// +kubebuilder:validation:XValidation:rule="!(has(self.pods) && has(self.external))",message="pods and external are both set: keep pods to deploy the database, or external to use one that runs"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.pods) && !has(self.external)",message="roles is set beside pods or external: keep one of the three"
// +kubebuilder:validation:XValidation:rule="has(self.roles) == has(oldSelf.roles)",message="roles cannot be added or removed: create another GeoDatabase"
// +kubebuilder:validation:XValidation:rule="!has(self.init) || has(self.roles)",message="init runs in the images of roles, and there are none: set roles, or leave init out",fieldPath=".init"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.partitionsPerRegion == 1 && self.replicasPerPartition == 1",message="with roles leave partitionsPerRegion and replicasPerPartition out, or 1: roles[].perRegion says how many pods a region has",fieldPath=".roles"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.all(r, !has(r.firstRegions) || r.firstRegions <= self.regions.size())",message="a role's firstRegions are more than there are regions: make it at most their number, or leave it out",fieldPath=".roles"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.exists(r, !has(r.firstRegions) || r.firstRegions == self.regions.size())",message="no role is in all regions, and each needs a pod that measures its links: leave firstRegions of one role out, or name fewer regions",fieldPath=".roles"
// +kubebuilder:validation:XValidation:rule="self.regions.size() * self.partitionsPerRegion * self.replicasPerPartition <= 16384",messageExpression="'%d regions x %d partitions x %d replicas are %d nodes: at most 16384 are possible'.format([self.regions.size(), self.partitionsPerRegion, self.replicasPerPartition, self.regions.size() * self.partitionsPerRegion * self.replicasPerPartition])",fieldPath=".partitionsPerRegion"
// +kubebuilder:validation:XValidation:rule="self.network.emulation != 'Sidecar' || self.regions.size() * (self.partitionsPerRegion * self.replicasPerPartition + 1) <= 4096",messageExpression="'%d regions x %d partitions x %d replicas are %d nodes: a sidecar knows at most 4096 peers, one per region of which are load generators; take fewer, or another spec.network.emulation'.format([self.regions.size(), self.partitionsPerRegion, self.replicasPerPartition, self.regions.size() * self.partitionsPerRegion * self.replicasPerPartition])",fieldPath=".partitionsPerRegion"
type GeoDatabaseSpec struct {
	// Engine is the database engine and its parameters.
	// +required
	Engine Engine `json:"engine"`

	// Regions that host nodes of the database. Their order matters where a protocol has a first region, for example for
	// the leader of a global log.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Regions []Region `json:"regions"`

	// Homes lists the regions that can own rows, each with partitionsPerRegion partitions; the default is all regions.
	// They must be the first entries of regions. The remaining regions store copies of rows, and their clients treat the
	// rows of the nearest home as local. The field is only for engines that support groups.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=24
	// +optional
	Homes []string `json:"homes,omitempty"`

	// PartitionsPerRegion is the number of partitions into which each region's copy of the data is divided.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	PartitionsPerRegion int32 `json:"partitionsPerRegion,omitempty"`

	// ReplicasPerPartition is the number of nodes in each region that replicate a partition.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:default=1
	// +optional
	ReplicasPerPartition int32 `json:"replicasPerPartition,omitempty"`

	// Groups sets which regions store the rows of each home and partition, and which region leads initially, for engines
	// with a configurable placement. Rows without a group are stored in every region, on all replicas of their partition,
	// and their home region leads.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Groups []ReplicaGroup `json:"groups,omitempty"`

	// Network between the regions. Omit it with external, because the links of an external database are real.
	// +optional
	Network Network `json:"network,omitzero"`

	// Placement of a region's pods on Kubernetes nodes with the region's name in the label topology.kubernetes.io/region:
	// Preferred (if such nodes exist), Required, or Anywhere (any node).
	// +kubebuilder:default=Preferred
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// Durability of the nodes of Geobench's own engines: None or Journal. With None, as in the papers, a lost node loses
	// its state. With Journal, a node writes each input to disk before it sends any message that results from the input.
	// When its process restarts, the node recovers from the journal. A journal grows by about the number of bytes that the
	// node receives. The node truncates the journal when it has grown by half of the size of the data and by at least 32
	// MiB.
	// +kubebuilder:default=None
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Resources of one node of the database. The node uses as many processors as its CPU limit allows (or its request,
	// without a limit), and one by default. For Geobench's own engines, the default memory limit is 8Gi, and a node
	// rejects data that would fill more than 75% of its memory.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// External describes a database that already runs. Nothing is deployed then.
	// +optional
	External *External `json:"external,omitempty"`

	// Pods configures the program of the nodes if the engine is not one of Geobench's own: any program in any image.
	// engine.name is then only a label in results. engine.parameters must be empty unless pods.client configures a
	// client.
	// +optional
	Pods *Pods `json:"pods,omitempty"`

	// Roles configures the servers of a database that consists of several kinds of server; it replaces pods. Each role
	// runs a program in one or more pods per region. engine.name is then only a label in results. engine.parameters must
	// be empty unless a role configures the connection of clients.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +optional
	Roles []Role `json:"roles,omitempty"`

	// Init lists the steps that turn running pods into a database, in order, for example to create the cluster, place the
	// data and create users. Each step is a Job in the emulated network. The database is ready once all steps have
	// succeeded. The steps run once for each incarnation. A new incarnation starts when all pods of a step's role were
	// replaced, because their files are lost. A failed step is retried until its timeout, so it must be idempotent.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Init []InitStep `json:"init,omitempty"`
}

// ReplicaGroup sets the placement of the rows of one home.
//
// +kubebuilder:validation:XValidation:rule="!has(self.leader) || self.replicas.exists(r, r.region == self.leader)",messageExpression="'leader ' + self.leader + ' has no replica of the group: add its region to replicas, or choose one that is there'",fieldPath=".leader"
type ReplicaGroup struct {
	// Home is the home region of the rows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Home string `json:"home"`
	// Partitions of the home, from 0; the default is all of them. Each partition becomes a separate group.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=63
	// +optional
	Partitions []int32 `json:"partitions,omitempty"`
	// Replicas lists the regions that store the rows.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Replicas []GroupReplicas `json:"replicas"`
	// Leader is the region that leads initially and, if the engine supports it, again after a failure. The default is the
	// home if it has a replica, else the first region of replicas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Leader string `json:"leader,omitempty"`
}

// GroupReplicas is the number of nodes of a region that store the rows of a group.
type GroupReplicas struct {
	// Region that stores the rows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// Count is the number of nodes in the region that store the rows, at most replicasPerPartition.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:default=1
	// +optional
	Count int32 `json:"count,omitempty"`
}

// Engine is a database engine and its parameters.
type Engine struct {
	// Name of the engine, for example calvin.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// Parameters of the engine, by name; the documentation of each engine lists them. Values are strings: quote numbers.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Region is a region that hosts nodes of the database.
type Region struct {
	// Name of the region, as in the network profile.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// NodeSelector of the region's pods, in addition to the requirements of placement.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the region's pods.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Durability is the part of a node's state that survives the end of its process.
// +kubebuilder:validation:Enum=None;Journal
type Durability string

const (
	// DurabilityNone keeps all state in memory.
	DurabilityNone Durability = "None"
	// DurabilityJournal logs every input of a node and syncs it to disk before the input has an effect outside the node.
	DurabilityJournal Durability = "Journal"
)

// Placement selects the Kubernetes nodes for a region's pods.
// +kubebuilder:validation:Enum=Preferred;Required;Anywhere
type Placement string

const (
	// PlacementPreferred prefers nodes with the region's name in the label topology.kubernetes.io/region.
	PlacementPreferred Placement = "Preferred"
	// PlacementRequired uses only nodes with the region's name in the label topology.kubernetes.io/region.
	PlacementRequired Placement = "Required"
	// PlacementAnywhere uses any node.
	PlacementAnywhere Placement = "Anywhere"
)

// Network is the wide-area network between a database's regions.
//
// +kubebuilder:validation:XValidation:rule="has(self.profile) != has(self.profileRef)",messageExpression="has(self.profile) ? 'profile and profileRef are both set: keep exactly one of them' : 'neither profile nor profileRef is set: name a NetworkProfile in profileRef or write one inline in profile'"
type Network struct {
	// ProfileRef names a NetworkProfile in the same namespace, or a built-in profile.
	// +optional
	ProfileRef *LocalReference `json:"profileRef,omitempty"`
	// Profile is an inline NetworkProfile spec.
	// +optional
	Profile *NetworkProfileSpec `json:"profile,omitempty"`
	// Emulation is the backend that injects the declared latency. Auto selects the first backend that works;
	// status.emulation names it.
	// +kubebuilder:default=Auto
	// +optional
	Emulation Emulation `json:"emulation,omitempty"`
	// Congestion is the congestion control of the connections that Geobench models: in simulations, and with the
	// emulation BuiltIn. With Open, the default, a lost packet costs time but does not shrink the window. Reno and Cubic
	// use slow start and a window that shrinks with each loss, like the kernel; Cubic is the default of Linux. With the
	// other backends, connections use the kernel's congestion control.
	// +optional
	Congestion Congestion `json:"congestion,omitempty"`
	// Mesh selects the service mesh for the pods of the database and the workers of its runs. With Auto, the default, the
	// namespace decides, and status.mesh names the mesh that was found. None excludes the pods from the namespace's mesh.
	// Sidecar requires an Istio proxy in each pod, Ambient an Istio proxy on each machine. A database does not become
	// ready while its pods are in a different mesh.
	// +optional
	Mesh Mesh `json:"mesh,omitempty"`
}

// Mesh is a kind of service mesh.
// +kubebuilder:validation:Enum=Auto;None;Sidecar;Ambient
type Mesh string

const (
	// MeshAuto uses the mesh that the labels of the namespace select.
	MeshAuto Mesh = "Auto"
	// MeshNone uses no mesh.
	MeshNone Mesh = "None"
	// MeshSidecar is Istio with a proxy in each pod.
	MeshSidecar Mesh = "Sidecar"
	// MeshAmbient is Istio with a proxy on each machine (ztunnel).
	MeshAmbient Mesh = "Ambient"
)

// MutualTLS is the mesh's requirement for connections to a pod.
// +kubebuilder:validation:Enum=Strict;Permissive;Disabled;Unknown
type MutualTLS string

const (
	// MutualTLSStrict rejects clients without a certificate of the mesh.
	MutualTLSStrict MutualTLS = "Strict"
	// MutualTLSPermissive accepts both encrypted connections from pods of the mesh and plain connections from other
	// clients.
	MutualTLSPermissive MutualTLS = "Permissive"
	// MutualTLSDisabled uses no encryption.
	MutualTLSDisabled MutualTLS = "Disabled"
	// MutualTLSUnknown means that the operator has no permission to read the setting.
	MutualTLSUnknown MutualTLS = "Unknown"
)

// MeshStatus describes the service mesh that the operator found in the pods.
type MeshStatus struct {
	// Mode is the kind of mesh, never Auto.
	// +kubebuilder:validation:Enum=None;Sidecar;Ambient
	// +required
	Mode Mesh `json:"mode,omitempty"`
	// MutualTLS is the requirement that PeerAuthentications set for connections to the nodes' port, or to the first port
	// of a database's program. It is omitted without a mesh.
	// +optional
	MutualTLS MutualTLS `json:"mutualTLS,omitempty"`
	// Version of the proxies, from the tag or the revision label of their image; empty if neither names it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`
}

// Congestion is a congestion control algorithm.
// +kubebuilder:validation:Enum=Open;Reno;Cubic
type Congestion string

const (
	// CongestionOpen never shrinks the window.
	CongestionOpen Congestion = "Open"
	// CongestionReno is the algorithm of RFC 5681.
	CongestionReno Congestion = "Reno"
	// CongestionCubic is the algorithm of RFC 9438.
	CongestionCubic Congestion = "Cubic"
)

// Emulation is a backend of network emulation.
// +kubebuilder:validation:Enum=Auto;ChaosMesh;Sidecar;BuiltIn;None
type Emulation string

const (
	// EmulationAuto selects the first backend that works.
	EmulationAuto Emulation = "Auto"
	// EmulationChaosMesh injects delay with NetworkChaos objects of Chaos Mesh.
	EmulationChaosMesh Emulation = "ChaosMesh"
	// EmulationSidecar injects delay in a sidecar of each pod.
	EmulationSidecar Emulation = "Sidecar"
	// EmulationBuiltIn injects delay in the connections of Geobench's own engines.
	EmulationBuiltIn Emulation = "BuiltIn"
	// EmulationNone injects no delay, but round-trip times are still measured.
	EmulationNone Emulation = "None"
)

// External is a database that already runs.
type External struct {
	// Endpoints to which workers connect, one per region.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Endpoints []ExternalEndpoint `json:"endpoints"`
	// SecretRef names a Secret with the keys username, password and ca.crt (optional). The command geobench run
	// reads them from files (NAME/username and so on) in the folder that --secrets names.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
	// Database is the name of the database to use.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Database string `json:"database,omitempty"`
}

// ExternalEndpoint is the address to which the workers of a region connect.
type ExternalEndpoint struct {
	// Region of the workers that use the endpoint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// Address is host:port.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:Pattern=`^.+:[0-9]{1,5}$`
	// +required
	Address string `json:"address"`
}

// Conditions of a GeoDatabase, in addition to ConditionProgressing and ConditionCleanupFailed.
const (
	// ConditionNodesReady is true if every node of the database serves requests, in the topology of the current
	// generation.
	ConditionNodesReady = "NodesReady"
	// ConditionNetworkEmulated is true if the declared network is injected on every node.
	ConditionNetworkEmulated = "NetworkEmulated"
	// ConditionAuthenticated is False for a deployed database without client authentication, such as CockroachDB with
	// --insecure, which only NetworkPolicies protect. Other databases do not have the condition.
	ConditionAuthenticated = "Authenticated"
	// ConditionInitialized is true if all steps of spec.init have succeeded in the current incarnation. It is absent if
	// the spec has no such steps.
	ConditionInitialized = "Initialized"
	// ConditionNetworkVerified is true if the measured round-trip time of every link matches the declared value. The
	// tolerance is 5% + 1 ms, plus the sampling error of the median if jitter is declared.
	ConditionNetworkVerified = "NetworkVerified"
)

// GeoDatabaseStatus reports the observed state of a database.
type GeoDatabaseStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the database: Accepted, Progressing, NodesReady, Initialized, NetworkEmulated and NetworkVerified.
	// Ready, Reconciling and Stalled are for generic tools such as Flux and Helm.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Regions reports the nodes of each region.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Regions []RegionStatus `json:"regions,omitempty"`
	// Groups lists the first 256 sets of nodes that store the same rows, with their leaders, for engines with such
	// groups.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Groups []GroupStatus `json:"groups,omitempty"`
	// Endpoints lists the address for the clients of each region, for a database with a role that clients connect to.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`
	// RegionNames is the comma-separated list of regions that kubectl get shows.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RegionNames string `json:"regionNames,omitempty"`
	// ReadyNodes is the number of ready nodes and of all nodes, for example 3/4. kubectl get shows it.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ReadyNodes string `json:"readyNodes,omitempty"`
	// Emulation is the backend in use, never Auto.
	// +kubebuilder:validation:Enum=ChaosMesh;Sidecar;BuiltIn;None
	// +optional
	Emulation Emulation `json:"emulation,omitempty"`
	// EmulationReason is the reason for the choice of the backend.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	EmulationReason string `json:"emulationReason,omitempty"`
	// Mesh is the service mesh that was found in the pods.
	// +optional
	Mesh *MeshStatus `json:"mesh,omitempty"`
	// EmulationGaps lists the latest periods in which a pod ran while some of its links were not as declared. The newest
	// period is last.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	EmulationGaps []EmulationGap `json:"emulationGaps,omitempty"`
	// Links lists declared and measured round-trip times for each pair of regions.
	// +listType=map
	// +listMapKey=from
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Links []LinkStatus `json:"links,omitempty"`
	// TopologyHash identifies the topology (engine, parameters, regions, partitions, network) that the nodes run.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TopologyHash string `json:"topologyHash,omitempty"`
	// Incarnation identifies the set of running node processes. It changes when a process is replaced or restarts. Data
	// that was loaded into one incarnation may be missing in the next.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Incarnation string `json:"incarnation,omitempty"`
	// ActiveRun is the name of the BenchmarkRun that currently uses the database; other runs wait.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ActiveRun string `json:"activeRun,omitempty"`
}

// EmulationGap is a period in which a pod ran without the declared network.
type EmulationGap struct {
	// Pod that ran without some of its links.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod"`
	// UID distinguishes the pod from other pods of the same name.
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
	// Region of the pod.
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// From is the time at which the pod's containers started or its links were found missing.
	// +required
	From metav1.MicroTime `json:"from"`
	// To is the time at which the links were in place or the pod had stopped; unset while the gap lasts.
	// +optional
	To *metav1.MicroTime `json:"to,omitempty"`
}

// EndpointStatus is the address for the clients of a region.
type EndpointStatus struct {
	// Region of the clients.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// Address is host:port.
	// +kubebuilder:validation:MaxLength=261
	// +required
	Address string `json:"address"`
}

// GroupStatus reports the leader of a set of nodes that store the same rows.
type GroupStatus struct {
	// Name of the group: the home region of the rows and their partition, for example eu/0.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Name string `json:"name"`
	// Leader is the leading node as region/partition/replica; empty if no leader is known.
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Leader string `json:"leader,omitempty"`
	// Members is the number of nodes that store the rows.
	// +optional
	Members int32 `json:"members"`
}

// RegionStatus reports the nodes of a region.
type RegionStatus struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// Nodes is the desired number of nodes.
	// +optional
	Nodes int32 `json:"nodes"`
	// ReadyNodes is the number of nodes that serve requests.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`
}

// LinkStatus reports the declared and the measured round-trip time of a link.
type LinkStatus struct {
	// From is the region that measures the link.
	// +kubebuilder:validation:MaxLength=24
	// +required
	From string `json:"from"`
	// To is the region at the other end of the link.
	// +kubebuilder:validation:MaxLength=24
	// +required
	To string `json:"to"`
	// DeclaredRTTMicroseconds is the round-trip time in the network profile.
	// +optional
	DeclaredRTTMicroseconds int64 `json:"declaredRTTMicroseconds"`
	// MeasuredRTTMicroseconds is the round-trip time that the nodes measure.
	// +optional
	MeasuredRTTMicroseconds RTTMicroseconds `json:"measuredRTTMicroseconds"`
	// Samples is the number of round trips that were measured.
	// +optional
	Samples int64 `json:"samples"`
	// Mesh is the overhead of a service mesh on the link, if spec.network.mesh names a mesh.
	// +optional
	Mesh *MeshLink `json:"mesh,omitempty"`
}

// MeshLink reports the overhead of a service mesh on a link. Two probes take the same path at the same time: UDP
// packets, which bypass the mesh, and a TCP connection through the mesh. The emulation of Geobench's own engines delays
// neither.
type MeshLink struct {
	// BelowRTTMicroseconds is the median round-trip time of the probe that bypasses the mesh.
	// +optional
	BelowRTTMicroseconds int64 `json:"belowRTTMicroseconds"`
	// ThroughRTTMicroseconds is the median round-trip time of the probe through the mesh.
	// +optional
	ThroughRTTMicroseconds int64 `json:"throughRTTMicroseconds"`
	// AddedRTTMicroseconds is the overhead of the mesh: throughRTTMicroseconds minus belowRTTMicroseconds.
	// +optional
	AddedRTTMicroseconds int64 `json:"addedRTTMicroseconds"`
	// Samples is the number of round trips of the probe that measured fewer.
	// +optional
	Samples int64 `json:"samples"`
}

// GeoDatabase is a database with nodes in several regions and a network between them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=geodb;gdb,categories=geobench
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.engine.name`
// +kubebuilder:printcolumn:name="Regions",type=string,JSONPath=`.status.regionNames`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.readyNodes`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.status.conditions[?(@.type=="NetworkVerified")].reason`
// +kubebuilder:printcolumn:name="Emulation",type=string,JSONPath=`.status.emulation`
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.status.activeRun`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 27 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",messageExpression="'metadata.name ' + self.metadata.name + ' names pods and services together with the region: it must be at most 27 lower-case letters, digits and dashes, and start with a letter'"
type GeoDatabase struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec describes the database to deploy.
	// +required
	Spec GeoDatabaseSpec `json:"spec"`
	// Status reports the observed state of the database. observedGeneration is -1 until the operator has processed the
	// database for the first time.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status GeoDatabaseStatus `json:"status,omitzero"`
}

// GeoDatabaseList is a list of databases.
//
// +kubebuilder:object:root=true
type GeoDatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []GeoDatabase `json:"items"`
}
