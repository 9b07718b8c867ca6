package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// A database of pods with a client has one steward per run. The steward is a Job with one pod in the region that the
// clients connect to. It loads and audits the data, which nodes of Geobench's own engines do themselves (package
// dataagent). It exists from stage Load on.

// noteTarget is the key of the steward's description of the database in the run's snapshot ConfigMap.
const noteTarget = "target.json.gz"

// stewarded reports whether the database has a steward.
func (s *scope) stewarded() bool { return s.current.Database.Client != nil }

// buildSteward returns the objects of a run's steward: its configuration and its Job.
func buildSteward(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, region *v1alpha1.Region, w *deploy.Worker, image string, lifetime time.Duration) (*corev1.ConfigMap, *batchv1.Job, error) {
	config, err := json.Marshal(w)
	if err != nil {
		return nil, nil, err
	}
	meta := metav1.ObjectMeta{Name: kube.StewardName(run), Namespace: run.Namespace, Labels: regionRunLabels(run, region.Name, kube.RoleWorker)}
	resources := database.OwnResources(corev1.ResourceRequirements{})
	pod := database.RegionPod(db, region, meta.Name, database.CredentialsVolume(db, database.ServerFiles), database.OwnContainer(corev1.Container{
		Name:      "steward",
		Image:     image,
		Args:      []string{"steward", "--config", database.ConfigFolder + "/" + WorkerKey},
		Env:       append(database.GoRuntime(resources), database.FromField("POD_NAME", "metadata.name")),
		Ports:     []corev1.ContainerPort{{Name: "admin", ContainerPort: ports.Admin, Protocol: corev1.ProtocolTCP}},
		Resources: resources,
	}))
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.ServiceAccountName = meta.Name
	addSecret(&pod, w.Database.Client)
	podMeta := metav1.ObjectMeta{Labels: meta.Labels}
	database.Meshed(db, &podMeta)
	return &corev1.ConfigMap{ObjectMeta: meta, Immutable: ptr.To(true), Data: map[string]string{WorkerKey: string(config)}},
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			BackoffLimit:          ptr.To[int32](0),
			ActiveDeadlineSeconds: ptr.To(int64(max(lifetime, time.Second) / time.Second)),
			PodReplacementPolicy:  ptr.To(batchv1.Failed),
			Completions:           ptr.To[int32](1),
			Parallelism:           ptr.To[int32](1),
			Template:              corev1.PodTemplateSpec{ObjectMeta: podMeta, Spec: pod},
		}}, nil
}

// addSecret mounts the database's Secret into a pod, with one file per key. A missing Secret does not block the pod:
// the steward reports it.
func addSecret(pod *corev1.PodSpec, c *deploy.Client) {
	if c == nil || c.Secret == "" {
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "database", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: c.Secret, DefaultMode: ptr.To[int32](0o444), Optional: ptr.To(true)},
	}})
	main := &pod.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "database", MountPath: deploy.SecretFolder, ReadOnly: true})
}

// createSteward creates the steward if it does not exist.
func (s *scope) createSteward(ctx context.Context) error {
	d := &s.current.Database
	at := d.Topology.Index(d.Client.Steward)
	if at < 0 {
		return fmt.Errorf("client.steward: region %q is not one of %v", d.Client.Steward, d.Topology.Regions)
	}
	region := &s.db.Spec.Regions[at]
	w, err := workerConfig(s.run, d, region.Name)
	if err != nil {
		return err
	}
	config, job, err := buildSteward(s.run, s.db, region, w, s.Image, s.run.Status.StartTime.Add(podsLife(s.run)).Sub(s.Clock.Now()))
	if err != nil {
		return err
	}
	database.Prepare(s.backend(), s.db, &d.Topology, region.Name, &job.Spec.Template.Spec)
	if err := kube.EnsureAccount(ctx, s.Client, s.Live, s.run, *config.ObjectMeta.DeepCopy()); err != nil {
		return err
	}
	if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.run, config); err != nil {
		return err
	}
	return kube.EnsureCreated(ctx, s.Client, s.Live, s.run, job)
}

// steward returns the state of the steward's pod. Problem is set if the steward does not answer yet. If the pod or its
// Job was lost, the returned error stops the run.
func (s *scope) steward(ctx context.Context) (*database.Node, error) {
	n := &database.Node{PodName: kube.StewardName(s.run)}
	pods := &corev1.PodList{}
	if err := s.Live.List(ctx, pods, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelRun: s.run.Name, kube.LabelAttempt: kube.Attempt(s.run), kube.LabelRole: kube.RoleWorker}); err != nil {
		return nil, err
	}
	// The labels also match the pods of the load generators, which belong to other Jobs.
	pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		return owner == nil || owner.Kind != "Job" || owner.Name != kube.StewardName(s.run)
	})
	if len(pods.Items) == 0 {
		n.Problem = "its pod does not exist yet"
		// Without its Job, the pod will never be created again, so waiting is useless.
		if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: n.PodName}, &batchv1.Job{}); err != nil {
			return nil, troubled("StewardLost", "Job %s, which loads and audits the database, is gone: %s", n.PodName, err)
		}
		if why := kube.NoPods(ctx, s.Live, "Job", s.run.Namespace, n.PodName); why != "" {
			n.Problem = why
		}
		return n, nil
	}
	n.Pod = &pods.Items[0]
	n.PodName = n.Pod.Name
	if why := podDeath(n.Pod); why != "" {
		return nil, troubled("StewardLost", "pod %s, which loads and audits the database, %s", n.PodName, why)
	}
	if n.Pod.Status.Phase != corev1.PodRunning || n.Pod.Status.PodIP == "" {
		n.Problem = "its pod does not run yet"
		if why := database.PodObstacle(n.Pod); why != "" {
			n.Problem += ": " + why
		}
		return n, nil
	}
	n.Address = net.JoinHostPort(n.Pod.Status.PodIP, strconv.Itoa(ports.Admin))
	status, err := s.Pods.Nodes(s.db.UID).Status(ctx, n.Address)
	if err != nil {
		n.Problem = "it does not answer: " + err.Error()
		return n, nil
	}
	n.Status, n.Ready = status, true
	return n, nil
}

// stewardAudit requests from the steward the sums of all rows and the state of the servers. For the layout, the steward
// is the only node and stores all rows.
func (s *scope) stewardAudit(ctx context.Context) ([][]store.ShardSums, []result.Server, error) {
	n, err := s.steward(ctx)
	if err != nil {
		return nil, nil, err
	}
	if n.Address == "" {
		return nil, nil, fmt.Errorf("steward %s: %s", n.PodName, n.Problem)
	}
	a, err := s.Pods.Nodes(s.db.UID).Audit(ctx, n.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("steward %s: %w", n.PodName, err)
	}
	var servers []result.Server
	if a.Servers != nil {
		if err := json.Unmarshal(a.Servers, &servers); err != nil {
			return nil, nil, fmt.Errorf("steward %s: its servers: %w", n.PodName, err)
		}
	}
	return [][]store.ShardSums{a.Shards}, servers, nil
}

// target returns the result's description of a database that is not Geobench's own, or nil for Geobench's own
// databases. It omits the distance between the endpoints and the steward, because clients in other regions have other
// distances, which their workers measure.
func (s *scope) target(ctx context.Context) (*result.Target, error) {
	if !s.stewarded() {
		return nil, nil
	}
	t := &result.Target{}
	found, err := s.noted(ctx, noteTarget, t)
	if err == nil && !found {
		err = troubled(result.ReasonSnapshotForged, "%s of ConfigMap %s, which the operator has written, is gone", noteTarget, kube.SnapshotName(s.run))
	}
	t.Endpoints = nil
	return t, err
}

// oneCopy returns the layout of a database whose rows are all read by the steward: a single node stores every row.
func (s *scope) oneCopy() geo.Layout { return s.current.Database.Topology.Whole(0) }
