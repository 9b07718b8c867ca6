package run

import (
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
)

// The API server accepts a run's status, however long its texts are.
func TestStatusFits(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	st := v1alpha1.BenchmarkRunStatus{
		Checks:     []v1alpha1.CheckStatus{{Name: long, Message: long}},
		Objectives: []v1alpha1.ObjectiveStatus{{Name: long, Measured: "231ms, 1000000 s with gaps in the emulated network left out " + long}},
	}
	for i := range 99 {
		st.Checks = append(st.Checks, v1alpha1.CheckStatus{Name: "passed", Passed: i < 98})
	}
	fit(&st)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	text, err := os.ReadFile("../../config/crd/bases/geobench.dev_benchmarkruns.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, crd)
	}
	if err != nil {
		t.Fatal(err)
	}
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if most := status.Properties["checks"].MaxItems; most == nil || int64(len(st.Checks)) != *most || st.Checks[0].Passed || st.Checks[1].Passed || !st.Checks[2].Passed {
		t.Errorf("%d checks, and the API takes %v: failed ones come first", len(st.Checks), most)
	}
	limit := func(list, field string) int {
		f := status.Properties[list].Items.Schema.Properties[field]
		if f.MaxLength == nil {
			t.Fatalf("status.%s[].%s has no limit", list, field)
		}
		return int(*f.MaxLength)
	}
	for field, got := range map[[2]string]string{
		{"checks", "name"}: st.Checks[0].Name, {"checks", "message"}: st.Checks[0].Message,
		{"objectives", "name"}: st.Objectives[0].Name, {"objectives", "measured"}: st.Objectives[0].Measured,
	} {
		if most := limit(field[0], field[1]); len(got) != most {
			t.Errorf("status.%s[].%s has %d bytes, want as many as may be, %d", field[0], field[1], len(got), most)
		}
	}
}
