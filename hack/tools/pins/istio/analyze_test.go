package istio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"istio.io/istio/pkg/config/analysis/analyzers"
	"istio.io/istio/pkg/config/analysis/local"
	"istio.io/istio/pkg/config/resource"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const top = "../../../.."

// analyze returns the findings of Istio's analyzers in manifests. All the given namespaces are part of the mesh.
func analyze(t *testing.T, manifests string, namespaces ...string) (found []string) {
	t.Helper()
	for _, name := range namespaces {
		manifests += fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {istio-injection: enabled}}\n", name)
	}
	a := local.NewIstiodAnalyzer(analyzers.AllCombined(), resource.Namespace(namespaces[0]), "istio-system", nil)
	// The first source determines which kinds of objects the analyzers see. A source of AddTestReaderKubeSource includes
	// Pods, Services and Namespaces.
	if err := a.AddTestReaderKubeSource([]local.ReaderSource{{Name: "manifests", Reader: strings.NewReader(manifests)}}); err != nil {
		t.Fatal(err)
	}
	if err := a.AddDefaultResources(); err != nil {
		t.Fatal(err)
	}
	result, err := a.Analyze(make(chan struct{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range result.Messages {
		found = append(found, m.String())
	}
	return found
}

// made returns the objects that the operator creates for a database and a run in a namespace, as recorded by
// config/admission. For each pod template, it adds a pod in the form in which Istio's injector would leave it.
func made(t *testing.T, namespace string) string {
	t.Helper()
	text, err := os.ReadFile(top + "/config/admission/testdata/made.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, pods := &strings.Builder{}, 0
	write := func(o any) {
		b, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "---\n%s", b)
	}
	seen := map[string]bool{}
	for documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if key := u.GetKind() + u.GetName(); len(u.Object) == 0 || seen[key] { // an object of the same database with other parameters
			continue
		} else {
			seen[key] = true
		}
		u.SetNamespace(namespace)
		var template *corev1.PodTemplateSpec
		switch u.GetKind() {
		case "Pod":
			pod := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, pod); err != nil {
				t.Fatal(err)
			}
			template = &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		case "StatefulSet":
			set := &appsv1.StatefulSet{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, set); err != nil {
				t.Fatal(err)
			}
			template = &set.Spec.Template
			write(u.Object)
		case "Job":
			job := &batchv1.Job{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, job); err != nil {
				t.Fatal(err)
			}
			template = &job.Spec.Template
			write(u.Object)
		default:
			write(u.Object)
			continue
		}
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", u.GetName(), pods), namespace
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "istio-proxy", Image: "istio/proxyv2:1.31"})
		write(pod)
		pods++
	}
	if pods < 3 {
		t.Fatalf("there are %d pods in what the operator makes", pods)
	}
	return out.String()
}

// chart renders the chart with values for --set-json.
func chart(t *testing.T, values ...string) string {
	t.Helper()
	install := exec.CommandContext(t.Context(), "go", "run", "-C", top+"/hack/tools", ".", "install", "helm")
	path, err := install.Output()
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"template", "geobench", top + "/charts/geobench", "--namespace", "geobench-system"}
	for _, v := range values {
		arguments = append(arguments, "--set-json", v)
	}
	out, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(path)), arguments...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Istio's analyzers find no problems in the chart with all its mesh objects, nor in the objects that the operator
// creates.
func TestAnalyze(t *testing.T) {
	databases, err := json.Marshal([]map[string]any{{"name": "d", "namespace": "lab", "regions": []string{"us-west-2"}, "runs": []string{"r"}}})
	if err != nil {
		t.Fatal(err)
	}
	manifests := chart(t, "mesh.databases="+string(databases), "replicas=2") + made(t, "lab")
	for _, finding := range analyze(t, manifests, "lab") {
		t.Error(finding)
	}
	// Inject errors to show that the analyzers work: they must find each of these errors.
	for title, test := range map[string]struct{ old, new, want string }{
		"a port of which nobody says what it speaks": {"appProtocol: tcp", "appProtocol: ''", "IST0118"},
		"a Sidecar for pods that are not there":      {"workloadSelector:\n    labels:\n      geobench.dev/database: d", "workloadSelector:\n    labels:\n      geobench.dev/database: e", "IST0101"},
		"a policy for pods that are not there":       {"geobench.dev/region: us-west-2\n      geobench.dev/role: node\n  action", "geobench.dev/region: us-west-3\n      geobench.dev/role: node\n  action", "IST0127"},
	} {
		t.Run(title, func(t *testing.T) {
			broken := strings.ReplaceAll(manifests, test.old, test.new)
			if broken == manifests {
				t.Fatalf("the manifests do not hold %q", test.old)
			}
			found := strings.Join(analyze(t, broken, "lab"), "\n")
			if !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %s", found, test.want)
			}
		})
	}
}
