package argocd

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	gitops = "../../gitops/argocd"
	kinds  = gitops + "/resource_customizations/geobench.dev"
)

func read(t *testing.T, into any, path ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
}

// object returns an object from a file. Its integers have the type that Argo CD receives from the API server.
func object(t *testing.T, path ...string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if text, err = yaml.YAMLToJSON(text); err == nil {
		err = u.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
	return u
}

// overrides returns the settings in our fragment of the ConfigMap argocd-cm, by group and kind as in Argo CD.
func overrides(t *testing.T) map[string]v1alpha1.ResourceOverride {
	t.Helper()
	var fragment struct {
		Data map[string]string `json:"data"`
	}
	read(t, &fragment, gitops, "argocd-cm.yaml")
	out := map[string]v1alpha1.ResourceOverride{}
	for key, script := range fragment.Data {
		what, kind, found := strings.Cut(strings.TrimPrefix(key, "resource.customizations."), ".")
		if !found || !strings.HasPrefix(key, "resource.customizations.") {
			t.Fatalf("argocd-cm.yaml: %s customizes nothing", key)
		}
		kind = strings.Replace(kind, "_", "/", 1)
		o := out[kind]
		switch what {
		case "health":
			o.HealthLua = script
		case "actions":
			o.Actions = script
		default:
			t.Fatalf("argocd-cm.yaml: %s is neither about health nor about actions", key)
		}
		out[kind] = o
	}
	return out
}

// TestHealth determines the health of every recorded object with the function that the application controller uses.
func TestHealth(t *testing.T) {
	judge := lua.ResourceHealthOverrides(overrides(t))
	judged := 0
	for _, kind := range []string{"BenchmarkRun", "Experiment", "GeoDatabase"} {
		var cases struct {
			Tests []struct {
				InputPath    string              `json:"inputPath"`
				HealthStatus health.HealthStatus `json:"healthStatus"`
			} `json:"tests"`
		}
		read(t, &cases, kinds, kind, "health_test.yaml")
		for _, c := range cases.Tests {
			judged++
			t.Run(kind+"/"+filepath.Base(c.InputPath), func(t *testing.T) {
				u, want := object(t, kinds, kind, c.InputPath), c.HealthStatus
				// Neither the controller nor the tests in Argo CD's layout run scripts for objects that are being deleted.
				if u.GetDeletionTimestamp() != nil {
					want = health.HealthStatus{Status: health.HealthStatusProgressing, Message: "Pending deletion"}
				}
				got, err := health.GetResourceHealth(u, judge)
				if err != nil || got == nil || got.Status != want.Status || got.Message != want.Message {
					t.Errorf("Argo CD makes %+v of it, %v; want %+v", got, err, want)
				}
			})
		}
	}
	recorded, err := filepath.Glob(kinds + "/*/testdata/*.yaml")
	if err != nil || judged != len(recorded) {
		t.Errorf("%d objects were judged, %d are on record: %v", judged, len(recorded), err)
	}
	// Argo CD does not count a profile in the health of an application.
	profile := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "geobench.dev/v1alpha1", "kind": "NetworkProfile"}}
	if got, err := health.GetResourceHealth(profile, judge); got != nil || err != nil {
		t.Errorf("Argo CD makes %+v of a profile, %v", got, err)
	}
}

// TestActions finds and executes the actions with the code of Argo CD.
func TestActions(t *testing.T) {
	vm := lua.VM{ResourceOverrides: overrides(t)}
	for _, kind := range []string{"BenchmarkRun", "Experiment"} {
		var cases struct {
			DiscoveryTests []struct {
				InputPath string                    `json:"inputPath"`
				Result    []v1alpha1.ResourceAction `json:"result"`
			} `json:"discoveryTests"`
			ActionTests []struct {
				Action             string `json:"action"`
				InputPath          string `json:"inputPath"`
				ExpectedOutputPath string `json:"expectedOutputPath"`
			} `json:"actionTests"`
		}
		read(t, &cases, kinds, kind, "actions", "action_test.yaml")
		if len(cases.DiscoveryTests) == 0 || len(cases.ActionTests) == 0 {
			t.Errorf("%s has no case: %+v", kind, cases)
		}
		for _, c := range cases.DiscoveryTests {
			t.Run(kind+"/discovery/"+filepath.Base(c.InputPath), func(t *testing.T) {
				u := object(t, kinds, kind, "actions", c.InputPath)
				scripts, err := vm.GetResourceActionDiscovery(u)
				if err != nil {
					t.Fatal(err)
				}
				found, err := vm.ExecuteResourceActionDiscovery(u, scripts)
				if err != nil {
					t.Fatal(err)
				}
				got, want := map[string]bool{}, map[string]bool{}
				for _, a := range found {
					got[a.Name] = a.Disabled
				}
				for _, a := range c.Result {
					want[a.Name] = a.Disabled
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("Argo CD finds these actions, disabled or not: %v; want %v", got, want)
				}
			})
		}
		for _, c := range cases.ActionTests {
			t.Run(kind+"/"+c.Action+"/"+filepath.Base(c.InputPath), func(t *testing.T) {
				u := object(t, kinds, kind, "actions", c.InputPath)
				action, err := vm.GetResourceAction(u, c.Action)
				if err != nil {
					t.Fatal(err)
				}
				changed, err := vm.ExecuteResourceAction(u, action.ActionLua, nil)
				if err != nil || len(changed) != 1 || changed[0].K8SOperation != lua.PatchOperation {
					t.Fatalf("the action changes %+v, %v; want one object to be patched", changed, err)
				}
				if want := object(t, kinds, kind, "actions", c.ExpectedOutputPath); !reflect.DeepEqual(changed[0].UnstructuredObj.Object["spec"], want.Object["spec"]) {
					t.Errorf("spec is %v, want %v", changed[0].UnstructuredObj.Object["spec"], want.Object["spec"])
				}
			})
		}
	}
}
