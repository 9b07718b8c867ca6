package database_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// A database in the wrong mesh is not ready, and reports the missing mesh.
func TestMeshIsMissing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		asked v1alpha1.Mesh
		there string
		says  []string
	}{
		"no sidecars": {asked: v1alpha1.MeshSidecar, says: []string{"spec.network.mesh is Sidecar", "d-us-west-2-0 is in no mesh", "sidecar injector", "leave mesh out"}},
		"no ambient":  {asked: v1alpha1.MeshAmbient, says: []string{"spec.network.mesh is Ambient", "is in no mesh", "profile ambient"}},
		"unasked":     {asked: v1alpha1.MeshNone, there: "1.30.1", says: nil}, // the pods opt out
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Mesh = tc.there
			w.Create(worldtest.MakeDatabase("d").Mesh(tc.asked).Obj())
			if tc.says == nil {
				if m := w.UntilReady("d").Status.Mesh; m == nil || *m != (v1alpha1.MeshStatus{Mode: v1alpha1.MeshNone}) {
					t.Errorf("it is in %+v", m)
				}
				return
			}
			w.Until("the mesh is missed", func() bool {
				c := meta.FindStatusCondition(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady)
				return c != nil && strings.Contains(c.Message, tc.says[0])
			})
			c := meta.FindStatusCondition(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionNodesReady)
			for _, part := range tc.says {
				if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, part) {
					t.Errorf("%s: %q does not say %q", c.Status, c.Message, part)
				}
			}
		})
	}
}

// Nodes and workers are in the mesh that the database requests, and the result names the mesh.
func TestRunInAMesh(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Mesh = "1.30.1"
	w.Create(worldtest.MakeDatabase("d").Mesh(v1alpha1.MeshSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	for name, template := range map[string]corev1.PodTemplateSpec{
		"nodes":   w.Get("d-us-west-2", &appsv1.StatefulSet{}).(*appsv1.StatefulSet).Spec.Template,
		"workers": w.Get(kube.WorkerName(w.GetRun("r"), "us-west-2"), &batchv1.Job{}).(*batchv1.Job).Spec.Template,
	} {
		if template.Labels["sidecar.istio.io/inject"] != "true" || template.Annotations["sidecar.istio.io/nativeSidecar"] != "true" ||
			template.Annotations["traffic.sidecar.istio.io/excludeInboundPorts"] != "7001,7003,7004,7005" {
			t.Errorf("%s have labels %v and annotations %v", name, template.Labels, template.Annotations)
		}
	}
	egress := false
	for _, rule := range w.Get("d-workers", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Spec.Egress {
		egress = egress || len(rule.Ports) == 1 && rule.Ports[0].Port.IntValue() == 15012
	}
	if !egress {
		t.Error("the proxies of workers do not reach their control plane")
	}
	w.UntilOver("r")
	doc := w.Document("r")
	want := v1alpha1.MeshStatus{Mode: v1alpha1.MeshSidecar, Version: "1.30.1", MutualTLS: v1alpha1.MutualTLSUnknown} // there are no PeerAuthentications here
	if doc.Verdict != v1alpha1.VerdictPassed || doc.Mesh == nil || *doc.Mesh != want || *w.GetDatabase("d").Status.Mesh != want {
		t.Errorf("%s %v: in %+v, and the database in %+v", doc.Verdict, doc.Reasons, doc.Mesh, w.GetDatabase("d").Status.Mesh)
	}

	// Pods measure the overhead of the mesh on a link, on a port that the mesh carries. The result and the status report
	// it.
	carried := slices.ContainsFunc(w.Get("d-us-west-2", &corev1.Service{}).(*corev1.Service).Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == 7002 && p.AppProtocol != nil && *p.AppProtocol == "tcp"
	})
	if !carried {
		t.Error("the Service has no port for what is measured through the mesh")
	}
	adds := v1alpha1.MeshLink{BelowRTTMicroseconds: 200, ThroughRTTMicroseconds: 1100, AddedRTTMicroseconds: 900, Samples: 50}
	if link := doc.Links[1]; link.Mesh == nil || *link.Mesh != adds {
		t.Errorf("the result says of the mesh on %s -> %s %+v", link.From, link.To, link.Mesh)
	}
	if link := w.GetDatabase("d").Status.Links[0]; link.Mesh == nil || *link.Mesh != adds {
		t.Errorf("the database says of the mesh on %s -> %s %+v", link.From, link.To, link.Mesh)
	}
	table := &strings.Builder{}
	if err := result.Table(table, doc, false); err != nil || !strings.Contains(table.String(), "MESH ADDS") || !strings.Contains(table.String(), "900us") {
		t.Errorf("the table does not say what the mesh adds: %v\n%s", err, table)
	}
}

// istioCounters returns the counters of the Istio proxy in a node's pod for connections to the nodes of all regions.
// Each connection has carried the given number of bytes in each direction.
func istioCounters(namespace, database, from string, regions []string, carried int64) string {
	text := &strings.Builder{}
	for _, to := range regions {
		for _, name := range []string{"received", "sent"} {
			fmt.Fprintf(text, "istio_tcp_%s_bytes_total{reporter=\"source\",source_workload=\"%s-%s\",source_workload_namespace=\"%s\",destination_workload=\"%s-%s\",destination_workload_namespace=\"%s\"} %d\n",
				name, database, from, namespace, database, to, namespace, carried)
		}
	}
	return text.String()
}

// The result contains the bytes between nodes as counted by the nodes and by their proxies, and reports any
// disagreement between the counts.
func TestBytesThroughAMesh(t *testing.T) {
	t.Parallel()
	regions := []string{"us-west-2", "ap-northeast-1"}
	const sent = 1_000_000 // over each of the four links
	for name, tc := range map[string]struct {
		// counts returns the number of bytes, per link and direction, that the proxy of a node in region reports. sent is the
		// number of bytes that the link actually carried.
		counts func(region string, sent int64) (int64, error)
		bytes  int64 // negative if not counted
		says   string
	}{
		"they agree":        {counts: func(_ string, sent int64) (int64, error) { return 77 + sent/2, nil }, bytes: 4 * sent},
		"they disagree":     {counts: func(_ string, sent int64) (int64, error) { return sent * 45 / 100, nil }, bytes: 3_600_000, says: "(-10.00%)"},
		"one is silent":     {counts: func(r string, _ int64) (int64, error) { return 0, errors.New(r + " refuses") }, bytes: -1, says: " refuses"},
		"one counts anew":   {counts: func(_ string, sent int64) (int64, error) { return 5000 - sent/1000, nil }, bytes: -1, says: "it shows less than before"},
		"it knows no bytes": {counts: nil, bytes: -1, says: "it has neither istio_tcp_*_bytes_total nor envoy_cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Mesh = "1.30.1"
			w.ProxyCounters = func(addr, path string) (string, error) {
				ip, port, _ := strings.Cut(addr, ":")
				w.Mu.Lock()
				defer w.Mu.Unlock()
				if port != "15090" || !strings.HasPrefix(path, "/stats/prometheus") {
					return "", fmt.Errorf("nobody listens at %s%s", addr, path)
				}
				if tc.counts == nil {
					return "envoy_cluster_upstream_cx_tx_bytes_total{cluster_name=\"xds-grpc\"} 5\n", nil
				}
				n := w.PlayedNodes[ip]
				region := n.Database.Topology.Regions[n.Database.Topology.RegionOf(n.ID)]
				carried, err := tc.counts(region, w.Bytes)
				return istioCounters(w.Namespace, "d", region, regions, carried), err
			}
			w.Create(worldtest.MakeDatabase("d").Mesh(v1alpha1.MeshSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			w.Bytes = sent
			w.UntilOver("r")
			doc := w.Document("r")
			if doc.Verdict != v1alpha1.VerdictPassed || len(doc.Witnesses) != 2 || *doc.Witnesses[0].Bytes != 4*sent {
				t.Fatalf("%s %v: %+v", doc.Verdict, doc.Reasons, doc.Witnesses)
			}
			m := doc.Witnesses[1]
			said := strings.Join(doc.Notes, "\n")
			if tc.bytes < 0 {
				said = m.NotCounted
			}
			if m.Name != result.WitnessMesh || (m.Bytes == nil) != (tc.bytes < 0) || m.Bytes != nil && (*m.Bytes != tc.bytes || len(m.Links) != 4) || !strings.Contains(said, tc.says) || (said == "") != (tc.says == "") {
				t.Errorf("%s, and the notes say %q", m.Say(), doc.Notes)
			}
		})
	}
}

// In an ambient mesh, the operator reads the counters of ztunnel on each machine of the nodes, if it may list the
// ztunnel pods.
func TestBytesThroughAnAmbientMesh(t *testing.T) {
	t.Parallel()
	const sent = 1_000_000
	root := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mesh.RootNamespace}}
	play := func(t *testing.T, prepare func(w *worldtest.World)) *result.Document {
		w := worldtest.NewWorld(t)
		w.Ambient = true
		w.ProxyCounters = func(addr, path string) (string, error) {
			if addr != "10.9.9.9:15020" || path != "/metrics" {
				return "", fmt.Errorf("nobody listens at %s%s", addr, path)
			}
			text := ""
			for _, region := range []string{"us-west-2", "ap-northeast-1"} {
				text += istioCounters(w.Namespace, "d", region, []string{"us-west-2", "ap-northeast-1"}, w.Bytes/2)
			}
			return text + "# EOF\n", nil
		}
		prepare(w)
		w.Create(worldtest.MakeDatabase("d").Mesh(v1alpha1.MeshAmbient).Obj(), worldtest.MakeRun("r").Database("d").Obj())
		w.UntilStage("r", v1alpha1.StageMeasure)
		w.Bytes = sent
		w.UntilOver("r")
		return w.Document("r")
	}
	unread := play(t, func(w *worldtest.World) {
		real := w.Client.(client.WithWatch)
		w.OperatorClient = func() client.Client {
			return interceptor.NewClient(real, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if o := (&client.ListOptions{}).ApplyOptions(opts); o.Namespace == mesh.RootNamespace {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
				}
				return c.List(ctx, list, opts...)
			}})
		}
		w.RestartOperator()
	})
	if m := unread.Witnesses[1]; m.Bytes != nil || !strings.Contains(m.NotCounted, "mesh.readZtunnels of the chart") {
		t.Errorf("an operator that may not look says %s", m.Say())
	}
	if m := play(t, func(*worldtest.World) {}).Witnesses[1]; m.Bytes != nil || !strings.Contains(m.NotCounted, "no pods of ztunnel") {
		t.Errorf("without ztunnel it says %s", m.Say())
	}
	doc := play(t, func(w *worldtest.World) {
		w.Must(client.IgnoreAlreadyExists(w.Client.Create(w.Ctx, root)))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ztunnel-a", Namespace: root.Name, Labels: map[string]string{"app": "ztunnel"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "istio-proxy", Image: "ztunnel"}}}}
		w.Must(w.Client.Create(w.Ctx, pod))
		t.Cleanup(func() { _ = w.Client.Delete(w.Ctx, pod, client.GracePeriodSeconds(0)) })
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.9.9.9", PodIPs: []corev1.PodIP{{IP: "10.9.9.9"}}}
		w.Must(w.Client.Status().Update(w.Ctx, pod))
	})
	if m := doc.Witnesses[1]; m.Bytes == nil || *m.Bytes != 4*sent || *m.OffPPM != 0 || len(doc.Notes) > 0 || doc.Mesh.Mode != v1alpha1.MeshAmbient {
		t.Errorf("%+v: %s, %q", doc.Mesh, m.Say(), doc.Notes)
	}
}

// Without a mesh the operator sends no requests for counters.
func TestBytesWithoutAMesh(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.ProxyCounters = func(addr, path string) (string, error) {
		t.Errorf("%s%s is asked", addr, path)
		return "", nil
	}
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilOver("r")
	if doc := w.Document("r"); doc.Witnesses != nil || doc.Notes != nil {
		t.Errorf("%+v, %q", doc.Witnesses, doc.Notes)
	}
}

// A run has not measured the declared mesh if a proxy stops during the run, or if the mesh is different at the end.
func TestMeshChanges(t *testing.T) {
	t.Parallel()
	pod := func(w *worldtest.World, name string) *corev1.Pod { return w.Get(name, &corev1.Pod{}).(*corev1.Pod) }
	for name, tc := range map[string]struct {
		happens func(w *worldtest.World)
		says    string
	}{
		"a node's proxy is started again": {func(w *worldtest.World) {
			p := pod(w, "d-us-west-2-0")
			p.Status.InitContainerStatuses[0].RestartCount++
			w.Must(w.Client.Status().Update(w.Ctx, p))
		}, "the mesh's proxy in pod d-us-west-2-0 was started again in stage Measure"},
		"one that is no native sidecar is started again": {func(w *worldtest.World) {
			p := pod(w, "d-us-west-2-0")
			proxy := p.Status.InitContainerStatuses[0]
			proxy.RestartCount++
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = nil, append(p.Status.ContainerStatuses, proxy)
			w.Must(w.Client.Status().Update(w.Ctx, p))
		}, "the mesh's proxy in pod d-us-west-2-0 was started again in stage Measure"},
		"a worker's proxy ends": {func(w *worldtest.World) {
			p := pod(w, kube.WorkerName(w.GetRun("r"), "us-west-2")+"-0-aaaaa")
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
			w.Must(w.Client.Status().Update(w.Ctx, p))
		}, "-0-aaaaa: its proxy ended (OOMKilled, exit code 137)"},
		"it has another version": {func(w *worldtest.World) {
			for _, name := range []string{"d-us-west-2-0", "d-ap-northeast-1-0"} {
				p := pod(w, name)
				p.Status.InitContainerStatuses[0].Image = "docker.io/istio/proxyv2:1.30.2"
				w.Must(w.Client.Status().Update(w.Ctx, p))
			}
		}, "the proxy of pod d-us-west-2-0 is 1.30.2"},
		"it is gone": {func(w *worldtest.World) {
			for _, name := range []string{"d-us-west-2-0", "d-ap-northeast-1-0"} {
				p := pod(w, name)
				p.Status.InitContainerStatuses = nil
				w.Must(w.Client.Status().Update(w.Ctx, p))
			}
		}, "pod d-us-west-2-0 is in no mesh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Mesh = "1.30.1"
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			tc.happens(w)
			run := w.UntilOver("r")
			c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionCompleted)
			if run.Status.Verdict != v1alpha1.VerdictInvalid || c == nil || c.Reason != result.ReasonMeshChanged || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%s: %+v", run.Status.Verdict, c)
			}
		})
	}
}
