package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// TestPodSecurity checks that every pod meets the restricted standard, with the evaluator of Kubernetes.
func TestPodSecurity(t *testing.T) {
	c := newChart(t)
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct {
		values []string
		want   int
	}{"default": {nil, 2}, "everything": {allOn, 3}} {
		pods, values := 0, test.values
		for _, o := range c.objects(t, values...) {
			var meta *metav1.ObjectMeta
			var spec *corev1.PodSpec
			switch o := o.(type) {
			case *corev1.Pod:
				meta, spec = &o.ObjectMeta, &o.Spec
			case *appsv1.Deployment:
				meta, spec = &o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec
			default:
				continue
			}
			pods++
			restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			if r := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, meta, spec)); !r.Allowed {
				t.Errorf("%s: %s is not restricted: %s", title, name(t, o), r.ForbiddenDetail())
			}
			for _, container := range spec.Containers {
				if s := container.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
					t.Errorf("%s: %s can write to its root file system", title, name(t, o))
				}
				if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s: %s lacks a memory limit or a CPU request", title, name(t, o))
				}
			}
		}
		if pods != test.want {
			t.Errorf("%s: checked %d kinds of pods, want %d: the operator, its test, and Prometheus where it is on", title, pods, test.want)
		}
	}
}

// TestRights checks that the chart grants the operator exactly the rights of the generated roles, in the right
// namespaces.
func TestRights(t *testing.T) {
	c := newChart(t)
	generated, err := operatorRules(c.root)
	if err != nil {
		t.Fatal(err)
	}
	for title, values := range map[string][]string{"cluster": nil, "namespace": {`scope.namespace="lab"`}} {
		t.Run(title, func(t *testing.T) {
			var granted []rbacv1.PolicyRule
			for _, o := range c.objects(t, values...) {
				switch o := o.(type) {
				case *rbacv1.ClusterRole:
					if strings.HasPrefix(o.Name, "geobench-operator") {
						granted = append(granted, o.Rules...)
					}
				case *rbacv1.Role:
					if strings.HasPrefix(o.Name, "geobench-operator") {
						granted = append(granted, o.Rules...)
					}
				}
			}
			if diff := cmp.Diff(named(rightsOf(generated)), named(rightsOf(granted))); diff != "" {
				t.Errorf("permissions (-generated +granted):\n%s", diff)
			}
		})
	}
}

// TestAdmissionPolicies checks that the policies equal the policies in config/admission, which are tested with an API
// server. It also checks the effects of values.
func TestAdmissionPolicies(t *testing.T) {
	c := newChart(t)
	type spec struct{ Policy, Binding any }
	specs := func(text string) map[string]spec {
		out := map[string]spec{}
		for _, document := range strings.Split(text, "\n---\n") {
			var o struct {
				Kind     string            `json:"kind"`
				Metadata metav1.ObjectMeta `json:"metadata"`
				Spec     any               `json:"spec"`
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatal(err)
			}
			s := out[o.Metadata.Name]
			switch o.Kind {
			case "ValidatingAdmissionPolicy":
				s.Policy = o.Spec
			case "ValidatingAdmissionPolicyBinding":
				s.Binding = o.Spec
			default:
				continue
			}
			out[o.Metadata.Name] = s
		}
		return out
	}
	source, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(policySource)))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := c.template(t)
	if err != nil {
		t.Fatal(err)
	}
	want := specs(string(source))
	if len(want) != 6 {
		t.Errorf("%s holds %d policies, want 6", policySource, len(want))
	}
	if diff := cmp.Diff(want, specs(rendered)); diff != "" {
		t.Errorf("policies (-%s +chart):\n%s", policySource, diff)
	}
	rendered, err = c.template(t, `serviceAccount.name="other"`, `fullnameOverride="mine"`, `admission.protectedNamespaces=["kube-system", "vault"]`)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range specs(rendered) {
		if !strings.HasPrefix(name, "mine-") || s.Binding.(map[string]any)["policyName"] != name {
			t.Errorf("policy %s is not named after the release, or bound by another name: %v", name, s.Binding)
		}
		text, err := yaml.Marshal(s.Policy)
		if err != nil {
			t.Fatal(err)
		}
		if name != "mine-namespaces" && !strings.Contains(string(text), "'system:serviceaccount:geobench-system:other'") {
			t.Errorf("policy %s does not speak of the operator's ServiceAccount:\n%s", name, text)
		}
		if protects := strings.Contains(string(text), "- vault"); protects != strings.HasSuffix(name, "namespaces") {
			t.Errorf("policy %s names the protected namespaces: %v", name, protects)
		}
	}
}

// TestTenants checks how the policy for tenants is configured. The policy itself is tested in config/admission.
func TestTenants(t *testing.T) {
	c := newChart(t)
	source, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(tenantSource)))
	if err != nil {
		t.Fatal(err)
	}
	var want admissionregistrationv1.ValidatingAdmissionPolicy
	if err := yaml.UnmarshalStrict(source, &want); err != nil {
		t.Fatal(err)
	}
	objects := c.objects(t, `tenants=[{"name": "a", "namespaces": ["one", "two"], "regions": 3, "podsPerDatabase": 18432, "workersPerRegion": 2, "duration": "1h30m",
		"images": ["registry.example/a", "postgres"], "endpoints": ["db.example:5432", "*.lab.example", "[fd00::7]:1"], "quota": {"pods": 20, "requests.cpu": "4"}},
		{"name": "b", "namespaces": ["three"], "images": [], "endpoints": []}]`)
	if diff := cmp.Diff(want.Spec, find[*admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, want.Name).Spec); diff != "" {
		t.Errorf("policy (-%s +chart):\n%s", tenantSource, diff)
	}
	for name, limits := range map[string]map[string]string{
		"geobench-tenant-a": {"regions": "3", "podsPerDatabase": "18432", "workersPerRegion": "2", "duration": "1h30m", "images": "registry.example/a\npostgres", "endpoints": "db.example:5432\n*.lab.example\n[fd00::7]:1"},
		// An empty list permits no images and no endpoints, whereas a missing list permits all.
		"geobench-tenant-b": {"images": "", "endpoints": ""},
	} {
		if diff := cmp.Diff(limits, find[*corev1.ConfigMap](t, objects, name).Data); diff != "" {
			t.Errorf("limits %s (-want +got):\n%s", name, diff)
		}
		b := find[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, name)
		if p := b.Spec.ParamRef; p.Name != name || p.Namespace != "geobench-system" || *p.ParameterNotFoundAction != admissionregistrationv1.DenyAction || b.Spec.PolicyName != want.Name {
			t.Errorf("binding %s: policy %s, parameters %+v", name, b.Spec.PolicyName, p)
		}
	}
	selected := find[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, "geobench-tenant-a").Spec.MatchResources.NamespaceSelector.MatchExpressions
	if len(selected) != 1 || selected[0].Key != corev1.LabelMetadataName || !slices.Equal(selected[0].Values, []string{"one", "two"}) {
		t.Errorf("the limits of tenant a are for namespaces %v", selected)
	}
	quota := find[*corev1.ResourceQuota](t, objects, "geobench-tenant").Spec.Hard
	if pods := quota[corev1.ResourcePods]; len(quota) != 2 || pods.Value() != 20 {
		t.Errorf("quota %v", quota)
	}
}

// TestMeshPolicies checks how Istio restricts access to a database. The names of workers and the ports must match the
// packages controllers and internal/ops/deploy.
func TestMeshPolicies(t *testing.T) {
	c := newChart(t)
	got := map[string]string{}
	for _, o := range c.objects(t, `mesh={"trustDomain": "td", "databases": [{"name": "d", "namespace": "lab", "regions": ["a", "b"], "runs": ["r", "s"], "ports": [5432]},
		{"name": "e", "namespace": "lab", "regions": ["a"], "runs": ["r"]}]}`) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || !strings.HasSuffix(u.GroupVersionKind().Group, ".istio.io") {
			continue
		}
		spec, err := yaml.Marshal(u.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		got[u.GetAPIVersion()+" "+name(t, u)] = string(spec)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "mesh-policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("policies (-testdata/mesh-policies.yaml +chart):\n%s", diff)
	}
}

// TestNetworkPolicy checks that the network policies match the ports of the pods.
func TestNetworkPolicy(t *testing.T) {
	c := newChart(t)
	objects := c.objects(t, "networkPolicy.operator.enabled=true", "metrics.enabled=false")
	if p := find[*networkingv1.NetworkPolicy](t, objects, "geobench-operator"); len(p.Spec.Ingress) != 0 || len(p.Spec.Egress) != 3 {
		t.Errorf("without metrics the operator has %d ingress and %d egress rules, want 0 and 3", len(p.Spec.Ingress), len(p.Spec.Egress))
	}
	from := 0
	for _, rule := range find[*networkingv1.NetworkPolicy](t, c.objects(t, allOn...), "geobench-operator").Spec.Ingress {
		for _, peer := range rule.From {
			if peer.PodSelector != nil && peer.PodSelector.MatchLabels["app.kubernetes.io/component"] == "prometheus" {
				from++
			}
		}
	}
	if from != 1 {
		t.Errorf("the operator lets the chart's Prometheus in %d times, want once", from)
	}
	operator := find[*networkingv1.NetworkPolicy](t, objects, "geobench-operator").Spec.Egress
	pods := operator[len(operator)-1]
	if roles := pods.To[0].PodSelector.MatchExpressions[0].Values; !slices.Equal(roles, []string{"node", "worker"}) {
		t.Errorf("the operator reaches the administration ports of %v, want those of nodes and workers", roles)
	}
	for i, port := range []int32{7004, 7005, 15090} {
		if got := pods.Ports[i].Port.IntVal; got != port {
			t.Errorf("the operator reaches port %d, want %d", got, port)
		}
	}
}

// TestAround checks the operator's settings for the network policies of databases. They must match the operator's pod,
// and the clients that read metrics.
func TestAround(t *testing.T) {
	c := newChart(t)
	told := func(values ...string) (around struct {
		Operator       map[string]string                `json:"operator"`
		MetricsFrom    []networkingv1.NetworkPolicyPeer `json:"metricsFrom"`
		APIServerPorts []int32                          `json:"apiServerPorts"`
		APIServerCIDRs []string                         `json:"apiServerCIDRs"`
		ExternalCIDRs  []string                         `json:"externalCIDRs"`
	}, labels map[string]string, ok bool) {
		t.Helper()
		pod := find[*appsv1.Deployment](t, c.objects(t, values...), "geobench-operator").Spec.Template
		for _, arg := range pod.Spec.Containers[0].Args {
			text, is := strings.CutPrefix(arg, "--network-policies=")
			if !is {
				continue
			}
			d := json.NewDecoder(strings.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(&around); err != nil {
				t.Fatal(err)
			}
			ok = true
		}
		return around, pod.Labels, ok
	}
	around, labels, ok := told()
	for name, value := range around.Operator {
		if labels[name] != value {
			t.Errorf("the operator's pods are said to have the label %s=%s, and have %q", name, value, labels[name])
		}
	}
	if !ok || len(around.Operator) == 0 || len(around.MetricsFrom) != 0 || !slices.Equal(around.APIServerPorts, []int32{443, 6443}) || len(around.ExternalCIDRs) > 0 {
		t.Errorf("by default the operator is told %+v", around)
	}
	if around, _, _ = told(allOn...); len(around.MetricsFrom) != 2 || len(around.APIServerCIDRs) != 1 {
		t.Errorf("with all values it is told %+v", around)
	}
	if _, _, ok = told("networkPolicy.databases.enabled=false"); ok {
		t.Error("without policies for databases it is told of them")
	}
}
