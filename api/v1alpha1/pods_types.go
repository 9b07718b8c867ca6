package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Pods is a database that knows nothing of Geobench. Each region gets partitionsPerRegion x replicasPerPartition pods of a
// StatefulSet with stable names.
//
// Besides env, containers find in their environment: POD_NAME, POD_NAMESPACE and POD_IP; GEOBENCH_DATABASE and
// GEOBENCH_REGION; GEOBENCH_REGIONS, the regions' names in order with commas between; GEOBENCH_REGION_INDEX and GEOBENCH_ORDINAL,
// the numbers of the region and of the pod in it, from 0; GEOBENCH_HOST, the pod's own host name; and GEOBENCH_HOSTS, the host
// names of all pods in the order of regions and numbers, with commas between. $(NAME) in command, args and env stands for one of them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.client) || !has(self.client.port) || self.ports.exists(p, p.port == self.client.port)",message="client.port is not one of ports: add it there, or choose one of them",fieldPath=".client"
// +kubebuilder:validation:XValidation:rule="!has(self.ready) || !has(self.ready.http) || self.ports.exists(p, p.port == self.ready.http.port)",message="ready.http.port is not one of ports: add it there, or choose one of them",fieldPath=".ready"
type Pods struct {
	Program `json:",inline"`

	// Client says how BenchmarkRuns talk to the program, which is then a database that Geobench is a client of: engine.name is the
	// database's, as with spec.external, and engine.parameters are those of its clients. Without it the program can be deployed,
	// and not measured.
	// +optional
	Client *PodsClient `json:"client,omitempty"`
}

// Program is what the pods of a database run that knows nothing of Geobench.
type Program struct {
	// Image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`
	// Command in place of the image's entry point.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Command []string `json:"command,omitempty"`
	// Args of the command.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Args []string `json:"args,omitempty"`
	// Env is added to the environment.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []PodEnv `json:"env,omitempty"`
	// Ports that the program listens on. Without ready, the first one tells when a pod is ready: it then accepts connections.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +required
	Ports []PodPort `json:"ports"`
	// Volumes of the container.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Volumes []PodVolume `json:"volumes,omitempty"`
	// User is the numeric user and group that the program runs as; without it, the image's user, which must not be root.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	User *int64 `json:"user,omitempty"`
	// Ready says how a pod shows that it is ready; without it, by a connection to the first of ports. Many servers listen before they serve.
	// +optional
	Ready *PodReady `json:"ready,omitempty"`
	// TerminationGracePeriodSeconds is how long a pod that is deleted may take to end.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=10
	// +optional
	TerminationGracePeriodSeconds *int32 `json:"terminationGracePeriodSeconds,omitempty"`
}

// Role is one kind of the servers of a database. Its pods in a region are those of a StatefulSet of their own.
//
// Its containers find in their environment what those of pods find, and GEOBENCH_ROLE; GEOBENCH_HOSTS has the hosts of their own role, and
// GEOBENCH_HOSTS_NAME, with the name in capitals, those of each role, in the order of regions and numbers. Names of hosts may be shortened:
// take them from there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.client) || !has(self.client.port) || self.ports.exists(p, p.port == self.client.port)",message="client.port is not one of ports: add it there, or choose one of them",fieldPath=".client"
// +kubebuilder:validation:XValidation:rule="!has(self.ready) || !has(self.ready.http) || self.ports.exists(p, p.port == self.ready.http.port)",message="ready.http.port is not one of ports: add it there, or choose one of them",fieldPath=".ready"
// +kubebuilder:validation:XValidation:rule="!has(self.after) || self.after.all(a, a.role != self.name || a.hosts == 'First')",messageExpression="'the pods of role ' + self.name + ' would wait for each other for ever: set hosts to First, and all wait for the first of them'",fieldPath=".after"
type Role struct {
	// Name of the role: up to eight lower-case letters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[a-z]+$`
	// +kubebuilder:validation:XValidation:rule="self != 'workers'",message="must not be workers, which is the name of a region's load generators"
	// +required
	Name string `json:"name"`

	Program `json:",inline"`

	// PerRegion is the number of its pods in a region.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:default=1
	// +optional
	PerRegion int32 `json:"perRegion,omitempty"`
	// FirstRegions is the number of regions, from the first on, that have pods of the role; without it, all.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	// +optional
	FirstRegions *int32 `json:"firstRegions,omitempty"`
	// ServicePerPod gives each pod of the role a Service of its own, whose address stays when the pod is made anew, for databases that know
	// their servers by IP addresses. GEOBENCH_HOST and all lists of hosts have the names of these Services then. A program tells others the
	// address of its own, and listens on all of its pod's: the address is none of these. ChaosMesh does not emulate the network of such pods.
	// +optional
	ServicePerPod bool `json:"servicePerPod,omitempty"`
	// Resources of one pod; without any, those of the database.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// After are the roles whose first port must accept connections before a pod of this one starts its program.
	// +listType=map
	// +listMapKey=role
	// +kubebuilder:validation:MaxItems=6
	// +optional
	After []RoleAfter `json:"after,omitempty"`
	// Lists are hosts joined as a program wants them, each in the variable GEOBENCH_LIST_NAME, for images that have no shell.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Lists []HostList `json:"lists,omitempty"`
	// Client tells that clients connect to this role: those of a region to its first pod there or, where it has none, to that of the nearest
	// region. status.endpoints has the addresses. With secretRef BenchmarkRuns can measure the database: engine.name is then what it speaks
	// as, and engine.parameters are those of its clients, as with pods.client.
	// +optional
	Client *RoleClient `json:"client,omitempty"`
}

// RoleAfter says for which pods another role's pods wait.
type RoleAfter struct {
	// Role whose pods are waited for. A role may wait for the first pod of its own, which does not wait for itself.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +required
	Role string `json:"role"`
	// Hosts that must accept connections: Any one of them, All, or the First, in the order of regions and numbers.
	// +kubebuilder:default=Any
	// +optional
	Hosts RoleHosts `json:"hosts,omitempty"`
}

// RoleHosts says how many of the pods of a role are meant.
// +kubebuilder:validation:Enum=Any;All;First
type RoleHosts string

const (
	// RoleHostsAny is any one of them.
	RoleHostsAny RoleHosts = "Any"
	// RoleHostsAll is all of them.
	RoleHostsAll RoleHosts = "All"
	// RoleHostsFirst is the first one, in the order of regions and numbers.
	RoleHostsFirst RoleHosts = "First"
)

// HostList is the hosts of a role in one text.
type HostList struct {
	// Name of the list: the variable is GEOBENCH_LIST_ and this.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Z0-9_]*$`
	// +required
	Name string `json:"name"`
	// Role whose hosts they are; without it, the list's own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +optional
	Role string `json:"role,omitempty"`
	// Format of one of them, in which {host}, {pod}, {region} and {ordinal} are replaced; for example {pod}=http://{host}:2380.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +kubebuilder:default="{host}"
	// +optional
	Format string `json:"format,omitempty"`
	// Separator between two of them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +kubebuilder:default=","
	// +optional
	Separator string `json:"separator,omitempty"`
}

// InitStep is a command that is run once in the database's network. It has the image, user, environment and volumes of a role, but for
// what tells its pods apart (GEOBENCH_HOST and GEOBENCH_ORDINAL); volumes begin empty.
//
// +kubebuilder:validation:XValidation:rule="has(self.command) || has(self.args)",message="neither command nor args is set: the step would start another server of its role"
type InitStep struct {
	// Name of the step.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// Role whose image runs the command, once all of its pods run. They need not be ready: many are only after a step.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +required
	Role string `json:"role"`
	// Region where it runs; without it, the first.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Command in place of the image's entry point.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Command []string `json:"command,omitempty"`
	// Args of the command.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Args []string `json:"args,omitempty"`
	// Timeout after which the step has failed, however often it was tried. Pods that do not get their image count too.
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s') && self <= duration('1h')",message="must be 1s to 1h, for example 10m"
	// +kubebuilder:default="10m"
	// +optional
	Timeout Duration `json:"timeout,omitzero"`
}

// PodReady is how a pod shows that it is ready: by an answer over HTTP, or by a command that ends with 0.
//
// +kubebuilder:validation:XValidation:rule="has(self.http) != has(self.command)",messageExpression="has(self.http) ? 'http and command are both set: keep one of them' : 'neither http nor command is set: say by which of them a pod shows that it is ready, or leave ready out'"
type PodReady struct {
	// HTTP asks for a path: an answer from 200 to 399 is yes.
	// +optional
	HTTP *PodReadyHTTP `json:"http,omitempty"`
	// Command runs in the container, within ten seconds. Nothing in it is replaced: a shell finds the environment.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Command []string `json:"command,omitempty"`
}

// PodReadyHTTP is a path of a pod that answers when it is ready.
type PodReadyHTTP struct {
	// Port is one of ports.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port"`
	// Path, with the query, for example /health?ready=1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[!-~]*$`
	// +required
	Path string `json:"path"`
}

// PodsClient is how the clients of BenchmarkRuns reach the database that runs in the pods.
type PodsClient struct {
	ProgramClient `json:",inline"`

	// SecretRef names a Secret of the same namespace with the keys username and password, and optionally ca.crt.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// RoleClient is how clients reach a database with roles: at the pods of one of them.
type RoleClient struct {
	ProgramClient `json:",inline"`

	// SecretRef names a Secret of the same namespace with the keys username and password, and optionally ca.crt. Without it the database has
	// addresses for clients, and BenchmarkRuns cannot measure it.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}

// ProgramClient is where clients connect to a program.
type ProgramClient struct {
	// Region whose first pod the clients of all regions connect to, over the emulated network: that of a primary. Without it, clients
	// connect to the first pod of their own region, all of which must take writes then.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Port is the one of ports that they connect to; without it, the first.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Database is the name of the database to use. PostgreSQL uses the one of the user's name by default, MySQL has no default, and etcd has
	// only one database, without a name.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Database string `json:"database,omitempty"`
}

// PodEnv is a variable of the environment: a value, or a key of a Secret.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.value) && has(self.secretKeyRef))",message="value and secretKeyRef are both set: keep one of them"
type PodEnv struct {
	// Name of the variable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +required
	Name string `json:"name"`
	// Value of the variable.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Value string `json:"value,omitempty"`
	// SecretKeyRef names the key of a Secret that holds the value.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// SecretKeyReference is a key of a Secret of the same namespace.
type SecretKeyReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// Key in the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// PodPort is a TCP port of a pod.
type PodPort struct {
	// Name of the port.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'admin'",message="must not be admin, which is for Geobench's sidecars"
	// +required
	Name string `json:"name"`
	// Port number. 7001 to 7009 are Geobench's own.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self < 7001 || self > 7009",message="must not be 7001 to 7009, which are for Geobench's sidecars"
	// +required
	Port int32 `json:"port"`
}

// PodVolume is a folder of a container: an empty one that goes with the pod, or the keys of a ConfigMap or a Secret.
//
// +kubebuilder:validation:XValidation:rule="(has(self.sizeLimit) ? 1 : 0) + (has(self.configMapRef) ? 1 : 0) + (has(self.secretRef) ? 1 : 0) <= 1",message="a volume is at most one of an empty folder with sizeLimit, configMapRef and secretRef"
type PodVolume struct {
	// Name of the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// MountPath is where the container finds the folder.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/`
	// +required
	MountPath string `json:"mountPath"`
	// SizeLimit of an empty folder; a pod that exceeds it is evicted.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
	// ConfigMapRef names the ConfigMap whose keys are the folder's files.
	// +optional
	ConfigMapRef *LocalReference `json:"configMapRef,omitempty"`
	// SecretRef names the Secret whose keys are the folder's files.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}
