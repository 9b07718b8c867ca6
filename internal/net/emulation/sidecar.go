package emulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/identity"
)

const (
	// SidecarName is the name of the sidecar container and of its volume.
	SidecarName = "geobench-wan"
	// SidecarPort is the name of the sidecar's metrics port. SidecarAdminPort is the name of the administration port,
	// which only the operator uses.
	SidecarPort      = "wan"
	SidecarAdminPort = "wan-admin"
	// sidecarCredentials is the name of the volume with the credentials for the sidecar, which no other container uses.
	sidecarCredentials = SidecarName + "-credentials"
	// sidecarFolder is the folder where the sidecar finds its configuration.
	sidecarFolder = "/etc/geobench/wan"
	// annotationGeneration is an annotation that counts the changes of a ConfigMap. On a pod, a change of this annotation
	// makes kubelet refresh the mounted file immediately.
	annotationGeneration = "geobench.dev/network-generation"
	// commonKey is the file for pods that have no file of their own: the load generators.
	commonKey = "config.json"
)

// Sidecars queries the sidecars of pods.
type Sidecars interface {
	// Status returns the status of the sidecar at host:port.
	Status(ctx context.Context, addr string) (*wan.Status, error)
	// Log returns the log of the sidecar at host:port. The sidecar's clock is ahead of the caller's clock by the duration
	// ahead, with an error of at most within.
	Log(ctx context.Context, addr string) (log *wan.Log, ahead, within time.Duration, err error)
}

// Sidecar is the backend that runs `geobench wan` alongside the program of each pod, in the pod's network namespace. It
// requires only that the cluster grants the capability NET_ADMIN to that container; the kernel need not support netem.
//
// A sidecar delays the packets that its pod receives. For each region, a ConfigMap therefore describes the links from
// the other pods to the region's pods. Peers are identified by host names, which sidecars look up every second, so pods
// may start and stop without a new configuration. Faults are phases of the configuration, which the sidecars follow on
// their own clocks.
type Sidecar struct {
	Cluster  Cluster
	Sidecars Sidecars
	// Image is the container image with the geobench binary.
	Image string
	// Credentials is a volume in the pod's namespace with the credentials that sidecars use to authenticate the operator.
	// Prepare replaces the volume's name.
	Credentials corev1.Volume
	// ConfigName returns the name of a region's ConfigMap.
	ConfigName func(n *Network, region string) string
	// Hosts returns the hosts of a region's nodes, by pod name, and the host name that resolves to the region's load
	// generators. If a pod has its own Service, the Service is the pod's second host. Replies to a client of the Service
	// carry the Service's address, not the pod's.
	Hosts func(n *Network, region string) (nodes map[string][]string, generators string)
	// Labels returns the labels of the ConfigMaps.
	Labels func(n *Network) map[string]string
}

// Name returns EmulationSidecar.
func (s *Sidecar) Name() v1alpha1.Emulation { return v1alpha1.EmulationSidecar }

// Check returns an error if a region's files do not fit into one ConfigMap, or if the network has more peers than a
// sidecar supports.
func (s *Sidecar) Check(n *Network) error {
	peers := 0
	for _, region := range n.Regions {
		nodes, _ := s.Hosts(n, region)
		for _, hosts := range nodes {
			peers += len(hosts)
		}
		peers++ // the load generators
	}
	if peers > wan.MaxPeers {
		return fmt.Errorf("spec.partitionsPerRegion: %d nodes, and the load generators of %d regions, are more than the %d peers that a sidecar knows; take fewer nodes, or another emulation",
			peers-len(n.Regions), len(n.Regions), wan.MaxPeers)
	}
	for _, region := range n.Regions {
		// The largest generation has the most digits, so files that fit now still fit after every change.
		files, err := s.configs(n, region, math.MaxInt64)
		if err != nil {
			return err
		}
		var sizes []int
		for _, file := range files {
			sizes = append(sizes, len(file))
		}
		slices.Sort(sizes)
		size, fit := 0, 0 // fit is the number of files that fit even if they are the longest ones
		for _, bytes := range slices.Backward(sizes) {
			if size += bytes; size <= corev1.MaxSecretSize { // also the limit of a ConfigMap
				fit++
			}
		}
		if size > corev1.MaxSecretSize {
			return fmt.Errorf("spec.partitionsPerRegion: what the sidecars of the %d nodes of region %s are told has %d bytes, and a ConfigMap holds %d: %d nodes per region would fit; take fewer, or fewer faults of links, or another emulation",
				len(files)-1, region, size, corev1.MaxSecretSize, max(fit-1, 0))
		}
	}
	return nil
}

// SidecarSecurity returns the security context of the sidecar container. The container runs as root and may change the
// network of its pod, but has no other privilege.
func SidecarSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                ptr.To[int64](0),
		RunAsGroup:               ptr.To[int64](0),
		RunAsNonRoot:             ptr.To(false),
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// Prepare adds the sidecar to a pod as an init container that keeps running. The emulated network therefore exists
// before the program starts and until it has exited.
func (s *Sidecar) Prepare(n *Network, region string, pod *corev1.PodSpec) {
	file := commonKey
	if pod.RestartPolicy != corev1.RestartPolicyNever { // a node, which has a separate file
		file = "$(POD_NAME).json"
	}
	probe := func(path string, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(ports.WANStatus), Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds:    period,
			TimeoutSeconds:   5,
			FailureThreshold: failures,
			SuccessThreshold: 1,
		}
	}
	// Put the sidecar first, so that all other init containers also use the emulated network.
	pod.InitContainers = append([]corev1.Container{{
		Name:            SidecarName,
		Image:           s.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            []string{"wan", "--config", sidecarFolder + "/" + file, "--credentials", identity.DefaultFolder},
		RestartPolicy:   ptr.To(corev1.ContainerRestartPolicyAlways),
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resourceOf("50m"), corev1.ResourceMemory: resourceOf("64Mi"),
		}},
		// Monitoring finds the port by its name.
		Ports: []corev1.ContainerPort{
			{Name: SidecarPort, ContainerPort: ports.WANStatus, Protocol: corev1.ProtocolTCP},
			{Name: SidecarAdminPort, ContainerPort: ports.WANAdmin, Protocol: corev1.ProtocolTCP},
		},
		SecurityContext: SidecarSecurity(),
		StartupProbe:    probe("/readyz", 1, 60),
		LivenessProbe:   probe("/healthz", 10, 6),
		VolumeMounts: []corev1.VolumeMount{
			{Name: SidecarName, MountPath: sidecarFolder, ReadOnly: true},
			{Name: sidecarCredentials, MountPath: identity.DefaultFolder, ReadOnly: true},
		},
	}}, pod.InitContainers...)
	credentials := s.Credentials
	credentials.Name = sidecarCredentials
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: SidecarName, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.ConfigName(n, region)},
			DefaultMode:          ptr.To[int32](0o444),
		},
	}}, credentials)
}

// configs returns the files of a region's pods by ConfigMap key.
func (s *Sidecar) configs(n *Network, region string, generation int64) (map[string]string, error) {
	own := slices.Index(n.Regions, region)
	c := &wan.Config{Generation: generation, Region: region, Seed: 1}
	var all []wan.Peer
	pods := map[string]string{} // by host
	for from, name := range n.Regions {
		c.Links = append(c.Links, link(name, n.Links[from][own]))
		hosts, generators := s.Hosts(n, name)
		// Sort the pods so that pods with consecutive numbers are adjacent: package hostlist writes them as a single entry.
		for _, pod := range slices.SortedFunc(maps.Keys(hosts), inOrder) {
			for _, host := range hosts[pod] {
				all = append(all, wan.Peer{Host: host, Region: name})
				pods[host] = pod
			}
		}
		all = append(all, wan.Peer{Host: generators, Region: name})
	}
	for i := range n.Phases {
		phase := wan.Phase{From: n.Phases[i].From.UTC()}
		for from, name := range n.Regions {
			// List only links that change in this phase; the sidecar keeps all other links as configured.
			if l := n.Phases[i].Links[from][own]; l != n.Links[from][own] {
				phase.Links = append(phase.Links, link(name, l))
			}
		}
		// Add even a phase without changes, because it marks the end of the previous phase.
		c.Phases = append(c.Phases, phase)
	}
	files := map[string]string{}
	nodes, _ := s.Hosts(n, region)
	for _, pod := range append(slices.Sorted(maps.Keys(nodes)), "") {
		// A pod is not its own peer, so packets to its own hosts are not delayed. Clone the list, because the files of other
		// pods need it unchanged.
		c.Peers = slices.DeleteFunc(slices.Clone(all), func(peer wan.Peer) bool { return slices.Contains(nodes[pod], peer.Host) })
		for i := range n.Phases {
			// All pods' files share the phases, so remove the previous pod's cuts.
			c.Phases[i].Cut = nil
			lost := n.Phases[i].lost(pod)
			for _, peer := range c.Peers {
				if len(lost) > 0 && lost[pods[peer.Host]] {
					c.Phases[i].Cut = append(c.Phases[i].Cut, peer.Host)
				}
			}
		}
		b, err := json.MarshalIndent(c, "", " ")
		if err != nil {
			return nil, err
		}
		key := commonKey
		if pod != "" {
			key = pod + ".json"
		}
		files[key] = string(b)
	}
	return files, nil
}

// lost returns the pods whose packets to a given pod are all lost; nil if there are none.
func (p *Phase) lost(to string) map[string]bool {
	var pods map[string]bool
	for _, c := range p.Cuts {
		if !slices.Contains(c.To, to) {
			continue
		}
		if pods == nil {
			pods = map[string]bool{}
		}
		for _, from := range c.From {
			pods[from] = true
		}
	}
	return pods
}

// inOrder compares names. If names differ only in a trailing number, it orders them by that number, because shorter
// names come first.
func inOrder(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// Config returns the configuration of a pod's sidecar, with generation 0. The pod is a node or a load generator. All
// load generators of a region have the same configuration.
func (s *Sidecar) Config(n *Network, region, pod string) (*wan.Config, error) {
	files, err := s.configs(n, region, 0)
	if err != nil {
		return nil, err
	}
	file, ok := files[pod+".json"]
	if !ok {
		file = files[commonKey]
	}
	return wan.ParseConfig([]byte(file))
}

func link(from string, l Link) wan.Link {
	// A sidecar accepts only correlations below 1: with a correlation of 1, all packets would share the fate of the first
	// packet.
	return wan.Link{
		From: from, DelayMicros: l.Delay.Microseconds(), JitterMicros: l.Jitter.Microseconds(), LossPPM: l.LossPPM,
		LossCorrelationPPM: min(int64(l.LossCorrelationPercent)*10_000, 999_999), RateBitsPerSecond: l.BandwidthMbps * 1_000_000, Cut: l.Cut,
	}
}

// Ensure writes the ConfigMaps. After a change, it makes kubelet refresh the files of the running pods.
func (s *Sidecar) Ensure(ctx context.Context, n *Network) error {
	for _, region := range n.Regions {
		generation, err := s.ensureConfig(ctx, n, region)
		if err != nil {
			return err
		}
		for _, p := range n.PodsIn(region) {
			// Pods start with the file of generation 1 or later. A pod that is not running yet will read the current file when
			// it starts.
			if generation == 1 || p.Generation >= generation || !p.Running {
				continue
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: p.Name}}
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotationGeneration, strconv.FormatInt(generation, 10))
			// The pod may have been deleted since it was listed.
			if err := s.Cluster.Patch(ctx, pod, []byte(patch)); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// ensureConfig writes the ConfigMap of a region if it has changed, and returns its generation.
func (s *Sidecar) ensureConfig(ctx context.Context, n *Network, region string) (int64, error) {
	generation := int64(1)
	old := &corev1.ConfigMap{}
	err := s.Cluster.Get(ctx, n.Namespace, s.ConfigName(n, region), old)
	switch {
	case err == nil:
		generation = GenerationOf(old)
	case !apierrors.IsNotFound(err):
		return 0, err
	}
	// Build the files with the old generation first: they equal the existing files only if nothing has changed.
	files, err := s.configs(n, region, generation)
	if err != nil {
		return 0, err
	}
	if maps.Equal(files, old.Data) {
		return generation, nil
	}
	if old.Name != "" {
		generation++
		if files, err = s.configs(n, region, generation); err != nil {
			return 0, err
		}
	}
	return generation, s.Cluster.Ensure(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.ConfigName(n, region), Namespace: n.Namespace, Labels: s.Labels(n),
			Annotations: map[string]string{annotationGeneration: strconv.FormatInt(generation, 10)},
		},
		Data: files,
	})
}

// GenerationOf returns the network generation in the annotations of a ConfigMap or pod, or 0 if there is none.
func GenerationOf(o metav1.Object) int64 {
	g, _ := strconv.ParseInt(o.GetAnnotations()[annotationGeneration], 10, 64)
	return g
}

// Observe queries the sidecar of every pod and reports whether all sidecars use the current configuration.
func (s *Sidecar) Observe(ctx context.Context, n *Network) (State, error) {
	want := map[string]int64{}
	for _, region := range n.Regions {
		cm := &corev1.ConfigMap{}
		if err := s.Cluster.Get(ctx, n.Namespace, s.ConfigName(n, region), cm); err != nil {
			if apierrors.IsNotFound(err) {
				return State{Reason: "NotConfigured", Message: fmt.Sprintf("ConfigMap %s does not exist yet", s.ConfigName(n, region))}, nil
			}
			return State{}, err
		}
		want[region] = GenerationOf(cm)
		// A manual edit of the ConfigMap does not change the generation, so compare the files as well.
		files, err := s.configs(n, region, want[region])
		if err != nil {
			return State{}, err
		}
		if file := different(cm.Data, files); file != "" {
			return State{Reason: "NotConfigured", Message: fmt.Sprintf("ConfigMap %s: file %s is not what the links of the profile and the faults of the run make of generation %d; "+
				"the operator writes it anew, and nobody else should write it", cm.Name, file, want[region]), Missing: missing(n, region)}, nil
		}
	}
	problems := make([]string, len(n.Pods))
	var group sync.WaitGroup
	for i, p := range n.Pods {
		// Query all sidecars concurrently, because each sidecar that does not answer takes a whole timeout.
		group.Go(func() { problems[i] = s.problem(ctx, p, want[p.Region]) })
	}
	group.Wait()
	state := State{Injected: true, Reason: string(v1alpha1.EmulationSidecar), Message: fmt.Sprintf("the sidecars of all %d pods delay what they send as the profile declares", len(n.Pods))}
	for i, p := range n.Pods {
		if problems[i] == "" {
			continue
		}
		if state.Injected {
			state = State{Reason: "SidecarNotReady", Message: fmt.Sprintf("pod %s: %s", p.Name, problems[i]), Missing: map[string]bool{}}
		}
		state.Missing[p.UID] = true
	}
	return state, nil
}

// different returns the alphabetically first file name whose content differs between have and want, or that only one of
// them contains. It returns "" if there is no such file.
func different(have, want map[string]string) string {
	all := maps.Clone(want)
	maps.Copy(all, have)
	for _, file := range slices.Sorted(maps.Keys(all)) {
		got, ok := have[file]
		if text, wanted := want[file]; got != text || ok != wanted {
			return file
		}
	}
	return ""
}

// missing returns the UIDs of all pods of a region, as in State.Missing.
func missing(n *Network, region string) map[string]bool {
	out := map[string]bool{}
	for _, p := range n.PodsIn(region) {
		out[p.UID] = true
	}
	return out
}

// problem returns the reason why a pod's sidecar does not use generation want; empty if it does.
func (s *Sidecar) problem(ctx context.Context, p Pod, want int64) string {
	if !p.Running || len(p.IPs) == 0 {
		return "it does not run"
	}
	st, err := s.Sidecars.Status(ctx, hostPort(p.IPs[0], ports.WANAdmin))
	switch {
	case err != nil:
		return "its sidecar does not answer: " + err.Error()
	case st.ConfigError != "":
		return "its sidecar refuses its configuration: " + st.ConfigError
	case !st.Ready:
		return "its sidecar is not ready: " + st.Reason
	// A later generation is also fine, because the ConfigMap may have changed after want was read.
	case st.Generation < want:
		return fmt.Sprintf("its sidecar has generation %d of its configuration, of %d", st.Generation, want)
	}
	return ""
}

// Release deletes the ConfigMaps. The sidecars stop with their pods, and their changes to the network disappear along
// with the pods' network namespaces.
func (s *Sidecar) Release(ctx context.Context, n *Network) (bool, error) {
	done := true
	for _, region := range n.Regions {
		cm := &corev1.ConfigMap{}
		err := s.Cluster.Get(ctx, n.Namespace, s.ConfigName(n, region), cm)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		// An object with finalizers exists even after a successful deletion, so only NotFound counts as done.
		done = false
		if cm.DeletionTimestamp == nil {
			if err := s.Cluster.Delete(ctx, cm); err != nil && !apierrors.IsNotFound(err) {
				return false, err
			}
		}
	}
	return done, nil
}
