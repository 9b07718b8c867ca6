// Package presets provides network profiles that users can refer to by name: measured round trips between cloud
// regions, and the networks of papers. Each profile is a NetworkProfile manifest in its own file, with its sources in
// comments. A profile of the same name in the cluster or in the user's files takes precedence.
package presets

import (
	"embed"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Files contains a manifest per preset, named NAME.yaml.
//
//go:embed *.yaml
var Files embed.FS

// all returns the presets by name. It decodes the files once, and omits files that cannot be decoded; a test checks
// that there are none.
var all = sync.OnceValue(func() map[string]*v1alpha1.NetworkProfile {
	out := map[string]*v1alpha1.NetworkProfile{}
	files, err := fs.Glob(Files, "*.yaml")
	if err != nil {
		return out
	}
	for _, file := range files {
		data, err := Files.ReadFile(file)
		if err != nil {
			continue
		}
		p := &v1alpha1.NetworkProfile{}
		if err := yaml.UnmarshalStrict(data, p); err == nil && p.Name == strings.TrimSuffix(file, ".yaml") {
			out[p.Name] = p
		}
	}
	return out
})

// Names returns the names of all presets, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all())) }

// Lookup returns a copy of a preset.
func Lookup(name string) (*v1alpha1.NetworkProfile, bool) {
	p, ok := all()[name]
	if !ok {
		return nil, false
	}
	return p.DeepCopy(), true
}
