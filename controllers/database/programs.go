package database

import (
	"fmt"
	"net"
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
	"github.com/geobench/geobench/internal/deploy"
)

const (
	// programContainer is the container of a program that knows nothing of Geobench, probeContainer the one beside it that
	// measures round trips.
	programContainer = "database"
	probeContainer   = "geobench-probe"
)

// podServicePorts are the ports of a program.
func podServicePorts(p *v1alpha1.Pods) []corev1.ServicePort {
	var out []corev1.ServicePort
	for _, port := range p.Ports {
		out = append(out, corev1.ServicePort{Name: port.Name, Port: port.Port, TargetPort: intstr.FromInt32(port.Port), Protocol: corev1.ProtocolTCP})
	}
	return out
}

// nodeHost is the name under which other pods find a node.
func nodeHost(db *v1alpha1.GeoDatabase, region string, ordinal int) string {
	return deploy.Host(db.Name, region, db.Namespace, ordinal)
}

// programPodSpec is the pod of a program: the program, and beside it the probe. The probe is a native sidecar, which
// measures from before the program starts.
func programPodSpec(db *v1alpha1.GeoDatabase, region *v1alpha1.Region, incarnation, image string) corev1.PodSpec {
	p := db.Spec.Pods
	var hosts []string
	for _, r := range db.Spec.Regions {
		for ordinal := range nodesPerRegion(db) {
			hosts = append(hosts, nodeHost(db, r.Name, ordinal))
		}
	}
	env := []corev1.EnvVar{
		FromField("POD_NAME", "metadata.name"),
		FromField("POD_NAMESPACE", "metadata.namespace"),
		FromField("POD_IP", "status.podIP"),
		{Name: "GEOBENCH_DATABASE", Value: db.Name},
		{Name: "GEOBENCH_REGION", Value: region.Name},
		{Name: "GEOBENCH_REGIONS", Value: strings.Join(db.Spec.RegionNames(), ",")},
		{Name: "GEOBENCH_REGION_INDEX", Value: strconv.Itoa(slices.Index(db.Spec.RegionNames(), region.Name))},
		FromField("GEOBENCH_ORDINAL", "metadata.labels['"+appsv1.PodIndexLabel+"']"),
		{Name: "GEOBENCH_HOST", Value: fmt.Sprintf("$(POD_NAME).%s.$(POD_NAMESPACE).svc", kube.RegionName(db, region.Name))},
		{Name: "GEOBENCH_HOSTS", Value: strings.Join(hosts, ",")},
	}
	for _, e := range p.Env {
		v := corev1.EnvVar{Name: e.Name, Value: e.Value}
		if ref := e.SecretKeyRef; ref != nil {
			v.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key}}
		}
		env = append(env, v)
	}
	program := corev1.Container{
		Name:            programContainer,
		Image:           p.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         p.Command,
		Args:            p.Args,
		Env:             env,
		Resources:       WithDefaultRequests(db.Spec.Resources, "100m", "128Mi"),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			RunAsNonRoot:             ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	var volumes []corev1.Volume
	for _, port := range p.Ports {
		program.Ports = append(program.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.Port, Protocol: corev1.ProtocolTCP})
	}
	program.ReadinessProbe = programReady(&p.Program)
	for _, v := range p.Volumes {
		program.VolumeMounts = append(program.VolumeMounts, corev1.VolumeMount{Name: userVolume(&v), MountPath: v.MountPath})
		volumes = append(volumes, podVolume(&v))
	}
	spec := RegionPod(db, region, kube.TopologyName(db, incarnation), CredentialsVolume(db, ServerFiles), program)
	spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	spec.TerminationGracePeriodSeconds = ptr.To(int64(ptr.Deref(p.TerminationGracePeriodSeconds, 10)))
	spec.InitContainers = []corev1.Container{probeSidecar(region.Name, image)}
	spec.Volumes = append(spec.Volumes, volumes...)
	if p.User != nil {
		spec.Containers[0].SecurityContext.RunAsUser, spec.Containers[0].SecurityContext.RunAsGroup = p.User, p.User
		spec.SecurityContext.FSGroup = p.User
	}
	return spec
}

// programReady tells when a program is ready. A command is asked less often: it takes CPU from what is measured.
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
		probe.PeriodSeconds, probe.TimeoutSeconds = 5, 10
	}
	return probe
}

// probeSidecar measures round trips to the other pods, and tells the operator. It starts when the network is there: after
// the emulation's sidecar.
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

// userVolume names a volume of the user's apart from Geobench's own.
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

// programAddress is where a program's node listens: its first port.
func programAddress(db *v1alpha1.GeoDatabase, host string) string {
	return net.JoinHostPort(host, strconv.Itoa(int(db.Spec.Pods.Ports[0].Port)))
}

// podReady tells whether all containers of a pod are ready.
func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
