package database

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/deploy"
)

const (
	// programContainer is the name of the container of a program that is not part of Geobench. probeContainer is the
	// container next to it, which measures round trips.
	programContainer = "database"
	probeContainer   = "geobench-probe"
)

// programOf returns the program in the pods of a role, or of a database without roles. It returns nil for nodes of
// Geobench's own engines.
func programOf(db *v1alpha1.GeoDatabase, role *v1alpha1.Role) *v1alpha1.Program {
	switch {
	case role != nil:
		return &role.Program
	case db.Spec.Pods != nil:
		return &db.Spec.Pods.Program
	}
	return nil
}

// podServicePorts returns the Service ports of a program. They are marked as TCP, because a mesh that detects the
// protocol would wait for the client to send first. In some protocols the server sends first.
func podServicePorts(p *v1alpha1.Program) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, port := range p.Ports {
		out = append(out, corev1.ServicePort{Name: port.Name, Port: port.Port, TargetPort: intstr.FromInt32(port.Port), Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("tcp")})
	}
	return out
}

// programPodSpec returns the pod spec of a program with its probe. The probe is a native sidecar, so it starts to
// measure before the program starts.
func programPodSpec(db *v1alpha1.GeoDatabase, region *v1alpha1.Region, role *v1alpha1.Role, incarnation, image string) corev1.PodSpec {
	p := programOf(db, role)
	host := fmt.Sprintf("$(POD_NAME).%s.$(POD_NAMESPACE).svc", setName(db, region.Name, role))
	if role != nil && role.ServicePerPod {
		host = "$(POD_NAME).$(POD_NAMESPACE).svc"
	}
	pod := programEnv(db, region.Name, role)
	pod = append(pod,
		FromField("GEOBENCH_ORDINAL", "metadata.labels['"+appsv1.PodIndexLabel+"']"),
		corev1.EnvVar{Name: "GEOBENCH_HOST", Value: host})
	program := programContainerOf(p, append(pod, userEnv(p)...))
	program.Command, program.Args = p.Command, p.Args
	resources := db.Spec.Resources
	if role != nil && (len(role.Resources.Limits) > 0 || len(role.Resources.Requests) > 0 || len(role.Resources.Claims) > 0) {
		resources = role.Resources
	}
	program.Resources = WithDefaultRequests(resources, "100m", "128Mi")
	for _, port := range p.Ports {
		program.Ports = append(program.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.Port, Protocol: corev1.ProtocolTCP})
	}
	program.ReadinessProbe = programReady(p)
	spec := programPod(db, region, p, incarnation, program)
	spec.TerminationGracePeriodSeconds = ptr.To(int64(ptr.Deref(p.TerminationGracePeriodSeconds, 10)))
	spec.InitContainers = []corev1.Container{probeSidecar(region.Name, image)}
	if role != nil {
		for i := range role.After {
			spec.InitContainers = append(spec.InitContainers, awaitContainer(db, &role.After[i], pod, image))
		}
	}
	return spec
}

// programEnv returns the environment variables that describe the database and its hosts. They are the same for all pods
// of a role in a region.
func programEnv(db *v1alpha1.GeoDatabase, region string, role *v1alpha1.Role) []corev1.EnvVar {
	env := []corev1.EnvVar{
		FromField("POD_NAME", "metadata.name"),
		FromField("POD_NAMESPACE", "metadata.namespace"),
		FromField("POD_IP", "status.podIP"),
		{Name: "GEOBENCH_DATABASE", Value: db.Name},
		{Name: "GEOBENCH_REGION", Value: region},
		{Name: "GEOBENCH_REGIONS", Value: strings.Join(db.Spec.RegionNames(), ",")},
		{Name: "GEOBENCH_REGION_INDEX", Value: strconv.Itoa(slices.Index(db.Spec.RegionNames(), region))},
	}
	if role != nil {
		env = append(env, corev1.EnvVar{Name: "GEOBENCH_ROLE", Value: role.Name})
	}
	for _, v := range deploy.HostVariables(db, role) {
		env = append(env, corev1.EnvVar{Name: v.Name, Value: v.Value})
	}
	return env
}

// userEnv returns the environment variables in the user's spec.
func userEnv(p *v1alpha1.Program) (env []corev1.EnvVar) {
	for _, e := range p.Env {
		v := corev1.EnvVar{Name: e.Name, Value: e.Value}
		if ref := e.SecretKeyRef; ref != nil {
			v.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key}}
		}
		env = append(env, v)
	}
	return env
}

// programContainerOf returns a container with a program's image and minimal rights.
func programContainerOf(p *v1alpha1.Program, env []corev1.EnvVar) corev1.Container {
	c := corev1.Container{
		Name:            programContainer,
		Image:           p.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Env:             env,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			RunAsNonRoot:             ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for _, v := range p.Volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: userVolume(&v), MountPath: v.MountPath})
	}
	if p.User != nil {
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = p.User, p.User
	}
	return c
}

// programPod returns a pod spec with a program's container and volumes.
func programPod(db *v1alpha1.GeoDatabase, region *v1alpha1.Region, p *v1alpha1.Program, incarnation string, main corev1.Container) corev1.PodSpec {
	spec := RegionPod(db, region, kube.TopologyName(db, incarnation), CredentialsVolume(db, ServerFiles), main)
	spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, FSGroup: p.User}
	for _, v := range p.Volumes {
		spec.Volumes = append(spec.Volumes, podVolume(&v))
	}
	return spec
}

// afterContainer is the prefix of the name of a container that waits for a role; the name of the role follows.
const afterContainer = "after-"

// awaitContainer returns an init container that delays a pod's program until pods of a role accept connections. It runs
// after the sidecar that sets up the network.
func awaitContainer(db *v1alpha1.GeoDatabase, after *v1alpha1.RoleAfter, env []corev1.EnvVar, image string) corev1.Container {
	hosts := cmp.Or(after.Hosts, v1alpha1.RoleHostsAny)
	c := OwnContainer(corev1.Container{
		Name:  afterContainer + after.Role,
		Image: image,
		Args: []string{"await", "--hosts", "$(" + deploy.HostsVariable(after.Role) + ")", "--port", strconv.Itoa(int(db.Spec.Role(after.Role).Ports[0].Port)),
			"--need", string(hosts), "--self", "$(GEOBENCH_HOST)"},
		Env: env,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
	})
	c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = ptr.To[int64](nonroot), ptr.To[int64](nonroot)
	return c
}

// programReady returns the readiness probe of a program. A command runs less often, because it takes CPU from the
// measured program.
func programReady(p *v1alpha1.Program) *corev1.Probe {
	probe := &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(p.Ports[0].Port)}},
		PeriodSeconds:    2,
		TimeoutSeconds:   5,
		FailureThreshold: 3,
		SuccessThreshold: 1,
	}
	switch ready := p.Ready; {
	case ready == nil:
	case ready.HTTP != nil:
		probe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: ready.HTTP.Path, Port: intstr.FromInt32(ready.HTTP.Port), Scheme: corev1.URISchemeHTTP}}
	default:
		probe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: ready.Command}}
		// The command runs in the measured container, so it runs less often than a connection check.
		probe.PeriodSeconds, probe.TimeoutSeconds = 5, 10
	}
	return probe
}

// probeSidecar returns the container that measures round trips to the other pods and reports them to the operator. It
// starts after the sidecar that sets up the network.
func probeSidecar(region, image string) corev1.Container {
	c := OwnContainer(corev1.Container{
		Name:          probeContainer,
		Image:         image,
		Args:          []string{"probe", "--config", ConfigFolder + "/" + TopologyKey, "--region", region},
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		Env:           []corev1.EnvVar{FromField("POD_NAME", "metadata.name")},
		Ports:         OwnPorts(),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}},
	})
	c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = ptr.To[int64](nonroot), ptr.To[int64](nonroot)
	return c
}

// userVolume returns the pod-level name of a user's volume. The prefix avoids collisions with Geobench's own volumes.
func userVolume(v *v1alpha1.PodVolume) string { return "volume-" + v.Name }

func podVolume(v *v1alpha1.PodVolume) corev1.Volume {
	out := corev1.Volume{Name: userVolume(v)}
	switch {
	case v.ConfigMapRef != nil:
		out.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMapRef.Name}, DefaultMode: ptr.To[int32](0o644)}
	case v.SecretRef != nil:
		out.Secret = &corev1.SecretVolumeSource{SecretName: v.SecretRef.Name, DefaultMode: ptr.To[int32](0o440)}
	default:
		out.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: v.SizeLimit}
	}
	return out
}

// endpoints returns the addresses for the clients of each region, or nil for a database without a role for clients.
func endpoints(db *v1alpha1.GeoDatabase, t *geo.Topology) (out []v1alpha1.EndpointStatus) {
	// the current nodes may still belong to an earlier spec
	if db.Spec.ClientRole() == nil || !slices.Equal(t.Regions, db.Spec.RegionNames()) {
		return nil
	}
	for _, e := range deploy.Endpoints(db, t) {
		out = append(out, v1alpha1.EndpointStatus{Region: e.Region, Address: e.Address})
	}
	return out
}

// podReady reports whether Kubernetes considers the pod ready.
func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
