package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// A database has the policies of its nodes and of its workers before any pod, they select those and no others, and they are put right
// again when somebody opens them.
func TestDatabasesHavePolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").obj(), makeDatabase("other").obj())
	w.reconcile(w.database, w.getDatabase("d"))
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace)))
	if len(pods.Items) > 0 {
		t.Errorf("%d pods run before there are policies", len(pods.Items))
	}
	w.get("d-nodes", &networkingv1.NetworkPolicy{})
	w.create(makeRun("r").database("d").obj(), makeRun("o").database("other").obj())
	for _, name := range []string{"r", "o"} {
		w.untilStage(name, v1alpha1.StageMeasure)
	}
	for name, role := range map[string]string{"d-nodes": kube.RoleNode, "d-workers": kube.RoleWorker} {
		p := w.get(name, &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy)
		var selected, want []string
		w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels(p.Spec.PodSelector.MatchLabels)))
		for i := range pods.Items {
			selected = append(selected, pods.Items[i].Name)
		}
		w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: role}))
		for i := range pods.Items {
			if pods.Items[i].Labels[kube.LabelDatabase] == "d" {
				want = append(want, pods.Items[i].Name)
			}
		}
		if len(want) != 2 || !slices.Equal(selected, want) {
			t.Errorf("policy %s selects %v, want %v", name, selected, want)
		}
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(1))}}}}
		w.must(w.client.Update(w.ctx, p))
	}
	w.reconcile(w.database, w.getDatabase("d"))
	for _, name := range []string{"d-nodes", "d-workers"} {
		p := w.get(name, &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy)
		if len(p.Spec.Ingress) < 2 {
			t.Errorf("policy %s stays as somebody has made it: %+v", name, p.Spec.Ingress)
		}
		version := p.ResourceVersion
		w.reconcile(w.database, w.getDatabase("d"))
		if w.get(name, p).GetResourceVersion() != version {
			t.Errorf("policy %s is written although nothing changed", name)
		}
	}
}
