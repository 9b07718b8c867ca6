package result

import (
	"slices"
	"strings"
	"testing"
)

func podsOf(cpu, digest string, names ...string) []Pods {
	var out []Pods
	for _, name := range names {
		out = append(out, Pods{Role: "node", Names: []string{name}, Containers: []PodContainer{{Name: "node", Image: "db:1", Digest: digest, Limits: map[string]string{"cpu": cpu}}}})
	}
	return out
}

func TestGroupPods(t *testing.T) {
	groups := GroupPods(slices.Concat(podsOf("1", "sha256:1", "c", "a"), podsOf("2", "sha256:1", "b"), podsOf("1", "sha256:1", "d")))
	if len(groups) != 2 || !slices.Equal(groups[0].Names, []string{"a", "c", "d"}) || !slices.Equal(groups[1].Names, []string{"b"}) {
		t.Errorf("%+v", groups)
	}
}

// TestCompareTellsOfEachResult checks that every result of a side is compared, not only the first result.
func TestCompareTellsOfEachResult(t *testing.T) {
	of := func(cpu, fsync string) *Document {
		return &Document{Pods: GroupPods(podsOf(cpu, "sha256:1", "a")),
			Target: &Target{Servers: []Server{{Address: "a", Settings: map[string]Setting{"fsync": {Value: fsync}}}}}}
	}
	for name, c := range map[string]struct {
		as, bs []*Document
		want   string
	}{
		"the second of the first side":  {[]*Document{of("1", "on"), of("500m", "on")}, []*Document{of("1", "on")}, "the CPU limit of container node of node pods differs: 1 and 500m"},
		"the second of the second side": {[]*Document{of("1", "on")}, []*Document{of("1", "on"), of("1", "off")}, "setting fsync of the server differs: on and off"},
	} {
		if got := warnings(c.as, c.bs); !slices.Contains(got, c.want) {
			t.Errorf("%s: %q, without %q", name, got, c.want)
		}
	}
	same := []*Document{of("1", "on"), of("1", "on")}
	if got := strings.Join(warnings(same, same), "; "); strings.Contains(got, "differ") {
		t.Errorf("equal results differ: %q", got)
	}
}

func TestCompareTellsOfOtherPods(t *testing.T) {
	a := &Document{Pods: GroupPods(podsOf("1", "sha256:1", "a", "b"))}
	for name, tt := range map[string]struct {
		b    *Document
		says string
	}{
		"the same":          {&Document{Pods: GroupPods(podsOf("1", "sha256:1", "c"))}, ""},
		"no pods":           {&Document{}, ""},
		"another CPU limit": {&Document{Pods: GroupPods(podsOf("500m", "sha256:1", "c"))}, "the CPU limit of container node of node pods differs: 1 and 500m"},
		"another image":     {&Document{Pods: GroupPods(podsOf("1", "sha256:2", "c"))}, "the image of container node of node pods differs: sha256:1 and sha256:2"},
	} {
		if got := strings.Join(podsDiffer(a, tt.b), "; "); got != tt.says {
			t.Errorf("%s: %q, want %q", name, got, tt.says)
		}
	}
}
