package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// chart runs helm on the chart of this repository.
type chart struct {
	root, helm string
}

func newChart(t *testing.T) chart {
	t.Helper()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	helm, err := toolNamed("helm")
	if err != nil {
		t.Fatal(err)
	}
	program, err := build(t.Context(), root, helm)
	if err != nil {
		t.Fatal(err)
	}
	return chart{root, program}
}

func (c chart) dir() string { return filepath.Join(c.root, filepath.FromSlash(chartDir)) }

// template renders the chart with these --set-json arguments into namespace geobench-system, for a cluster that has the
// kinds which are named as "kind GROUP/VERSION/KIND".
func (c chart) template(t *testing.T, values ...string) (string, error) {
	t.Helper()
	args := []string{"template", "geobench", c.dir(), "--namespace", "geobench-system", "--api-versions", "geobench.dev/v1alpha1"}
	for _, v := range values {
		if kind, ok := strings.CutPrefix(v, "kind "); ok {
			args = append(args, "--api-versions", kind)
		} else {
			args = append(args, "--set-json", v)
		}
	}
	out, err := run(t.Context(), c.helm, args...)
	return string(out), err
}

// objects renders the chart and decodes all objects strictly: a field that Kubernetes does not have is an error.
func (c chart) objects(t *testing.T, values ...string) []runtime.Object {
	t.Helper()
	text, err := c.template(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(u.Object) == 0 {
			continue
		}
		if group := u.GroupVersionKind().Group; group == "monitoring.coreos.com" || group == "geobench.dev" || strings.HasSuffix(group, ".istio.io") {
			out = append(out, u)
			continue
		}
		o, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		out = append(out, o)
	}
}

// name is an object's kind and name, with its namespace unless it is the release's.
func name(t *testing.T, o runtime.Object) string {
	t.Helper()
	m, ok := o.(metav1.Object)
	if !ok {
		t.Fatalf("%T has no name", o)
	}
	out := o.GetObjectKind().GroupVersionKind().Kind + " "
	if m.GetNamespace() != "" && m.GetNamespace() != "geobench-system" {
		out += m.GetNamespace() + "/"
	}
	return out + m.GetName()
}

// find returns the one object of a type and name.
func find[T metav1.Object](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	for _, o := range objects {
		if o, ok := o.(T); ok && o.GetName() == name {
			return o
		}
	}
	var none T
	t.Fatalf("no %T %s", none, name)
	return none
}

var allOn = []string{
	`commonLabels={"team": "db"}`,
	`image={"repository": "registry.example/geobench", "digest": "sha256:0123456789012345678901234567890123456789012345678901234567890123"}`,
	`imagePullSecrets=[{"name": "pull"}]`, `nodeImage="registry.example/nodes:1"`,
	`crds.annotations={"a": "b"}`, `replicas=3`, `extraArgs=["--kube-api-qps=20"]`, `extraEnv=[{"name": "A", "value": "b"}]`,
	`deploymentAnnotations={"a": "b"}`, `podAnnotations={"a": "b"}`, `podLabels={"a": "b"}`, `priorityClassName="system-cluster-critical"`,
	`nodeSelector={"kubernetes.io/os": "linux"}`, `tolerations=[{"operator": "Exists"}]`, `affinity={"nodeAffinity": {}}`,
	`topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]`,
	`serviceAccount.annotations={"a": "b"}`, `metrics.serviceAnnotations={"a": "b"}`,
	`metrics.readers=[{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]`,
	`metrics.serviceMonitor={"enabled": true, "labels": {"release": "kps"}}`, `metrics.podMonitor={"enabled": true, "labels": {"release": "kps"}}`,
	`metrics.prometheusRule={"enabled": true, "labels": {"release": "kps"}}`, `dashboards={"labels": {"grafana_dashboard": "yes"}, "namespace": "monitoring"}`,
	`prometheus={"enabled": true}`,
	`networkPolicy.operator={"enabled": true, "metricsFrom": [{"namespaceSelector": {}}], "apiServerCIDRs": ["10.0.0.0/8"]}`,
	`networkPolicy.databases={"enabled": true, "metricsFrom": [{"namespaceSelector": {}}], "externalCIDRs": ["192.0.2.0/24"]}`,
	`presets={"enabled": true, "namespaces": ["one", "two"]}`, `mesh={"readZtunnels": true}`,
}

// TestVariants says which objects each choice of values makes.
func TestVariants(t *testing.T) {
	c := newChart(t)
	crds := []string{
		"CustomResourceDefinition benchmarkruns.geobench.dev", "CustomResourceDefinition experiments.geobench.dev",
		"CustomResourceDefinition geodatabases.geobench.dev", "CustomResourceDefinition networkprofiles.geobench.dev",
	}
	always := []string{
		"Deployment geobench-operator", "Pod geobench-test", "Role geobench-test", "RoleBinding geobench-test", "ServiceAccount geobench-test",
	}
	account := []string{"ServiceAccount geobench-operator"}
	policy := []string{"NetworkPolicy geobench-operator"}
	users := []string{"ClusterRole geobench-edit", "ClusterRole geobench-view"}
	own := []string{"Role geobench-operator-own", "RoleBinding geobench-operator-own"}
	everywhere := []string{"ClusterRole geobench-operator", "ClusterRoleBinding geobench-operator"}
	metrics := []string{"Service geobench-operator-metrics", "ClusterRole geobench-metrics-reader"}
	var policies []string
	for _, name := range []string{"namespaces", "operator-namespaces", "operator-objects", "operator-pods", "operator-rights", "references"} {
		policies = append(policies, "ValidatingAdmissionPolicy geobench-"+name, "ValidatingAdmissionPolicyBinding geobench-"+name)
	}
	boards := func(namespace string) (out []string) {
		files, err := filepath.Glob(filepath.Join(c.root, boardSources, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatal(len(files), err)
		}
		for _, file := range files {
			out = append(out, "ConfigMap "+namespace+"geobench-dashboard-"+strings.TrimSuffix(filepath.Base(file), ".json"))
		}
		return out
	}
	monitors := []string{"ServiceMonitor geobench-operator", "PodMonitor geobench-databases", "PrometheusRule geobench"}
	const monitoring = "kind monitoring.coreos.com/v1/"

	presets := func(namespace string) (out []string) {
		files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(presetSources), "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			out = append(out, "NetworkProfile "+namespace+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"))
		}
		return out
	}

	prometheus := []string{
		"ServiceAccount geobench-prometheus", "ClusterRole geobench-prometheus", "ClusterRoleBinding geobench-prometheus",
		"ConfigMap geobench-prometheus", "Deployment geobench-prometheus", "Service geobench-prometheus",
	}
	for title, test := range map[string]struct {
		values []string
		want   [][]string
	}{
		"default": {want: [][]string{crds, policies, policy, always, account, users, own, everywhere, metrics, boards("")}},
		"with the Prometheus operator": {
			values: []string{monitoring + "ServiceMonitor", monitoring + "PodMonitor", monitoring + "PrometheusRule"},
			want:   [][]string{crds, policies, policy, always, account, users, own, everywhere, metrics, boards(""), monitors},
		},
		"with the Prometheus operator, unwanted": {
			values: []string{
				monitoring + "ServiceMonitor", monitoring + "PodMonitor", monitoring + "PrometheusRule", "dashboards.enabled=false",
				"metrics.serviceMonitor.enabled=false", "metrics.podMonitor.enabled=false", "metrics.prometheusRule.enabled=false",
			},
			want: [][]string{crds, policies, policy, always, account, users, own, everywhere, metrics},
		},
		"bare": {
			values: []string{
				"crds.enabled=false", "rbac.create=false", "rbac.aggregateToUserRoles=false", "metrics.enabled=false",
				`serviceAccount={"create": false, "name": "mine"}`, "leaderElection.enabled=false", "dashboards.enabled=false", "admission.enabled=false",
				"networkPolicy.operator.enabled=false",
			},
			want: [][]string{always},
		},
		"with a Prometheus of its own": {
			values: []string{"prometheus.enabled=true"},
			want:   [][]string{crds, policies, policy, always, account, users, own, everywhere, metrics, boards(""), prometheus},
		},
		"no leader": {
			values: []string{"leaderElection.enabled=false"},
			want:   [][]string{crds, policies, policy, always, account, users, own, everywhere, metrics, boards("")},
		},
		"one namespace": {
			values: []string{`scope.namespace="lab"`},
			want: [][]string{
				// Neither are the Kubernetes nodes in a namespace, whose kernels the operator asks, nor the readers of its metrics.
				crds, policies, policy, always, account, users, own, everywhere, metrics, boards(""),
				{"Role lab/geobench-operator", "RoleBinding lab/geobench-operator"},
			},
		},
		"with tenants": {
			values: []string{`tenants=[{"name": "a", "namespaces": ["one", "two"], "quota": {"pods": "20"}}, {"name": "b", "namespaces": ["three"]}]`},
			want: [][]string{
				crds, policies, policy, always, account, users, own, everywhere, metrics, boards(""),
				{"ValidatingAdmissionPolicy geobench-tenants", "ConfigMap geobench-tenant-a", "ConfigMap geobench-tenant-b"},
				{"ValidatingAdmissionPolicyBinding geobench-tenant-a", "ValidatingAdmissionPolicyBinding geobench-tenant-b"},
				{"ResourceQuota one/geobench-tenant", "ResourceQuota two/geobench-tenant"},
			},
		},
		"with databases in a mesh": {
			values: []string{`mesh.databases=[{"name": "d", "namespace": "lab", "regions": ["a", "b"]}]`},
			want: [][]string{
				crds, policies, policy, always, account, users, own, everywhere, metrics, boards(""),
				{"PeerAuthentication lab/d-strict", "AuthorizationPolicy lab/d-a", "AuthorizationPolicy lab/d-b", "Sidecar lab/d"},
			},
		},
		"one namespace without metrics": {
			values: []string{`scope.namespace="lab"`, "metrics.enabled=false"},
			want: [][]string{
				crds, policies, policy, always, account, users, own, everywhere, boards(""), {"Role lab/geobench-operator", "RoleBinding lab/geobench-operator"},
			},
		},
		"everything": {
			values: allOn,
			want: [][]string{
				crds, policies, policy, always, account, users, own, everywhere, metrics, boards("monitoring/"), monitors, prometheus,
				{"PodDisruptionBudget geobench-operator", "ClusterRoleBinding geobench-metrics-reader"},
				presets("one"), presets("two"),
				{"Role istio-system/geobench-ztunnels", "RoleBinding istio-system/geobench-ztunnels"},
			},
		},
	} {
		t.Run(title, func(t *testing.T) {
			var got []string
			for _, o := range c.objects(t, test.values...) {
				got = append(got, name(t, o))
			}
			want := slices.Concat(test.want...)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMonitoring compares what reaches Grafana and Prometheus with its sources.
func TestMonitoring(t *testing.T) {
	c := newChart(t)
	source := func(file string) []byte {
		b, err := os.ReadFile(filepath.Join(c.root, boardSources, file))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seen, redirected := 0, 0
	for _, o := range c.objects(t, allOn...) {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			seen++
			if o.Name == "geobench-prometheus" {
				if strings.TrimSpace(o.Data["rules.yaml"]) != strings.TrimSpace(string(source("rules.yaml"))) {
					t.Error("the rules of the chart's Prometheus differ from rules.yaml")
				}
				var config struct {
					ScrapeConfigs []struct {
						JobName         string `json:"job_name"`
						FollowRedirects *bool  `json:"follow_redirects"`
					} `json:"scrape_configs"`
				}
				if err := yaml.Unmarshal([]byte(o.Data["prometheus.yaml"]), &config); err != nil || len(config.ScrapeConfigs) != 3 {
					t.Errorf("the chart's Prometheus has %d jobs, want 3: %v", len(config.ScrapeConfigs), err)
				}
				for _, job := range config.ScrapeConfigs {
					if job.FollowRedirects == nil || *job.FollowRedirects {
						t.Errorf("job %s of the chart's Prometheus goes where a pod redirects it to", job.JobName)
					}
				}
				continue
			}
			file := strings.TrimPrefix(o.Name, "geobench-dashboard-") + ".json"
			if got := o.Data["geobench-"+file]; strings.TrimSpace(got) != strings.TrimSpace(string(source(file))) {
				t.Errorf("ConfigMap %s differs from %s", o.Name, file)
			}
			if o.Labels["grafana_dashboard"] != "yes" || o.Annotations["grafana_folder"] != "Geobench" {
				t.Errorf("ConfigMap %s: labels %v, annotations %v", o.Name, o.Labels, o.Annotations)
			}
		case *unstructured.Unstructured:
			for _, field := range []string{"endpoints", "podMetricsEndpoints"} {
				endpoints, _, _ := unstructured.NestedSlice(o.Object, "spec", field)
				for _, e := range endpoints {
					redirected++
					if e.(map[string]any)["followRedirects"] != false {
						t.Errorf("port %v of %s has Prometheus go where a pod redirects it to", e.(map[string]any)["port"], name(t, o))
					}
				}
			}
			switch o.GetKind() {
			case "PrometheusRule":
				seen++
				var want map[string]any
				if err := yaml.Unmarshal(source("rules.yaml"), &want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, o.Object["spec"]); diff != "" {
					t.Errorf("PrometheusRule differs from rules.yaml: %s", diff)
				}
			case "ServiceMonitor":
				seen++
				endpoints, _, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
				if len(endpoints) != 1 || endpoints[0].(map[string]any)["honorLabels"] != true {
					t.Error("a run's namespace would become the operator's: ServiceMonitor without honorLabels")
				}
			}
		}
	}
	if redirected != 3 {
		t.Errorf("the monitors have %d endpoints, want those of the operator, of nodes and workers, and of sidecars", redirected)
	}
	if seen != 8 {
		t.Errorf("%d objects for Grafana and Prometheus, want 8", seen)
	}
}

// TestPodSecurity asks Kubernetes's own evaluator whether every pod meets the restricted standard.
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

// TestOperator looks at what the operator is told.
func TestOperator(t *testing.T) {
	c := newChart(t)
	for title, test := range map[string]struct {
		values     []string
		args       []string
		image, env string
	}{
		"default": {
			args:  []string{"operator", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443", "--leader-elect=true", "--log-level=info"},
			image: "localhost/geobench:dev", env: "localhost/geobench:dev",
		},
		"tag, one namespace, no metrics": {
			values: []string{`image={"repository": "r.example/g", "tag": "1"}`, `scope.namespace="lab"`, `metrics.enabled=false`, `leaderElection.enabled=false`},
			args: []string{
				"operator", "--health-probe-bind-address=:8081", "--metrics-bind-address=0", "--leader-elect=false", "--log-level=info", "--namespace=lab",
			},
			image: "r.example/g:1", env: "r.example/g:1",
		},
		"everything": {
			values: allOn,
			args: []string{
				"operator", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443", "--leader-elect=true", "--log-level=info", "--kube-api-qps=20",
			},
			image: "registry.example/geobench@sha256:0123456789012345678901234567890123456789012345678901234567890123",
			env:   "registry.example/nodes:1",
		},
	} {
		t.Run(title, func(t *testing.T) {
			d := find[*appsv1.Deployment](t, c.objects(t, test.values...), "geobench-operator")
			container := d.Spec.Template.Spec.Containers[0]
			args := slices.DeleteFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--network-policies=") }) // TestAround
			if diff := cmp.Diff(test.args, args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if container.Image != test.image {
				t.Errorf("image %s, want %s", container.Image, test.image)
			}
			if e := container.Env[0]; e.Name != "GEOBENCH_IMAGE" || e.Value != test.env {
				t.Errorf("environment %s=%s, want GEOBENCH_IMAGE=%s", e.Name, e.Value, test.env)
			}
		})
	}
}

// TestRights compares the operator's rights with the generated roles: the same ones, granted where they are needed.
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

// TestAdmissionPolicies compares the policies with config/admission, whose tests hold them to an API server, and looks at what the values change.
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

// TestTenants looks at what of a tenant reaches the policy, whose tests are in config/admission.
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
		// No images and no endpoints are another thing than no limit of them.
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

// TestMeshPolicies says what Istio holds a database to. The names of workers and the ports are those that controllers and internal/deploy give them.
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

// TestDefinitions compares the chart's CRDs with the generated ones, and looks at who deletes them.
func TestDefinitions(t *testing.T) {
	c := newChart(t)
	if err := syncChart(c.root, true); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []string{"true", "false"} {
		objects := c.objects(t, "crds.keep="+keep)
		files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(crdSources), "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want apiextensionsv1.CustomResourceDefinition
			if err := yaml.UnmarshalStrict(text, &want); err != nil {
				t.Fatal(err)
			}
			got := find[*apiextensionsv1.CustomResourceDefinition](t, objects, want.Name)
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("%s (-generated +chart):\n%s", want.Name, diff)
			}
			if kept := got.Annotations["helm.sh/resource-policy"] == "keep"; kept != (keep == "true") {
				t.Errorf("%s with crds.keep=%s: kept on uninstall is %v", want.Name, keep, kept)
			}
		}
	}
}

// TestPresets compares the profiles with those that the operator knows.
func TestPresets(t *testing.T) {
	c := newChart(t)
	objects := c.objects(t, "presets.enabled=true")
	files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(presetSources), "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{}
		if err := yaml.UnmarshalStrict(text, &want); err != nil {
			t.Fatal(err)
		}
		got := find[*unstructured.Unstructured](t, objects, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		if diff := cmp.Diff(want["spec"], got.Object["spec"]); diff != "" {
			t.Errorf("%s (-%s +chart):\n%s", got.GetName(), presetSources, diff)
		}
	}
}

// TestRefusals holds the chart to refusing values that would not work, in words that say which.
func TestRefusals(t *testing.T) {
	c := newChart(t)
	for value, want := range map[string]string{
		`replica=2`:                                               "replica",
		`image.name="x"`:                                          "name",
		`image.digest="sha256:12"`:                                "/image/digest",
		`image.pullPolicy="Sometimes"`:                            "/image/pullPolicy",
		`image.repository=""`:                                     "/image/repository",
		`logLevel="loud"`:                                         "/logLevel",
		`replicas="two"`:                                          "/replicas",
		`crds.enabled="yes"`:                                      "/crds/enabled",
		`metrics.port=0`:                                          "/metrics/port",
		`metrics.podMonitor.enabled="yes"`:                        "/metrics/podMonitor/enabled",
		`metrics.podMonitor.interval="5"`:                         "/metrics/podMonitor/interval",
		`metrics.readers=[{"name": "x"}]`:                         "kind",
		`scope.namespace="Lab"`:                                   "/scope/namespace",
		`presets.namespaces="lab"`:                                "/presets/namespaces",
		`presets.namespaces=["a", "a"]`:                           "/presets/namespaces",
		`extraArgs=["debug"]`:                                     "/extraArgs/0",
		`networkPolicy.enabled=true`:                              "enabled",
		`resources={"memory": "1Gi"}`:                             "memory",
		`serviceAccount.create=false`:                             "serviceAccount.name",
		`fullnameOverride="Geo"`:                                  "/fullnameOverride",
		`tenants=[{"name": "a"}]`:                                 "namespaces",
		`tenants=[{"name": "a", "namespaces": ["x"], "pods": 3}]`: "pods",
		`tenants=[{"name": "a", "namespaces": ["x"], "duration": "10"}]`:                       "/duration",
		`tenants=[{"name": "a", "namespaces": ["x"], "images": ["r.io/"]}]`:                    "/images/0",
		`tenants=[{"name": "a", "namespaces": ["x"], "endpoints": ["a.*.example"]}]`:           "/endpoints/0",
		`tenants=[{"name": "a", "namespaces": ["x"], "endpoints": ["a:1", "a:b"]}]`:            "/endpoints/1",
		`mesh.databases=[{"name": "d", "regions": ["a"]}]`:                                     "namespace",
		`mesh.databases=[{"name": "d", "namespace": "x", "regions": []}]`:                      "/regions",
		`mesh.databases=[{"name": "d", "namespace": "x", "regions": ["a"], "mode": "STRICT"}]`: "mode",
		`mesh.trustDomain=""`:                  "/mesh/trustDomain",
		`admission.protectedNamespaces=[]`:     "/admission/protectedNamespaces",
		`tolerations={"operator": "x"}`:        "/tolerations",
		`imagePullSecrets=["x"]`:               "/imagePullSecrets/0",
		`podDisruptionBudget.minAvailable="x"`: "/podDisruptionBudget/minAvailable",
	} {
		if _, err := c.template(t, value); err == nil {
			t.Errorf("%s is accepted", value)
		} else if !strings.Contains(strings.ReplaceAll(err.Error(), ".", "/"), strings.ReplaceAll(want, ".", "/")) {
			t.Errorf("%s: the refusal does not name %s: %v", value, want, err)
		}
	}
	for title, test := range map[string]struct {
		values []string
		want   string
	}{
		"several without a leader":             {[]string{"replicas=2", "leaderElection.enabled=false"}, "leaderElection.enabled"},
		"its own namespace protected":          {[]string{`admission.protectedNamespaces=["geobench-system"]`}, "admission.protectedNamespaces"},
		"the watched namespace protected":      {[]string{`scope.namespace="kube-system"`}, "admission.protectedNamespaces"},
		"limits without admission":             {[]string{`tenants=[{"name": "a", "namespaces": ["x"]}]`, "admission.enabled=false"}, "admission.enabled"},
		"a namespace of two tenants":           {[]string{`tenants=[{"name": "a", "namespaces": ["x"]}, {"name": "b", "namespaces": ["x"]}]`}, "the same namespace: x, x"},
		"regions that begin alike":             {[]string{`mesh.databases=[{"name": "d", "namespace": "x", "regions": ["us-west", "us"]}]`}, "region us-west: rename"},
		"a region called like a steward":       {[]string{`mesh.databases=[{"name": "d", "namespace": "x", "regions": ["steward-1"]}]`}, "rename region steward-1"},
		"a run whose workers have other names": {[]string{`mesh.databases=[{"name": "d", "namespace": "x", "regions": ["us"], "runs": ["a.b"]}]`}, "the workers of run a.b in region us"},
		"monitor without metrics":              {[]string{"metrics.enabled=false", "metrics.serviceMonitor.enabled=true"}, "metrics.enabled"},
	} {
		if _, err := c.template(t, test.values...); err == nil {
			t.Errorf("%s: accepted", title)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the refusal does not name %s: %v", title, test.want, err)
		}
	}
}

func TestLint(t *testing.T) {
	c := newChart(t)
	if _, err := run(t.Context(), c.helm, "lint", "--strict", c.dir()); err != nil {
		t.Error(err)
	}
}

// TestValuesAreDocumented wants every value described in values.yaml and listed in the chart's README.
func TestValuesAreDocumented(t *testing.T) {
	c := newChart(t)
	text, err := os.ReadFile(filepath.Join(c.dir(), "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(c.dir(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := valuesTable(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(readme, []byte(rows)) {
		t.Errorf("README.md of the chart does not hold this table of values (run go run -C hack/tools . sync-chart):\n%s", rows)
	}
}

// TestNetworkPolicy holds the policies to the ports that pods have.
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

// TestAround holds what the operator is told for the policies of databases to its own pod, and to who may read metrics.
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
