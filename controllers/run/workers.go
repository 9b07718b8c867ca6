package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
)

// WorkerKey is the key in a region's worker ConfigMap, and the name of the file that workers read: a deploy.Worker as
// JSON.
const WorkerKey = "worker.json"

// workerConfig returns the configuration of the workers of a region. From stage Warmup on, the result does not change
// during an attempt, so its digest can be verified later.
func workerConfig(run *v1alpha1.BenchmarkRun, d *deploy.Database, region string) (*deploy.Worker, error) {
	workload, err := json.Marshal(run.Spec.Workload)
	if err != nil {
		return nil, err
	}
	load, err := json.Marshal(run.Spec.Load)
	if err != nil {
		return nil, err
	}
	w := &deploy.Worker{
		Run: run.Name, UID: string(run.UID), Attempt: kube.Attempt(run), Region: region, Workers: int(run.Spec.Load.WorkersPerRegion),
		Database: *d, Workload: workload, Load: load, Seed: uint64(run.Spec.Seed), Fine: len(run.Spec.Faults) > 0, Deadline: run.Status.StartTime.Add(runDeadline(run)).UTC().Truncate(time.Second),
	}
	if recorded(run) {
		w.HistoryLimit = deploy.MaxHistory
	}
	return w, nil
}

func regionRunLabels(run *v1alpha1.BenchmarkRun, region, role string) map[string]string {
	return kube.WithLabel(kube.WithLabel(kube.RunLabels(run, role), kube.LabelRegion, region), kube.LabelDatabase, run.Spec.DatabaseRef.Name)
}

// buildWorkerObjects returns the objects for the workers of a region, in the order of creation. These are their
// configuration, the ConfigMaps through which they communicate with the operator, the right to access only these
// ConfigMaps, and their Job.
func buildWorkerObjects(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, region *v1alpha1.Region, w *deploy.Worker, image string, lifetime time.Duration) ([]client.Object, error) {
	config, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	name := kube.WorkerName(run, region.Name)
	meta := func(name, role string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: run.Namespace, Labels: regionRunLabels(run, region.Name, role)}
	}
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta(name, kube.RoleWorker), Immutable: ptr.To(true), Data: map[string]string{WorkerKey: string(config)}},
	}
	var reports []string
	for i := range w.Workers {
		reports = append(reports, kube.ReportName(run, region.Name, i))
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: meta(reports[i], kube.RoleReport)})
	}
	objects = append(objects,
		&rbacv1.Role{ObjectMeta: meta(name, kube.RoleWorker), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: reports, Verbs: []string{"get", "patch", "watch"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: meta(name, kube.RoleWorker),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: run.Namespace}},
		},
		buildJob(run, db, region, w.Workers, image, lifetime, meta(name, kube.RoleWorker)),
	)
	pod := &objects[len(objects)-1].(*batchv1.Job).Spec.Template.Spec
	addReportKey(pod, run, region.Name, w.Workers)
	addSecret(pod, w.Database.Client)
	if w.HistoryLimit > 0 {
		addHistoryFolder(pod, w.HistoryLimit)
	}
	return objects, nil
}

// reportKeyName returns the key of a run's Secret that holds the seal key of a worker's report.
func reportKeyName(region string, index int) string {
	return fmt.Sprintf("report.%s.%d", region, index)
}

// reportKey returns the key that seals a worker's report: see deploy.HandIn.
func reportKey(a *identity.Authority, run *v1alpha1.BenchmarkRun, region string, index int) []byte {
	return a.Key(operatorca.KeyReport, string(run.UID), kube.Attempt(run), region, strconv.Itoa(index))
}

// buildRunCredentials returns the Secret with the credentials of a run's workers.
func buildRunCredentials(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, a *identity.Authority, regions []string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: kube.RunCredentialsName(run), Namespace: run.Namespace, Labels: kube.RunLabels(run, kube.RoleCredentials)},
		Data: map[string][]byte{
			identity.FileClient: identity.ClientKey(a.Key(operatorca.KeyClients, string(db.UID)), kube.Attempt(run)),
		},
	}
	for _, region := range regions {
		for i := range int(run.Spec.Load.WorkersPerRegion) {
			secret.Data[reportKeyName(region, i)] = reportKey(a, run, region, i)
		}
	}
	return secret
}

// addReportKey mounts into each worker of a region the key of that worker's report, and no other key. The worker's
// index in its Job selects the path.
func addReportKey(pod *corev1.PodSpec, run *v1alpha1.BenchmarkRun, region string, workers int) {
	var keys []corev1.KeyToPath
	for i := range workers {
		keys = append(keys, corev1.KeyToPath{Key: reportKeyName(region, i), Path: strconv.Itoa(i)})
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "report-key", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: kube.RunCredentialsName(run), Items: keys, DefaultMode: ptr.To[int32](0o440)},
	}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
		Name: "report-key", MountPath: deploy.ReportKeyFile, SubPathExpr: "$(" + indexVariable + ")", ReadOnly: true,
	})
}

// indexVariable is the environment variable with the index of an indexed Job's pod.
const indexVariable = "JOB_COMPLETION_INDEX"

// buildJob returns the Job of a region's workers. A worker that exits loses its clients' history, so a pod is never
// restarted: backoffLimit is 0 and restartPolicy Never.
func buildJob(run *v1alpha1.BenchmarkRun, db *v1alpha1.GeoDatabase, region *v1alpha1.Region, workers int, image string, lifetime time.Duration, meta metav1.ObjectMeta) *batchv1.Job {
	resources := database.OwnResources(run.Spec.Load.Resources)
	clientKey := corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: kube.RunCredentialsName(run)}, Items: database.KeysToPaths(identity.FileClient),
	}}
	pod := database.RegionPod(db, region, meta.Name, database.CredentialsVolume(db, database.ServerFiles, clientKey), database.OwnContainer(corev1.Container{
		Name:      "worker",
		Image:     image,
		Args:      []string{"worker", "--config", database.ConfigFolder + "/" + WorkerKey, "--report", meta.Name},
		Env:       append(database.GoRuntime(resources), database.FromField("POD_NAME", "metadata.name"), database.FromField("POD_NAMESPACE", "metadata.namespace")),
		Ports:     database.OwnPorts(),
		Resources: resources,
	}))
	pod.RestartPolicy = corev1.RestartPolicyNever
	// A worker needs the API server to write its report.
	pod.ServiceAccountName, pod.AutomountServiceAccountToken = meta.Name, ptr.To(true)
	podMeta := metav1.ObjectMeta{
		Labels: meta.Labels,
		Annotations: map[string]string{
			database.AnnotationScrape:     "true",
			database.AnnotationScrapePort: strconv.Itoa(ports.Metrics),
			// The eviction of a worker would make the run Invalid.
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		},
	}
	database.Meshed(db, &podMeta)
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Completions:    ptr.To(int32(workers)),
			Parallelism:    ptr.To(int32(workers)),
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			BackoffLimit:   ptr.To[int32](0),
			// Kubernetes stops the workers even if no operator is running at that time.
			ActiveDeadlineSeconds: ptr.To(int64(max(lifetime, time.Second) / time.Second)),
			PodReplacementPolicy:  ptr.To(batchv1.Failed),
			Template:              corev1.PodTemplateSpec{ObjectMeta: podMeta, Spec: pod},
		},
	}
}

// createWorkers creates the missing workers of all regions.
func (s *scope) createWorkers(ctx context.Context) error {
	lifetime := s.run.Status.StartTime.Add(podsLife(s.run)).Sub(s.Clock.Now())
	authority, err := s.Credentials.Authority(ctx)
	if err != nil {
		return err
	}
	// Create the Secret before the Jobs, because their pods mount it.
	if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.run, buildRunCredentials(s.run, s.db, authority, s.current.Database.Topology.Regions)); err != nil {
		return err
	}
	for i := range s.db.Spec.Regions {
		region := &s.db.Spec.Regions[i]
		w, err := workerConfig(s.run, &s.current.Database, region.Name)
		if err != nil {
			return err
		}
		objects, err := buildWorkerObjects(s.run, s.db, region, w, s.Image, lifetime)
		if err != nil {
			return err
		}
		account := metav1.ObjectMeta{Name: kube.WorkerName(s.run, region.Name), Namespace: s.run.Namespace, Labels: regionRunLabels(s.run, region.Name, kube.RoleWorker)}
		if err := kube.EnsureAccount(ctx, s.Client, s.Live, s.run, account); err != nil {
			return err
		}
		for _, obj := range objects {
			if job, ok := obj.(*batchv1.Job); ok {
				database.Prepare(s.backend(), s.db, &s.current.Database.Topology, region.Name, &job.Spec.Template.Spec)
			}
			if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.run, obj); err != nil {
				return err
			}
		}
	}
	return nil
}

// workerState is the state of one worker, as reported in its ConfigMap.
type workerState struct {
	region string
	index  int
	report *corev1.ConfigMap
}

func (w *workerState) state() string { return w.report.Data[deploy.KeyState] }

// name returns the name of the worker's pod, or the worker's index and region if the pod is not known yet.
func (w *workerState) name() string {
	return cmp.Or(w.report.Data[deploy.KeyPod], w.place())
}

// place returns the index and region of the worker as text.
func (w *workerState) place() string { return fmt.Sprintf("worker %d of region %s", w.index, w.region) }

// observeWorkers reads the workers' ConfigMaps. If a worker cannot finish, the error is a *trouble with the cause.
func (s *scope) observeWorkers(ctx context.Context) ([]workerState, error) {
	var workers []workerState
	for _, region := range s.current.Database.Topology.Regions {
		done := 0
		for i := range int(s.run.Spec.Load.WorkersPerRegion) {
			w := workerState{region: region, index: i, report: &corev1.ConfigMap{}}
			key := types.NamespacedName{Namespace: s.run.Namespace, Name: kube.ReportName(s.run, region, i)}
			if err := s.Live.Get(ctx, key, w.report); err != nil {
				if apierrors.IsNotFound(err) {
					return nil, &trouble{"WorkerObjectDeleted", fmt.Sprintf("ConfigMap %s, where worker %d of region %s reports, was deleted", key.Name, i, region)}
				}
				return nil, err
			}
			switch w.state() {
			case deploy.StateFailed:
				return nil, &trouble{"WorkerFailed", fmt.Sprintf("%s gave up: %s", w.name(), cmp.Or(w.report.Data[deploy.KeyMessage], "it did not say why"))}
			case deploy.StateDone:
				done++
			}
			workers = append(workers, w)
		}
		// A worker that has submitted its report may exit.
		if done == int(s.run.Spec.Load.WorkersPerRegion) {
			continue
		}
		if err := s.inspectJob(ctx, region, workers); err != nil {
			return nil, err
		}
	}
	return workers, nil
}

// inspectJob returns a *trouble if a worker of the region is no longer able to finish.
func (s *scope) inspectJob(ctx context.Context, region string, workers []workerState) error {
	name := kube.WorkerName(s.run, region)
	job := &batchv1.Job{}
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: name}
	err := s.Client.Get(ctx, key, job)
	if apierrors.IsNotFound(err) { // it may be too new for the cache
		err = s.Live.Get(ctx, key, job)
	}
	if err != nil {
		if apierrors.IsNotFound(err) {
			return &trouble{"WorkerObjectDeleted", fmt.Sprintf("Job %s with the workers of region %s was deleted", name, region)}
		}
		return err
	}
	if job.DeletionTimestamp != nil {
		return &trouble{"WorkerObjectDeleted", fmt.Sprintf("Job %s with the workers of region %s is being deleted", name, region)}
	}
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.run.Namespace),
		client.MatchingLabels{kube.LabelRun: s.run.Name, kube.LabelAttempt: kube.Attempt(s.run), kube.LabelRegion: region}); err != nil {
		return err
	}
	for i := range pods.Items {
		if cause := podDeath(&pods.Items[i]); cause != "" {
			return &trouble{"WorkerFailed", fmt.Sprintf("worker pod %s (region %s) %s", pods.Items[i].Name, region, cause)}
		}
	}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget) {
			return &trouble{"WorkerFailed", fmt.Sprintf("Job %s with the workers of region %s failed: %s", name, region, c.Message)}
		}
	}
	return nil
}

// podDeath returns the cause of a pod's failure, or "" if the pod is running or has succeeded.
func podDeath(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "was deleted"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("ended: %s, exit code %d%s", t.Reason, t.ExitCode, kube.Suffix(t.Message))
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return "failed: " + cmp.Or(pod.Status.Message, cmp.Or(pod.Status.Reason, "no reason is known"))
	}
	return ""
}

// checkHealth checks the nodes and workers in the stages that depend on them, and ends the run if one of them is lost.
func (s *scope) checkHealth(ctx context.Context) error {
	if !s.atLeast(v1alpha1.StageWarmup) || s.atLeast(v1alpha1.StageEvaluate) {
		return nil
	}
	var err error
	if s.nodes, err = database.ObserveNodes(ctx, s.Client, s.Pods, s.db, &s.current.Database); err != nil {
		return err
	}
	var pods []string
	for i := range s.nodes {
		pods = append(pods, s.nodes[i].PodName)
	}
	// Check for interference by Chaos Mesh first, because it may be the cause of a lost node.
	if s.meddled(pods); s.moved() {
		return nil
	}
	before, err := s.beganWith(ctx)
	if err != nil {
		return err
	}
	// Faults have removed or stopped these nodes as planned.
	planned := append(s.taken(), faultstatus.Down(faultstatus.Timeline(s.run, &s.current.Database.Topology))...)
	for i := range s.nodes {
		if slices.Contains(planned, s.nodes[i].ID) {
			continue
		}
		if s.nodeLost(&s.nodes[i], before); s.moved() {
			return nil
		}
	}
	if err := s.proxyLost(ctx); err != nil || s.moved() {
		return err
	}
	if err := s.rerouted(ctx, before); err != nil {
		return err
	}
	if !s.isTrue(v1alpha1.ConditionWorkersCreated) {
		return nil
	}
	if s.workers, err = s.observeWorkers(ctx); err != nil {
		return err
	}
	pods = nil
	for i := range s.workers {
		pods = append(pods, s.workers[i].report.Data[deploy.KeyPod])
	}
	s.meddled(pods)
	return nil
}

// nodeLost ends the run if a node has lost its state, or if its process or pod has changed since the start of the run.
func (s *scope) nodeLost(n *database.Node, before *snapshot) {
	var was podNote
	var process string
	noted, other := false, false
	if before != nil {
		was, noted = before.Pods[n.PodName]
		if n.Status != nil {
			process, other = before.follows(n)
		}
	}
	switch {
	case n.Lost != "":
		s.fail("NodeLost", "node %s was lost in stage %s: %s", n.PodName, s.run.Status.Stage, n.Lost)
	// A new process whose incarnation is not higher has not gone through the rejoin protocol.
	case other:
		s.fail("NodeLost", "node %s was lost in stage %s: its process was replaced (%s by %s)%s",
			n.PodName, s.run.Status.Stage, process, n.Status.Process, kube.Suffix(n.Ended))
	case noted && n.Restarts > was.Restarts && !s.explained(n):
		s.fail("NodeLost", "node %s was lost in stage %s: %s, which no fault of the manifest declares", n.PodName, s.run.Status.Stage, n.Ended)
	case noted && n.Shape.Changed(was.Shape) != "":
		s.fail("PodChanged", "pod %s was changed in stage %s: %s", n.PodName, s.run.Status.Stage, n.Shape.Changed(was.Shape))
	}
}

// mostReportValues returns the maximum total number of values in all reports of a run. It is derived from the number of
// seconds that the run's plan covers.
func mostReportValues(run *v1alpha1.BenchmarkRun, workers int) int {
	const (
		others   = 600_000 // windows, series and ledgers
		ofSecond = 10      // per second; result.Second has 8
		ofSplit  = 40      // per second of a run with faults; with result.Tenths it has 38
	)
	each := ofSecond
	if len(run.Spec.Faults) > 0 {
		each = ofSplit
	}
	l := &run.Spec.Load
	seconds := int((l.Duration.Duration + time.Second - 1) / time.Second)
	return others + workers*int(l.Repetitions)*seconds*each
}

// readReports reads the reports of all workers. The error ends the run if a report was not written by its worker, or
// names a configuration or start time other than the run's.
func (s *scope) readReports(ctx context.Context, workers []workerState) ([]*result.Report, error) {
	authority, err := s.Credentials.Authority(ctx)
	if err != nil {
		return nil, err
	}
	configs := map[string]string{}
	for _, region := range s.current.Database.Topology.Regions {
		w, err := workerConfig(s.run, &s.current.Database, region)
		if err != nil {
			return nil, err
		}
		file, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		configs[region] = identity.Digest(file)
	}
	var reports []*result.Report
	left := mostReportValues(s.run, len(workers))
	for i := range workers {
		w := &workers[i]
		h := &deploy.HandIn{
			Run: string(s.run.UID), Region: w.region, Index: w.index, Config: configs[w.region], StartAt: startAt(s.run),
			History: w.report.Data[deploy.KeyHistory], Report: w.report.BinaryData[deploy.KeyReport],
		}
		if err := h.Verify(w.report.Data[deploy.KeySeal], reportKey(authority, s.run, w.region, w.index)); err != nil {
			return nil, troubled(result.ReasonReportForged, "the report of %s in ConfigMap %s: %s", w.place(), w.report.Name, err)
		}
		r, values, err := result.DecodeReport(h.Report, left)
		if err != nil {
			return nil, troubled("ReportUnreadable", "the report of %s cannot be read: %s", w.name(), err)
		}
		// The limit applies to all reports together, because they are in memory at the same time.
		left -= values
		reports = append(reports, r)
	}
	return reports, nil
}

// inState returns the number of workers that are in one of the given states.
func (s *scope) inState(states ...string) int {
	n := 0
	for i := range s.workers {
		for _, state := range states {
			if s.workers[i].state() == state {
				n++
			}
		}
	}
	return n
}

// stuckWorker returns the reason why a worker's pod is not running or does not exist, or "" if no reason is known.
func (s *scope) stuckWorker(ctx context.Context) (string, error) {
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.run.Namespace), client.MatchingLabels{kube.LabelRun: s.run.Name, kube.LabelAttempt: kube.Attempt(s.run)}); err != nil {
		return "", err
	}
	for i := range pods.Items {
		if problem := database.PodObstacle(&pods.Items[i]); problem != "" {
			return fmt.Sprintf("pod %s: %s", pods.Items[i].Name, problem), nil
		}
	}
	for _, region := range s.current.Database.Topology.Regions {
		made := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Labels[kube.LabelRegion] == region })
		if !made {
			job := kube.WorkerName(s.run, region)
			if why := kube.NoPods(ctx, s.Live, "Job", s.run.Namespace, job); why != "" {
				return fmt.Sprintf("Job %s: %s", job, why), nil
			}
		}
	}
	return "", nil
}
