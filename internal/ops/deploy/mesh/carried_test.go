package mesh_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// The files have the formats of Istio's proxies, of ztunnel and of a plain Envoy. The files for Istio's proxies and for
// ztunnel were written according to Istio's metrics reference, not recorded from running proxies.
func TestReadCarried(t *testing.T) {
	n := &mesh.Nodes{Namespace: "lab", Regions: map[string]string{"d-us-west-2": "us-west-2", "d-eu-west-1": "eu-west-1"}, Ports: []int32{7000}}
	for name, tc := range map[string]struct {
		file, own string
		want      mesh.Carried
	}{
		"sidecar": {"sidecar.txt", "us-west-2", mesh.Carried{Counters: mesh.CountersIstio, Links: []mesh.CarriedLink{
			{From: "eu-west-1", To: "us-west-2", Bytes: 3000}, {From: "us-west-2", To: "eu-west-1", Bytes: 1_000_200},
		}}},
		"ztunnel": {"ztunnel.txt", "", mesh.Carried{Counters: mesh.CountersIstio, Links: []mesh.CarriedLink{
			{From: "eu-west-1", To: "us-west-2", Bytes: 40_060}, {From: "us-west-2", To: "eu-west-1", Bytes: 500_000},
		}}},
		"Envoy": {"envoy.txt", "us-west-2", mesh.Carried{Counters: mesh.CountersEnvoy, Links: []mesh.CarriedLink{
			{From: "", To: "us-west-2", Bytes: 20}, {From: "us-west-2", To: "", Bytes: 123_456},
		}}},
		"Envoy that istiod configures": {"envoy-of-istiod.txt", "us-west-2", mesh.Carried{Counters: mesh.CountersEnvoy, Links: []mesh.CarriedLink{
			{From: "eu-west-1", To: "us-west-2", Bytes: 20}, {From: "us-west-2", To: "eu-west-1", Bytes: 123_456}, {From: "us-west-2", To: "us-west-2", Bytes: 5},
		}}},
	} {
		text, err := os.Open(filepath.Join("testdata", tc.file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := mesh.ReadCarried(text, n, tc.own)
		_ = text.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, *got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Text that no proxy of a node would write, such as empty text, is rejected.
func TestReadCarriedRefuses(t *testing.T) {
	n := &mesh.Nodes{Namespace: "lab", Regions: map[string]string{"d-us-west-2": "us-west-2"}, Ports: []int32{7000}}
	for name, tc := range map[string]struct{ text, says string }{
		"nothing":         {"", "neither"},
		"other clusters":  {`envoy_cluster_upstream_cx_tx_bytes_total{envoy_cluster_name="outbound|5432||nodes"} 7`, "neither"},
		"not a number":    {`istio_tcp_sent_bytes_total{reporter="source"} many`, "many"},
		"below nothing":   {`istio_tcp_sent_bytes_total{reporter="source"} -1`, "no number of bytes"},
		"an endless line": {strings.Repeat("x", 1<<20), "token too long"},
	} {
		if got, err := mesh.ReadCarried(strings.NewReader(tc.text), n, "us-west-2"); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %+v, %v", name, got, err)
		} else if (tc.says == "neither") != errors.Is(err, mesh.ErrUncounted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// If a node has had no connections to other nodes, its proxy has counters, but has carried nothing.
	got, err := mesh.ReadCarried(strings.NewReader(`istio_tcp_sent_bytes_total{reporter="destination",source_workload="x"} 5`), n, "us-west-2")
	if err != nil || len(got.Links) > 0 || got.Counters != mesh.CountersIstio {
		t.Errorf("%+v, %v", got, err)
	}
}
