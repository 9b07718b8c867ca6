package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
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

// template renders the chart into the namespace geobench-system, with the given --set-json arguments. An argument of
// the form "kind GROUP/VERSION/KIND" adds a kind to the kinds of the cluster.
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

// objects renders the chart and decodes all objects. An unknown field is an error.
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

// name returns the kind and the name of an object. If the object is in another namespace than the release, the result
// also contains the namespace.
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

// find returns the object with this type and name. It fails the test if there is no such object.
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

// TestVariants checks which objects the chart creates for various values.
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
				// The operator probes the kernels of Kubernetes nodes, and clients outside of the namespace read its metrics. Both
				// need cluster-wide rights.
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
		"with rights in a namespace alone": {
			values: []string{`scope.namespace="lab"`, "crds.enabled=false", `rbac={"clusterScoped": false, "aggregateToUserRoles": false}`, "admission.enabled=false", "metrics.enabled=false"},
			want:   [][]string{always, account, policy, own, boards(""), {"Role lab/geobench-operator", "RoleBinding lab/geobench-operator"}},
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

// TestMonitoring checks that the dashboards and rules in the chart equal their sources.
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

// TestOperator checks the arguments and the environment of the operator.
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
			// TestAround tests this argument.
			args := slices.DeleteFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--network-policies=") })
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

// TestDefinitions checks that the CRDs in the chart equal the generated CRDs, and that Helm keeps them on uninstall
// only if crds.keep is true.
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

// TestPresets checks that the network profiles in the chart equal the operator's built-in profiles.
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

// TestRefusals checks that the chart rejects values that would not work, with a message that contains the name of the
// value.
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

// TestValuesAreDocumented checks that every value has a description in values.yaml and a row in the chart's README.
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
