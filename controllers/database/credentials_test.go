package database_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/ops/health"
	"github.com/geobench/geobench/internal/ops/identity"
	"github.com/geobench/geobench/internal/ops/identity/identitytest"
)

// Each pod has exactly the credentials that it needs. Nodes have one key to authenticate each other and one to
// authenticate clients, and workers have the key of their run. No pod has the operator's credentials.
func TestCredentialsOfPods(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeDatabase("e").Obj(), worldtest.MakeRun("r").Database("d").Workers(2).Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	w.UntilReady("e")
	node, worker := w.NodePod("d", "us-west-2", 0), w.WorkerPod("r", "us-west-2")
	ofNode := w.Folder(node, &node.Spec.Containers[0], identity.DefaultFolder)
	ofWorker := w.Folder(worker, &worker.Spec.Containers[0], identity.DefaultFolder)
	if got, want := slices.Sorted(maps.Keys(ofNode)), []string{"ca.crt", "clients.key", "peer.key", "tls.crt", "tls.key"}; !slices.Equal(got, want) {
		t.Errorf("a node has %q, want %q", got, want)
	}
	if got, want := slices.Sorted(maps.Keys(ofWorker)), []string{"ca.crt", "client.key", "tls.crt", "tls.key"}; !slices.Equal(got, want) {
		t.Errorf("a worker has %q, want %q", got, want)
	}
	run := w.GetRun("r")
	if !bytes.Equal(ofWorker[identity.FileClient], identity.ClientKey(ofNode[identity.FileClients], kube.Attempt(run))) {
		t.Error("the nodes would not let the worker in")
	}
	if got := w.PlayedNodes[node.Status.PodIP].Run; got != kube.Attempt(run) {
		t.Errorf("the nodes let the clients of %q in", got)
	}
	name := identity.ServerName(string(w.GetDatabase("d").UID))
	if !identity.Current(ofNode[identity.FileCert], ofNode[identity.FileSigners], name, w.FakeClock.Now()) {
		t.Error("the node's certificate is not that of its database")
	}
	other := w.Secret("e-credentials").Data
	for _, file := range []string{identity.FilePeer, identity.FileClients, identity.FileKey} {
		if bytes.Equal(ofNode[file], other[file]) {
			t.Errorf("two databases share %s", file)
		}
	}
	// The operator accepts these credentials and no others.
	clients := podclient.New(w.Credentials)
	for _, files := range []map[string][]byte{ofNode, ofWorker} {
		folder := t.TempDir()
		for file, b := range files {
			w.Must(os.WriteFile(filepath.Join(folder, file), b, 0o600))
		}
		addr := identitytest.Serve(t, identity.Folder(folder), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
		if _, err := clients.Nodes(w.GetDatabase("d").UID).Status(w.Ctx, addr); err != nil {
			t.Error(err)
		}
		if _, err := clients.Nodes(w.GetDatabase("e").UID).Status(w.Ctx, addr); err == nil {
			t.Error("a pod of one database passes for one of another")
		}
	}
	own := w.Secret(operatorca.SecretName).Data
	for _, files := range []map[string][]byte{ofNode, ofWorker} {
		for file, b := range files {
			for key, secret := range own {
				if key != "signers.crt" && bytes.Contains(b, secret) {
					t.Errorf("%s holds the operator's %s", file, key)
				}
			}
		}
	}
	pods := &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace)))
	for i := range pods.Items {
		for _, v := range pods.Items[i].Spec.Volumes {
			if v.Secret != nil && v.Secret.SecretName == operatorca.SecretName {
				t.Errorf("pod %s mounts the operator's Secret", pods.Items[i].Name)
			}
		}
	}
	if a, b := w.ReportKey(worker), w.ReportKey(w.WorkerPod("r", "ap-northeast-1")); bytes.Equal(a, b) || len(a) == 0 {
		t.Error("two workers share the key of their reports")
	}
}

// The kubelet and Prometheus, which have no credentials, use ports that accept no changes. The operator uses separate
// ports.
func TestPortsOfPods(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Emulation(v1alpha1.EmulationSidecar).Obj(), worldtest.MakeRun("r").Database("d").Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	jobs := &batchv1.JobList{}
	w.Must(w.Client.List(w.Ctx, jobs, client.InNamespace(w.Namespace)))
	for _, template := range []corev1.PodTemplateSpec{w.Get("d-us-west-2", &appsv1.StatefulSet{}).(*appsv1.StatefulSet).Spec.Template, jobs.Items[0].Spec.Template} {
		if got := template.Annotations[database.AnnotationScrapePort]; got != "7001" {
			t.Errorf("Prometheus scrapes port %s", got)
		}
	}
	for _, pod := range []*corev1.Pod{w.NodePod("d", "us-west-2", 0), w.WorkerPod("r", "us-west-2")} {
		ports := map[string]int32{}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			for _, p := range c.Ports {
				ports[p.Name] = p.ContainerPort
			}
			for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if probe == nil {
					continue
				}
				if port := probe.HTTPGet.Port.String(); port != "metrics" && port != "7003" {
					t.Errorf("kubelet asks port %s of container %s", port, c.Name)
				}
			}
		}
		delete(ports, "geobench")
		if want := map[string]int32{"metrics": 7001, "admin": 7004, "wan": 7003, "wan-admin": 7005}; !maps.Equal(ports, want) {
			t.Errorf("pod %s has ports %v, want %v", pod.Name, ports, want)
		}
		sidecar := &pod.Spec.InitContainers[0]
		if got, want := slices.Sorted(maps.Keys(w.Folder(pod, sidecar, identity.DefaultFolder))), []string{"ca.crt", "tls.crt", "tls.key"}; !slices.Equal(got, want) {
			t.Errorf("the sidecar of %s has %q, want %q", pod.Name, got, want)
		}
	}
}

// Certificates are renewed in place long before they expire, without a restart of any pod.
func TestCredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	db := w.UntilReady("d")
	name, first := identity.ServerName(string(db.UID)), w.Secret("d-credentials")
	pod, set := w.NodePod("d", "us-west-2", 0).UID, w.Get("d-us-west-2", &appsv1.StatefulSet{}).GetGeneration()
	for range 40 {
		w.FakeClock.Step(10 * 24 * time.Hour)
		w.Step()
		if now := w.Secret("d-credentials").Data; !identity.Current(now[identity.FileCert], w.Secret(operatorca.SecretName).Data["signers.crt"], name, w.FakeClock.Now()) {
			t.Fatalf("after %s the certificate is not good for long any more", w.FakeClock.Since(first.CreationTimestamp.Time))
		}
		operator, err := w.Credentials.TLS(w.Ctx, db.UID)
		w.Must(err)
		if left := operator.Certificates[0].Leaf.NotAfter.Sub(w.FakeClock.Now()); left < 29*24*time.Hour {
			t.Fatalf("after %s the operator's own certificate is good for %s", w.FakeClock.Since(first.CreationTimestamp.Time), left)
		}
	}
	now := w.Secret("d-credentials")
	if bytes.Equal(now.Data[identity.FileCert], first.Data[identity.FileCert]) || !bytes.Equal(now.Data[identity.FilePeer], first.Data[identity.FilePeer]) {
		t.Error("the certificate is the same after a year, or the keys are not")
	}
	if w.NodePod("d", "us-west-2", 0).UID != pod || w.Get("d-us-west-2", &appsv1.StatefulSet{}).GetGeneration() != set {
		t.Error("the pods were made anew")
	}
}

// A foreign Secret with the name of the database's Secret is not used, and the database reports it.
func TestCredentialsOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "d-credentials"}, Data: map[string][]byte{identity.FilePeer: []byte("known")}}
	w.Create(foreign, worldtest.MakeDatabase("d").Obj())
	w.Until("it is refused", func() bool {
		for _, c := range w.GetDatabase("d").Status.Conditions {
			if c.Type == v1alpha1.ConditionNodesReady && c.Reason == "NameTaken" {
				return strings.Contains(c.Message, "Secret d-credentials exists and does not belong to this object")
			}
		}
		return false
	})
	w.Must(w.Client.Delete(w.Ctx, foreign))
	w.UntilReady("d")
}

// If the operator's Secret is deleted, a running operator that still has its contents restores it unchanged. If it is
// replaced, all databases use the new Secret.
func TestAuthorityIsLost(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Obj())
	w.UntilReady("d")
	first := w.Secret(operatorca.SecretName)
	lose := func() {
		w.Must(w.Client.Delete(w.Ctx, w.Secret(operatorca.SecretName)))
	}
	lose()
	w.FakeClock.Step(operatorca.Fresh)
	w.Until("it is back", func() bool {
		err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: operatorca.SecretName}, &corev1.Secret{})
		return err == nil || !apierrors.IsNotFound(err)
	})
	if !bytes.Equal(w.Secret(operatorca.SecretName).Data["secret"], first.Data["secret"]) {
		t.Error("the operator has forgotten what it knew")
	}
	lose()
	w.RestartOperator()
	incarnation := w.GetDatabase("d").Status.Incarnation
	w.Until("the database was made anew", func() bool { return w.GetDatabase("d").Status.Incarnation != incarnation })
	w.UntilReady("d")
	if bytes.Equal(w.Secret(operatorca.SecretName).Data["secret"], first.Data["secret"]) {
		t.Error("there is no other authority")
	}
	if now := w.Secret("d-credentials").Data; !bytes.Equal(now[identity.FileSigners], w.Secret(operatorca.SecretName).Data["signers.crt"]) {
		t.Error("the database still has the old credentials")
	}
}

// The pods of a database have a separate ServiceAccount without an API token, and pull images with the pull secrets of
// the namespace.
func TestNodesHaveAnAccount(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "d-nodes"}}, worldtest.MakeDatabase("d").Obj())
	w.Until("the account of somebody else is in the way", func() bool {
		c := meta.FindStatusCondition(w.GetDatabase("d").Status.Conditions, v1alpha1.ConditionAccepted)
		return c != nil && c.Reason == health.NameTaken && strings.Contains(c.Message, "ServiceAccount d-nodes exists and does not belong")
	})
	if err := w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: "d-us-west-2"}, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("pods are made as somebody else: %v", err)
	}
	w.Must(w.Client.Delete(w.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "d-nodes", Namespace: w.Namespace}}))
	db := w.UntilReady("d")
	account := w.Get("d-nodes", &corev1.ServiceAccount{}).(*corev1.ServiceAccount)
	if !metav1.IsControlledBy(account, db) || ptr.Deref(account.AutomountServiceAccountToken, true) || len(account.ImagePullSecrets) != 1 || account.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("the account is %+v", account)
	}
	for _, region := range []string{"us-west-2", "ap-northeast-1"} {
		pod := w.Get("d-"+region, &appsv1.StatefulSet{}).(*appsv1.StatefulSet).Spec.Template.Spec
		if pod.ServiceAccountName != account.Name || ptr.Deref(pod.AutomountServiceAccountToken, true) {
			t.Errorf("the nodes of %s are ServiceAccount %q, with a token unless %v", region, pod.ServiceAccountName, pod.AutomountServiceAccountToken)
		}
	}

	w.Create(worldtest.MakeRun("r").Database("d").Obj())
	run := w.UntilStage("r", v1alpha1.StageMeasure)
	worker := w.Get(kube.WorkerName(run, "us-west-2"), &corev1.ServiceAccount{}).(*corev1.ServiceAccount)
	if ptr.Deref(worker.AutomountServiceAccountToken, true) || len(worker.ImagePullSecrets) != 1 || !metav1.IsControlledBy(worker, run) {
		t.Errorf("the account of workers is %+v", worker)
	}
	w.UntilOver("r")
	// Without the ServiceAccount no pod can be created, so the operator creates it again.
	w.Must(w.Client.Delete(w.Ctx, account))
	w.Must(w.Client.Delete(w.Ctx, w.NodePod("d", "us-west-2", 0), client.GracePeriodSeconds(0)))
	w.Until("the account is there again", func() bool {
		err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(account), &corev1.ServiceAccount{})
		return err == nil
	})
}
