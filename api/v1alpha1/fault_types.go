package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is one entry of the fault timeline of a run: a start time, a duration, and exactly one kind of fault.
//
// +kubebuilder:validation:XValidation:rule="(has(self.networkDelay) ? 1 : 0) + (has(self.networkLoss) ? 1 : 0) + (has(self.networkPartition) ? 1 : 0) + (has(self.networkBandwidth) ? 1 : 0) + (has(self.podKill) ? 1 : 0) + (has(self.containerKill) ? 1 : 0) + (has(self.nodeShutdown) ? 1 : 0) + (has(self.cpuStress) ? 1 : 0) + (has(self.memoryStress) ? 1 : 0) + (has(self.ioDelay) ? 1 : 0) + (has(self.ioError) ? 1 : 0) + (has(self.diskReadLoad) ? 1 : 0) + (has(self.diskWriteLoad) ? 1 : 0) + (has(self.clockSkew) ? 1 : 0) == 1",message="a fault needs exactly one of networkDelay, networkLoss, networkPartition, networkBandwidth, podKill, containerKill, nodeShutdown, cpuStress, memoryStress, ioDelay, ioError, diskReadLoad, diskWriteLoad, clockSkew"
// +kubebuilder:validation:XValidation:rule="has(self.duration) ? self.duration > duration('0s') : (has(self.podKill) || has(self.containerKill))",message="duration is missing or not longer than 0s: only podKill and containerKill may leave it out",fieldPath=".duration"
type Fault struct {
	// Name of the fault in results and plots.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// At is the start time of the fault, relative to the start of the measured window.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s')",message="must be 0s or later: it counts from the start of measuring, for example 10s"
	// +required
	At Duration `json:"at"`
	// Duration of the fault; required except for podKill and containerKill.
	// +optional
	Duration *Duration `json:"duration,omitempty"`
	// Tolerance is the maximum difference between planned and actual start and end times of the fault. If it is exceeded,
	// the run is Invalid (FaultMistimed). The default is 250ms for faults that nodes, sidecars or Kubernetes inject, and
	// 2s for Chaos Mesh.
	// +kubebuilder:validation:XValidation:rule="self >= duration('1ms') && self <= duration('1h')",message="must be at least 1ms and at most 1h, for example 250ms"
	// +optional
	Tolerance *Duration `json:"tolerance,omitempty"`

	// NetworkDelay adds delay to links.
	// +optional
	NetworkDelay *NetworkDelayFault `json:"networkDelay,omitempty"`
	// NetworkLoss drops packets on links.
	// +optional
	NetworkLoss *NetworkLossFault `json:"networkLoss,omitempty"`
	// NetworkPartition cuts links.
	// +optional
	NetworkPartition *NetworkPartitionFault `json:"networkPartition,omitempty"`
	// NetworkBandwidth limits the bandwidth of links.
	// +optional
	NetworkBandwidth *NetworkBandwidthFault `json:"networkBandwidth,omitempty"`
	// PodKill kills pods, which Kubernetes then replaces.
	// +optional
	PodKill *PodKillFault `json:"podKill,omitempty"`
	// ContainerKill kills the database container of pods.
	// +optional
	ContainerKill *ContainerKillFault `json:"containerKill,omitempty"`
	// NodeShutdown keeps nodes down for the whole duration.
	// +optional
	NodeShutdown *NodeShutdownFault `json:"nodeShutdown,omitempty"`
	// CPUStress runs threads that compete for the CPU of nodes.
	// +optional
	CPUStress *CPUStressFault `json:"cpuStress,omitempty"`
	// MemoryStress allocates memory on nodes.
	// +optional
	MemoryStress *MemoryStressFault `json:"memoryStress,omitempty"`
	// IODelay delays file operations.
	// +optional
	IODelay *IODelayFault `json:"ioDelay,omitempty"`
	// IOError makes file operations fail.
	// +optional
	IOError *IOErrorFault `json:"ioError,omitempty"`
	// DiskReadLoad reads from the disk at a given rate.
	// +optional
	DiskReadLoad *DiskReadLoadFault `json:"diskReadLoad,omitempty"`
	// DiskWriteLoad writes to the disk at a given rate.
	// +optional
	DiskWriteLoad *DiskWriteLoadFault `json:"diskWriteLoad,omitempty"`
	// ClockSkew shifts the clock of nodes.
	// +optional
	ClockSkew *ClockSkewFault `json:"clockSkew,omitempty"`
}

// RegionPair selects links by the regions at their ends.
type RegionPair struct {
	// From lists the sending regions. An empty list selects every region.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=24
	// +optional
	From []string `json:"from,omitempty"`
	// To lists the receiving regions. An empty list selects every other region.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=24
	// +optional
	To []string `json:"to,omitempty"`
	// OneWay restricts the fault to the direction from -> to. By default, it affects both directions.
	// +optional
	OneWay bool `json:"oneWay,omitempty"`
}

// NodeTarget selects nodes of the database. Every field that is set narrows the selection.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.count) && has(self.percent))",message="count and percent are both set: keep one of them"
type NodeTarget struct {
	// Regions of the nodes. An empty list selects every region.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=24
	// +optional
	Regions []string `json:"regions,omitempty"`
	// Partitions of the nodes, from 0. An empty list selects every partition.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=0
	// +optional
	Partitions []int32 `json:"partitions,omitempty"`
	// Role that the nodes have when the fault starts, for example leader or coordinator.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z]*[a-z])?$`
	// +optional
	Role string `json:"role,omitempty"`
	// Count is the number of selected nodes that the fault affects. By default, it affects all of them.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	Count *int32 `json:"count,omitempty"`
	// Percent is the share of the selected nodes that the fault affects.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Percent *int32 `json:"percent,omitempty"`
}

// NetworkDelayFault adds delay to links, in addition to the delay of the network profile.
type NetworkDelayFault struct {
	// Between selects the links that the fault affects.
	// +required
	Between RegionPair `json:"between"`
	// Delay added to each packet in each direction.
	// +required
	Delay Duration `json:"delay"`
	// Jitter is the standard deviation of the delay.
	// +kubebuilder:default="0s"
	// +optional
	Jitter Duration `json:"jitter"`
}

// NetworkLossFault drops packets on links.
type NetworkLossFault struct {
	// Between selects the links that the fault affects.
	// +required
	Between RegionPair `json:"between"`
	// LossPPM is the share of packets lost, in parts per million.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +required
	LossPPM int32 `json:"lossPPM"`
	// CorrelationPercent is the correlation between the loss of a packet and the loss of the previous packet.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	CorrelationPercent int32 `json:"correlationPercent,omitempty"`
}

// NetworkPartitionFault cuts the links between two sets of nodes.
type NetworkPartitionFault struct {
	// From selects the nodes on the first side of the partition.
	// +required
	From NodeTarget `json:"from"`
	// To selects the nodes on the second side. By default, these are all nodes that are not in from.
	// +optional
	To *NodeTarget `json:"to,omitempty"`
	// OneWay cuts only the direction from -> to. By default, both directions are cut.
	// +optional
	OneWay bool `json:"oneWay,omitempty"`
}

// NetworkBandwidthFault limits the bandwidth of links.
type NetworkBandwidthFault struct {
	// Between selects the links that the fault affects.
	// +required
	Between RegionPair `json:"between"`
	// BandwidthMbps of each link and direction, in megabits per second.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +required
	BandwidthMbps int32 `json:"bandwidthMbps"`
}

// PodKillFault kills pods.
type PodKillFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Lasting keeps the replacement processes that Kubernetes starts out of the database, so the state of the nodes is
	// lost permanently. By default, an engine that can replace lost nodes accepts the replacements as new incarnations.
	// +optional
	Lasting bool `json:"lasting,omitempty"`
}

// ContainerKillFault kills the database container of pods.
type ContainerKillFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Lasting keeps the replacement processes that Kubernetes starts out of the database, so the state of the nodes is
	// lost permanently. By default, an engine that can replace lost nodes accepts the replacements as new incarnations.
	// +optional
	Lasting bool `json:"lasting,omitempty"`
}

// NodeShutdownFault keeps nodes down for the whole duration.
type NodeShutdownFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
}

// CPUStressFault runs threads that compete for the CPU of nodes.
type CPUStressFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Workers is the number of stressing threads on each node.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +kubebuilder:default=1
	// +optional
	Workers int32 `json:"workers,omitempty"`
	// LoadPercent is the load of each thread, in percent of one CPU.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=100
	// +optional
	LoadPercent int32 `json:"loadPercent,omitempty"`
}

// MemoryStressFault allocates memory on nodes.
type MemoryStressFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Size of the memory to allocate on each node.
	// +required
	Size resource.Quantity `json:"size"`
}

// IODelayFault delays file operations.
type IODelayFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Delay of each affected operation.
	// +required
	Delay Duration `json:"delay"`
	// Percent of the operations that are delayed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=100
	// +optional
	Percent int32 `json:"percent,omitempty"`
}

// IOErrorFault makes file operations fail.
type IOErrorFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Errno that the operations return, for example 5 (EIO) or 28 (ENOSPC).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=133
	// +kubebuilder:default=5
	// +optional
	Errno int32 `json:"errno,omitempty"`
	// Percent of the operations that fail.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=100
	// +optional
	Percent int32 `json:"percent,omitempty"`
}

// DiskReadLoadFault reads from the disk.
type DiskReadLoadFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// MegabytesPerSecond to read on each node; 0 reads as fast as the disk allows.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MegabytesPerSecond int32 `json:"megabytesPerSecond,omitempty"`
}

// DiskWriteLoadFault writes to the disk.
type DiskWriteLoadFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// MegabytesPerSecond to write on each node; 0 writes as fast as the disk allows.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MegabytesPerSecond int32 `json:"megabytesPerSecond,omitempty"`
}

// ClockSkewFault shifts the clock of nodes.
type ClockSkewFault struct {
	// Target selects the nodes that the fault affects.
	// +required
	Target NodeTarget `json:"target"`
	// Offset of the clock. A positive offset sets the clock forward, a negative offset sets it back.
	// +required
	Offset Duration `json:"offset"`
}

// FaultInjection selects the injector of faults on a cluster.
type FaultInjection string

const (
	// FaultInjectionAuto uses the network emulation for link faults, Geobench's own nodes and Kubernetes for node faults,
	// and Chaos Mesh for all remaining faults.
	FaultInjectionAuto FaultInjection = "Auto"
	// FaultInjectionChaosMesh uses Chaos Mesh for all faults except link faults.
	FaultInjectionChaosMesh FaultInjection = "ChaosMesh"
)

// Injector is the component that injects a fault on a cluster.
type Injector string

const (
	// InjectorBuiltIn means that each node of Geobench's own engines injects the fault itself.
	InjectorBuiltIn Injector = "BuiltIn"
	// InjectorSidecar means that the sidecars that emulate the network inject the fault.
	InjectorSidecar Injector = "Sidecar"
	// InjectorChaosMesh means that Chaos Mesh injects the fault.
	InjectorChaosMesh Injector = "ChaosMesh"
	// InjectorKubernetes means that the operator injects the fault by deleting pods.
	InjectorKubernetes Injector = "Kubernetes"
)

// FaultStatus reports the progress of a fault.
type FaultStatus struct {
	// Name of the fault, as in the spec.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Name string `json:"name"`
	// State is the current step: Waiting, Setup, Armed, Inject, WaitPropagated, Active, Recover, WaitRecovered, Cleanup or
	// Done.
	// +kubebuilder:validation:MaxLength=32
	// +required
	State string `json:"state"`
	// StateStartTime is the time at which the fault entered its current state.
	// +optional
	StateStartTime *metav1.MicroTime `json:"stateStartTime,omitempty"`
	// Injector that injects the fault. It is chosen when the fault starts.
	// +kubebuilder:validation:Enum=BuiltIn;Sidecar;ChaosMesh;Kubernetes
	// +optional
	Injector Injector `json:"injector,omitempty"`
	// Lasting is true if the fault is not reverted: the affected nodes and their in-memory state are lost.
	// +optional
	Lasting bool `json:"lasting,omitempty"`
	// Replaced is true if the processes that the fault kills lose their state, and new incarnations replace them and
	// obtain the state from other replicas.
	// +optional
	Replaced bool `json:"replaced,omitempty"`
	// Targets lists the affected nodes as region/partition/replica. For a network partition, it lists the nodes on the
	// first side.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16384
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	Targets []string `json:"targets,omitempty"`
	// OtherSide lists the nodes on the second side of a network partition.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16384
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	OtherSide []string `json:"otherSide,omitempty"`
	// Processes lists the processes that a kill must stop. Each entry names the pod's UID, the process, the restart count
	// of its container, and the incarnation of its node.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16384
	// +kubebuilder:validation:items:MaxLength=128
	// +optional
	Processes []string `json:"processes,omitempty"`
	// InjectingTime is the start of the injection.
	// +optional
	InjectingTime *metav1.MicroTime `json:"injectingTime,omitempty"`
	// InjectedTime is the time at which the fault was active on every affected node.
	// +optional
	InjectedTime *metav1.MicroTime `json:"injectedTime,omitempty"`
	// RecoveringTime is the time at which the removal of the fault started.
	// +optional
	RecoveringTime *metav1.MicroTime `json:"recoveringTime,omitempty"`
	// RecoveredTime is the time at which the fault was removed from every affected node.
	// +optional
	RecoveredTime *metav1.MicroTime `json:"recoveredTime,omitempty"`
	// Message explains why the fault did not go as planned.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}
