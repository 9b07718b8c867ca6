package emulation

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/internal/net/wan"
)

// oneConfigMap is a cluster that contains a single ConfigMap.
type oneConfigMap struct {
	Cluster
	cm *corev1.ConfigMap
}

func (c oneConfigMap) Get(_ context.Context, _, _ string, into Object) error {
	c.cm.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

// If a file in the ConfigMap was not written by the operator, the message names this file and the ConfigMap.
func TestObserveNamesTheFileThatIsDifferent(t *testing.T) {
	n := &Network{Namespace: "lab", Database: "d", Regions: []string{"eu"}, Links: [][]Link{{{}}}}
	s := &Sidecar{
		ConfigName: func(*Network, string) string { return "d-network-eu" },
		Hosts: func(*Network, string) (map[string][]string, string) {
			return map[string][]string{"d-eu-0": {"d-eu-0.d"}, "d-eu-1": {"d-eu-1.d"}}, "workers"
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

// A pod with its own Service has two hosts. Other pods delay and cut off packets from both hosts. The file of the pod
// itself contains neither host.
func TestPodsWithTwoHosts(t *testing.T) {
	n := &Network{Namespace: "lab", Database: "d", Regions: []string{"eu", "us"}, Links: [][]Link{{{}, {}}, {{}, {}}}}
	n.Phases = []Phase{{From: time.Unix(1, 0), Links: n.Links, Cuts: []Cut{{From: []string{"d-us-0"}, To: []string{"d-eu-0"}}}}}
	s := &Sidecar{
		ConfigName: func(_ *Network, region string) string { return "d-network-" + region },
		Hosts: func(_ *Network, region string) (map[string][]string, string) {
			return map[string][]string{"d-" + region + "-0": {"d-" + region + "-0.d", "d-" + region + "-0"}}, "workers-" + region
		},
	}
	c, err := s.Config(n, "eu", "d-eu-0")
	if err != nil {
		t.Fatal(err)
	}
	var peers []string
	for _, p := range c.Peers {
		peers = append(peers, p.Region+" "+p.Host)
	}
	if want := []string{"eu workers-eu", "us d-us-0.d", "us d-us-0", "us workers-us"}; !slices.Equal(peers, want) {
		t.Errorf("peers %q, want %q", peers, want)
	}
	if cut, want := c.Phases[0].Cut, []string{"d-us-0.d", "d-us-0"}; !slices.Equal(cut, want) {
		t.Errorf("cut off from %q, want %q", cut, want)
	}
}

// wide returns a network with the given numbers of regions and of nodes per region, and a Sidecar for it. All names
// have the maximum length.
func wide(regions, nodes int) (*Network, *Sidecar) {
	n := &Network{Namespace: strings.Repeat("n", 63), Database: strings.Repeat("d", 27)}
	for r := range regions {
		n.Regions = append(n.Regions, fmt.Sprintf("%s-%02d", strings.Repeat("r", 21), r))
		links := make([]Link, regions)
		for to := range links {
			links[to].Delay, links[to].Jitter, links[to].LossPPM = time.Duration(50+r+to)*time.Millisecond, time.Millisecond, 1000
		}
		n.Links = append(n.Links, links)
	}
	return n, &Sidecar{
		ConfigName: func(_ *Network, region string) string { return "network-" + region },
		Hosts: func(n *Network, region string) (map[string][]string, string) {
			set, hosts := n.Database+"-"+region, map[string][]string{}
			for ordinal := range nodes {
				pod := fmt.Sprintf("%s-%d", set, ordinal)
				hosts[pod] = []string{fmt.Sprintf("%s.%s.%s.svc", pod, set, n.Namespace)}
			}
			return hosts, fmt.Sprintf("%s-generators.%s.svc", set, n.Namespace)
		},
	}
}

// lasting adds phases to the network. In each phase, all links change, and one node of the first region is cut off from
// the nodes of the other regions.
func lasting(n *Network, s *Sidecar, phases int) {
	for i := range phases {
		p := Phase{From: time.Date(2026, 1, 2, 3, 4, i, 123456789, time.UTC), Cuts: []Cut{{}}}
		for _, row := range n.Links {
			links := slices.Clone(row)
			for to := range links {
				links[to].Delay += time.Duration(i) * time.Microsecond
			}
			p.Links = append(p.Links, links)
		}
		for r, region := range n.Regions {
			nodes, _ := s.Hosts(n, region)
			pods := slices.SortedFunc(maps.Keys(nodes), inOrder)
			if r == 0 {
				p.Cuts[0].To = pods[:1]
				continue
			}
			p.Cuts[0].From = append(p.Cuts[0].From, pods...)
		}
		n.Phases = append(n.Phases, p)
	}
}

// Either the sidecars' files fit into one ConfigMap per region, or Check returns an error that states how many nodes
// would fit.
func TestFilesThatDoNotFitAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		regions, nodes, phases int
		says                   string
	}{
		"45 nodes in each of 5 regions":    {regions: 5, nodes: 45},
		"256 nodes in each of 5 regions":   {regions: 5, nodes: 256},
		"48 nodes in each of 32 regions":   {regions: 32, nodes: 48},
		"20 nodes and 8 faults":            {regions: 5, nodes: 20, phases: 16},
		"more nodes than a sidecar knows":  {regions: 8, nodes: 512, says: "spec.partitionsPerRegion: 4096 nodes, and the load generators of 8 regions, are more than the 4096 peers"},
		"more text than a ConfigMap holds": {regions: 31, nodes: 128, says: "per region would fit"},
		"more faults than fit":             {regions: 5, nodes: 100, phases: 64, says: "per region would fit"},
	} {
		t.Run(name, func(t *testing.T) {
			n, s := wide(tc.regions, tc.nodes)
			lasting(n, s, tc.phases)
			files, err := s.configs(n, n.Regions[0], math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, file := range files {
				size += len(file)
			}
			err = s.Check(n)
			t.Logf("%d bytes in %d files: %v", size, len(files), err)
			switch {
			case tc.says == "" && (err != nil || size > corev1.MaxSecretSize):
				t.Errorf("%d bytes, %v; want that they fit", size, err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("%v; want %q", err, tc.says)
			}
			if err == nil || !strings.Contains(err.Error(), "would fit") {
				return
			}
			// The suggested number of nodes per region fits, but slightly more than twice this number does not.
			_, after, _ := strings.Cut(err.Error(), "holds 1048576: ")
			fits, err := strconv.Atoi(strings.Fields(after)[0])
			if err != nil {
				t.Fatal(err)
			}
			for nodes, want := range map[int]bool{fits: true, 2*fits + 1: false} {
				n, s := wide(tc.regions, nodes)
				lasting(n, s, tc.phases)
				if err := s.Check(n); (err == nil) != want {
					t.Errorf("%d nodes: %v", nodes, err)
				}
			}
		})
	}
}

// The file of a pod lists all other pods as peers. In each phase, the pod is cut off only from the pods that the phase
// names.
func TestPhasesCutOffPods(t *testing.T) {
	n, s := wide(2, 12)
	lasting(n, s, 2)
	first, second := n.Database+"-"+n.Regions[0], n.Database+"-"+n.Regions[1]
	host := func(set string, ordinal string) string {
		return fmt.Sprintf("%s-%s.%s.%s.svc", set, ordinal, set, n.Namespace)
	}
	for pod, cut := range map[string]int{first + "-0": 12, first + "-1": 0, "a load generator": 0} {
		c, err := s.Config(n, n.Regions[0], pod)
		if err != nil {
			t.Fatal(err)
		}
		others := 2 * 13
		if strings.HasPrefix(pod, first) {
			others--
		}
		if len(c.Peers) != others || slices.ContainsFunc(c.Peers, func(p wan.Peer) bool { return strings.HasPrefix(p.Host, pod+".") }) || c.Peers[others-1].Host != second+"-generators."+n.Namespace+".svc" {
			t.Errorf("%s: peers %+v", pod, c.Peers)
		}
		if len(c.Phases) != 2 || len(c.Phases[0].Cut) != cut || cut > 0 && c.Phases[0].Cut[11] != host(second, "11") {
			t.Errorf("%s: phases %+v", pod, c.Phases)
		}
	}
	files, err := s.configs(n, n.Regions[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{first + "-0.json", first + "-1.json"} {
		if text := files[file]; !strings.Contains(text, `"`+host(second, "[0-11]")+`"`) || strings.Contains(text, host(second, "7")) {
			t.Errorf("%s lists every host:\n%s", file, text)
		}
	}
}
