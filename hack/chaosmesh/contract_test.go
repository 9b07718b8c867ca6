package chaosmesh

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/genericwebhook"
	api "github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/net/emulation"
	chaos "github.com/geobench/geobench/internal/net/emulation/chaosmesh"
)

// objects returns an example of each kind of object that Geobench creates, by name.
func objects() map[string]*unstructured.Unstructured {
	m := chaos.Meta{Namespace: "ns", Name: chaos.ObjectName("0c3d", "eu"), Labels: map[string]string{"geobench.dev/database": "d"}}
	fault := m
	fault.Ceiling = 90 * time.Second
	in := func(regions ...string) chaos.Pods {
		return chaos.Pods{Namespace: "ns", Labels: m.Labels, RegionLabel: "geobench.dev/region", Regions: regions}
	}
	named := chaos.Pods{Namespace: "ns", Named: []string{"d-eu-0", "d-eu-1"}}
	full := emulation.Link{Link: geo.Link{Delay: 45_500 * time.Microsecond, Jitter: time.Millisecond, LossPPM: 12_345, BandwidthMbps: 100}, LossCorrelationPercent: 25}
	return map[string]*unstructured.Unstructured{
		"delay":          chaos.Delay(m, in("eu"), in("us", "ap"), full),
		"loss only":      chaos.Delay(m, in("eu"), in("us"), emulation.Link{Link: geo.Link{LossPPM: 1}}),
		"cut link":       chaos.Delay(fault, in("eu"), in("us"), emulation.Link{Cut: true}),
		"partition":      chaos.Partition(fault, in("eu"), in("us"), false),
		"one-way":        chaos.Partition(fault, named, chaos.Pods{Namespace: "ns", Named: []string{"d-us-0"}}, true),
		"bandwidth":      chaos.Bandwidth(fault, in("eu"), in("us"), 1_000_000),
		"slow bandwidth": chaos.Bandwidth(fault, in("eu"), in("us"), 1),
		"all bandwidth":  chaos.Bandwidth(fault, in("eu"), chaos.Pods{}, 10),
		"pod kill":       chaos.PodKill(fault, named),
		"container kill": chaos.ContainerKill(fault, named, "node"),
		"pod failure":    chaos.PodFailure(fault, named),
		"cpu":            chaos.StressCPU(fault, named, 2, 80, "node"),
		"memory":         chaos.StressMemory(fault, named, 256<<20, "node"),
		"disk writes":    chaos.StressDisk(fault, named, true, "node"),
		"disk reads":     chaos.StressDisk(fault, named, false, "node"),
		"io delay":       chaos.IODelay(fault, named, "/data", 10*time.Millisecond, 50, "node"),
		"io error":       chaos.IOError(fault, named, "/data", 5, 100, "node"),
		"clock":          chaos.ClockSkew(fault, named, -2*time.Second, "node"),
	}
}

// typed returns an empty value of the Go type into which Chaos Mesh decodes objects of this kind.
func typed(kind string) any {
	switch kind {
	case chaos.NetworkChaos:
		return &api.NetworkChaos{}
	case chaos.PodChaos:
		return &api.PodChaos{}
	case chaos.StressChaos:
		return &api.StressChaos{}
	case chaos.IOChaos:
		return &api.IOChaos{}
	case chaos.TimeChaos:
		return &api.TimeChaos{}
	}
	return nil
}

func TestWebhooksAcceptWhatGeobenchMakes(t *testing.T) {
	for name, u := range objects() {
		t.Run(name, func(t *testing.T) {
			obj := decode(t, u)
			if errs := append(genericwebhook.Default(obj), genericwebhook.Validate(obj)...); len(errs) > 0 {
				t.Errorf("%s: %v", u.GetKind(), errs.ToAggregate())
			}
		})
	}
}

func decode(t *testing.T, u *unstructured.Unstructured) any {
	t.Helper()
	b, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	obj := typed(u.GetKind())
	if err := d.Decode(obj); err != nil {
		t.Fatalf("%s: %v", u.GetKind(), err)
	}
	return obj
}

// The webhooks reject invalid objects, so their acceptance of Geobench's objects is meaningful.
func TestWebhooksRefuseMistakes(t *testing.T) {
	for name, change := range map[string]func(o map[string]*unstructured.Unstructured) (*unstructured.Unstructured, error){
		"duration without a unit": func(o map[string]*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return o["delay"], unstructured.SetNestedField(o["delay"].Object, "45", "spec", "delay", "latency")
		},
		"rate without a unit": func(o map[string]*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return o["bandwidth"], unstructured.SetNestedField(o["bandwidth"].Object, "100", "spec", "bandwidth", "rate")
		},
		"kill without a container": func(o map[string]*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			unstructured.RemoveNestedField(o["container kill"].Object, "spec", "containerNames")
			return o["container kill"], nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := change(objects())
			if err != nil {
				t.Fatal(err)
			}
			obj := decode(t, u)
			if errs := append(genericwebhook.Default(obj), genericwebhook.Validate(obj)...); len(errs) == 0 {
				t.Error("accepted")
			}
		})
	}
}

// Chaos Mesh reads the intended values from the objects: numbers arrive with the right value and unit.
func TestChaosMeshReadsTheNumbers(t *testing.T) {
	o := objects()
	n := decode(t, o["delay"]).(*api.NetworkChaos).Spec
	if d, err := time.ParseDuration(n.Delay.Latency); err != nil || d != 45_500*time.Microsecond {
		t.Errorf("latency %s", n.Delay.Latency)
	}
	if n.Loss.Loss != "1.2345" || n.Loss.Correlation != "25" || n.TcParameter.Rate.Rate != "100mbit" || n.Delay.Jitter != "1732us" {
		t.Errorf("loss %+v, rate %+v, delay %+v", n.Loss, n.TcParameter.Rate, n.Delay)
	}
	if b := decode(t, o["bandwidth"]).(*api.NetworkChaos).Spec.Bandwidth; b.Rate != "1000000mbit" || b.Buffer == 0 || b.Limit == 0 {
		t.Errorf("bandwidth %+v", b)
	}
	if s := decode(t, o["memory"]).(*api.StressChaos).Spec.Stressors.MemoryStressor; s.Size != "268436KB" {
		t.Errorf("memory %+v", s)
	}
	if s := decode(t, o["disk writes"]).(*api.StressChaos).Spec.Stressors; s == nil {
		t.Error("no stressors: the controller panics")
	} else if cpu, memory, err := s.Normalize(); err != nil || memory != "" ||
		strings.Join(strings.Fields(cpu), " ") != "--cpu-load-slice 10 --cpu-method sqrt --cpu 1 --cpu-load 0 --hdd 1 --hdd-opts wr-seq,fsync --temp-path /tmp" {
		t.Errorf("disk writes: stress-ng %s, memStress %s (%v)", cpu, memory, err)
	}
	if d := decode(t, o["partition"]).(*api.NetworkChaos).Spec.Duration; d == nil || *d != "90000000us" {
		t.Errorf("ceiling %v", d)
	}
	for name, u := range o {
		if len(u.GetName()) > 27 {
			t.Errorf("%s: name %s is cut when it becomes an ipset's", name, u.GetName())
		}
	}
}

// The CRDs, which are generated from the module with the types, accept every object completely: no field is rejected or
// pruned.
func TestCRDsTakeWhatGeobenchMakes(t *testing.T) {
	crds := generateCRDs(t)
	for name, u := range objects() {
		t.Run(name, func(t *testing.T) {
			crd, ok := crds[u.GetKind()]
			if !ok {
				t.Fatalf("no CRD for %s", u.GetKind())
			}
			validator, _, err := validation.NewSchemaValidator(crd.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			if errs := validation.ValidateCustomResource(field.NewPath(""), u.Object, validator); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			structural, err := schema.NewStructural(crd.OpenAPIV3Schema)
			if err != nil {
				t.Fatal(err)
			}
			pruned := pruning.PruneWithOptions(u.DeepCopy().Object, structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
			if len(pruned) > 0 {
				t.Errorf("the API server would drop %s", strings.Join(pruned, ", "))
			}
		})
	}
}

// generateCRDs runs the project's controller-gen on the types, in the version of Chaos Mesh that this module pins.
func generateCRDs(t *testing.T) map[string]*apiextensions.CustomResourceValidation {
	t.Helper()
	out, err := exec.Command("go", "run", "-C", "../tools", ".", "install", "controller-gen").Output()
	if err != nil {
		t.Fatalf("controller-gen: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	dir := t.TempDir()
	gen := exec.Command(lines[len(lines)-1], "crd:ignoreUnexportedFields=true,crdVersions=v1,maxDescLen=0",
		"paths=github.com/chaos-mesh/chaos-mesh/api/v1alpha1", "output:dir="+dir)
	gen.Env = append(os.Environ(), "GOWORK=off")
	if out, err := gen.CombinedOutput(); err != nil {
		t.Fatalf("controller-gen: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	crds := map[string]*apiextensions.CustomResourceValidation{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v1 := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(b, v1); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crd := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(v1, crd, nil); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s := crd.Spec.Validation
		if s == nil {
			s = crd.Spec.Versions[0].Schema
		}
		crds[crd.Spec.Names.Kind] = s
	}
	return crds
}
