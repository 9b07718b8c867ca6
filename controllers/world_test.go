package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/chaosaudit"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/experiment"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/wan"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
	"github.com/geobench/geobench/internal/ops/deploy/netpol"
)

const testImage = "localhost/geobench:test"

// world is a namespace of a real API server with everything else played: the controllers of StatefulSets and Jobs, the
// kubelet, nodes, workers and the clock. Time passes only when a test or step says so.
type world struct {
	t         *testing.T
	ctx       context.Context
	client    client.Client
	namespace string
	clock     *clocktesting.FakeClock
	recorder  *events.FakeRecorder

	// operatorClient is what the operator talks to; tests put failures in it.
	operatorClient func() client.Client
	database       *database.Reconciler
	run            *run.Reconciler
	experiment     *experiment.Reconciler
	credentials    *operatorca.Keeper
	// chaosLog is empty unless a test starts it.
	chaosLog *chaosaudit.Log
	// experimentsWait has experiments not looked at, as if the operator were busy with others.
	experimentsWait bool

	mu sync.Mutex
	// nodes by their pod's IP.
	nodes          map[string]*fakeNode
	everybodyLeads bool
	// ended are processes of nodes in whose pods others are now, joins what processes were told: their nodes and
	// incarnations.
	ended []*fakeNode
	joins []string
	// again is when the controllers want to look again.
	again  time.Duration
	nextIP int
	// rttOff is added to every measured round trip.
	rttOff time.Duration
	// linksShort says which pods, by name, measure links that are not emulated yet.
	linksShort map[string]bool
	// kernel is what probe pods say, as their last words.
	kernel string
	// chaosMesh is whether Chaos Mesh acts on its objects.
	chaosMesh bool
	// chaosWaits, if not nil, tells which objects Chaos Mesh does not look at yet.
	chaosWaits func(*unstructured.Unstructured) bool
	// shutDown are the pods, by name, whose images it has replaced.
	shutDown map[string]bool
	// chaosMade are the objects that it has acted on.
	chaosMade []*unstructured.Unstructured
	// servers are what stewards tell of the servers of their databases.
	servers []result.Server
	// mutate, if not nil, changes pods when they are made, as a webhook does.
	mutate func(*corev1.Pod)
	// sidecars play those of the pods.
	sidecars *fakeSidecars
	// pending transactions of every node.
	pending int
	// noAudit is why no node can be audited; nil when they can.
	noAudit error
	// loads counts the data sets that nodes really loaded.
	loads int
	// hangs are the databases, by name, whose nodes do not end loading; givenUp counts the loads of theirs that were
	// cancelled.
	hangs   map[string]bool
	givenUp int
	// tooMuch is why nodes refuse their data; empty when they take it.
	tooMuch string
	// waits are the instants that jobs wait for.
	waits map[<-chan time.Time]time.Time
	// stepEnds says how steps of spec.init end, by their names: "" with success, running not at all, failing with an error
	// that they say and are tried again for, late with that for good.
	stepEnds map[string]stepEnd
	// mesh is the version of an Istio that puts its proxy into each new pod that has not said no; empty for none.
	mesh string
	// ambient: new pods that have not said no are in an ambient mesh.
	ambient bool
	// bytes are what nodes have sent over each link since they began, besides the first 1000.
	bytes int64
	// counters are those of the mesh's proxies, at their addresses.
	counters func(addr, path string) (string, error)
	// workersHang keeps workers from getting further than a state.
	workersHang *string
	// jobsRun counts the worker pods that were made for each Job name.
	jobsRun map[string]int
	// starts are the distinct starts that workers were told.
	starts map[string][]string
	// committed is what each worker reports.
	committed int64
	// committedOn is what they report of an engine, where it is another.
	committedOn map[string]int64
	// unknownIn are the runs, by name, whose workers did not hear of one transaction's outcome.
	unknownIn []string
	// history is what the worker of a region recorded; nil is nothing at all.
	history func(region string) []history.Txn
	// historyFull tells that it did not fit into the worker's file, historyAway how often it is not to be had.
	historyFull bool
	historyAway int
	// clockBehind is how far the clocks of a region's workers are behind the operator's.
	clockBehind map[string]time.Duration
	// histories by the worker pod's IP.
	histories map[string][]byte
	// deaths of the operator, when it dies after every write; dead tells that it has died and was not started again.
	deaths int
	dead   bool
}

// stepEnd is how a step of spec.init ends.
type stepEnd string

const (
	stepRuns  stepEnd = "runs"
	stepFails stepEnd = "fails"
	stepLate  stepEnd = "is late"
)

// around is what the operator was told of the cluster.
var around = &netpol.Cluster{OperatorNamespace: "geobench-system", Operator: map[string]string{"app.kubernetes.io/component": "operator"}, APIServerPorts: []int32{443}}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, namespace := newNamespace(t)
	w := &world{
		t: t, ctx: context.Background(), client: c, namespace: namespace,
		clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)),
		nodes: map[string]*fakeNode{}, jobsRun: map[string]int{}, starts: map[string][]string{}, committed: 5000, histories: map[string][]byte{},
	}
	w.operatorClient = func() client.Client { return c }
	w.shutDown, w.waits = map[string]bool{}, map[<-chan time.Time]time.Time{}
	w.sidecars = &fakeSidecars{w: w, files: map[types.UID]*wan.Config{}, logs: map[types.UID]*wan.Log{}}
	w.kernel = `{"missing":{"netem":"no such file or directory"}}`
	w.recorder = &events.FakeRecorder{Events: make(chan string, 10_000)}
	w.restartOperator()
	return w
}

// restartOperator forgets everything that the operator has in memory.
func (w *world) restartOperator() {
	if w.run != nil { // whatever it was about to do, it does not any more
		ended, end := context.WithCancel(w.ctx)
		end()
		w.must(w.run.Jobs.Start(ended))
	}
	abilities := check.Default(engineTable{})
	c := w.operatorClient()
	choice := database.NewEmulationChoice(c, c, testImage, w.clock)
	w.credentials = &operatorca.Keeper{Client: c, Live: c, Namespace: w.namespace, Clock: w.clock}
	w.database = &database.Reconciler{Client: c, Live: c, Pods: w, Choose: choice.Choose, Credentials: w.credentials, Abilities: abilities, Around: around, Image: testImage, Events: w.recorder, Clock: w.clock}
	w.chaosLog = &chaosaudit.Log{Client: w.client.(client.WithWatch), Namespace: w.namespace, Clock: w.clock, Wait: run.Wait}
	w.run = &run.Reconciler{Client: c, Live: c, Pods: w, Chaos: w.chaosLog, Choose: choice.Choose, Credentials: w.credentials, Unfit: choice.ChaosUnfit, Abilities: abilities, Jobs: background.NewRunner(), Loads: background.NewBudget(run.LoadsAtOnce), Memory: background.NewBudget(1 << 20), Image: testImage, Events: w.recorder, Clock: w.clock,
		Wait: w.wait}
	w.experiment = &experiment.Reconciler{Client: c, Live: c, Abilities: abilities, Jobs: background.NewRunner(), Judgements: experiment.NewJudgements(), Checks: experiment.NewChecks(), SlowChecks: experiment.NewSlowChecks(), Events: w.recorder, Clock: w.clock}
}

// revive starts the operator again, with an empty memory, if it has died.
func (w *world) revive() {
	if w.dead {
		w.restartOperator()
	}
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		obj.SetNamespace(w.namespace)
		if err := w.client.Create(w.ctx, obj); err != nil {
			w.t.Fatalf("creating %s %s: %v", kube.KindOf(obj), obj.GetName(), err)
		}
	}
}

func (w *world) get(name string, obj client.Object) client.Object {
	w.t.Helper()
	if err := w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: name}, obj); err != nil {
		w.t.Fatalf("getting %s %s: %v", kube.KindOf(obj), name, err)
	}
	return obj
}

func (w *world) getRun(name string) *v1alpha1.BenchmarkRun {
	return w.get(name, &v1alpha1.BenchmarkRun{}).(*v1alpha1.BenchmarkRun)
}

func (w *world) getDatabase(name string) *v1alpha1.GeoDatabase {
	return w.get(name, &v1alpha1.GeoDatabase{}).(*v1alpha1.GeoDatabase)
}

// step lets everything act once: all controllers on every object, then the cluster; and lets time pass until a
// controller wants to look again.
func (w *world) step() {
	w.t.Helper()
	w.again = kube.PollFast
	w.reconcileAll()
	w.playCluster()
	now := w.clock.Now()
	w.mu.Lock()
	for _, until := range w.waits {
		w.again = min(w.again, until.Sub(now))
	}
	w.mu.Unlock()
	w.clock.Step(w.again)
	w.settle()
}

// wait is how jobs wait for an instant.
func (w *world) wait(ctx context.Context, d time.Duration) error {
	until, passed := w.clock.Now().Add(d), w.clock.After(d)
	w.mu.Lock()
	w.waits[passed] = until
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, passed)
	}()
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) reconcileAll() {
	w.t.Helper()
	databases := &v1alpha1.GeoDatabaseList{}
	runs := &v1alpha1.BenchmarkRunList{}
	experiments := &v1alpha1.ExperimentList{}
	w.must(w.client.List(w.ctx, experiments, client.InNamespace(w.namespace)))
	for i := range experiments.Items {
		if !w.experimentsWait {
			w.reconcile(w.experiment, &experiments.Items[i])
			w.hearExperiments(&experiments.Items[i])
		}
	}
	w.must(w.client.List(w.ctx, databases, client.InNamespace(w.namespace)))
	w.must(w.client.List(w.ctx, runs, client.InNamespace(w.namespace)))
	for i := range databases.Items {
		w.reconcile(w.database, &databases.Items[i])
	}
	for i := range runs.Items {
		w.reconcile(w.run, &runs.Items[i])
	}
	w.settle()
}

// hearExperiments reconciles an experiment again that an job has news for.
func (w *world) hearExperiments(e *v1alpha1.Experiment) {
	w.t.Helper()
	for {
		w.experiment.Jobs.Wait()
		select {
		case <-w.experiment.Jobs.News:
			w.reconcile(w.experiment, e)
		default:
			return
		}
	}
}

// settle waits until no job is under way but those that load into databases that hang.
func (w *world) settle() {
	idle := func() int { // jobs that wait for what does not happen now
		w.mu.Lock()
		defer w.mu.Unlock()
		n := len(w.hangs)
		for _, until := range w.waits {
			if until.After(w.clock.Now()) {
				n++
			}
		}
		return n
	}
	for w.run.Jobs.Underway() > idle() {
		goruntime.Gosched()
	}
	w.experiment.Jobs.Wait()
}

// errKilled is what the operator's client answers once a test has killed the operator.
var errKilled = errors.New("the operator was killed")

func (w *world) reconcile(r reconcile.Reconciler, obj client.Object) {
	w.t.Helper()
	res, err := r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	if res.RequeueAfter > 0 {
		w.again = min(w.again, res.RequeueAfter)
	}
	if err != nil {
		w.again = min(w.again, 10*time.Millisecond) // the queue tries again at once
	}
	if err != nil && !errors.Is(err, errKilled) && !apierrors.IsConflict(err) {
		w.t.Fatalf("reconciling %s %s: %v", kube.KindOf(obj), obj.GetName(), err)
	}
}

// away lets time pass without the operator.
func (w *world) away(d time.Duration) {
	w.t.Helper()
	w.restartOperator()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		w.clock.Step(min(500*time.Millisecond, end.Sub(w.clock.Now())))
		w.playCluster()
	}
}

// until steps until the condition holds.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for range 600 {
		if done() {
			return
		}
		w.step()
	}
	w.t.Fatalf("gave up waiting until %s\n%s", what, w.describe())
}

// describe prints the runs and databases for a test that failed.
func (w *world) describe() string {
	var b strings.Builder
	runs := &v1alpha1.BenchmarkRunList{}
	databases := &v1alpha1.GeoDatabaseList{}
	w.must(w.client.List(w.ctx, runs, client.InNamespace(w.namespace)))
	w.must(w.client.List(w.ctx, databases, client.InNamespace(w.namespace)))
	experiments := &v1alpha1.ExperimentList{}
	w.must(w.client.List(w.ctx, experiments, client.InNamespace(w.namespace)))
	for i := range experiments.Items {
		s, _ := json.MarshalIndent(experiments.Items[i].Status, "", " ")
		fmt.Fprintf(&b, "Experiment %s: %s\n", experiments.Items[i].Name, s)
	}
	for i := range databases.Items {
		s, _ := json.MarshalIndent(databases.Items[i].Status, "", " ")
		fmt.Fprintf(&b, "GeoDatabase %s: %s\n", databases.Items[i].Name, s)
	}
	for i := range runs.Items {
		s, _ := json.MarshalIndent(runs.Items[i].Status, "", " ")
		fmt.Fprintf(&b, "BenchmarkRun %s: %s\n", runs.Items[i].Name, s)
	}
	return b.String()
}

func (w *world) untilStage(name string, stage v1alpha1.Stage) *v1alpha1.BenchmarkRun {
	w.t.Helper()
	w.until(fmt.Sprintf("run %s is in stage %s", name, stage), func() bool {
		run := w.getRun(name)
		if kube.Over(run) && run.Status.Stage != stage {
			w.t.Fatalf("run %s ended: %s %s: %s", name, run.Status.Verdict, run.Status.Reason, run.Status.Message)
		}
		return run.Status.Stage == stage
	})
	return w.getRun(name)
}

// untilOver steps until the run has ended and was cleaned up.
func (w *world) untilOver(name string) *v1alpha1.BenchmarkRun {
	w.t.Helper()
	w.until("run "+name+" is over", func() bool {
		run := w.getRun(name)
		return kube.Over(run) && !controllerutil.ContainsFinalizer(run, kube.Finalizer)
	})
	return w.getRun(name)
}

func (w *world) untilReady(name string) *v1alpha1.GeoDatabase {
	w.t.Helper()
	w.until("database "+name+" is ready", func() bool {
		return conditionIs(w.getDatabase(name).Status.Conditions, v1alpha1.ConditionNetworkVerified, metav1.ConditionTrue)
	})
	return w.getDatabase(name)
}

func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// playCluster plays the controllers of StatefulSets and Jobs, the kubelet, the garbage collector and the workers.
func (w *world) playCluster() {
	w.t.Helper()
	sets := &appsv1.StatefulSetList{}
	w.must(w.client.List(w.ctx, sets, client.InNamespace(w.namespace)))
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Status.ObservedGeneration != set.Generation {
			set.Status.ObservedGeneration = set.Generation
			if err := w.client.Status().Update(w.ctx, set); !apierrors.IsConflict(err) { // the operator may act at the same time
				w.must(err)
			}
		}
		for ordinal := range int(*set.Spec.Replicas) {
			w.ensurePod(set, fmt.Sprintf("%s-%d", set.Name, ordinal), &set.Spec.Template, nil)
		}
	}
	jobs := &batchv1.JobList{}
	w.must(w.client.List(w.ctx, jobs, client.InNamespace(w.namespace)))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.DeletionTimestamp != nil {
			continue
		}
		for index := range int(*job.Spec.Completions) {
			name := fmt.Sprintf("%s-%d-aaaaa", job.Name, index)
			if w.ensurePod(job, name, &job.Spec.Template, map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(index)}) {
				w.jobsRun[name]++
			}
		}
	}
	w.playChaosMesh()
	w.playProbes()
	w.sidecars.follow()
	w.collectGarbage()
	w.collectOrphans()
	w.playSteps()
	w.playWorkers()
}

// playSteps ends the Jobs of steps of spec.init.
func (w *world) playSteps() {
	w.t.Helper()
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	w.must(w.client.List(w.ctx, jobs, client.InNamespace(w.namespace), client.HasLabels{kube.LabelInit}))
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.HasLabels{kube.LabelInit}))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		of := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return metav1.IsControlledBy(&p, job) })
		end := w.stepEnds[job.Labels[kube.LabelInit]]
		if of < 0 || len(job.Status.Conditions) > 0 || end == stepRuns {
			continue
		}
		pod := &pods.Items[of]
		ended := corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}
		pod.Status.Phase = corev1.PodSucceeded
		if end != "" {
			pod.Status.Phase = corev1.PodFailed
			ended = corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3, Message: "it cannot be done\n", FinishedAt: metav1.Now()}
		}
		pod.Status.ContainerStatuses[0].State, pod.Status.ContainerStatuses[0].Ready = corev1.ContainerState{Terminated: &ended}, false
		w.must(w.client.Status().Update(w.ctx, pod))
		condition := func(kind batchv1.JobConditionType) batchv1.JobCondition {
			return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
		}
		now := metav1.Now()
		if job.Status.StartTime == nil {
			job.Status.StartTime = &now
		}
		switch end {
		case "":
			job.Status.CompletionTime, job.Status.Succeeded = &now, 1
			job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)}
		case stepLate:
			failed := condition(batchv1.JobFailed)
			failed.Reason, failed.Message = batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
			job.Status.Failed = 1
			job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobFailureTarget), failed}
		default:
			job.Status.Failed = 1
		}
		w.must(w.client.Status().Update(w.ctx, job))
	}
}

// tellRefused creates the event with which a controller reports that the API server refuses its pod.
func (w *world) tellRefused(owner client.Object, pod string, err error) {
	w.t.Helper()
	message := "Error creating: " + err.Error()
	if kube.KindOf(owner) == "StatefulSet" {
		message = fmt.Sprintf("create Pod %s in StatefulSet %s failed error: %v", pod, owner.GetName(), err)
	}
	now := metav1.NewTime(w.clock.Now())
	about := corev1.ObjectReference{Kind: kube.KindOf(owner), Name: owner.GetName(), Namespace: w.namespace}
	w.must(client.IgnoreAlreadyExists(w.client.Create(w.ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: owner.GetName() + ".refused", Namespace: w.namespace},
		InvolvedObject: about, Reason: "FailedCreate", Type: corev1.EventTypeWarning, Message: message,
		FirstTimestamp: now, LastTimestamp: now,
	})))
}

// ensurePod creates a pod unless it exists or the API server refuses it. It reports whether it created the pod.
func (w *world) ensurePod(owner client.Object, name string, template *corev1.PodTemplateSpec, annotations map[string]string) bool {
	w.t.Helper()
	existing := &corev1.Pod{}
	err := w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: name}, existing)
	if err == nil {
		return false
	}
	if !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	if w.ambient && template.Labels["istio.io/dataplane-mode"] != "none" {
		annotations = kube.WithLabel(annotations, "ambient.istio.io/redirection", "enabled")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, Labels: template.Labels, Annotations: annotations},
		Spec:       *template.Spec.DeepCopy(),
	}
	w.must(controllerutil.SetControllerReference(owner, pod, w.client.Scheme()))
	if w.mutate != nil {
		w.mutate(pod)
	}
	if err := w.client.Create(w.ctx, pod); apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		w.tellRefused(owner, name, err)
		return false
	} else if err != nil {
		w.t.Fatal(err)
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return true
	}
	w.mu.Lock()
	w.nextIP++
	ip := fmt.Sprintf("10.0.%d.%d", w.nextIP/250, w.nextIP%250+1)
	w.mu.Unlock()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Ready: true, Image: testImage, ImageID: "x",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	if w.mesh != "" && pod.Labels["sidecar.istio.io/inject"] != "false" {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: mesh.ProxyContainer, Ready: true, Image: "docker.io/istio/proxyv2:" + w.mesh, ImageID: "x",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	w.must(w.client.Status().Update(w.ctx, pod))
	switch {
	case template.Labels[kube.LabelRole] == kube.RoleNode:
		w.startNode(ip, string(pod.UID), pod)
	case isSteward(pod):
		w.startSteward(ip, pod)
	}
	return true
}
