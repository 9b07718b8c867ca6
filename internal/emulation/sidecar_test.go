package emulation

import (
	"context"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneConfigMap is a cluster that has a ConfigMap and nothing else.
type oneConfigMap struct {
	Cluster
	cm *corev1.ConfigMap
}

func (c oneConfigMap) Get(_ context.Context, _, _ string, into Object) error {
	c.cm.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

// Whoever finds files of sidecars that the operator has not written reads which, and where.
func TestObserveNamesTheFileThatIsDifferent(t *testing.T) {
	n := &Network{Namespace: "lab", Database: "d", Regions: []string{"eu"}, Links: [][]Link{{{}}}}
	s := &Sidecar{
		ConfigName: func(*Network, string) string { return "d-network-eu" },
		Hosts: func(*Network, string) (map[string]string, string) {
			return map[string]string{"d-eu-0": "d-eu-0.d", "d-eu-1": "d-eu-1.d"}, "workers"
		},
	}
	files, err := s.configs(n, "eu", 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(data map[string]string)
		says   string
	}{
		"as the operator wrote them": {func(map[string]string) {}, ""},
		"one is edited":              {func(data map[string]string) { data["d-eu-1.json"] += " " }, "file d-eu-1.json is not what"},
		"one is gone":                {func(data map[string]string) { delete(data, "config.json") }, "file config.json is not what"},
		"one is empty and too many":  {func(data map[string]string) { data["other.json"] = "" }, "file other.json is not what"},
	} {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(files)
			tc.change(data)
			s.Cluster = oneConfigMap{cm: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "d-network-eu", Annotations: map[string]string{annotationGeneration: "7"}}, Data: data,
			}}
			state, err := s.Observe(context.Background(), n)
			if err != nil {
				t.Fatal(err)
			}
			if tc.says == "" && !state.Injected || tc.says != "" && (state.Injected || !strings.Contains(state.Message, "ConfigMap d-network-eu: "+tc.says) || !strings.Contains(state.Message, "generation 7")) {
				t.Errorf("%+v", state)
			}
		})
	}
}
