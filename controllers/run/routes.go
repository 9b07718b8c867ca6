package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
)

// ways returns the objects that determine which connections the pods of a run can open, and where these connections
// lead. These are the Services of the run's database and the NetworkPolicies that select the run's pods, regardless of
// their creators. The value of an entry changes with every write of its object, even if the contents stay the same. all
// also includes the remaining NetworkPolicies of the namespace, because a policy may select no pod while a fault has
// killed its pods.
func (s *scope) ways(ctx context.Context) (ways, all map[string]string, err error) {
	ways = map[string]string{}
	services, err := s.services(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range services {
		ways["Service "+services[i].Name] = string(services[i].UID) + "@" + services[i].ResourceVersion
	}
	all = maps.Clone(ways)
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelManagedBy: kube.ManagedBy}); err != nil {
		return nil, nil, err
	}
	const page = 50
	for next, more := "", true; more; more = next != "" {
		list := &networkingv1.NetworkPolicyList{}
		if err := s.Live.List(ctx, list, client.InNamespace(s.run.Namespace), client.Limit(page), client.Continue(next)); err != nil {
			return nil, nil, err
		}
		next = list.Continue
		for i := range list.Items {
			p := &list.Items[i]
			name, value := "NetworkPolicy "+p.Name, fmt.Sprintf("%s@%d", p.UID, p.Generation)
			all[name] = value
			selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err == nil && slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) }) {
				ways[name] = value
			}
		}
	}
	return ways, all, nil
}

// services returns the Services of the database.
func (s *scope) services(ctx context.Context) ([]corev1.Service, error) {
	list := &corev1.ServiceList{}
	err := s.Client.List(ctx, list, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelManagedBy: kube.ManagedBy})
	return list.Items, err
}

// rerouted returns an error that stops the run if an object that ways returns was written or deleted after the start.
// It also returns an error if a NetworkPolicy was added, or if connections to the database are diverted: see
// ledElsewhere.
func (s *scope) rerouted(ctx context.Context, before *snapshot) error {
	// After the last window, a changed route can no longer affect measurements.
	if before == nil || before.Ways == nil || s.atLeast(v1alpha1.StageRecover) {
		return nil
	}
	now, all, err := s.ways(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(before.Ways)) {
		if is, there := all[name]; !there {
			return troubled(result.ReasonNetworkEdited, "%s, which decides where connections of the run's pods lead, was deleted, or is not the database's any more", name)
		} else if is != before.Ways[name] {
			return troubled(result.ReasonNetworkEdited, "%s, which decides where connections of the run's pods lead, was written to", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, there := before.Ways[name]; !there && strings.HasPrefix(name, "NetworkPolicy ") {
			return troubled(result.ReasonNetworkEdited, "%s was made, and selects pods of the run", name)
		}
	}
	return s.ledElsewhere(ctx)
}

// ledElsewhere returns an error that stops the run if an EndpointSlice that is not managed by Kubernetes adds addresses
// to a Service of the database. Connections would also go to these addresses.
func (s *scope) ledElsewhere(ctx context.Context) error {
	services, err := s.services(ctx)
	if err != nil || len(services) == 0 {
		return err
	}
	var names []string
	for i := range services {
		names = append(names, services[i].Name)
	}
	// Slices that name this controller as their manager need no check: the controller deletes slices that it did
	// not create.
	const controller = "endpointslice-controller.k8s.io"
	of, err := labels.NewRequirement(discoveryv1.LabelServiceName, selection.In, names)
	if err != nil {
		return err
	}
	others, err := labels.NewRequirement(discoveryv1.LabelManagedBy, selection.NotIn, []string{controller})
	if err != nil {
		return err
	}
	list := &discoveryv1.EndpointSliceList{}
	err = s.Live.List(ctx, list, client.InNamespace(s.run.Namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*of, *others)}, client.Limit(1))
	if apierrors.IsForbidden(err) { // the chart of an earlier version did not grant this right
		return nil
	}
	if err != nil || len(list.Items) == 0 {
		return err
	}
	slice := &list.Items[0]
	return troubled(result.ReasonNetworkEdited, "EndpointSlice %s, which Kubernetes has not made, leads those who connect to Service %s elsewhere", slice.Name, slice.Labels[discoveryv1.LabelServiceName])
}
