package controllers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/authority"
	"github.com/geobench/geobench/controllers/chaoswatch"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/errand"
	"github.com/geobench/geobench/controllers/experiment"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/deploy/mesh"
	"github.com/geobench/geobench/internal/deploy/netpol"
	"github.com/geobench/geobench/internal/emulation"
	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/identity"
	"github.com/geobench/geobench/internal/late"
	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/wan"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/catalog"
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
	credentials    *authority.Keeper
	// chaosLog is empty unless a test starts it.
	chaosLog *chaoswatch.Log
	// experimentsWait has experiments not looked at, as if the operator were busy with others.
	experimentsWait bool

	mu sync.Mutex
	// nodes by their pod's IP.
	nodes          map[string]*fakeNode
	everybodyLeads bool
	// ended are processes of nodes in whose pods others are now, joins what processes were told: their nodes and incarnations.
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
	// hangs are the databases, by name, whose nodes do not end loading; givenUp counts the loads of theirs that were cancelled.
	hangs   map[string]bool
	givenUp int
	// tooMuch is why nodes refuse their data; empty when they take it.
	tooMuch string
	// waits are the instants that errands wait for.
	waits map[<-chan time.Time]time.Time
	// stepEnds says how steps of spec.init end, by their names: "" with success, running not at all, failing with an error that they say and
	// are tried again for, late with that for good.
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

// fakeNode is a node's process. It dies with its pod.
type fakeNode struct {
	pod      string
	process  string
	database deploy.Database
	id       geo.NodeID
	dataset  string
	run      string
	traced   bool
	workload []byte
	broken   bool
	// waiting: it has not been told which incarnation of its node it is. Told, it gets its data from its peers and is mending until
	// Status was asked as often.
	waiting     bool
	incarnation uint32
	mending     int
	// steward: it is no node, but has the rows of a database that is not Geobench's own.
	steward bool
	// program: it is the probe beside a program, which nobody can inject faults into.
	program bool
	// periods of its CPU quota, and those in which it had used it up.
	periods, throttled int64
	// ahead is by how much its clock is ahead of the operator's.
	ahead time.Duration
	// zero is when its monotonic clock showed 0. agenda is what it was told, taken how many of the steps it has taken, told when.
	zero   time.Time
	agenda admin.Agenda
	taken  int
	told   time.Duration
	// late is how late it takes each step, idle that it takes none.
	late time.Duration
	idle bool
	now  admin.Disturbance
	log  admin.Log
	// complete is since when all of its links are emulated.
	complete time.Time
}

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
		w.must(w.run.Errands.Start(ended))
	}
	abilities := check.Default(engineTable{})
	c := w.operatorClient()
	choice := database.NewEmulationChoice(c, c, testImage, w.clock)
	w.credentials = &authority.Keeper{Client: c, Live: c, Namespace: w.namespace, Clock: w.clock}
	w.database = &database.Reconciler{Client: c, Live: c, Pods: w, Choose: choice.Choose, Credentials: w.credentials, Abilities: abilities, Around: around, Image: testImage, Events: w.recorder, Clock: w.clock}
	w.chaosLog = &chaoswatch.Log{Client: w.client.(client.WithWatch), Namespace: w.namespace, Clock: w.clock, Wait: run.Wait}
	w.run = &run.Reconciler{Client: c, Live: c, Pods: w, Chaos: w.chaosLog, Choose: choice.Choose, Credentials: w.credentials, Unfit: choice.ChaosUnfit, Abilities: abilities, Errands: errand.NewRunner(), Loads: errand.NewBudget(run.LoadsAtOnce), Memory: errand.NewBudget(1 << 20), Image: testImage, Events: w.recorder, Clock: w.clock,
		Wait: w.wait}
	w.experiment = &experiment.Reconciler{Client: c, Live: c, Abilities: abilities, Errands: errand.NewRunner(), Judgements: experiment.NewJudgements(), Checks: experiment.NewChecks(), SlowChecks: experiment.NewSlowChecks(), Events: w.recorder, Clock: w.clock}
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

// wait is how errands wait for an instant.
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

// hearExperiments reconciles an experiment again that an errand has news for.
func (w *world) hearExperiments(e *v1alpha1.Experiment) {
	w.t.Helper()
	for {
		w.experiment.Errands.Wait()
		select {
		case <-w.experiment.Errands.News:
			w.reconcile(w.experiment, e)
		default:
			return
		}
	}
}

// settle waits until no errand is under way but those that load into databases that hang.
func (w *world) settle() {
	idle := func() int { // errands that wait for what does not happen now
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
	for w.run.Errands.Underway() > idle() {
		goruntime.Gosched()
	}
	w.experiment.Errands.Wait()
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

func isSteward(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Name == "steward" }

// startSteward starts a steward's process as geobench steward does, whose database has no pending transactions.
func (w *world) startSteward(ip string, pod *corev1.Pod) {
	w.t.Helper()
	cm := w.get(pod.Spec.Volumes[0].ConfigMap.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	var dw deploy.Worker
	w.must(json.Unmarshal([]byte(cm.Data[run.WorkerKey]), &dw))
	w.must(dw.Database.Validate())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[ip] = &fakeNode{pod: pod.Name, process: string(pod.UID), zero: w.clock.Now().Add(-time.Hour), database: dw.Database, steward: true}
}

// startNode starts a node's process as geobench node does: from the pod's ConfigMap, arguments and name.
func (w *world) startNode(ip, process string, pod *corev1.Pod) {
	w.t.Helper()
	cm := w.get(pod.Spec.Volumes[0].ConfigMap.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	n := &fakeNode{pod: pod.Name, process: process, zero: w.clock.Now().Add(-time.Hour), program: pod.Spec.Containers[0].Name != database.NodeContainer}
	n.log = admin.Log{Process: process, Since: w.clock.Since(n.zero)}
	if !w.linksShort[pod.Name] {
		n.complete = w.clock.Now().Add(-time.Hour)
	}
	w.must(json.Unmarshal([]byte(cm.Data[database.TopologyKey]), &n.database))
	w.must(n.database.Validate())
	region := n.database.Topology.Index(pod.Labels[kube.LabelRegion])
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	w.must(err)
	t := &n.database.Topology
	n.id = t.Node(region, ordinal/t.Replicas, ordinal%t.Replicas)
	if pod.Labels[kube.LabelServer] != "" { // the pods of several roles are not numbered through
		n.id = geo.NodeID(slices.IndexFunc([]deploy.Node(n.database.Nodes), func(d deploy.Node) bool { return strings.HasPrefix(d.Admin, pod.Name+".") }))
	}
	if host, _, _ := strings.Cut(n.database.Nodes[n.id].Address, "."); host != pod.Name {
		w.t.Fatalf("node %s is at %s, but its pod is %s", t.NodeName(n.id), n.database.Nodes[n.id].Address, pod.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &n.database
	journal := slices.Contains(pod.Spec.Containers[0].Args, "--journal")
	if n.waiting = !journal && slices.Contains(engines.Replaceable(d.Engine, d.Parameters, t), n.id); !n.waiting && !n.program {
		w.appear(n)
	}
	w.nodes[ip] = n
}

// appear lets the peers of a node hear of it: they refuse a process that has lost its state.
func (w *world) appear(n *fakeNode) {
	for _, other := range append(slices.Collect(maps.Values(w.nodes)), w.ended...) {
		if other != n && !other.waiting && !other.program && other.database.Incarnation == n.database.Incarnation && other.id == n.id && other.incarnation >= n.incarnation {
			n.broken = true
		}
	}
}

// Join implements podclient.Nodes.
func (w *world) Join(_ context.Context, addr string, j *admin.Join) error {
	n, err := w.node(addr)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case j.Process != n.process:
		return fmt.Errorf("this is process %s, not %s", n.process, j.Process)
	case !n.waiting && n.incarnation != j.NodeIncarnation:
		return fmt.Errorf("this process is incarnation %d already, not %d", n.incarnation, j.NodeIncarnation)
	case n.waiting:
		n.waiting, n.incarnation = false, j.NodeIncarnation
		if n.incarnation > 0 {
			n.mending = 3
			n.dataset, n.run, n.workload, n.traced = j.Loaded.Dataset, j.Loaded.Run, j.Loaded.Workload, j.Loaded.Traced
		}
		w.joins = append(w.joins, fmt.Sprintf("%s %d", n.database.Topology.NodeName(n.id), n.incarnation))
		w.appear(n)
	}
	return nil
}

// collectGarbage deletes pods whose owner is gone, as far as tests need it.
func (w *world) collectGarbage() {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace)))
	for i := range pods.Items {
		owner := metav1.GetControllerOf(&pods.Items[i])
		if owner.Kind == "GeoDatabase" {
			continue
		}
		var obj client.Object = &appsv1.StatefulSet{}
		if owner.Kind == "Job" {
			obj = &batchv1.Job{}
		}
		err := w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: owner.Name}, obj)
		if apierrors.IsNotFound(err) || err == nil && obj.GetUID() != owner.UID {
			w.must(client.IgnoreNotFound(w.client.Delete(w.ctx, &pods.Items[i], client.GracePeriodSeconds(0))))
		}
	}
}

// playWorkers plays the workers whose pods exist.
func (w *world) playWorkers() {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.must(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleWorker}))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || isSteward(pod) || pod.Labels[kube.LabelInit] != "" {
			continue
		}
		config := &corev1.ConfigMap{}
		if w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: pod.Spec.Volumes[0].ConfigMap.Name}, config) != nil {
			continue
		}
		var dw deploy.Worker
		w.must(json.Unmarshal([]byte(config.Data[run.WorkerKey]), &dw))
		args := pod.Spec.Containers[0].Args
		report := args[len(args)-1] + "-" + pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		w.playWorker(pod, &dw, identity.Digest([]byte(config.Data[run.WorkerKey])), report)
	}
}

// reportKey is the file that a worker's pod has its key in.
func (w *world) reportKey(pod *corev1.Pod) []byte {
	w.t.Helper()
	index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath != deploy.ReportKeyFile {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			for _, item := range v.Secret.Items {
				if item.Path == strings.ReplaceAll(m.SubPathExpr, "$(JOB_COMPLETION_INDEX)", index) {
					return w.get(v.Secret.SecretName, &corev1.Secret{}).(*corev1.Secret).Data[item.Key]
				}
			}
		}
	}
	w.t.Fatalf("pod %s has no key for its report", pod.Name)
	return nil
}

func (w *world) playWorker(pod *corev1.Pod, dw *deploy.Worker, digest, report string) {
	w.t.Helper()
	cm := &corev1.ConfigMap{}
	if w.client.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: report}, cm) != nil {
		return
	}
	state := cm.Data[deploy.KeyState]
	if w.workersHang != nil && state == *w.workersHang {
		return
	}
	base := cm.DeepCopy()
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	var spec v1alpha1.Load
	w.must(json.Unmarshal(dw.Load, &spec))
	switch state {
	case "":
		cm.Data[deploy.KeyState], cm.Data[deploy.KeyPod] = deploy.StateReady, pod.Name
	case deploy.StateReady:
		at := cm.Data[deploy.KeyStartAt]
		if at == "" {
			return
		}
		start, err := time.Parse(time.RFC3339Nano, at)
		w.must(err)
		if late := w.clock.Now().Sub(start); late > 0 {
			w.t.Errorf("worker %s was told %s too late", pod.Name, late)
		}
		w.starts[dw.UID] = append(w.starts[dw.UID], at)
		cm.Data[deploy.KeyState] = deploy.StateRunning
	case deploy.StateRunning:
		start, err := time.Parse(time.RFC3339Nano, cm.Data[deploy.KeyStartAt])
		w.must(err)
		if w.clock.Now().Before(start.Add(load.PlanOf(spec, 0).LastWindow())) {
			return
		}
		index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		w.must(err)
		h := &deploy.HandIn{Run: dw.UID, Region: dw.Region, Index: index, Config: digest, StartAt: start.UTC().Format(time.RFC3339Nano)}
		h.Report, err = w.report(dw, &spec, index).Encode()
		w.must(err)
		if dw.HistoryLimit > 0 {
			h.History = w.recordHistory(pod, dw)
			cm.Data[deploy.KeyHistory] = h.History
		}
		cm.Data[deploy.KeySeal], err = h.Seal(w.reportKey(pod))
		w.must(err)
		cm.Data[deploy.KeyState] = deploy.StateDone
		cm.BinaryData = map[string][]byte{deploy.KeyReport: h.Report}
	default:
		return
	}
	w.must(w.client.Patch(w.ctx, cm, client.MergeFrom(base)))
}

// recordHistory keeps the history of a worker, and returns what the worker says of it.
func (w *world) recordHistory(pod *corev1.Pod, dw *deploy.Worker) string {
	w.t.Helper()
	var file bytes.Buffer
	h := deploy.History{Full: w.historyFull}
	writer := history.NewWriter(&file, history.Header{Region: dw.Region})
	if w.history != nil {
		for _, x := range w.history(dw.Region) {
			writer.Add(&x)
			h.Transactions++
			h.Operations += int64(len(x.Ops))
		}
	}
	w.must(writer.Close())
	h.Bytes = int64(file.Len())
	w.histories[pod.Status.PodIP] = file.Bytes()
	text, err := json.Marshal(h)
	w.must(err)
	return string(text)
}

// Nodes implements podclient.Clients.
func (w *world) Nodes(types.UID) podclient.Nodes { return w }

// Sidecars implements podclient.Clients.
func (w *world) Sidecars(types.UID) emulation.Sidecars { return w.sidecars }

// Proxies implements podclient.Clients.
func (w *world) Proxies() podclient.Proxies { return w }

// Counters implements podclient.Proxies.
func (w *world) Counters(_ context.Context, addr, path string, read func(io.Reader) error) error {
	if w.counters == nil {
		return fmt.Errorf("dial tcp %s: connection refused", addr)
	}
	text, err := w.counters(addr, path)
	if err != nil {
		return err
	}
	return read(strings.NewReader(text))
}

// History implements podclient.Nodes.
func (w *world) History(_ context.Context, addr string) (io.ReadCloser, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	file, ok := w.histories[ip]
	if w.historyAway > 0 {
		w.historyAway--
		file = file[:len(file)/2]
	}
	if !ok {
		return nil, fmt.Errorf("dial tcp %s: connection refused", addr)
	}
	return io.NopCloser(bytes.NewReader(file)), nil
}

// Clock implements podclient.Nodes.
func (w *world) Clock(ctx context.Context, addr string) (podclient.Clock, error) {
	if n, err := w.node(addr); err == nil {
		return podclient.Clock{Ahead: n.ahead, Zero: n.zero, Within: time.Millisecond}, nil
	}
	pods := &corev1.PodList{}
	if err := w.client.List(ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleWorker}); err != nil {
		return podclient.Clock{}, err
	}
	for i := range pods.Items {
		if strings.HasPrefix(addr, pods.Items[i].Status.PodIP+":") {
			return podclient.Clock{Ahead: -w.clockBehind[pods.Items[i].Labels[kube.LabelRegion]], Within: time.Millisecond}, nil
		}
	}
	return podclient.Clock{}, fmt.Errorf("dial tcp %s: connection refused", addr)
}

// targetRTT is what a worker measures of a database that is not Geobench's own.
func targetRTT(dw *deploy.Worker) int64 {
	if dw.Database.Client == nil {
		return 0
	}
	return 1234
}

// dealt is how many of a region's clients a worker of it plays.
func dealt(spec *v1alpha1.Load, index int) int {
	n, workers := int(spec.ClientsPerRegion), max(1, int(spec.WorkersPerRegion))
	share := n / workers
	if index < n%workers {
		share++
	}
	return share
}

// report is what a worker hands in: transactions that only read, so that no ledger moves.
func (w *world) report(dw *deploy.Worker, spec *v1alpha1.Load, index int) *result.Report {
	wl, err := catalog.Parse(dw.Workload, dw.Seed, &dw.Database.Topology)
	w.must(err)
	r := &result.Report{
		Kind: result.ReportKind, Version: result.ReportVersion, Workload: wl.Name(), Types: wl.Types(), Arrival: string(spec.Arrival),
		DurationMicroseconds: spec.Duration.Microseconds(), Repetitions: int(spec.Repetitions),
		Workers: []result.Worker{{Region: dw.Region, Index: index, Clients: dealt(spec, index), TargetRTTMicroseconds: targetRTT(dw),
			Driver: &result.Driver{MeasuredMicroseconds: spec.Duration.Microseconds(), AllowanceMilliCPU: 1000, LateMicroseconds: &result.Lateness{}}}},
		Ledger: workload.Ledger{}, Shares: make([]workload.Count, len(wl.Shares())),
	}
	h := result.NewHistogram()
	committed := w.committed
	if n, ok := w.committedOn[dw.Database.Engine]; ok {
		committed = n
	}
	w.must(h.RecordValues(1500, committed))
	var unknown int64
	one := result.NewHistogram()
	if slices.Contains(w.unknownIn, dw.Run) {
		unknown = 1
		w.must(one.RecordValue(1500))
	}
	for rep := range r.Repetitions {
		r.Windows = append(r.Windows, result.Window{Region: dw.Region, Repetition: rep + 1, MeasuredMicroseconds: r.DurationMicroseconds,
			Due: committed + unknown, Sent: committed + unknown, Classified: committed})
		if unknown > 0 {
			r.Series = append(r.Series, result.Series{
				Region: dw.Region, Repetition: rep + 1, Type: r.Types[0], Class: txn.ClassOf(false, false).String(), Outcome: txn.Unknown.String(),
				Attempts: result.SeriesAttempts{Count: unknown}, Latency: result.Distribution{Count: unknown, SumMicroseconds: 1500, MaxMicroseconds: 1500, Histogram: result.EncodeHistogram(one)},
			})
		}
		r.Series = append(r.Series, result.Series{
			Region: dw.Region, Repetition: rep + 1, Type: r.Types[0], Class: txn.ClassOf(false, false).String(), Outcome: txn.Committed.String(),
			Attempts: result.SeriesAttempts{Count: committed},
			Latency:  result.Distribution{Count: committed, SumMicroseconds: 1500 * committed, MaxMicroseconds: 1500, Histogram: result.EncodeHistogram(h)},
		})
	}
	return r
}

// dieAfterEveryWrite lets the operator die after each single write to the API server, until it is started again.
func (w *world) dieAfterEveryWrite() {
	real := w.client.(client.WithWatch)
	w.dead = true // the one that lives until now
	w.operatorClient = func() client.Client {
		dead := false
		w.dead = false
		live := func(err error) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err == nil {
				w.deaths++
				dead, w.dead = true, true
			}
			return err
		}
		check := func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if dead {
				return errKilled
			}
			return nil
		}
		return interceptor.NewClient(real, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if err := check(); err != nil {
					return err
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := check(); err != nil {
					return err
				}
				return c.List(ctx, list, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if err := check(); err != nil {
					return err
				}
				err := c.Create(ctx, obj, opts...)
				if slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
					return err // nothing is written
				}
				return live(err)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if err := check(); err != nil {
					return err
				}
				return live(c.Patch(ctx, obj, patch, opts...))
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if err := check(); err != nil {
					return err
				}
				return live(c.Delete(ctx, obj, opts...))
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := check(); err != nil {
					return err
				}
				return live(c.SubResource(sub).Patch(ctx, obj, patch, opts...))
			},
		})
	}
}

// node returns the node that listens at addr.
func (w *world) node(addr string) (*fakeNode, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[ip]; n != nil && !w.shutDown[n.pod] {
		return n, nil
	}
	return nil, fmt.Errorf("dial tcp %s: connection refused", addr)
}

// Status implements podclient.Nodes.
func (w *world) Status(_ context.Context, addr string) (*admin.Status, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	t := &n.database.Topology
	s := &admin.Status{
		QuotaPeriods: n.periods, ThrottledPeriods: n.throttled,
		Node: t.NodeName(n.id), ID: int(n.id), Incarnation: n.database.Incarnation, Process: n.process,
		Ready: !n.broken, Broken: n.broken, Dataset: n.dataset, Pending: w.pending,
	}
	if n.waiting {
		return &admin.Status{Node: s.Node, ID: s.ID, Incarnation: s.Incarnation, Process: s.Process, Waiting: true, Reason: "it waits"}, nil
	}
	w.mu.Lock()
	if s.NodeIncarnation, s.Mending = n.incarnation, n.mending > 0; s.Mending {
		n.mending--
	}
	w.mu.Unlock()
	n.follow(w.clock.Since(n.zero))
	if s.Ahead = len(n.agenda.Steps) - n.taken; !n.now.Same(nil) {
		now := n.now
		s.Disturbance = &now
	}
	if n.id == 0 || w.everybodyLeads {
		s.Roles = []string{"leader"}
	}
	if at := n.complete; !at.IsZero() {
		s.LinksComplete = &at
	}
	if n.broken {
		s.Reason = "a peer started again without its log"
	}
	if n.steward { // its etcd has elected another leader since
		s.Leader, s.Elections = t.Regions[1], 1
	}
	for r, region := range t.Regions {
		l := admin.LinkStatus{To: region, Traffic: geo.Traffic{Bytes: 1000 + w.bytes, Messages: 10}}
		self := t.RegionOf(n.id) == geo.Region(r)
		if !self || t.Partitions*t.Replicas > 1 {
			rtt := t.RTT(t.RegionOf(n.id), geo.Region(r)) + w.rttOff
			l.RTT = encodedRTT(max(1, rtt.Microseconds()))
			if w.mesh != "" {
				l.Mesh = &admin.MeshRTT{Below: encodedRTT(200), Through: encodedRTT(1100)}
			}
		}
		s.Links = append(s.Links, l)
	}
	return s, nil
}

// encodedRTTs are what encodedRTT has returned: each compression begins with tables of its own.
var encodedRTTs sync.Map

// encodedRTT are 50 round trips as nodes tell them.
func encodedRTT(us int64) string {
	if s, known := encodedRTTs.Load(us); known {
		return s.(string)
	}
	h := hdrhistogram.New(1, 60_000_000, 3)
	if err := h.RecordValues(us, 50); err != nil {
		panic(err)
	}
	s, err := admin.EncodeRTT(h)
	if err != nil {
		panic(err)
	}
	encodedRTTs.Store(us, s)
	return s
}

// Load implements podclient.Nodes.
func (w *world) Load(ctx context.Context, addr string, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	hangs := w.hangs
	w.mu.Unlock()
	for name := range hangs {
		if strings.HasPrefix(n.pod, name+"-") {
			<-ctx.Done()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		w.givenUp++
		return nil, ctx.Err()
	}
	if w.tooMuch != "" {
		return nil, &admin.BadRequest{Err: errors.New(w.tooMuch)}
	}
	if n.dataset != req.Dataset {
		n.dataset, n.run, n.workload, n.traced = req.Dataset, req.Run, req.Workload, req.Traced
		w.loads++
	}
	resp := &admin.LoadResponse{Rows: 100, Bytes: 10_000}
	if n.steward {
		about := result.Target{Server: "PostgreSQL 15.0", Isolation: "serializable", Servers: w.servers}
		text, err := json.Marshal(about)
		w.must(err)
		resp.Target = text
	} else if n.database.Client != nil {
		w.t.Errorf("%s is asked to load, and is a probe", n.pod)
	}
	return resp, nil
}

// follow takes the steps of the node's agenda that are due.
func (n *fakeNode) follow(now time.Duration) {
	for !n.idle && n.taken < len(n.agenda.Steps) {
		at := max(n.agenda.Steps[n.taken].At+n.late, n.told)
		if at > now {
			return
		}
		n.do(at, &n.agenda.Steps[n.taken].Disturbance)
		n.taken++
	}
}

// do does something else to the node from a time on.
func (n *fakeNode) do(at time.Duration, d *admin.Disturbance) {
	if !d.Same(&n.now) {
		n.now = *d
		n.log.Change(at, d)
	}
}

// Disturb implements podclient.Nodes.
func (w *world) Disturb(_ context.Context, addr string, a *admin.Agenda) error {
	n, err := w.node(addr)
	if err != nil {
		return err
	}
	if n.program {
		return errors.New("404 page not found")
	}
	if a.Process != "" && a.Process != n.process {
		return fmt.Errorf("this is process %s, not %s", n.process, a.Process)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Since(n.zero)
	n.follow(now)
	n.agenda, n.taken, n.told = *a, 0, now
	d, _, _ := a.At(now) // what went before is over
	for n.taken < len(a.Steps) && a.Steps[n.taken].At <= now {
		n.taken++
	}
	n.do(now, d)
	return nil
}

// punctual returns the record of a process that is never late, by its own clock.
func punctual(since, until time.Duration) *late.Record {
	r := late.NewRecorder(func() time.Duration { return since }, func() time.Duration { return 0 })
	r.Woke(until, until, 0)
	return r.Record()
}

// Log implements podclient.Nodes.
func (w *world) Log(_ context.Context, addr string) (*admin.Log, error) {
	n, err := w.node(addr)
	if err != nil {
		return nil, err
	}
	if n.database.Client != nil {
		return nil, fmt.Errorf("GET %s/log: 404 Not Found", addr) // a probe keeps none, as it disturbs nothing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n.follow(w.clock.Since(n.zero))
	log := n.log
	log.Entries = slices.Clone(log.Entries)
	if log.Late == nil {
		log.Late = punctual(log.Since, w.clock.Since(n.zero))
	}
	return &log, nil
}

// Audit implements podclient.Nodes.
func (w *world) Audit(_ context.Context, addr string) (*admin.Audit, error) {
	n, err := w.node(addr)
	if err = cmp.Or(err, w.noAudit); err != nil {
		return nil, err
	}
	wl, err := catalog.Parse(n.workload, 1, &n.database.Topology)
	if err != nil {
		return nil, err
	}
	d := &n.database
	rows, layout := store.NewHash(), engines.Layout(d.Engine, d.Parameters, &d.Topology)
	if n.steward {
		layout = n.database.Topology.Whole(0)
	}
	if err := workload.Fill(wl, &layout, n.id, rows.Load); err != nil {
		return nil, err
	}
	a := &admin.Audit{Shards: audit.Of(n.id, &layout, rows, wl, false)}
	if n.steward && w.servers != nil {
		a.Servers, err = json.Marshal(w.servers)
	}
	return a, err
}

// nodePod returns the pod of a database's first node.
func (w *world) nodePod(database, region string, ordinal int) *corev1.Pod {
	w.t.Helper()
	return w.get(kube.PodName(w.getDatabase(database), region, ordinal), &corev1.Pod{}).(*corev1.Pod)
}

// leftovers lists what carries a run's label.
func (w *world) leftovers(run string) []string {
	w.t.Helper()
	var out []string
	for _, obj := range w.labelled(run) {
		out = append(out, kube.KindOf(obj)+" "+obj.GetName())
	}
	return out
}

// labelled are the objects that carry a run's label, of all kinds that runs make.
func (w *world) labelled(run string) (out []client.Object) {
	w.t.Helper()
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &corev1.PodList{}, &rbacv1.RoleBindingList{}, &rbacv1.RoleList{}, &corev1.ServiceAccountList{},
		&corev1.ConfigMapList{}, &corev1.SecretList{}, &v1alpha1.BenchmarkRunList{},
	} {
		w.must(w.client.List(w.ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{kube.LabelRun: run}))
		w.must(meta.EachListItem(list, func(obj runtime.Object) error {
			out = append(out, obj.(client.Object))
			return nil
		}))
	}
	return out
}
