package gitops

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/config/crd"
)

// build returns the output of `kustomize build` for a folder.
func build(t *testing.T, fs filesys.FileSystem, dir string) string {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// memory returns a file system in memory with the given files.
func memory(t *testing.T, files map[string]string) filesys.FileSystem {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	for name, text := range files {
		if err := fs.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// TestKustomizeRepository builds the folders of the example repository, which contain copies of the name references in
// gitops/kustomize.
func TestKustomizeRepository(t *testing.T) {
	disk := filesys.MakeFsOnDisk()
	contains(t, build(t, disk, "repository/databases/overlays/lab"), "partitionsPerRegion: 2", "name: two-coasts", "kind: GeoDatabase")
	contains(t, build(t, disk, "repository/runs/nightly"), "name: smallbank-0a1b2c3d", "databaseRef:\n    name: calvin\n")
	contains(t, build(t, disk, "repository/experiments/multi-home"), "gate: Claims")
	for _, copied := range []string{"repository/databases/base/kustomizeconfig.yaml", "repository/runs/nightly/kustomizeconfig.yaml"} {
		if read(t, copied) != read(t, "kustomize/kustomizeconfig.yaml") {
			t.Errorf("%s is not kustomize/kustomizeconfig.yaml", copied)
		}
	}
}

// TestFluxKustomizations checks that the objects that Flux applies exist, and that their namespaces exist, because Flux
// does not create namespaces.
func TestFluxKustomizations(t *testing.T) {
	type object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Path            string `json:"path"`
			TargetNamespace string `json:"targetNamespace"`
			SourceRef       struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"sourceRef"`
		} `json:"spec"`
	}
	files, err := filepath.Glob("repository/clusters/lab/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kustomizations, names := map[string]object{}, map[string]bool{}
	for _, file := range append(files, "flux/lab.yaml", "flux/healthchecks.yaml") {
		for document := range strings.SplitSeq(read(t, file), "\n---\n") {
			var o object
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			names[o.Kind+"/"+o.Metadata.Name] = true
			if o.Kind == "Kustomization" {
				kustomizations[file] = o
			}
		}
	}
	for file, k := range kustomizations {
		if source := k.Spec.SourceRef.Kind + "/" + k.Spec.SourceRef.Name; !names[source] {
			t.Errorf("%s: nobody makes its source, %s: %v", file, source, names)
		}
		if info, err := os.Stat(filepath.Join("repository", k.Spec.Path)); err != nil || !info.IsDir() {
			t.Errorf("%s: the repository has no folder %s: %v", file, k.Spec.Path, err)
		}
		if file != "flux/lab.yaml" && !names["Namespace/"+k.Spec.TargetNamespace] {
			t.Errorf("%s: nobody makes its targetNamespace %q: %v", file, k.Spec.TargetNamespace, names)
		}
	}
	if len(kustomizations) != 5 {
		t.Errorf("%d files have a Kustomization: %v", len(kustomizations), names)
	}
}

// TestKustomizeRenames checks that a name suffix changes a name and all references to it.
func TestKustomizeRenames(t *testing.T) {
	text := build(t, memory(t, map[string]string{
		"kustomizeconfig.yaml": read(t, "kustomize/kustomizeconfig.yaml"),
		"kustomization.yaml":   "resources: [all.yaml]\nconfigurations: [kustomizeconfig.yaml]\nnameSuffix: -0a1b2c3d\n",
		"all.yaml": `apiVersion: geobench.dev/v1alpha1
kind: NetworkProfile
metadata: {name: two}
spec: {}
---
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec: {network: {profileRef: {name: two}}}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: accepted}
spec: {databaseRef: {name: db}}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: candidate}
spec: {databaseRef: {name: db}, baselineRef: {name: accepted}}
---
apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: sweep}
spec: {databaseRefs: [{name: db}], databases: [{name: own, template: {spec: {network: {profileRef: {name: two}}}}}]}
`,
	}), ".")
	for _, old := range []string{"name: two\n", "name: db\n", "name: accepted\n"} {
		if strings.Contains(text, old) {
			t.Errorf("%q was not renamed:\n%s", old, text)
		}
	}
	for part, times := range map[string]int{"name: two-0a1b2c3d": 3, "name: db-0a1b2c3d": 4, "name: accepted-0a1b2c3d": 2, "name: own\n": 1} {
		if n := strings.Count(text, part); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", part, n, times, text)
		}
	}
}

// openAPI reduces a schema to the parts that patches need: lists that are merged by a single key, and the paths to
// these lists. It returns nil if the schema has no such list.
func openAPI(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	properties := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if kept := openAPI(&p); kept != nil {
			properties[name] = kept
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		items := openAPI(s.Items.Schema)
		if len(s.XListMapKeys) != 1 {
			return nil // kustomize merges only by a single key
		}
		if items == nil {
			items = map[string]any{"type": "object"}
		}
		return map[string]any{"type": "array", "items": items, "x-kubernetes-patch-merge-key": s.XListMapKeys[0], "x-kubernetes-patch-strategy": "merge"}
	}
	if len(properties) == 0 {
		return nil
	}
	return map[string]any{"type": "object", "properties": properties}
}

// TestKustomizeOpenAPI checks that the OpenAPI file matches the CRDs. It also checks that kustomize follows the file: a
// patch changes one element of a list and keeps all other elements.
func TestKustomizeOpenAPI(t *testing.T) {
	all, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	definitions := map[string]any{}
	for _, d := range all {
		kind := d.Spec.Names.Kind
		schema := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		spec := schema.Properties["spec"]
		properties := map[string]any{"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"}}
		if kept := openAPI(&spec); kept != nil {
			properties["spec"] = kept
		}
		definitions["dev.geobench.v1alpha1."+kind] = map[string]any{
			"type": "object", "properties": properties,
			"x-kubernetes-group-version-kind": []any{map[string]any{"group": v1alpha1.GroupVersion.Group, "version": v1alpha1.GroupVersion.Version, "kind": kind}},
		}
	}
	text, err := json.MarshalIndent(map[string]any{"definitions": definitions}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "kustomize/openapi.json", string(text)+"\n")
	files := map[string]string{
		"openapi.json": string(text),
		"kustomization.yaml": `resources: [all.yaml]
openapi: {path: openapi.json}
patches:
- patch: |
    apiVersion: geobench.dev/v1alpha1
    kind: GeoDatabase
    metadata: {name: db}
    spec: {regions: [{name: b, zone: changed}]}
- patch: |
    apiVersion: geobench.dev/v1alpha1
    kind: Experiment
    metadata: {name: sweep}
    spec: {claims: [{id: two, says: changed}]}
`,
		"all.yaml": `apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec: {regions: [{name: a}, {name: b}]}
---
apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: sweep}
spec: {claims: [{id: one, says: kept}, {id: two, says: before, expression: kept}]}
`,
	}
	contains(t, build(t, memory(t, files), "."), "- name: a\n", "name: b\n    zone: changed", "id: one\n    says: kept", "expression: kept\n    id: two\n    says: changed")
}
