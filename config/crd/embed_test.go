package crd_test

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/geobench/geobench/config/crd"
)

// The API server rejects a definition whose CEL rules do not compile or are too expensive. This test makes the same
// checks.
func TestDefinitionsAreAcceptable(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apiextensions.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	defs, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	if len(defs) != 4 {
		t.Fatalf("%d definitions, want 4", len(defs))
	}
	for _, d := range defs {
		t.Run(d.Spec.Names.Kind, func(t *testing.T) {
			scheme.Default(d)
			d.Status.StoredVersions = []string{"v1alpha1"}
			var internal apiextensions.CustomResourceDefinition
			if err := scheme.Convert(d, &internal, nil); err != nil {
				t.Fatal(err)
			}
			for _, e := range validation.ValidateCustomResourceDefinition(t.Context(), &internal) {
				t.Error(e)
			}
		})
	}
}
