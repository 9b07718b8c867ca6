package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Pods configures a database whose program is not part of Geobench. Each region gets partitionsPerRegion x
// replicasPerPartition pods of a StatefulSet, with stable names.
//
// In addition to env, the environment of the containers contains these variables. POD_NAME, POD_NAMESPACE and POD_IP
// identify the pod. GEOBENCH_DATABASE and GEOBENCH_REGION are the names of its database and its region.
// GEOBENCH_REGIONS contains the names of the regions in order, separated by commas. GEOBENCH_REGION_INDEX and
// GEOBENCH_ORDINAL are the numbers of the region and of the pod within it, from 0. GEOBENCH_HOST is the host name of
// the pod. GEOBENCH_HOSTS contains the host names of all pods by region and number, separated by commas. $(NAME) in
// command, args and env expands to the variable NAME.
//
// +kubebuilder:validation:XValidation:rule="!has(self.client) || !has(self.client.port) || self.ports.exists(p, p.port == self.client.port)",message="client.port is not one of ports: add it there, or choose one of them",fieldPath=".client"
// +kubebuilder:validation:XValidation:rule="!has(self.ready) || !has(self.ready.http) || self.ports.exists(p, p.port == self.ready.http.port)",message="ready.http.port is not one of ports: add it there, or choose one of them",fieldPath=".ready"
type Pods struct {
	Program `json:",inline"`

	// Client configures the connections of BenchmarkRuns to the program. As with spec.external, engine.name is then the
	// name of the database, and engine.parameters are parameters of its clients. Without client, the program can be
	// deployed but not measured.
	// +optional
	Client *PodsClient `json:"client,omitempty"`
}

// Program is the program that runs in the pods of a database.
type Program struct {
	// Image of the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`
	// Command that replaces the entry point of the image.
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
	// Env lists variables to add to the environment.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Env []PodEnv `json:"env,omitempty"`
	// Ports on which the program listens. Without ready, a pod is ready when its first port accepts connections.
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
	// User is the numeric ID of the user and group of the program. The default is the user of the image, which must not
	// be root.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	User *int64 `json:"user,omitempty"`
	// Ready is the readiness check of a pod. By default, a pod is ready when the first of ports accepts connections, but
	// many servers listen before they can serve requests.
	// +optional
	Ready *PodReady `json:"ready,omitempty"`
	// TerminationGracePeriodSeconds is the time that a deleted pod may take to stop.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=10
	// +optional
	TerminationGracePeriodSeconds *int32 `json:"terminationGracePeriodSeconds,omitempty"`
}

// Role is one kind of server of a database. In each region, a StatefulSet runs its pods.
//
// The environment of the containers contains the variables that are described for pods, and GEOBENCH_ROLE.
// GEOBENCH_HOSTS lists the hosts of the container's own role. GEOBENCH_HOSTS_NAME, with the name of a role in capitals,
// lists the hosts of that role by region and number. Take host names only from these variables, because they may be
// shortened.
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

	// PerRegion is the number of pods of the role in each region.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:default=1
	// +optional
	PerRegion int32 `json:"perRegion,omitempty"`
	// FirstRegions is the number of regions that have pods of the role, counted from the first. The default is all
	// regions.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	// +optional
	FirstRegions *int32 `json:"firstRegions,omitempty"`
	// ServicePerPod gives each pod of the role a separate Service, with an address that stays the same when the pod
	// is replaced. It is for databases that identify servers by IP address. GEOBENCH_HOST and all lists of hosts
	// then contain the names of these Services. A program must advertise the address of its Service. It must listen
	// on all addresses of its pod, because the pod does not have the Service's address. The emulation ChaosMesh
	// does not support such pods.
	// +optional
	ServicePerPod bool `json:"servicePerPod,omitempty"`
	// Resources of one pod; the default is the resources of the database.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// After lists the roles that must be available before a pod of this role starts its program: their first ports must
	// accept connections.
	// +listType=map
	// +listMapKey=role
	// +kubebuilder:validation:MaxItems=6
	// +optional
	After []RoleAfter `json:"after,omitempty"`
	// Lists are lists of hosts in the format that a program needs, each in a variable GEOBENCH_LIST_NAME, for images
	// without a shell.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Lists []HostList `json:"lists,omitempty"`
	// Client marks this role as the role that clients connect to. The clients of a region connect to the role's
	// first pod in that region. If the region has no such pod, they connect to the first pod in the nearest region.
	// status.endpoints lists the addresses. With secretRef, BenchmarkRuns can measure the database. As with
	// pods.client, engine.name is then the name of the database's protocol, and engine.parameters are parameters of
	// its clients.
	// +optional
	Client *RoleClient `json:"client,omitempty"`
}

// RoleAfter selects the pods of another role that must be available first.
type RoleAfter struct {
	// Role to wait for. The pods of a role may wait for the first pod of the same role, which does not wait for itself.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +required
	Role string `json:"role"`
	// Hosts that must accept connections: Any (one host), All, or First, the first host by region and number.
	// +kubebuilder:default=Any
	// +optional
	Hosts RoleHosts `json:"hosts,omitempty"`
}

// RoleHosts selects pods of a role.
// +kubebuilder:validation:Enum=Any;All;First
type RoleHosts string

const (
	// RoleHostsAny selects any single pod.
	RoleHostsAny RoleHosts = "Any"
	// RoleHostsAll selects all pods.
	RoleHostsAll RoleHosts = "All"
	// RoleHostsFirst selects the first pod by region and number.
	RoleHostsFirst RoleHosts = "First"
)

// HostList joins the hosts of a role into one string.
type HostList struct {
	// Name of the list. The variable is GEOBENCH_LIST_ followed by this name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Z0-9_]*$`
	// +required
	Name string `json:"name"`
	// Role of the hosts. The default is the role that contains the list.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +optional
	Role string `json:"role,omitempty"`
	// Format of each host; {host}, {pod}, {region} and {ordinal} are replaced. An example is {pod}=http://{host}:2380.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +kubebuilder:default="{host}"
	// +optional
	Format string `json:"format,omitempty"`
	// Separator between hosts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +kubebuilder:default=","
	// +optional
	Separator string `json:"separator,omitempty"`
}

// InitStep is a command that runs once in the network of the database. It has the image, user, environment and volumes
// of a role, except for the variables that identify a pod (GEOBENCH_HOST and GEOBENCH_ORDINAL). Its volumes are
// initially empty.
//
// +kubebuilder:validation:XValidation:rule="has(self.command) || has(self.args)",message="neither command nor args is set: the step would start another server of its role"
type InitStep struct {
	// Name of the step.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// Role that provides the image of the command. The command starts once all pods of the role are running. They need
	// not be ready, because many servers become ready only after such a step.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +required
	Role string `json:"role"`
	// Region in which the command runs. The default is the first region.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Command that replaces the entry point of the image.
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
	// Timeout of the step, including all retries. It also includes the time during which pods cannot pull their image.
	// +kubebuilder:validation:XValidation:rule="self >= duration('1s') && self <= duration('1h')",message="must be 1s to 1h, for example 10m"
	// +kubebuilder:default="10m"
	// +optional
	Timeout Duration `json:"timeout,omitzero"`
}

// PodReady is the readiness check of a pod: an HTTP request, or a command that exits with status 0.
//
// +kubebuilder:validation:XValidation:rule="has(self.http) != has(self.command)",messageExpression="has(self.http) ? 'http and command are both set: keep one of them' : 'neither http nor command is set: say by which of them a pod shows that it is ready, or leave ready out'"
type PodReady struct {
	// HTTP sends a GET request. The pod is ready if the status code is 200 to 399.
	// +optional
	HTTP *PodReadyHTTP `json:"http,omitempty"`
	// Command runs in the container and must exit within ten seconds. $(NAME) is not expanded, but a shell can read the
	// environment.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Command []string `json:"command,omitempty"`
}

// PodReadyHTTP is the port and path of an HTTP readiness check.
type PodReadyHTTP struct {
	// Port to connect to, one of ports.
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

// PodsClient configures the connection of BenchmarkRuns' clients to the database in the pods.
type PodsClient struct {
	ProgramClient `json:",inline"`

	// SecretRef names a Secret in the same namespace with the keys username and password, and optionally ca.crt.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// RoleClient configures the connection of clients to a database with roles, through the pods of one role.
type RoleClient struct {
	ProgramClient `json:",inline"`

	// SecretRef names a Secret in the same namespace with the keys username and password, and optionally ca.crt. Without
	// it, the database has addresses for clients, but BenchmarkRuns cannot measure it.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}

// ProgramClient selects the pods and port that clients of a program connect to.
type ProgramClient struct {
	// Region to whose first pod, usually a primary, the clients of all regions connect over the emulated network. By
	// default, clients connect to the first pod of their own region, and all these pods must then accept writes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Port to connect to, one of ports. The default is the first port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Database is the name of the database to use. The default for PostgreSQL is the name of the user. MySQL has no
	// default. etcd has only one database, which has no name.
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
	// SecretKeyRef names the key of a Secret that contains the value.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// SecretKeyReference is a key of a Secret in the same namespace.
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
	// Port number. Geobench reserves 7001 to 7009.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self < 7001 || self > 7009",message="must not be 7001 to 7009, which are for Geobench's sidecars"
	// +required
	Port int32 `json:"port"`
}

// PodVolume is a folder in a container: an empty folder that is deleted with the pod, or the keys of a ConfigMap or a
// Secret.
//
// +kubebuilder:validation:XValidation:rule="(has(self.sizeLimit) ? 1 : 0) + (has(self.configMapRef) ? 1 : 0) + (has(self.secretRef) ? 1 : 0) <= 1",message="a volume is at most one of an empty folder with sizeLimit, configMapRef and secretRef"
type PodVolume struct {
	// Name of the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// MountPath is the path of the folder in the container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^/`
	// +required
	MountPath string `json:"mountPath"`
	// SizeLimit of an empty folder. A pod that exceeds it is evicted.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
	// ConfigMapRef names the ConfigMap that provides the folder's files, one per key.
	// +optional
	ConfigMapRef *LocalReference `json:"configMapRef,omitempty"`
	// SecretRef names the Secret that provides the folder's files, one per key.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}
