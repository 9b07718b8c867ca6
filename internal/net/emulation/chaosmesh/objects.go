// Package chaosmesh emulates networks and injects faults with Chaos Mesh (chaos-mesh.org, v1alpha1).
//
// The objects are built here as unstructured objects: the module with their types has no versions and many
// dependencies. A contract test in hack/chaosmesh checks their form against the CRDs and the webhooks of that module.
// The builders avoid these traps:
//
//   - At most 13 delayed destinations per pod: Chaos Mesh makes a prio qdisc with 3 bands and one more per rule, and the
//     kernel knows 16. So destinations with the same link share an object.
//   - Overlapping rules do not add up; a random rule wins. So a pair of regions is in a single object. A fault on a
//     pair is merged into the pair's link (delay) or is a rule of another kind (partition).
//   - Names become ipset names, cut to 27 characters without the namespace. So they are short and made from a UID.
//   - Durations of fractions ("0.5ms") are dropped silently. So they are whole microseconds.
//   - A spec never changes. So a change is deletion, waiting, and creation.
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

// GroupVersion of all objects.
var GroupVersion = schema.GroupVersion{Group: "chaos-mesh.org", Version: "v1alpha1"}

// The kinds of objects.
const (
	NetworkChaos = "NetworkChaos"
	PodChaos     = "PodChaos"
	StressChaos  = "StressChaos"
	IOChaos      = "IOChaos"
	TimeChaos    = "TimeChaos"
)

// Meta is what every object has.
type Meta struct {
	Namespace string
	// Name must be unique in the whole cluster and at most 27 characters long: see ObjectName.
	Name   string
	Labels map[string]string
	// Ceiling, when set, makes Chaos Mesh recover by itself so long after the object's creation, whatever happens to the
	// operator. Faults end by deletion, before.
	Ceiling time.Duration
}

// Pods selects pods of a namespace: either the Named pods, or the pods with all Labels and, if Regions is set, in any
// of Regions.
type Pods struct {
	Namespace   string
	Labels      map[string]string
	RegionLabel string
	Regions     []string
	// Named lists pods by name; if it is set, Labels and Regions are ignored.
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

// ObjectName makes a name of at most 27 characters for something of the object with this UID.
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

// spec of an object that hits all of the pods.
func specOn(pods Pods, containers []string) map[string]any {
	s := map[string]any{"mode": "all", "selector": pods.selector()}
	if len(containers) > 0 {
		s["containerNames"] = anys(containers)
	}
	return s
}

// Delay builds the netem rule for packets from the from pods to the to pods: delay, jitter, loss and rate of the link
// in a single object. A link that is cut loses every packet.
//
// netem draws the delay uniformly from delay +- jitter, which has the standard deviation jitter / sqrt(3). Link.Jitter
// is a standard deviation.
func Delay(m Meta, from, to Pods, l emulation.Link) *unstructured.Unstructured {
	s := specOn(from, nil)
	s["action"] = "netem"
	s["direction"] = "to"
	s["target"] = specOn(to, nil)
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

// Partition builds the cut between two sets of pods, in the direction from from to to or in both directions. It uses
// iptables rules, so it works on kernels without netem.
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

// Bandwidth limits the rate at which each of the from pods sends to all of the to pods together, in 10^6 bits per
// second. The limit is a token bucket below a prio qdisc, so kernels without prio do not support it. The zero Pods as
// to stands for all destinations; then the qdisc tbf is enough. Do not combine Bandwidth with a Delay on the same pair:
// there, set the rate in the link.
func Bandwidth(m Meta, from, to Pods, mbps int64) *unstructured.Unstructured {
	s := specOn(from, nil)
	s["action"] = "bandwidth"
	s["direction"] = "to"
	if to.Namespace != "" {
		s["target"] = specOn(to, nil)
	}
	// The bucket holds 4 ms of the rate, the queue 50 ms. Each holds at least two whole packets of generic segmentation
	// offload.
	const least = 2 * 65536
	perMs := mbps * 1000 / 8
	s["bandwidth"] = map[string]any{
		"rate": fmt.Sprintf("%dmbit", mbps), "buffer": min(max(4*perMs, least), math.MaxInt32), "limit": min(max(50*perMs, 2*least), math.MaxInt32),
	}
	return object(m, NetworkChaos, s)
}

// PodKill builds the deletion of pods without a grace period. Its object never says AllRecovered.
func PodKill(m Meta, pods Pods) *unstructured.Unstructured {
	s := specOn(pods, nil)
	s["action"], s["gracePeriod"] = "pod-kill", int64(0)
	m.Ceiling = 0
	return object(m, PodChaos, s)
}

// ContainerKill builds the end of containers, which kubelet starts again.
func ContainerKill(m Meta, pods Pods, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["action"] = "container-kill"
	m.Ceiling = 0
	return object(m, PodChaos, s)
}

// PodFailure builds a shutdown that lasts as long as the object exists: the images of the pods' containers are replaced
// by an image that does nothing.
func PodFailure(m Meta, pods Pods) *unstructured.Unstructured {
	s := specOn(pods, nil)
	s["action"] = "pod-failure"
	return object(m, PodChaos, s)
}

// StressCPU builds workers threads in the pods' containers, each of which takes loadPercent of a CPU.
func StressCPU(m Meta, pods Pods, workers, loadPercent int32, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["stressors"] = map[string]any{"cpu": map[string]any{"workers": int64(workers), "load": int64(loadPercent)}}
	return object(m, StressChaos, s)
}

// StressMemory builds the holding of bytes of memory in the pods' containers.
func StressMemory(m Meta, pods Pods, bytes int64, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["stressors"] = map[string]any{"memory": map[string]any{"workers": int64(1), "size": fmt.Sprintf("%dKB", (bytes+999)/1000)}}
	return object(m, StressChaos, s)
}

// StressDisk builds reads or writes by stress-ng, at full speed, in the pods' control groups and on the disk that holds
// the daemon's temporary files.
//
// They are options of a CPU stressor without a load: with nothing but stressngStressors Chaos Mesh's controller panics,
// and with both it forgets them.
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

// IODelay builds the delay of percent of the file operations below volumePath, which must be a volume's mount point.
func IODelay(m Meta, pods Pods, volumePath string, delay time.Duration, percent int32, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["action"], s["volumePath"], s["path"] = "latency", volumePath, volumePath+"/**/*"
	s["delay"], s["percent"] = Duration(delay), int64(percent)
	return object(m, IOChaos, s)
}

// IOError builds the failure, with errno, of percent of the file operations below volumePath, which must be a volume's
// mount point.
func IOError(m Meta, pods Pods, volumePath string, errno, percent int32, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["action"], s["volumePath"], s["path"] = "fault", volumePath, volumePath+"/**/*"
	s["errno"], s["percent"] = int64(errno), int64(percent)
	return object(m, IOChaos, s)
}

// ClockSkew builds the shift of CLOCK_REALTIME by offset. Only programs that read the clock through the vDSO see it: Go
// programs do.
func ClockSkew(m Meta, pods Pods, offset time.Duration, containers ...string) *unstructured.Unstructured {
	s := specOn(pods, containers)
	s["timeOffset"], s["clockIds"] = Duration(offset), []any{"CLOCK_REALTIME"}
	return object(m, TimeChaos, s)
}

// Duration writes whole microseconds.
func Duration(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) + "us" }

// percentOf writes parts per million as percent.
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
