package main

import (
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// With values-namespaced.yaml, the chart contains no cluster-scoped object. If one of these values is missing, the
// chart is rejected with an error that contains the name of the value.
func TestNamespacedOnly(t *testing.T) {
	c := newChart(t)
	values := filepath.Join(c.dir(), "values-namespaced.yaml")
	text, err := run(t.Context(), c.helm, "template", "geobench", c.dir(), "--namespace", "team-a", "--values", values, "--set", "scope.namespace=team-a")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if kind, ok := strings.CutPrefix(line, "kind: "); ok {
			kinds[strings.TrimSpace(kind)]++
		}
	}
	for kind, n := range kinds {
		if strings.HasPrefix(kind, "Cluster") || strings.HasPrefix(kind, "ValidatingAdmission") || kind == "CustomResourceDefinition" || kind == "Namespace" {
			t.Errorf("%d objects of kind %s", n, kind)
		}
	}
	if kinds["Deployment"] != 1 || kinds["Role"] != 3 {
		t.Errorf("objects %v, want a Deployment and three Roles", kinds)
	}
	for value, says := range map[string]string{
		"scope.namespace=":               "scope.namespace: name the namespace to watch",
		"crds.enabled=true":              "crds.enabled: false",
		"admission.enabled=true":         "admission.enabled: false",
		"metrics.enabled=true":           "metrics.enabled: false",
		"rbac.aggregateToUserRoles=true": "rbac.aggregateToUserRoles: false",
	} {
		_, err := run(t.Context(), c.helm, "template", "geobench", c.dir(), "--values", values, "--set", "scope.namespace=team-a", "--set", value)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", value, err, says)
		}
	}
}

// global.imageRegistry replaces the registry of the image. global.imagePullSecrets are used in addition to the chart's
// imagePullSecrets.
func TestGlobalRegistry(t *testing.T) {
	c := newChart(t)
	for name, tt := range map[string]struct {
		values       []string
		image        string
		mirror, pull string
	}{
		"none":             {nil, "localhost/geobench:dev", "", ""},
		"a registry":       {[]string{`global={"imageRegistry": "mirror.example.com"}`}, "mirror.example.com/geobench:dev", "mirror.example.com", ""},
		"with a path":      {[]string{`global={"imageRegistry": "mirror.example.com/proxy/"}`, `image={"repository": "ghcr.io/geobench/geobench", "tag": "1"}`}, "mirror.example.com/proxy/geobench/geobench:1", "mirror.example.com/proxy", ""},
		"without registry": {[]string{`global={"imageRegistry": "m:5000"}`, `image={"repository": "team/geobench", "tag": "1"}`}, "m:5000/team/geobench:1", "m:5000", ""},
		"pull secrets":     {[]string{`global={"imagePullSecrets": ["a", {"name": "b"}]}`, `imagePullSecrets=[{"name": "c"}, {"name": "a"}]`}, "localhost/geobench:dev", "", "c a b"},
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			for _, o := range c.objects(t, tt.values...) {
				d, ok := o.(*appsv1.Deployment)
				if !ok {
					continue
				}
				found = true
				pod, mirror, nodes := d.Spec.Template.Spec, "", ""
				for _, e := range pod.Containers[0].Env {
					switch e.Name {
					case "GEOBENCH_IMAGE_REGISTRY":
						mirror = e.Value
					case "GEOBENCH_IMAGE":
						nodes = e.Value
					}
				}
				var pull []string
				for _, s := range pod.ImagePullSecrets {
					pull = append(pull, s.Name)
				}
				if pod.Containers[0].Image != tt.image || nodes != tt.image || mirror != tt.mirror || strings.Join(pull, " ") != tt.pull {
					t.Errorf("image %s, of nodes %s, mirror %q, pull secrets %q; want %s, %q, %q", pod.Containers[0].Image, nodes, mirror, pull, tt.image, tt.mirror, tt.pull)
				}
			}
			if !found {
				t.Error("there is no Deployment")
			}
		})
	}
	if _, err := c.template(t, `global={"storageClass": "fast"}`); err == nil || !strings.Contains(err.Error(), "storageClass") {
		t.Errorf("an unknown key under global: %v", err)
	}
}
