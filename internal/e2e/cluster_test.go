//go:build e2e

// Package e2e tests Geobench on a real Kubernetes cluster. The operator is installed in the cluster of $KUBECONFIG
// (hack/e2e.sh does this). Tests apply manifests like a user, and inspect only state that a user can see.
package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
)

const operatorNamespace = "geobench-system"

// cluster is the cluster under test, restricted to one namespace.
type cluster struct {
	client.WithWatch
	namespace string
}

// TestMain enables the logs of the client libraries that access the cluster.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	os.Exit(m.Run())
}

// newCluster connects to the cluster and creates a namespace, which is deleted at the end of the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatalf("KUBECONFIG: %v (hack/e2e.sh sets it)", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
		// The strictest pod security standard must accept the operator's pods.
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := c.Delete(ctx, ns); err != nil {
			t.Errorf("namespace %s: %v", ns.Name, err)
		}
		k := &cluster{WithWatch: c}
		k.eventually(t, ctx, "namespace "+ns.Name+" is gone", func() (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(ns), &corev1.Namespace{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	})
	return &cluster{WithWatch: c, namespace: ns.Name}
}

// eventually calls is repeatedly until it returns true. It tolerates errors of the API server, which may be unavailable
// temporarily.
func (c *cluster) eventually(t *testing.T, ctx context.Context, what string, is func() (bool, error)) {
	t.Helper()
	var last error
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := is()
		if ok {
			return
		}
		last = err
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s (%v)", what, last)
		}
	}
}

// within returns a context with a timeout.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// apply creates the objects of a manifest with one or more documents.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	for _, doc := range strings.Split(manifest, "\n---\n") {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		o, err := c.Scheme().New(head.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		obj := o.(client.Object)
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Fatal(err)
		}
		obj.SetNamespace(c.namespace)
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("%s %s: %v", head.Kind, obj.GetName(), err)
		}
	}
}

func (c *cluster) run(ctx context.Context, name string) (*v1alpha1.BenchmarkRun, error) {
	r := &v1alpha1.BenchmarkRun{}
	return r, c.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, r)
}

// awaitStage waits until the run is in one of the stages, or has finished. It watches the run, so that it does not miss
// a short stage.
func (c *cluster) awaitStage(t *testing.T, name string, limit time.Duration, stages ...v1alpha1.Stage) *v1alpha1.BenchmarkRun {
	t.Helper()
	ctx := within(t, limit)
	var r *v1alpha1.BenchmarkRun
	is := func() bool { return slices.Contains(stages, r.Status.Stage) || r.Status.Finished() }
	c.eventually(t, ctx, fmt.Sprintf("run %s in stage %v", name, stages), func() (ok bool, err error) {
		if r, err = c.run(ctx, name); err != nil || is() {
			return err == nil, err
		}
		w, err := c.Watch(ctx, &v1alpha1.BenchmarkRunList{}, client.InNamespace(c.namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: r.ResourceVersion}})
		if err != nil {
			return false, err
		}
		defer w.Stop()
		for e := range w.ResultChan() {
			if seen, ok := e.Object.(*v1alpha1.BenchmarkRun); ok && seen.Name == name {
				if r = seen; is() {
					return true, nil
				}
			}
		}
		return false, fmt.Errorf("stage %s: %s", r.Status.Stage, r.Status.Message)
	})
	return r
}

// awaitEnd waits until the run has finished.
func (c *cluster) awaitEnd(t *testing.T, name string, limit time.Duration) *v1alpha1.BenchmarkRun {
	t.Helper()
	return c.awaitStage(t, name, limit, v1alpha1.StageCompleted, v1alpha1.StageFailed)
}

// mustPass fails the test unless the run passed. It tolerates a run that is Invalid only because this machine was busy
// with other work.
func (c *cluster) mustPass(t *testing.T, r *v1alpha1.BenchmarkRun) {
	t.Helper()
	if (r.Status.Reason == result.ReasonDriverBound || r.Status.Reason == result.ReasonNodeStarved) && busyMachine(c.document(t, r)) {
		t.Logf("run %s is Invalid: %s", r.Name, r.Status.Message)
		return
	}
	if r.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("run %s ended %s, verdict %q, %s: %s\nchecks %+v\nobjectives %+v", r.Name, r.Status.Stage, r.Status.Verdict,
			r.Status.Reason, r.Status.Message, r.Status.Checks, r.Status.Objectives)
	}
}

// busyMachine reports whether a result is Invalid only because this machine was busy with other work. also lists
// additional reasons to tolerate, such as wrong round trips if all nodes are in a single process.
func busyMachine(d *result.Document, also ...string) bool {
	busy := append(also, result.ReasonDriverBound, result.ReasonNodeStarved)
	return d.Verdict == v1alpha1.VerdictInvalid && !slices.ContainsFunc(d.Reasons, func(r result.Reason) bool {
		return !slices.Contains(busy, r.Reason)
	})
}

// document reads the result document of a run.
func (c *cluster) document(t *testing.T, r *v1alpha1.BenchmarkRun) *result.Document {
	t.Helper()
	if r.Status.ReportRef == nil {
		t.Fatalf("run %s has no reportRef", r.Name)
	}
	cm := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: r.Status.ReportRef.Name}, cm); err != nil {
		t.Fatal(err)
	}
	text := []byte(cm.Data["result.json"])
	if packed, ok := cm.BinaryData["result.json.gz"]; ok {
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	d := &result.Document{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// deleteRun deletes a run and waits until all its objects are gone.
func (c *cluster) deleteRun(t *testing.T, name string) {
	t.Helper()
	ctx := within(t, 90*time.Second)
	r := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}
	if err := c.Delete(ctx, r); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	c.eventually(t, ctx, "nothing of run "+name+" is left", func() (bool, error) {
		left, err := c.left(ctx, client.MatchingLabels{kube.LabelRun: name})
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		if err != nil {
			return false, err
		}
		_, err = c.run(ctx, name)
		return apierrors.IsNotFound(err), nil
	})
}

// left lists the remaining objects with these labels.
func (c *cluster) left(ctx context.Context, labels client.MatchingLabels) ([]string, error) {
	var names []string
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &batchv1.JobList{},
		&appsv1.StatefulSetList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		if err := c.List(ctx, list, client.InNamespace(c.namespace), labels); err != nil {
			return nil, err
		}
		gvk, err := c.GroupVersionKindFor(list)
		if err != nil {
			return nil, err
		}
		items, err := itemNames(list)
		if err != nil {
			return nil, err
		}
		for _, n := range items {
			names = append(names, strings.TrimSuffix(gvk.Kind, "List")+"/"+n)
		}
	}
	return names, nil
}

func itemNames(list client.ObjectList) ([]string, error) {
	b, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	var l struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, err
	}
	var names []string
	for _, i := range l.Items {
		names = append(names, i.Metadata.Name)
	}
	return names, nil
}

// kill deletes up to limit pods with these labels, without a grace period. It returns their names.
func (c *cluster) kill(t *testing.T, namespace string, limit int, labels client.MatchingLabels) []string {
	t.Helper()
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods, client.InNamespace(namespace), labels); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range pods.Items {
		if len(names) == limit {
			break
		}
		if err := c.Delete(t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		names = append(names, pods.Items[i].Name)
	}
	if len(names) == 0 {
		t.Fatalf("no pod in %s has the labels %v", namespace, labels)
	}
	return names
}

// killOperator kills the operator's pods.
func (c *cluster) killOperator(t *testing.T) {
	t.Helper()
	c.kill(t, operatorNamespace, 10, client.MatchingLabels{"app.kubernetes.io/name": "geobench", "app.kubernetes.io/component": "operator"})
}

// geobench runs the command geobench with these arguments and returns its output.
func geobench(t *testing.T, args ...string) []byte {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin/geobench"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if d, wrong := result.Parse(out); err != nil && wrong == nil && busyMachine(d, result.ReasonNetworkNotVerified) {
		t.Logf("geobench %s: Invalid: %s", args[0], d.Reasons[0].Message)
		return out
	}
	if err != nil {
		if d, wrong := result.Parse(out); wrong == nil {
			for _, r := range d.Reasons {
				fmt.Fprintf(&stderr, "%s: %s\n", r.Reason, r.Message)
			}
		}
		t.Fatalf("geobench %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}
