package database

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/health"
)

const (
	// annotationPods, on the Job of a step, lists hashes of the UIDs of the pods that its role had when the step started.
	// The step has changed the state of these pods.
	annotationPods = "geobench.dev/init-pods"
	// initAttempts is the maximum number of retries of a step within its timeout. The pauses between attempts double.
	initAttempts = 20
	// lastWords is the maximum length in bytes of a failed step's output in the condition.
	lastWords = 512
)

// initialize runs the steps of spec.init in order, each as a Job of the current incarnation. A step starts once all
// pods of its role are running.
func (s *scope) initialize(ctx context.Context) error {
	if !s.upToDate() || len(s.db.Spec.Init) == 0 && s.conditionOf(v1alpha1.ConditionInitialized) == nil {
		return nil
	}
	jobs := &batchv1.JobList{}
	if err := s.Live.List(ctx, jobs, client.InNamespace(s.db.Namespace), client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelManagedBy: kube.ManagedBy}, client.HasLabels{kube.LabelInit}); err != nil {
		return err
	}
	s.steps = map[string]*batchv1.Job{}
	before := 0
	for i := range jobs.Items {
		switch job := &jobs.Items[i]; {
		case !metav1.IsControlledBy(job, s.db):
		case len(s.db.Spec.Init) > 0 && job.Labels[kube.LabelIncarnation] == s.current.ID() && job.DeletionTimestamp == nil:
			s.steps[job.Labels[kube.LabelInit]] = job
		default:
			before++
			if job.DeletionTimestamp != nil {
				continue
			}
			if err := s.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	switch {
	case len(s.db.Spec.Init) == 0:
		meta.RemoveStatusCondition(&s.db.Status.Conditions, v1alpha1.ConditionInitialized)
		return nil
	// Wait for these Jobs: a step of an earlier incarnation could still change the state of the new pods.
	case before > 0:
		s.uninitialized("Waiting", "the steps of the incarnation before are ended")
		s.again = kube.PollFast
		return nil
	}
	for i := range s.db.Spec.Init {
		step := &s.db.Spec.Init[i]
		name := fmt.Sprintf("step %d of %d, %s", i+1, len(s.db.Spec.Init), step.Name)
		job := s.steps[step.Name]
		switch {
		case job == nil:
			if why := s.idle(step.Role); why != "" {
				s.uninitialized("WaitingForPods", name+": "+why)
				return nil
			}
			job = s.buildStep(step)
			if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.db, job); err != nil {
				return err
			}
			s.uninitialized("StepRunning", name+", is begun")
			return nil
		case jobIs(job, batchv1.JobComplete):
			continue
		}
		said, err := s.lastWords(ctx, job)
		if err != nil {
			return err
		}
		if !jobIs(job, batchv1.JobFailed) {
			s.uninitialized("StepRunning", name+", runs"+said)
			return nil
		}
		what := fmt.Sprintf("%s, failed in role %s (%s)", name, step.Role, jobFailure(job))
		if was := s.conditionOf(v1alpha1.ConditionInitialized); was == nil || was.Reason != health.StepFailed {
			s.events = append(s.events, kube.Warning(health.StepFailed, "Initialize", what))
		}
		s.uninitialized(health.StepFailed, what+said+fmt.Sprintf("; change the spec, or delete Job %s to try the step again", job.Name))
		return nil
	}
	if !s.isTrue(v1alpha1.ConditionInitialized) {
		s.events = append(s.events, kube.Normal("Initialized", "Initialize", fmt.Sprintf("all %d steps have succeeded", len(s.db.Spec.Init))))
	}
	s.condition(metav1.Condition{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue, Reason: "Initialized",
		Message: fmt.Sprintf("all %d steps have succeeded", len(s.db.Spec.Init))})
	return nil
}

func (s *scope) uninitialized(reason, message string) {
	s.condition(metav1.Condition{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionFalse, Reason: reason, Message: kube.Truncate(message, 2048)})
}

// idle returns a description of a pod of the role whose program is not running yet, or "" if there is none.
func (s *scope) idle(role string) string {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.role == role && (n.Address == "" || n.Pod.DeletionTimestamp != nil) {
			return fmt.Sprintf("node %s: %s", n.PodName, cmp.Or(n.Problem, "it does not run"))
		}
	}
	return ""
}

// podHashes returns hashes that identify the current pods of a role.
func (s *scope) podHashes(role string) (hashes []string) {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.role == role && n.Pod != nil {
			hashes = append(hashes, deploy.ShortHash(string(n.Pod.UID)))
		}
	}
	return hashes
}

// buildStep returns the Job of a step. The pod has the labels of a worker of its region. It is therefore part of the
// emulated network and may access the database.
func (s *scope) buildStep(step *v1alpha1.InitStep) *batchv1.Job {
	db := s.db
	region := &db.Spec.Regions[0]
	for i := range db.Spec.Regions {
		if db.Spec.Regions[i].Name == step.Region {
			region = &db.Spec.Regions[i]
		}
	}
	role := db.Spec.Role(step.Role)
	c := programContainerOf(&role.Program, append(programEnv(db, region.Name, role), userEnv(&role.Program)...))
	c.Command, c.Args = step.Command, step.Args
	c.Resources = WithDefaultRequests(corev1.ResourceRequirements{}, "100m", "128Mi")
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	pod := programPod(db, region, &role.Program, s.current.ID(), c)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.ServiceAccountName = kube.NodesAccountName(db)
	Prepare(s.backend(), db, &s.current.Database.Topology, region.Name, &pod)
	labels := ofRole(kube.WithLabel(kube.DatabaseLabels(db, kube.RoleWorker), kube.LabelRegion, region.Name), role)
	labels = kube.WithLabel(kube.WithLabel(labels, kube.LabelInit, step.Name), kube.LabelIncarnation, s.current.ID())
	timeout := cmp.Or(step.Timeout.Duration, defaultStepTimeout)
	podMeta := metav1.ObjectMeta{Labels: labels}
	Meshed(db, &podMeta)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: kube.InitName(db, s.current.ID(), step.Name), Namespace: db.Namespace, Labels: labels,
			Annotations: map[string]string{annotationPods: strings.Join(s.podHashes(step.Role), ",")},
		},
		Spec: batchv1.JobSpec{
			Completions:           ptr.To[int32](1),
			Parallelism:           ptr.To[int32](1),
			BackoffLimit:          ptr.To[int32](initAttempts),
			ActiveDeadlineSeconds: ptr.To(max(int64(timeout/time.Second), 1)),
			PodReplacementPolicy:  ptr.To(batchv1.Failed),
			Template:              corev1.PodTemplateSpec{ObjectMeta: podMeta, Spec: pod},
		},
	}
}

// defaultStepTimeout equals the default that the API server sets.
const defaultStepTimeout = 10 * time.Minute

func jobIs(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// jobFailure returns the reason why a Job has failed, or "" if it has not.
func jobFailure(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed {
			return cmp.Or(strings.TrimSuffix(strings.TrimSpace(c.Reason+": "+c.Message), ":"), "no reason is given")
		}
	}
	return ""
}

// lastWords returns the reason why a step's latest pod does not start, or the output of its last failed attempt. It
// returns "" if there is neither.
func (s *scope) lastWords(ctx context.Context, job *batchv1.Job) (string, error) {
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.db.Namespace), client.MatchingLabels{
		kube.LabelDatabase: s.db.Name, kube.LabelManagedBy: kube.ManagedBy, kube.LabelInit: job.Labels[kube.LabelInit], kube.LabelIncarnation: s.current.ID(),
	}); err != nil {
		return "", err
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for i := range pods.Items {
		pod := &pods.Items[i]
		if why := PodObstacle(pod); why != "" && pod.Status.Phase == corev1.PodPending {
			return "; its pod waits: " + kube.Truncate(why, lastWords), nil
		}
		for _, c := range pod.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				said, err := s.masked(ctx, job.Labels[kube.LabelInit], strings.TrimSpace(t.Message))
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("; its last try ended with exit code %d: %s", t.ExitCode, kube.Truncate(cmp.Or(said, t.Reason, "it said nothing"), lastWords)), nil
			}
		}
	}
	return "", nil
}

// masked returns the output of a step without the values of Secrets in the environment of its role. A user who may read
// conditions does not necessarily have the right to read Secrets.
func (s *scope) masked(ctx context.Context, step, said string) (string, error) {
	i := slices.IndexFunc(s.db.Spec.Init, func(x v1alpha1.InitStep) bool { return x.Name == step })
	if i < 0 || said == "" {
		return said, nil
	}
	role := s.db.Spec.Role(s.db.Spec.Init[i].Role)
	for _, e := range role.Env {
		if e.SecretKeyRef == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.Live.Get(ctx, client.ObjectKey{Namespace: s.db.Namespace, Name: e.SecretKeyRef.Name}, secret); client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if value := strings.TrimSpace(string(secret.Data[e.SecretKeyRef.Key])); value != "" {
			said = strings.ReplaceAll(said, value, "***")
		}
	}
	return said, nil
}

// lostInit returns an explanation if a role has lost all pods on which a step ran, because the effects of the step are
// then lost. Otherwise, it returns "".
func (s *scope) lostInit() string {
	for _, step := range s.db.Spec.Init {
		job := s.steps[step.Name]
		if job == nil || job.Annotations[annotationPods] == "" {
			continue
		}
		were, left := strings.Split(job.Annotations[annotationPods], ","), s.podHashes(step.Role)
		if !slices.ContainsFunc(were, func(hash string) bool { return slices.Contains(left, hash) }) {
			return fmt.Sprintf("all pods of role %s were replaced since step %s, and their files went with them", step.Role, step.Name)
		}
	}
	return ""
}
