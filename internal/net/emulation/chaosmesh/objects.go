// Package chaosmesh emulates networks and injects faults with Chaos Mesh (chaos-mesh.org, v1alpha1).
//
// The package builds unstructured objects, because the Go module with the object types is unversioned and has many
// dependencies. A contract test in hack/chaosmesh checks the objects against the CRDs and the webhooks of that module.
// The builders avoid these traps:
//
//   - A pod can have at most 13 different delays. Chaos Mesh creates a prio qdisc with 3 bands and another band per
//     rule, and the kernel supports 16. Destinations with equal links therefore share an object.
//   - Overlapping rules do not combine; an arbitrary rule wins. Each pair of regions is therefore in a single object. A
//     fault on a pair is merged into the pair's link (delay) or is a rule of another kind (partition).
//   - Object names become ipset names, which are truncated to 27 characters and do not include the namespace. Names are
//     therefore short and derived from a UID.
//   - Fractional durations ("0.5ms") are dropped silently. Durations are therefore whole microseconds.
//   - Specs are immutable. A change therefore requires deletion, waiting, and creation.
package chaosmesh

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/geobench/geobench/internal/net/emulation"
)

// GroupVersion is the API group and version of all objects.
var GroupVersion = schema.GroupVersion{Group: "chaos-mesh.org", Version: "v1alpha1"}

// The kinds of objects.
const (
	NetworkChaos = "NetworkChaos"
	PodChaos     = "PodChaos"
	StressChaos  = "StressChaos"
	IOChaos      = "IOChaos"
	TimeChaos    = "TimeChaos"
)

// Meta contains the fields that all objects have.
type Meta struct {
	Namespace string
	// Name must be unique in the whole cluster and at most 27 characters long: see ObjectName.
	Name   string
	Labels map[string]string
	// Ceiling, if not 0, is the time after the object's creation at which Chaos Mesh itself reverts the effect, even if
	// the operator is gone. Normally faults end earlier, because the operator deletes their objects.
	Ceiling time.Duration
}

// Pods selects pods of a namespace: either the Named pods, or the pods with all Labels and, if Regions is set, in any
// of Regions.
type Pods struct {
	Namespace   string
	Labels      map[string]string
	RegionLabel string
	Regions     []string
	// Named lists pods by name. If it is set, Labels and Regions are ignored.
	Named []string
}

func (p Pods) selector() map[string]any {
	if len(p.Named) > 0 {
		return map[string]any{"pods": map[string]any{p.Namespace: anys(sorted(p.Named))}}
	}
	s := map[string]any{"namespaces": []any{p.Namespace}}
	if len(p.Labels) > 0 {
		labels := map[string]any{}
		for k, v := range p.Labels {
			labels[k] = v
		}
		s["labelSelectors"] = labels
	}
	if len(p.Regions) > 0 {
		s["expressionSelectors"] = []any{map[string]any{"key": p.RegionLabel, "operator": string(metav1.LabelSelectorOpIn), "values": anys(sorted(p.Regions))}}
	}
	return s
}

// ObjectName returns a name of at most 27 characters that is derived from the UID of the owning object and from parts.
func ObjectName(uid string, parts ...string) string {
	return "gb-" + emulation.Hash(append([]string{uid}, parts...)...)
}

func object(m Meta, kind string, spec map[string]any) *unstructured.Unstructured {
	if m.Ceiling > 0 {
		spec["duration"] = Duration(m.Ceiling)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(GroupVersion.WithKind(kind))
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetLabels(m.Labels)
	return u
}

// specOn returns the spec of an object that affects all of the pods or, if containers are named, only these containers
// of the pods.
func specOn(pods Pods, containers []string) map[string]any {
	s := map[string]any{"mode": "all", "selector": pods.selector()}
	if len(containers) > 0 {
		s["containerNames"] = anys(containers)
	}
	return s
}

// Delay builds the netem rule for packets from the from pods to the to pods. A single object contains the delay,
// jitter, loss and rate of the link. If the link is cut, it loses every packet.
//
// Link.Jitter is a standard deviation. netem draws the delay uniformly from delay ± jitter, which has the standard
// deviation jitter / √3.
func Delay(m Meta, from, to Pods, l emulation.Link) *unstructured.Unstructured {
	s := specOn(from, nil)
	s["action"] = "netem"
	s["direction"] = "to"
	s["target"] = specOn(to, nil)
	// The lowest possible delay must not be below 0.
	jitter := min(time.Duration(float64(l.Jitter)*math.Sqrt(3)), l.Delay)
	if l.Delay > 0 {
		s["delay"] = map[string]any{"latency": Duration(l.Delay), "jitter": Duration(jitter), "correlation": "0"}
	}
	loss := l.LossPPM
	if l.Cut {
		loss = 1_000_000
	}
	if loss > 0 {
		s["loss"] = map[string]any{"loss": percentOf(loss), "correlation": strconv.Itoa(int(l.LossCorrelationPercent))}
	}
	if l.BandwidthMbps > 0 {
		s["rate"] = map[string]any{"rate": fmt.Sprintf("%dmbit", l.BandwidthMbps)}
	}
	return object(m, NetworkChaos, s)
}

// Partition builds an object that cuts two sets of pods off from each other. If oneWay is set, it drops only packets
// from from to to. The object uses iptables rules, so it works on kernels without netem.
func Partition(m Meta, from, to Pods, oneWay bool) *unstructured.Unstructured {
	s := specOn(from, nil)
	s["action"] = "partition"
	s["direction"] = "both"
	if oneWay {
		s["direction"] = "to"
	}
	s["target"] = specOn(to, nil)
	return object(m, NetworkChaos, s)
}

// Bandwidth builds an object that limits the total rate at which each of the from pods sends to the to pods. mbps is in
// 10^6 bits per second. The limit is a token bucket below a prio qdisc, which the kernel must support. If to is the
// zero Pods, the limit applies to all destinations, and the qdisc tbf suffices. Do not combine Bandwidth with Delay on
// the same pair; set the rate of the link instead.
func Bandwidth(m Meta, from, to Pods, mbps int64) *unstructured.Unstructured {
	s := specOn(from, nil)
	s["action"] = "bandwidth"
	s["direction"] = "to"
	if to.Namespace != "" {
		s["target"] = specOn(to, nil)
	}
	// The bucket holds 4 ms of traffic at the given rate, and the queue holds 50 ms. However, the bucket holds at least
	// two packets of 64 KiB, the maximum with generic segmentation offload, and the queue at least four.
	const least = 2 * 65536
	perMs := mbps * 1000 / 8
	s["bandwidth"] = map[string]any{
		"rate": fmt.Sprintf("%dmbit", mbps), "buffer": min(max(4*perMs, least), math.MaxInt32), "limit": min(max(50*perMs, 2*least), math.MaxInt32),
	}
	return object(m, NetworkChaos, s)
}

// PodKill builds an object that deletes pods without a grace period. The object never has the condition AllRecovered.
func PodKill(m Meta, pods Pods) *unstructured.Unstructured {
	s := specOn(pods, nil)
	s["action"], s["gracePeriod"] = "pod-kill", int64(0)
	// A kill has no duration, because Chaos Mesh has nothing to recover.
	m.Ceiling = 0
	return object(m, PodChaos, s)
}

// ContainerKill builds an object that kills containers, which kubelet then restarts.
func ContainerKill(m Meta, pods Pods, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["action"] = "container-kill"
	m.Ceiling = 0
	return object(m, PodChaos, s)
}

// PodFailure builds an object that makes pods fail for as long as it exists. Chaos Mesh replaces the images of the
// pods' containers with an image that does nothing.
func PodFailure(m Meta, pods Pods) *unstructured.Unstructured {
	s := specOn(pods, nil)
	s["action"] = "pod-failure"
	return object(m, PodChaos, s)
}

// StressCPU builds an object that loads CPUs. It runs the given number of workers in the pods' containers; each worker
// uses loadPercent of a CPU.
func StressCPU(m Meta, pods Pods, workers, loadPercent int32, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["stressors"] = map[string]any{"cpu": map[string]any{"workers": int64(workers), "load": int64(loadPercent)}}
	return object(m, StressChaos, s)
}

// StressMemory builds an object that uses memory. A worker in each of the pods' containers allocates the given number
// of bytes.
func StressMemory(m Meta, pods Pods, bytes int64, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["stressors"] = map[string]any{"memory": map[string]any{"workers": int64(1), "size": fmt.Sprintf("%dKB", (bytes+999)/1000)}}
	return object(m, StressChaos, s)
}

// StressDisk builds an object that loads a disk. stress-ng writes or reads at full speed in the pods' control groups,
// on the disk with the daemon's temporary files.
//
// The disk load is in the options of a CPU stressor without load. With only stressngStressors, Chaos Mesh's controller
// panics; with both, it ignores stressngStressors.
func StressDisk(m Meta, pods Pods, write bool, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	how := "wr-seq,fsync"
	if !write {
		how = "rd-seq"
	}
	s["stressors"] = map[string]any{"cpu": map[string]any{
		"workers": int64(1), "load": int64(0), "options": []any{"--hdd", "1", "--hdd-opts", how, "--temp-path", "/tmp"},
	}}
	return object(m, StressChaos, s)
}

// IODelay builds an object that delays the given percentage of the file operations below volumePath, which must be the
// mount point of a volume.
func IODelay(m Meta, pods Pods, volumePath string, delay time.Duration, percent int32, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["action"], s["volumePath"], s["path"] = "latency", volumePath, volumePath+"/**/*"
	s["delay"], s["percent"] = Duration(delay), int64(percent)
	return object(m, IOChaos, s)
}

// IOError builds an object that makes the given percentage of the file operations below volumePath fail with errno.
// volumePath must be the mount point of a volume.
func IOError(m Meta, pods Pods, volumePath string, errno, percent int32, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["action"], s["volumePath"], s["path"] = "fault", volumePath, volumePath+"/**/*"
	s["errno"], s["percent"] = int64(errno), int64(percent)
	return object(m, IOChaos, s)
}

// ClockSkew builds an object that shifts CLOCK_REALTIME by offset. It affects only programs that read the clock through
// the vDSO, as Go programs do.
func ClockSkew(m Meta, pods Pods, offset time.Duration, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["timeOffset"], s["clockIds"] = Duration(offset), []any{"CLOCK_REALTIME"}
	return object(m, TimeChaos, s)
}

// Duration formats d in whole microseconds.
func Duration(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) + "us" }

// percentOf formats parts per million as percent.
func percentOf(ppm int64) string {
	s := strings.TrimRight(strconv.FormatFloat(float64(ppm)/10_000, 'f', 4, 64), "0")
	return strings.TrimSuffix(s, ".")
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return out
}

func anys(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}
