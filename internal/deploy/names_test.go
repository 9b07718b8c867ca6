package deploy

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
)

func TestNamesAreCut(t *testing.T) {
	if a, b := JoinName(20, "aaaaaaaaaaaaaaaaaaaaaaaa", "b"), JoinName(20, "aaaaaaaaaaaaaaaaaaaaaaaa", "c"); a == b || len(a) > 20 {
		t.Errorf("long names %s and %s", a, b)
	}
	longest := SetName(strings.Repeat("d", 27), strings.Repeat("r", 24), "tserver")
	if errs := validation.IsDNS1035Label(longest); len(errs) > 0 || len(longest) > maxSetName || longest == SetName(strings.Repeat("d", 27), strings.Repeat("r", 24), "master") {
		t.Errorf("%s: %v", longest, errs)
	}
	if a, b := SetName("a", "b-c", ""), SetName("a", "b", "c"); a != b {
		t.Errorf("%s and %s differ: a check for names that meet would find nothing", a, b)
	}
}

// Pods come in the order of regions, roles and ordinals, and a role may be in the first regions only.
func TestPodsOfRoles(t *testing.T) {
	db := &v1alpha1.GeoDatabase{}
	db.Name, db.Namespace = "d", "n"
	db.Spec.Regions = []v1alpha1.Region{{Name: "us"}, {Name: "eu"}}
	db.Spec.Roles = []v1alpha1.Role{
		{Name: "pd", FirstRegions: ptr.To[int32](1), PerRegion: 1},
		{Name: "tikv", PerRegion: 2, Lists: []v1alpha1.HostList{{Name: "PEERS", Role: "pd", Format: "{pod}=http://{host}:2380", Separator: ";"}, {Name: "OWN", Format: "{region}/{ordinal}"}}},
	}
	var names []string
	for _, p := range Pods(db) {
		names = append(names, p.Name)
	}
	if want := []string{"d-us-pd-0", "d-us-tikv-0", "d-us-tikv-1", "d-eu-tikv-0", "d-eu-tikv-1"}; !slices.Equal(names, want) || MostPods(db) != 3 {
		t.Errorf("%v, at most %d; want %v", names, MostPods(db), want)
	}
	want := []Variable{
		{"GEOBENCH_HOSTS", "d-us-tikv-0.d-us-tikv.n.svc,d-us-tikv-1.d-us-tikv.n.svc,d-eu-tikv-0.d-eu-tikv.n.svc,d-eu-tikv-1.d-eu-tikv.n.svc"},
		{"GEOBENCH_HOSTS_PD", "d-us-pd-0.d-us-pd.n.svc"},
		{"GEOBENCH_HOSTS_TIKV", "d-us-tikv-0.d-us-tikv.n.svc,d-us-tikv-1.d-us-tikv.n.svc,d-eu-tikv-0.d-eu-tikv.n.svc,d-eu-tikv-1.d-eu-tikv.n.svc"},
		{"GEOBENCH_LIST_PEERS", "d-us-pd-0=http://d-us-pd-0.d-us-pd.n.svc:2380"},
		{"GEOBENCH_LIST_OWN", "us/0,us/1,eu/0,eu/1"},
	}
	if got := HostVariables(db, &db.Spec.Roles[1]); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
