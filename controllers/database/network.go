package database

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/rtt"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Measure merges the round trips that the given nodes have measured. It ignores nodes that did not answer.
func Measure(t *geo.Topology, nodes []Node) ([]rtt.Link, error) {
	var answers []admin.Status
	for i := range nodes {
		if nodes[i].Status != nil {
			answers = append(answers, *nodes[i].Status)
		}
	}
	counts := make([]int, len(t.Regions))
	for i := range nodes {
		counts[t.RegionOf(nodes[i].ID)]++
	}
	return rtt.Measure(t, answers, func(r geo.Region) bool { return counts[r] == 1 })
}

// notDeclared is the reason of NetworkVerified for an external database, whose links are real and have no declared
// properties.
const notDeclared = "NotDeclared"

// VerifyNetwork compares the measured links with their declared values, for the condition NetworkVerified.
func VerifyNetwork(d *deploy.Database, links []rtt.Link, emulation v1alpha1.Emulation) rtt.Verdict {
	if d.Elsewhere() {
		return rtt.Verdict{Verified: true, Reason: notDeclared, Message: "the links to a database that runs elsewhere are real, and none was declared"}
	}
	v := rtt.Judge(links)
	if v.Reason == rtt.OutOfTolerance && emulation == v1alpha1.EmulationNone {
		v.Message += "; nothing is injected, so the profile must declare the round trips of the real network"
	}
	return v
}

// linkStatuses returns the links for the status. A link with an insignificant change keeps its previous values, so that
// the status of an idle database is not written every few seconds.
func linkStatuses(links []rtt.Link, shown []v1alpha1.LinkStatus) []v1alpha1.LinkStatus {
	byKey := make(map[[2]string]v1alpha1.LinkStatus, len(shown))
	for _, s := range shown {
		byKey[[2]string{s.From, s.To}] = s
	}
	var out []v1alpha1.LinkStatus
	for i := range links {
		l := &links[i]
		s := v1alpha1.LinkStatus{
			From: l.From, To: l.To,
			DeclaredRTTMicroseconds: l.Declared.Microseconds(),
			MeasuredRTTMicroseconds: v1alpha1.RTTMicroseconds{P50: l.P50.Microseconds(), P99: l.P99.Microseconds()},
			Samples:                 l.Samples,
			Mesh:                    l.Mesh,
		}
		if was, ok := byKey[[2]string{l.From, l.To}]; ok && similar(&was, &s) {
			s = was
		}
		out = append(out, s)
	}
	return out
}

func similar(a, b *v1alpha1.LinkStatus) bool {
	return a.DeclaredRTTMicroseconds == b.DeclaredRTTMicroseconds &&
		(a.Samples >= rtt.MinSamples) == (b.Samples >= rtt.MinSamples) &&
		near(a.MeasuredRTTMicroseconds.P50, b.MeasuredRTTMicroseconds.P50, 50, 100) &&
		near(a.MeasuredRTTMicroseconds.P99, b.MeasuredRTTMicroseconds.P99, 5, 1000) && similarMesh(a.Mesh, b.Mesh)
}

func similarMesh(a, b *v1alpha1.MeshLink) bool {
	if a == nil || b == nil {
		return a == b
	}
	return near(a.BelowRTTMicroseconds, b.BelowRTTMicroseconds, 20, 200) && near(a.ThroughRTTMicroseconds, b.ThroughRTTMicroseconds, 20, 200)
}

// near reports whether b differs from a by at most a/share + base.
func near(a, b, share, base int64) bool {
	d := b - a
	if d < 0 {
		d = -d
	}
	return d <= a/share+base
}

// networkConditions sets the conditions NetworkEmulated and NetworkVerified. running reports whether all nodes are
// ready.
func (s *scope) networkConditions(links []rtt.Link, running bool) {
	emulated := metav1.Condition{Type: v1alpha1.ConditionNetworkEmulated, Status: metav1.ConditionFalse, Reason: s.state.Reason, Message: kube.Truncate(s.state.Message, 1024)}
	switch {
	case !running && s.current.Emulation() != v1alpha1.EmulationNone:
		emulated.Reason, emulated.Message = "NodesNotReady", "not every node runs"
	case s.state.Injected:
		emulated.Status = metav1.ConditionTrue
	}
	s.condition(emulated)

	verified := metav1.Condition{Type: v1alpha1.ConditionNetworkVerified, Status: metav1.ConditionFalse}
	switch {
	case !running:
		verified.Reason, verified.Message = "NodesNotReady", "links are measured once every node is ready"
	case !s.state.Injected:
		verified.Reason, verified.Message = s.state.Reason, kube.Truncate(s.state.Message, 1024)
	default:
		v := VerifyNetwork(&s.current.Database, links, s.current.Emulation())
		if v.Verified {
			verified.Status = metav1.ConditionTrue
		}
		verified.Reason, verified.Message = v.Reason, v.Message
	}
	// The figures in the message change constantly. While the verdict is the same, update the message only together with
	// the links in the status.
	if was := s.conditionOf(verified.Type); was != nil && was.Status == verified.Status && was.Reason == verified.Reason &&
		was.ObservedGeneration == s.db.Generation && !s.linksMoved {
		verified.Message = was.Message
	}
	s.condition(verified)
}
