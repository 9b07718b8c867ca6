package manifest

import (
	"encoding/json"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/geobench/geobench/config/crd"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
)

// workloadSchema is the schema of a BenchmarkRun, reduced to spec.workload. Nodes compile it, and the whole schema
// would add to their measured memory.
var workloadSchema = sync.OnceValues(func() (*kindSchema, error) {
	const kind = "BenchmarkRun"
	defs, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	for _, d := range defs {
		if d.Spec.Names.Kind != kind {
			continue
		}
		root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		spec := root.Properties["spec"]
		root.Properties["spec"] = apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: []string{"workload"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"workload": spec.Properties["workload"]},
		}
		delete(root.Properties, "status")
		return newKindSchema(d)
	}
	return nil, fmt.Errorf("there is no definition of kind %s", kind)
})

// ParseWorkload parses the spec.workload of a BenchmarkRun from a sender that may have bypassed the API server, and
// creates the workload. It refuses everything that the API server refuses, before it allocates memory for the workload.
// Errors name the field, its value and its bound.
func ParseWorkload(spec json.RawMessage, seed uint64, t *geo.Topology) (workload.Workload, error) {
	schema, err := workloadSchema()
	if err != nil {
		return nil, err
	}
	var w any
	if err := utiljson.Unmarshal(spec, &w); err != nil {
		return nil, fmt.Errorf("spec.workload: %w", err)
	}
	within := map[string]any{"workload": w}
	// The schema requires a name, which has no meaning here.
	if ps := schema.admit(map[string]any{"metadata": map[string]any{"name": "any"}, "spec": within}); len(ps) > 0 {
		return nil, ps
	}
	complete, err := json.Marshal(within["workload"])
	if err != nil {
		return nil, err
	}
	return catalog.Parse(complete, seed, t)
}
