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

// Pods are ordered by region, role and ordinal. firstRegions limits a role to the first regions.
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

// Programs address a pod with its own Service by the host name of the Service. Packets may come from either of the
// pod's host names.
func TestPodsWithServices(t *testing.T) {
	db := &v1alpha1.GeoDatabase{}
	db.Name, db.Namespace = "d", "n"
	db.Spec.Regions = []v1alpha1.Region{{Name: "us"}, {Name: "eu"}}
	db.Spec.Roles = []v1alpha1.Role{{Name: "obs", ServicePerPod: true}, {Name: "proxy", Lists: []v1alpha1.HostList{{Name: "OBS", Role: "obs", Format: "{host}:2881"}}}}
	for name, want := range map[string][]string{
		"d-eu-obs-0": {"d-eu-obs-0.d-eu-obs.n.svc", "d-eu-obs-0.n.svc"}, "d-eu-proxy-0": {"d-eu-proxy-0.d-eu-proxy.n.svc"},
	} {
		pods := PodsIn(db, "eu")
		p := &pods[slices.IndexFunc(pods, func(p Pod) bool { return p.Name == name })]
		if got := p.Hosts(); !slices.Equal(got, want) || p.ServiceOfItsOwn() != (len(want) > 1) {
			t.Errorf("%s is reached at %v, and has a Service of its own: %t; want %v", name, got, p.ServiceOfItsOwn(), want)
		}
	}
	want := []Variable{
		{"GEOBENCH_HOSTS", "d-us-proxy-0.d-us-proxy.n.svc,d-eu-proxy-0.d-eu-proxy.n.svc"}, {"GEOBENCH_HOSTS_OBS", "d-us-obs-0.n.svc,d-eu-obs-0.n.svc"},
		{"GEOBENCH_HOSTS_PROXY", "d-us-proxy-0.d-us-proxy.n.svc,d-eu-proxy-0.d-eu-proxy.n.svc"}, {"GEOBENCH_LIST_OBS", "d-us-obs-0.n.svc:2881,d-eu-obs-0.n.svc:2881"},
	}
	if got := HostVariables(db, &db.Spec.Roles[1]); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
