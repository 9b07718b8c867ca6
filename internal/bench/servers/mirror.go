package servers

import (
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// publicRegistries are the registries from which the default images of this package come.
var publicRegistries = []string{"docker.io/", "quay.io/"}

// Mirror replaces the public registries of a rendered database's images with registry, which may include a path. Images
// of other registries, which a user has chosen, do not change. An empty registry changes nothing.
func Mirror(db *v1alpha1.GeoDatabase, registry string) {
	if registry == "" {
		return
	}
	replace := func(image *string) {
		for _, public := range publicRegistries {
			if rest, ok := strings.CutPrefix(*image, public); ok {
				*image = strings.TrimSuffix(registry, "/") + "/" + rest
				return
			}
		}
	}
	if db.Spec.Pods != nil {
		replace(&db.Spec.Pods.Image)
	}
	for i := range db.Spec.Roles {
		replace(&db.Spec.Roles[i].Image)
	}
}
