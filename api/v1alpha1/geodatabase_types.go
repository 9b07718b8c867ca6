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

	// Homes are the regions that rows call home, each with partitionsPerRegion partitions; without any, all regions.
	// They are the first of regions. The others have copies of rows and clients, who take the rows of the nearest home
	// for their own. For engines that take groups.
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

	// Network between the regions. Left out with external, whose links are real.
	// +optional
	Network Network `json:"network,omitzero"`

	// Placement says whether the pods of a region go to nodes whose label topology.kubernetes.io/region is the region's
	// name: Preferred (where such nodes exist), Required, or Anywhere.
	// +kubebuilder:default=Preferred
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// Durability of the nodes of Geobench's own engines: None, as in the papers, where a node that is gone takes what it held
	// with it; or Journal, where a node has its inputs on the disk before anything that comes of them leaves it, and goes on
	// from there when its process starts again. A journal grows by about the bytes that the node receives, and is cut short when it
	// has grown by half of the data's size, by 32 MiB at least.
	// +kubebuilder:default=None
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Resources of one node of the database, which uses as many processors as the CPU limit (else the request), and one by default. Where it is a node of Geobench's own engines, its memory limit is 8Gi by default, and it refuses data that fills more than 75% of what it may use.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// External names the endpoints of a database that already runs; nothing is deployed then.
	// +optional
	External *External `json:"external,omitempty"`

	// Pods says what the nodes run when the engine is not one of Geobench's own: any program in any image. engine.name
	// is then a name for results, and engine.parameters must be empty, unless pods.client says how to talk to the program.
	// +optional
	Pods *Pods `json:"pods,omitempty"`

	// Roles are the kinds of servers of a database that is made of several, in place of pods: each runs a program of its own in some pods of
	// each region. engine.name is then a name for results, and engine.parameters must be empty, unless the client of a role says how to talk to
	// the database.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +optional
	Roles []Role `json:"roles,omitempty"`

	// Init are the steps, one after the other, that make a database of pods that run: beginning a cluster, placement, users. Each is a Job in
	// the emulated network, and the database is ready once all have succeeded. They run once for each incarnation, and again in the next one,
	// which begins when all pods of a step's role were replaced, whose files went with them. A step that fails is tried again until its
	// timeout, so it must take what it finds done already for done.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Init []InitStep `json:"init,omitempty"`
}

// ReplicaGroup places the rows of one home.
//
// +kubebuilder:validation:XValidation:rule="!has(self.leader) || self.replicas.exists(r, r.region == self.leader)",messageExpression="'leader ' + self.leader + ' has no replica of the group: add its region to replicas, or choose one that is there'",fieldPath=".leader"
type ReplicaGroup struct {
	// Home is the region that the rows call home.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Home string `json:"home"`
	// Partitions of the home, from 0; without any, all of them. Each becomes a group of its own.
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

// GroupReplicas says how many nodes of a region keep the rows of a group.
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
	// Parameters of the engine, by name; each engine documents its own. Values are strings: quote numbers.
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
	// NodeSelector of the region's pods, besides what placement asks for.
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

// Placement says how a region's pods are tied to Kubernetes nodes.
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
	// ProfileRef names a NetworkProfile of this namespace, or a built-in one.
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
	// Congestion is what the connections that Geobench models, in simulations and with the emulation BuiltIn, do about lost packets. Open, and
	// without it: a lost packet costs time, but the window stays open. Reno and Cubic: slow start, and a window that shrinks with each
	// loss, as the kernel's; Cubic is the default of Linux. Connections that are delayed from outside have the kernel's own.
	// +optional
	Congestion Congestion `json:"congestion,omitempty"`
	// Mesh is the service mesh that the pods of the database and the workers of its runs are to be in. Auto, and without it: whatever
	// the namespace says; status.mesh names what was found. None keeps a mesh of the namespace away from them. Sidecar: an Istio
	// proxy in each pod. Ambient: Istio's proxy on each machine. Databases whose pods are in another mesh than this do not get ready.
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

// MutualTLS says what a mesh asks of the connections that come to a pod.
// +kubebuilder:validation:Enum=Strict;Permissive;Disabled;Unknown
type MutualTLS string

const (
	// MutualTLSStrict lets nobody in who has no certificate of the mesh.
	MutualTLSStrict MutualTLS = "Strict"
	// MutualTLSPermissive takes both: pods of the mesh encrypt, others need not.
	MutualTLSPermissive MutualTLS = "Permissive"
	// MutualTLSDisabled encrypts nothing.
	MutualTLSDisabled MutualTLS = "Disabled"
	// MutualTLSUnknown is what the operator may not read.
	MutualTLSUnknown MutualTLS = "Unknown"
)

// MeshStatus is the service mesh in which pods were found.
type MeshStatus struct {
	// Mode is the kind of mesh, never Auto.
	// +kubebuilder:validation:Enum=None;Sidecar;Ambient
	// +required
	Mode Mesh `json:"mode,omitempty"`
	// MutualTLS is what PeerAuthentications ask of connections to the port of the nodes, or of the database's first port. It is left out without
	// a mesh.
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
	// Endpoints that workers connect to, one per region.
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

// ExternalEndpoint is where the workers of a region connect to.
type ExternalEndpoint struct {
	// Region whose workers use the endpoint.
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

// Conditions of a GeoDatabase, besides ConditionProgressing and ConditionCleanupFailed.
const (
	// ConditionNodesReady is true when every node of the database serves, in the topology of the present generation.
	ConditionNodesReady = "NodesReady"
	// ConditionNetworkEmulated is true when the declared network is injected on every node.
	ConditionNetworkEmulated = "NetworkEmulated"
	// ConditionAuthenticated is False for a deployed database whose servers do not authenticate clients, such as CockroachDB with --insecure:
	// only NetworkPolicies protect it. Other databases do not have the condition.
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
	// Groups are those of nodes that keep the same rows, and who leads them, for engines with such groups; the first 256.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Groups []GroupStatus `json:"groups,omitempty"`
	// Endpoints are where clients of each region connect to a database with roles of which one is their client's.
	// +listType=map
	// +listMapKey=region
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`
	// RegionNames lists the regions for kubectl's column, separated by commas.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RegionNames string `json:"regionNames,omitempty"`
	// ReadyNodes says how many of the nodes are ready, for kubectl's column, for example 3/4.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ReadyNodes string `json:"readyNodes,omitempty"`
	// Emulation is the backend in use, never Auto.
	// +kubebuilder:validation:Enum=ChaosMesh;Sidecar;BuiltIn;None
	// +optional
	Emulation Emulation `json:"emulation,omitempty"`
	// EmulationReason says why that backend was chosen.
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
	// Incarnation identifies the set of running node processes: it changes when one of them is replaced or restarts.
	// Data that was loaded into one incarnation is not known to be in the next.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Incarnation string `json:"incarnation,omitempty"`
	// ActiveRun is the name of the BenchmarkRun that uses the database now; others wait.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ActiveRun string `json:"activeRun,omitempty"`
}

// EmulationGap is a time in which what was measured did not see the declared network.
type EmulationGap struct {
	// Pod that ran without all of its links.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod"`
	// UID tells the pod from others of the same name.
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
	// Region of the pod.
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// From is when the pod's containers started, or its links were found missing.
	// +required
	From metav1.MicroTime `json:"from"`
	// To is when its links were there, or the pod had ended; unset while the gap lasts.
	// +optional
	To *metav1.MicroTime `json:"to,omitempty"`
}

// EndpointStatus is where the clients of a region connect to.
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

// GroupStatus says who leads a group of nodes that keep the same rows.
type GroupStatus struct {
	// Name of the rows: the region that they call home and their partition, eu/0.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Name string `json:"name"`
	// Leader is the node that leads, region/partition/replica; empty when nobody is known to.
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
	// Samples behind the measurement.
	// +optional
	Samples int64 `json:"samples"`
	// Mesh is what a service mesh adds to the link, where spec.network.mesh names one.
	// +optional
	Mesh *MeshLink `json:"mesh,omitempty"`
}

// MeshLink is what a service mesh adds to a link: two probes take the same way at the same time, one as packets that the mesh does not carry (UDP), one
// over a connection that it does (TCP). The emulation of native engines delays neither.
type MeshLink struct {
	// BelowRTTMicroseconds is the median round-trip time below the mesh.
	// +optional
	BelowRTTMicroseconds int64 `json:"belowRTTMicroseconds"`
	// ThroughRTTMicroseconds is the median round-trip time through it.
	// +optional
	ThroughRTTMicroseconds int64 `json:"throughRTTMicroseconds"`
	// AddedRTTMicroseconds is what the latter is longer than the former.
	// +optional
	AddedRTTMicroseconds int64 `json:"addedRTTMicroseconds"`
	// Samples are the round trips behind the median that has fewer.
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
