package database

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
)

const (
	// ConfigFolder is the folder where pods mount their configuration.
	ConfigFolder = "/etc/geobench"
	// journalFolder is the folder of the journal of a node with durability Journal.
	journalFolder = "/var/lib/geobench"
	// AnnotationScrape and AnnotationScrapePort are annotations by which plain Prometheus installations find pods to
	// scrape.
	AnnotationScrape     = "prometheus.io/scrape"
	AnnotationScrapePort = "prometheus.io/port"
)

// buildService returns the headless Service that gives names to the pods of a region, or of a role in the region. It
// includes pods that are not ready, because nodes become ready only after they have found each other.
func buildService(db *v1alpha1.GeoDatabase, region string, role *v1alpha1.Role) *corev1.Service {
	labels := ofRole(kube.WithLabel(kube.DatabaseLabels(db, kube.RoleNode), kube.LabelRegion, region), role)
	open := []corev1.ServicePort{
		{Name: "geobench", Port: ports.Peer, TargetPort: intstr.FromInt32(ports.Peer), Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("tcp")},
	}
	if program := programOf(db, role); program != nil {
		open = podServicePorts(program)
	}
	if m := db.Spec.Network.Mesh; m == v1alpha1.MeshSidecar || m == v1alpha1.MeshAmbient {
		// A mesh encrypts only connections to ports of Services, and its mode STRICT rejects all other connections. So the
		// Service also needs a port for the probes that the mesh must carry.
		open = append(open, corev1.ServicePort{Name: "probe", Port: ports.Probe, TargetPort: intstr.FromInt32(ports.Probe), Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("tcp")})
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: setName(db, region, role), Namespace: db.Namespace, Labels: labels},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 nodeSelector(db, region, role),
			Ports: append(open,
				corev1.ServicePort{Name: "admin", Port: ports.Admin, TargetPort: intstr.FromInt32(ports.Admin), Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("https")}),
		},
	}
}

// buildPodService returns the Service of a single pod, with an address that stays the same when the pod is replaced.
// Connections that the pod opens have the pod's address as their source. Replies on connections to the Service have the
// Service's address as their source.
func buildPodService(db *v1alpha1.GeoDatabase, pod *deploy.Pod) *corev1.Service {
	labels := ofRole(kube.WithLabel(kube.DatabaseLabels(db, kube.RoleNode), kube.LabelRegion, pod.Region), pod.Role)
	selector := kube.WithLabel(nodeSelector(db, pod.Region, pod.Role), kube.LabelManagedBy, kube.ManagedBy)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: db.Namespace, Labels: labels},
		Spec: corev1.ServiceSpec{
			PublishNotReadyAddresses: true,
			Selector:                 kube.WithLabel(selector, appsv1.StatefulSetPodNameLabel, pod.Name),
			Ports:                    podServicePorts(&pod.Role.Program),
		},
	}
}

func nodeSelector(db *v1alpha1.GeoDatabase, region string, role *v1alpha1.Role) map[string]string {
	return ofRole(map[string]string{kube.LabelDatabase: db.Name, kube.LabelRegion: region, kube.LabelRole: kube.RoleNode}, role)
}

// ofRole adds the label of role to labels. It returns labels if role is nil.
func ofRole(labels map[string]string, role *v1alpha1.Role) map[string]string {
	if role == nil {
		return labels
	}
	return kube.WithLabel(labels, kube.LabelServer, role.Name)
}

func setName(db *v1alpha1.GeoDatabase, region string, role *v1alpha1.Role) string {
	if role == nil {
		return kube.RegionName(db, region)
	}
	return deploy.SetName(db.Name, region, role.Name)
}

// rolesIn returns the roles with pods in a region, given by its index. For a database without roles, it returns a
// single nil.
func rolesIn(db *v1alpha1.GeoDatabase, region int) []*v1alpha1.Role {
	if len(db.Spec.Roles) == 0 {
		return []*v1alpha1.Role{nil}
	}
	var roles []*v1alpha1.Role
	for i := range db.Spec.Roles {
		if role := &db.Spec.Roles[i]; deploy.InRegion(role, region) {
			roles = append(roles, role)
		}
	}
	return roles
}

// buildStatefulSet returns the StatefulSet for the nodes of a region, or for the pods of a role in the region. Without
// roles, the pod with ordinal o is replica o mod R of partition o div R.
//
// Only the operator replaces the pods (OnDelete), all at the same time. A rolling update would wait for a node of the
// new incarnation to become ready, which is impossible among nodes of the old incarnation.
func buildStatefulSet(db *v1alpha1.GeoDatabase, region *v1alpha1.Region, role *v1alpha1.Role, incarnation, image string) *appsv1.StatefulSet {
	labels := ofRole(kube.WithLabel(kube.DatabaseLabels(db, kube.RoleNode), kube.LabelRegion, region.Name), role)
	spec := nodePodSpec(db, region, incarnation, image)
	replicas := db.Spec.NodesPerRegion()
	if db.Spec.RunsPrograms() {
		spec = programPodSpec(db, region, role, incarnation, image)
	}
	if role != nil {
		replicas = max(role.PerRegion, 1)
	}
	spec.ServiceAccountName = kube.NodesAccountName(db)
	pod := metav1.ObjectMeta{
		Labels: kube.WithLabel(labels, kube.LabelIncarnation, incarnation),
		Annotations: map[string]string{
			AnnotationScrape:     "true",
			AnnotationScrapePort: strconv.Itoa(ports.Metrics),
		},
	}
	Meshed(db, &pod)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: setName(db, region.Name, role), Namespace: db.Namespace, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: setName(db, region.Name, role),
			Replicas:    ptr.To(replicas),
			// Nodes become ready only after they have found each other, so pods must not be created one after another.
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			RevisionHistoryLimit: ptr.To[int32](1),
			Selector:             &metav1.LabelSelector{MatchLabels: nodeSelector(db, region.Name, role)},
			Template:             corev1.PodTemplateSpec{ObjectMeta: pod, Spec: spec},
		},
	}
}

// nodePodSpec returns the pod spec of a node of Geobench's own engines.
func nodePodSpec(db *v1alpha1.GeoDatabase, region *v1alpha1.Region, incarnation, image string) corev1.PodSpec {
	resources := OwnResources(db.Spec.Resources)
	credentials := CredentialsVolume(db, append([]string{identity.FilePeer, identity.FileClients}, ServerFiles...))
	node := OwnContainer(corev1.Container{
		Name:      NodeContainer,
		Image:     image,
		Args:      []string{"node", "--config", ConfigFolder + "/" + TopologyKey, "--region", region.Name},
		Env:       append(GoRuntime(resources), FromField("POD_NAME", "metadata.name")),
		Ports:     append([]corev1.ContainerPort{{Name: "geobench", ContainerPort: ports.Peer, Protocol: corev1.ProtocolTCP}}, OwnPorts()...),
		Resources: resources,
		// A killed node loses its data, so its event loop may be unresponsive for a minute before the kubelet kills it.
		LivenessProbe:  probe("/healthz", 10, 6),
		ReadinessProbe: probe("/readyz", 2, 3),
	})
	if db.Spec.Durability != v1alpha1.DurabilityJournal {
		return RegionPod(db, region, kube.TopologyName(db, incarnation), credentials, node)
	}
	node.Args = append(node.Args, "--journal", journalFolder)
	node.VolumeMounts = append(node.VolumeMounts, corev1.VolumeMount{Name: "journal", MountPath: journalFolder})
	spec := RegionPod(db, region, kube.TopologyName(db, incarnation), credentials, node)
	// The volume exists as long as the pod, so a restarted container finds the journal.
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "journal", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: journalLimit(db)}}})
	return spec
}

// mostJournal is the default limit of a journal if spec.resources does not set one. Without a limit, a database could
// fill the disk of its machine, which affects other databases there.
const mostJournal = "10Gi"

// journalLimit returns the maximum size of a node's journal: the node's limit of ephemeral storage, or mostJournal.
func journalLimit(db *v1alpha1.GeoDatabase) *resource.Quantity {
	if limit, ok := db.Spec.Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
		return &limit
	}
	return ptr.To(resource.MustParse(mostJournal))
}

// OwnPorts returns the ports of every Geobench container: the metrics port, which monitoring finds by name, and the
// administration port.
func OwnPorts() []corev1.ContainerPort {
	return []corev1.ContainerPort{
		{Name: "metrics", ContainerPort: ports.Metrics, Protocol: corev1.ProtocolTCP},
		{Name: "admin", ContainerPort: ports.Admin, Protocol: corev1.ProtocolTCP},
	}
}

// OwnContainer completes a container that runs Geobench's own program. It restricts the container's rights, and mounts
// the pod's configuration at ConfigFolder and its credentials at identity.DefaultFolder.
func OwnContainer(c corev1.Container) corev1.Container {
	c.ImagePullPolicy = corev1.PullIfNotPresent
	c.SecurityContext = containerSecurity()
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: ConfigFolder, ReadOnly: true},
		corev1.VolumeMount{Name: "credentials", MountPath: identity.DefaultFolder, ReadOnly: true})
	return c
}

// RegionPod returns the spec of a pod in a region of the database: its placement, its restrictions, its configuration
// (a ConfigMap) and its credentials.
func RegionPod(db *v1alpha1.GeoDatabase, region *v1alpha1.Region, config string, credentials corev1.Volume, main corev1.Container) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		SecurityContext:               podSecurity(),
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		NodeSelector:                  region.NodeSelector,
		Tolerations:                   region.Tolerations,
		Affinity:                      regionAffinity(db.Spec.Placement, region.Name),
		Containers:                    []corev1.Container{main},
		Volumes:                       []corev1.Volume{configVolume(config), credentials},
	}
}

// FromField returns an environment variable whose value is a field of the pod.
func FromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

func configVolume(configMap string) corev1.Volume {
	return corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
	}}
}

// probe returns an HTTP probe on the metrics port. It sets even values that equal the API server's defaults, because a
// comparison with the stored object would count 0 as a different value.
func probe(path string, periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("metrics")}},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   5,
		FailureThreshold: failures,
		SuccessThreshold: 1,
	}
}

// OwnResources returns the resources of a Geobench program, with defaults for omitted values. If the memory request
// exceeds the default limit, the limit equals the request. CPU has no default limit, because throttling would appear as
// latency.
func OwnResources(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := WithDefaultRequests(r, "100m", "128Mi")
	if out.Limits == nil {
		out.Limits = corev1.ResourceList{}
	}
	out.Limits[corev1.ResourceMemory] = deploy.MemoryLimit(&r)
	return out
}

// GoRuntime returns the environment variables that set the number of processors and the memory limit of a Geobench
// program. Neither then depends on the machine. The number of processors is the user's CPU limit or request, rounded
// up, and one by default. With more processors, nodes that share a machine would need more CPU for the same work. The
// garbage collector works harder when the program approaches its memory limit.
func GoRuntime(r corev1.ResourceRequirements) []corev1.EnvVar {
	cpu := r.Limits.Cpu()
	if cpu.IsZero() {
		cpu = r.Requests.Cpu()
	}
	env := []corev1.EnvVar{{Name: "GOMAXPROCS", Value: strconv.FormatInt(max(1, cpu.Value()), 10)}}
	if memory := r.Limits.Memory(); !memory.IsZero() {
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: strconv.FormatInt(deploy.RuntimeMemory(memory.Value()), 10)})
	}
	return env
}

// WithDefaultRequests returns r with defaults for omitted requests.
func WithDefaultRequests(r corev1.ResourceRequirements, cpu, memory string) corev1.ResourceRequirements {
	out := *r.DeepCopy()
	for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if _, ok := out.Requests[name]; ok {
			continue
		}
		if out.Requests == nil {
			out.Requests = corev1.ResourceList{}
		}
		// If only a limit is given, it is also the request, as in the API server.
		if limit, ok := out.Limits[name]; ok {
			out.Requests[name] = limit
			continue
		}
		out.Requests[name] = resource.MustParse(quantity)
	}
	return out
}

// NodeContainer is the name of the container of a Geobench node.
const NodeContainer = "node"
