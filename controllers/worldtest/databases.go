package worldtest

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/deploy"
)

func (w *World) PatchDatabase(name string, change func(*v1alpha1.GeoDatabase)) {
	w.T.Helper()
	db := w.GetDatabase(name)
	base := db.DeepCopy()
	change(db)
	w.Must(w.Client.Patch(w.Ctx, db, client.MergeFrom(base)))
}

// HasEvent reports whether an event with this reason was emitted since the last call. It discards all events so far.
func (w *World) HasEvent(reason string) bool {
	found := false
	for {
		select {
		case e := <-w.Recorder.Events:
			found = found || strings.Contains(e, " "+reason+" ")
		default:
			return found
		}
	}
}

// AsStored returns an object as the API server stores it.
func (w *World) AsStored(kind, name string) *unstructured.Unstructured {
	w.T.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	w.Get(name, u)
	return u
}

func (w *World) PatchSpec(obj client.Object, change func()) {
	w.T.Helper()
	base := obj.DeepCopyObject().(client.Object)
	change()
	w.Must(w.Client.Patch(w.Ctx, obj, client.MergeFrom(base)))
}

// UntilServing steps until the database is ready and its network is verified.
func (w *World) UntilServing(name string) *v1alpha1.GeoDatabase {
	w.T.Helper()
	w.Until("database "+name+" serves", func() bool {
		return ConditionIs(w.GetDatabase(name).Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue)
	})
	return w.GetDatabase(name)
}

// Steps returns the existing Jobs of spec.init by step name.
func (w *World) Steps() map[string]*batchv1.Job {
	w.T.Helper()
	jobs, out := &batchv1.JobList{}, map[string]*batchv1.Job{}
	w.Must(w.Client.List(w.Ctx, jobs, client.InNamespace(w.Namespace), client.HasLabels{kube.LabelInit}))
	for i := range jobs.Items {
		if job := &jobs.Items[i]; job.DeletionTimestamp == nil {
			out[job.Labels[kube.LabelInit]] = job
		}
	}
	return out
}

// RunsOutOfMemory kills the container of the first node in the second region; the container restarts in the same pod.
func (w *World) RunsOutOfMemory() {
	w.T.Helper()
	pod := w.NodePod("d", "ap-northeast-1", 0)
	c := &pod.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	w.Must(w.Client.Status().Update(w.Ctx, pod))
}

// Mounts creates a ConfigMap with the configuration of the program, and mounts it into the database's pods.
func (w *World) Mounts(text string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"db.conf": text}}
	w.Create(cm)
	return cm
}

func (w *World) Rewrite(change func(cm *corev1.ConfigMap)) {
	w.T.Helper()
	cm := w.Get("c", &corev1.ConfigMap{}).(*corev1.ConfigMap)
	change(cm)
	w.Must(w.Client.Update(w.Ctx, cm))
}

func (w *World) Secret(name string) *corev1.Secret {
	w.T.Helper()
	return w.Get(name, &corev1.Secret{}).(*corev1.Secret)
}

// Folder returns the files in a folder of a container, as the kubelet would mount them.
func (w *World) Folder(pod *corev1.Pod, c *corev1.Container, path string) map[string][]byte {
	w.T.Helper()
	out := map[string][]byte{}
	for _, m := range c.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if m.MountPath != path || v.Name != m.Name || v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				secret := w.Secret(s.Secret.Name)
				for _, item := range s.Secret.Items {
					if len(secret.Data[item.Key]) == 0 {
						w.T.Errorf("Secret %s has no %s, which pod %s mounts", secret.Name, item.Key, pod.Name)
					}
					out[item.Path] = secret.Data[item.Key]
				}
			}
		}
	}
	return out
}

// NodesOf returns the description of a database that the steward of its only run received.
func (w *World) NodesOf(name string) *deploy.Database {
	w.T.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for _, n := range w.PlayedNodes {
		if n.steward && n.Database.Name == name {
			return &n.Database
		}
	}
	w.T.Fatalf("database %s has no steward", name)
	return nil
}
