package servers

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// With a mirror, no image of a rendered database comes from a public registry.
func TestMirror(t *testing.T) {
	for _, name := range Names() {
		for _, registry := range []string{"", "mirror.example.com", "mirror.example.com/proxy/"} {
			db := &v1alpha1.GeoDatabase{}
			db.Spec.Engine.Name = name
			db.Spec.Regions = []v1alpha1.Region{{Name: "a"}, {Name: "b"}, {Name: "c"}}
			if problems := Render(db, 0); len(problems) > 0 {
				t.Fatalf("%s: %v", name, problems)
			}
			Mirror(db, registry)
			images := []string{}
			if db.Spec.Pods != nil {
				images = append(images, db.Spec.Pods.Image)
			}
			for _, r := range db.Spec.Roles {
				images = append(images, r.Image)
			}
			if len(images) == 0 {
				t.Errorf("%s has no image", name)
			}
			for _, image := range images {
				mirrored := strings.HasPrefix(image, strings.TrimSuffix(registry, "/")+"/") && strings.Count(image, "//") == 0 && !strings.Contains(image, ".io/")
				if mirrored != (registry != "") {
					t.Errorf("%s with mirror %q: image %s", name, registry, image)
				}
			}
		}
	}
	own := &v1alpha1.GeoDatabase{}
	own.Spec.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{Image: "registry.internal/postgres:17"}}
	Mirror(own, "mirror.example.com")
	if got := own.Spec.Pods.Image; got != "registry.internal/postgres:17" {
		t.Errorf("an image of another registry became %s", got)
	}
}
