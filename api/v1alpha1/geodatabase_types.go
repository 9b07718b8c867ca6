package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeoDatabaseSpec says which database to deploy, and where.
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
	// Engine is the database and its parameters.
	// +required
	Engine Engine `json:"engine"`

	// Regions that hold nodes of the database. Their order matters where a protocol has a first region, for example
	// the leader of a global log.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Regions []Region `json:"regions"`

	// Homes are the regions that can own rows, each with partitionsPerRegion partitions; the default is all regions. They
	// are the first entries of regions. The remaining regions have copies of rows, and clients that use the rows of the
	// nearest home as local rows. The field is for engines that take groups.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=24
	// +optional
	Homes []string `json:"homes,omitempty"`

	// PartitionsPerRegion is the number of partitions that a region's copy of the data is split into.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	PartitionsPerRegion int32 `json:"partitionsPerRegion,omitempty"`

	// ReplicasPerPartition is the number of members of a partition's group inside a region.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:default=1
	// +optional
	ReplicasPerPartition int32 `json:"replicasPerPartition,omitempty"`

	// Groups say which regions keep the rows of which homes and partitions, and which of them leads at first, for engines that
	// leave the choice. Rows that no group names are kept in every region, as often as a partition has replicas, and led from
	// their home.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Groups []ReplicaGroup `json:"groups,omitempty"`

	// Network between the regions. It is omitted with external, because the links of an external database are real.
	// +optional
	Network Network `json:"network,omitzero"`

	// Placement ties the pods of a region to nodes whose label topology.kubernetes.io/region is the region's name:
	// Preferred (if such nodes exist), Required, or Anywhere.
	// +kubebuilder:default=Preferred
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// Durability of the nodes of Geobench's own engines: None or Journal. With None, as in the papers, a lost node loses
	// its state. With Journal, a node writes each input to disk before it sends any message that results from the input.
	// The node continues from the journal when its process starts again. A journal grows by about the bytes that the node
	// receives. It is truncated when it has grown by half of the data's size, and by at least 32 MiB.
	// +kubebuilder:default=None
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Resources of one node of the database. The node uses as many processors as the CPU limit (else the request), and one
	// by default. For a node of Geobench's own engines, the memory limit is 8Gi by default. Such a node refuses data that
	// fills more than 75% of its memory.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// External names the endpoints of a database that already runs; nothing is deployed then.
	// +optional
	External *External `json:"external,omitempty"`

	// Pods configures the program of the nodes for an engine that is not one of Geobench's own: any program in any image.
	// engine.name is then only a name for results. engine.parameters must be empty unless pods.client configures a client.
	// +optional
	Pods *Pods `json:"pods,omitempty"`

	// Roles are the kinds of servers of a database that consists of several, in place of pods. Each role runs a program in
	// some pods of each region. engine.name is then only a name for results. engine.parameters must be empty unless the
	// client of a role configures the connection.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +optional
	Roles []Role `json:"roles,omitempty"`

	// Init lists the steps that turn running pods into a database, in order: for example cluster creation, placement,
	// users. Each step is a Job in the emulated network, and the database is ready once all have succeeded. The steps run
	// once for each incarnation. A new incarnation starts when all pods of a step's role were replaced, because their
	// files are lost. A failed step is retried until its timeout, so it must be idempotent.
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
	// Home is the region that the rows call home.
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
	// Replicas are the regions that keep the rows.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +required
	Replicas []GroupReplicas `json:"replicas"`
	// Leader is the region that leads at first, and again after a failure where the engine can; by default the home, if it has
	// a replica, or else the first region of replicas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Leader string `json:"leader,omitempty"`
}

// GroupReplicas is the number of nodes of a region that keep the rows of a group.
type GroupReplicas struct {
	// Region that keeps the rows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// Count of nodes there, at most replicasPerPartition.
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

// Region is a place that holds nodes.
type Region struct {
	// Name of the region, as the network profile calls it.
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

// Durability is what of a node outlives its process.
// +kubebuilder:validation:Enum=None;Journal
type Durability string

const (
	// DurabilityNone keeps everything in memory.
	DurabilityNone Durability = "None"
	// DurabilityJournal logs every input of a node, synced to the disk, before it has an effect that others can see.
	DurabilityJournal Durability = "Journal"
)

// Placement selects the Kubernetes nodes for a region's pods.
// +kubebuilder:validation:Enum=Preferred;Required;Anywhere
type Placement string

const (
	// PlacementPreferred prefers nodes that carry the region's name as topology.kubernetes.io/region.
	PlacementPreferred Placement = "Preferred"
	// PlacementRequired only takes nodes that carry the region's name as topology.kubernetes.io/region.
	PlacementRequired Placement = "Required"
	// PlacementAnywhere takes any node.
	PlacementAnywhere Placement = "Anywhere"
)

// Network is the wide-area network between a database's regions.
//
// +kubebuilder:validation:XValidation:rule="has(self.profile) != has(self.profileRef)",messageExpression="has(self.profile) ? 'profile and profileRef are both set: keep exactly one of them' : 'neither profile nor profileRef is set: name a NetworkProfile in profileRef or write one inline in profile'"
type Network struct {
	// ProfileRef names a NetworkProfile of this namespace, or a built-in profile.
	// +optional
	ProfileRef *LocalReference `json:"profileRef,omitempty"`
	// Profile is an inline NetworkProfile spec.
	// +optional
	Profile *NetworkProfileSpec `json:"profile,omitempty"`
	// Emulation is the backend that injects the declared latency. Auto picks the first that works and names it in
	// status.emulation.
	// +kubebuilder:default=Auto
	// +optional
	Emulation Emulation `json:"emulation,omitempty"`
	// Congestion is the congestion control of the connections that Geobench models, in simulations and with the emulation
	// BuiltIn. With Open, the default, a lost packet costs time, but the window stays open. Reno and Cubic use slow start
	// and a window that shrinks with each loss, like the kernel; Cubic is the default of Linux. Connections with
	// externally added delay use the kernel's congestion control.
	// +optional
	Congestion Congestion `json:"congestion,omitempty"`
	// Mesh selects the service mesh for the pods of the database and the workers of its runs. With Auto, the default, the
	// namespace decides; status.mesh names the mesh that was found. None excludes the pods from a mesh of the namespace.
	// Sidecar: an Istio proxy in each pod. Ambient: Istio's proxy on each machine. A database does not become ready while
	// its pods are in a different mesh.
	// +optional
	Mesh Mesh `json:"mesh,omitempty"`
}

// Mesh says which kind of service mesh pods are in.
// +kubebuilder:validation:Enum=Auto;None;Sidecar;Ambient
type Mesh string

const (
	// MeshAuto leaves it to the labels of the namespace.
	MeshAuto Mesh = "Auto"
	// MeshNone is no mesh.
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
	// MutualTLSPermissive takes both: pods of the mesh encrypt, others need not.
	MutualTLSPermissive MutualTLS = "Permissive"
	// MutualTLSDisabled encrypts nothing.
	MutualTLSDisabled MutualTLS = "Disabled"
	// MutualTLSUnknown means that the operator may not read the setting.
	MutualTLSUnknown MutualTLS = "Unknown"
)

// MeshStatus is the service mesh in which pods were found.
type MeshStatus struct {
	// Mode is the kind of mesh, never Auto.
	// +kubebuilder:validation:Enum=None;Sidecar;Ambient
	// +required
	Mode Mesh `json:"mode,omitempty"`
	// MutualTLS is the requirement of PeerAuthentications for connections to the port of the nodes, or to the database's
	// first port. It is omitted without a mesh.
	// +optional
	MutualTLS MutualTLS `json:"mutualTLS,omitempty"`
	// Version of the proxies' image, which its tag or its revision label names; empty where neither does.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`
}

// Congestion names a congestion control.
// +kubebuilder:validation:Enum=Open;Reno;Cubic
type Congestion string

const (
	// CongestionOpen is a window that is always open.
	CongestionOpen Congestion = "Open"
	// CongestionReno is RFC 5681.
	CongestionReno Congestion = "Reno"
	// CongestionCubic is RFC 9438.
	CongestionCubic Congestion = "Cubic"
)

// Emulation names a backend of network emulation.
// +kubebuilder:validation:Enum=Auto;ChaosMesh;Sidecar;BuiltIn;None
type Emulation string

const (
	// EmulationAuto picks the first backend that works.
	EmulationAuto Emulation = "Auto"
	// EmulationChaosMesh injects with NetworkChaos objects of Chaos Mesh.
	EmulationChaosMesh Emulation = "ChaosMesh"
	// EmulationSidecar injects in a sidecar of each pod.
	EmulationSidecar Emulation = "Sidecar"
	// EmulationBuiltIn injects in the connections of native engines.
	EmulationBuiltIn Emulation = "BuiltIn"
	// EmulationNone injects nothing; round-trip times are measured all the same.
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
	// SecretRef names a Secret with the keys username and password, and optionally ca.crt. geobench run looks for them as files
	// NAME/username and so on in the folder of --secrets.
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
	// ConditionNodesReady is true when every node of the database serves, in the topology of the present generation.
	ConditionNodesReady = "NodesReady"
	// ConditionNetworkEmulated is true when the declared network is injected on every node.
	ConditionNetworkEmulated = "NetworkEmulated"
	// ConditionAuthenticated is False for a deployed database without client authentication, such as CockroachDB with
	// --insecure: only NetworkPolicies protect it. Other databases do not have the condition.
	ConditionAuthenticated = "Authenticated"
	// ConditionInitialized is true when all steps of spec.init have succeeded in the present incarnation; there is none without such steps.
	ConditionInitialized = "Initialized"
	// ConditionNetworkVerified is true when every link's measured round-trip time is within the
	// tolerance of the declared: 5% + 1 ms, and the sampling error of the median where jitter is declared.
	ConditionNetworkVerified = "NetworkVerified"
)

// GeoDatabaseStatus is what runs.
type GeoDatabaseStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Accepted, Progressing, NodesReady, Initialized, NetworkEmulated, NetworkVerified; and Ready, Reconciling, Stalled, by which other
	// tools judge the database.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Regions and their nodes.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Regions []RegionStatus `json:"regions,omitempty"`
	// Groups are the sets of nodes that keep the same rows, with their leaders, for engines with such groups; the first
	// 256.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Groups []GroupStatus `json:"groups,omitempty"`
	// Endpoints are the addresses for the clients of each region, for a database with a role that clients connect to.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`
	// RegionNames lists the regions for kubectl's column, separated by commas.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RegionNames string `json:"regionNames,omitempty"`
	// ReadyNodes is the number of ready nodes, for kubectl's column, for example 3/4.
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
	// Mesh is the service mesh that the pods are in.
	// +optional
	Mesh *MeshStatus `json:"mesh,omitempty"`
	// EmulationGaps are the latest times in which a pod ran, but not all of its links were as they should be; the newest
	// is last.
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
	// Incarnation identifies the set of running node processes: it changes when a process is replaced or restarts. Data
	// that was loaded into one incarnation may be missing in the next.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Incarnation string `json:"incarnation,omitempty"`
	// ActiveRun is the name of the BenchmarkRun that uses the database now; others wait.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ActiveRun string `json:"activeRun,omitempty"`
}

// EmulationGap is a period in which measurements were made without the declared network.
type EmulationGap struct {
	// Pod that ran without all of its links.
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
	// From is the time when the pod's containers started, or its links were found missing.
	// +required
	From metav1.MicroTime `json:"from"`
	// To is the time when the links were in place, or the pod had stopped; unset while the gap lasts.
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

// GroupStatus names the leader of a group of nodes that keep the same rows.
type GroupStatus struct {
	// Name of the rows: the region that they call home and their partition, eu/0.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Name string `json:"name"`
	// Leader is the leading node, region/partition/replica; empty if no leader is known.
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Leader string `json:"leader,omitempty"`
	// Members is the number of nodes that keep the rows.
	// +optional
	Members int32 `json:"members"`
}

// RegionStatus is what runs in a region.
type RegionStatus struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// Nodes that the region should have.
	// +optional
	Nodes int32 `json:"nodes"`
	// ReadyNodes serve now.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`
}

// LinkStatus is a link as declared and as measured.
type LinkStatus struct {
	// From is the region that measures.
	// +kubebuilder:validation:MaxLength=24
	// +required
	From string `json:"from"`
	// To is the region that answers.
	// +kubebuilder:validation:MaxLength=24
	// +required
	To string `json:"to"`
	// DeclaredRTTMicroseconds is the round-trip time that the profile asks for.
	// +optional
	DeclaredRTTMicroseconds int64 `json:"declaredRTTMicroseconds"`
	// MeasuredRTTMicroseconds is the round-trip time that the nodes see.
	// +optional
	MeasuredRTTMicroseconds RTTMicroseconds `json:"measuredRTTMicroseconds"`
	// Samples is the number of samples in the measurement.
	// +optional
	Samples int64 `json:"samples"`
	// Mesh is the overhead of a service mesh on the link, if spec.network.mesh names a mesh.
	// +optional
	Mesh *MeshLink `json:"mesh,omitempty"`
}

// MeshLink reports the overhead of a service mesh on a link. Two probes take the same path at the same time: one uses
// UDP packets, which the mesh does not carry, and one a TCP connection, which it does. The emulation of native engines
// delays neither.
type MeshLink struct {
	// BelowRTTMicroseconds is the median round-trip time below the mesh.
	// +optional
	BelowRTTMicroseconds int64 `json:"belowRTTMicroseconds"`
	// ThroughRTTMicroseconds is the median round-trip time through it.
	// +optional
	ThroughRTTMicroseconds int64 `json:"throughRTTMicroseconds"`
	// AddedRTTMicroseconds is the round-trip time over the mesh minus the round-trip time without it.
	// +optional
	AddedRTTMicroseconds int64 `json:"addedRTTMicroseconds"`
	// Samples is the number of round trips in the median that has fewer.
	// +optional
	Samples int64 `json:"samples"`
}

// GeoDatabase is a database across regions, with a network between them.
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

	// Spec says what to deploy.
	// +required
	Spec GeoDatabaseSpec `json:"spec"`
	// Status says what runs. Until the operator has seen the database, observedGeneration is -1.
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
