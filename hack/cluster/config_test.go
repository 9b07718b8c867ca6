package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func testCluster() *Cluster {
	return &Cluster{State: "/state", Cache: "/cache", Config: Config{Subnets: testSubnets}}
}

func TestConfigsAreRendered(t *testing.T) {
	files, err := renderConfigs(testCluster())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		got[f.name] = string(f.content)
		if strings.Contains(string(f.content), "{{") || strings.Contains(string(f.content), "<no value>") {
			t.Errorf("%s is not rendered:\n%s", f.name, f.content)
		}
	}
	for file, lines := range map[string][]string{
		"containerd.toml": {
			`state = "/state/run/containerd"`, `  address = "/state/run/containerd.sock"`, `  sandbox = "` + pauseImage + `"`,
			`  bin_dirs = ["` + cniPlugins + `"]`,
		},
		"kubelet.yaml": {
			"address: 10.231.0.2", "clusterDNS: [10.231.16.10]", "cgroupRoot: /geobench",
			"containerRuntimeEndpoint: unix:///state/run/containerd.sock", "clusterDomain: cluster.local",
		},
		"audit.yaml":      {`  users: ["system:serviceaccount:geobench-system:geobench-operator"]`, "- level: None"},
		"kube-proxy.yaml": {"clusterCIDR: 10.231.128.0/17", "mode: nftables", "hostnameOverride: " + nodeName},
	} {
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `$`).MatchString(got[file]) {
				t.Errorf("%s lacks the line %q:\n%s", file, line, got[file])
			}
		}
	}
	var network struct {
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal([]byte(got["cni/10-geobench.conflist"]), &network); err != nil {
		t.Fatal(err)
	}
	if subnet := network.Plugins[0].IPAM.Ranges[0][0].Subnet; subnet != "10.231.128.0/17" {
		t.Errorf("pods get addresses of %s", subnet)
	}
}

func TestEveryComponentIsDescribed(t *testing.T) {
	c := testCluster()
	for _, name := range componentNames {
		comp, err := c.component(name)
		if err != nil {
			t.Fatal(err)
		}
		if comp.Name != name || len(comp.Command) == 0 || !strings.HasPrefix(comp.Command[0], "/cache/bin/") || comp.Healthy == nil {
			t.Errorf("%s: %+v", name, comp)
		}
	}
	if _, err := c.component("kube-dns"); err == nil || !strings.Contains(err.Error(), "known are") {
		t.Errorf("error %v, want the known names", err)
	}
}

func TestDNSManifest(t *testing.T) {
	got, err := renderDNS(testSubnets)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"clusterIP: 10.231.16.10", "image: " + corednsImage, "kubernetes cluster.local in-addr.arpa"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("lacks %q", want)
		}
	}
}
