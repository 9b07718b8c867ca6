package database_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// The policies of a database's nodes and workers exist before any of its pods. They select exactly these pods, and the
// operator repairs a policy that a user has opened.
func TestDatabasesHavePolicies(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeDatabase("other").Obj())
	w.Reconcile(w.Database, w.GetDatabase("d"))
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace)))
	if len(pods.Items) > 0 {
		t.Errorf("%d pods run before there are policies", len(pods.Items))
	}
	w.Get("d-nodes", &networkingv1.NetworkPolicy{})
	w.Create(worldtest.MakeRun("r").Database("d").Obj(), worldtest.MakeRun("o").Database("other").Obj())
	for _, name := range []string{"r", "o"} {
		w.UntilStage(name, v1alpha1.StageMeasure)
	}
	for name, role := range map[string]string{"d-nodes": kube.RoleNode, "d-workers": kube.RoleWorker} {
		p := w.Get(name, &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy)
		var selected, want []string
		w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels(p.Spec.PodSelector.MatchLabels)))
		for i := range pods.Items {
			selected = append(selected, pods.Items[i].Name)
		}
		w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelRole: role}))
		for i := range pods.Items {
			if pods.Items[i].Labels[kube.LabelDatabase] == "d" {
				want = append(want, pods.Items[i].Name)
			}
		}
		if len(want) != 2 || !slices.Equal(selected, want) {
			t.Errorf("policy %s selects %v, want %v", name, selected, want)
		}
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(1))}}}}
		w.Must(w.Client.Update(w.Ctx, p))
	}
	w.Reconcile(w.Database, w.GetDatabase("d"))
	for _, name := range []string{"d-nodes", "d-workers"} {
		p := w.Get(name, &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy)
		if len(p.Spec.Ingress) < 2 {
			t.Errorf("policy %s stays as somebody has made it: %+v", name, p.Spec.Ingress)
		}
		version := p.ResourceVersion
		w.Reconcile(w.Database, w.GetDatabase("d"))
		if w.Get(name, p).GetResourceVersion() != version {
			t.Errorf("policy %s is written although nothing changed", name)
		}
	}
}

// TestDatabasesElsewhereOpenNothing: a tenant cannot use an external database to open a connection that the
// administrator does not permit. Workers may connect only to addresses in the networks that the administrator has
// named.
func TestDatabasesElsewhereOpenNothing(t *testing.T) {
	t.Parallel()
	leads := map[string]string{"db.us.example.com": "192.0.2.7", "db.asia.example.com": "192.0.2.8", "10.0.0.1": "10.0.0.1"}
	resolve := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		address, err := netip.ParseAddr(leads[host])
		return []netip.Addr{address}, err
	}
	policy := func(external []string, database *v1alpha1.GeoDatabase) (*networkingv1.NetworkPolicy, *metav1.Condition) {
		t.Helper()
		w := worldtest.NewWorld(t)
		c := *worldtest.Around
		c.ExternalCIDRs = external
		w.Database.Around, w.Database.Resolve = &c, resolve
		w.Create(database)
		w.Reconcile(w.Database, w.GetDatabase("d"))
		list := &networkingv1.NetworkPolicyList{}
		w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
		accepted := meta.FindStatusCondition(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionAccepted)
		if len(list.Items) == 0 {
			return nil, accepted
		}
		return &list.Items[0], accepted
	}
	if p, _ := policy(nil, worldtest.MakeDatabase("d").Elsewhere().Obj()); len(p.Spec.Egress) > 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
		t.Errorf("by default the policy lets out to %+v", p.Spec.Egress)
	}
	p, _ := policy([]string{"192.0.2.0/24"}, worldtest.MakeDatabase("d").Elsewhere().Obj())
	var out []string
	for _, rule := range p.Spec.Egress {
		for _, to := range rule.To {
			if to.IPBlock != nil {
				out = append(out, fmt.Sprintf("%s:%s", to.IPBlock.CIDR, rule.Ports[0].Port))
			}
		}
	}
	if want := []string{"192.0.2.7/32:5432", "192.0.2.8/32:5432"}; !slices.Equal(out, want) {
		t.Errorf("the policy lets out to %v, want %v", out, want)
	}
	hole := worldtest.MakeDatabase("d").Elsewhere().Obj()
	hole.Spec.External.Endpoints[0].Address = "10.0.0.1:6443"
	if p, accepted := policy([]string{"192.0.2.0/24"}, hole); p != nil || accepted == nil || accepted.Reason != "EndpointNotAllowed" {
		t.Errorf("an address of another network: policy %v, condition %+v", p, accepted)
	}
}
