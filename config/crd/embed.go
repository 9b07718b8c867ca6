// Package crd contains the CustomResourceDefinitions, generated from the markers in api/v1alpha1 by `make generate`.
// The operator's tests, the command line and the chart all use these files, so that there is only one schema.
package crd

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Files contains bases/*.yaml, one file per kind.
//
//go:embed bases/*.yaml
var Files embed.FS

// Definitions decodes all files, sorted by name.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(Files, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	out := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		data, err := Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &d); err != nil {
			return nil, fmt.Errorf("config/crd/%s: %w", name, err)
		}
		out = append(out, &d)
	}
	return out, nil
}
