package worldtest

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

const TestImage = "localhost/geobench:test"

// World is a namespace of a real API server. Everything else is simulated: the controllers of StatefulSets and Jobs,
// the kubelet, nodes, workers and the clock. The clock advances only when a test or a step advances it.
type World struct {
	T         *testing.T
	Ctx       context.Context
	Client    client.Client
	Namespace string
	FakeClock *clocktesting.FakeClock

	OperatorParts
	ClusterParts
	NodeParts
	WorkerParts
	ChaosParts

	// Mu protects the fields that simulated nodes and workers share with the test.
	Mu sync.Mutex
	// again is the shortest time after which a controller must be called again.
	again time.Duration
	// waits maps the timer of each waiting background job to the time for which the job waits.
	waits map[<-chan time.Time]time.Time
}

// OperatorParts is the operator under test.
type OperatorParts struct {
	Recorder *events.FakeRecorder
	// OperatorClient returns the operator's client of the API server. Tests replace it to inject failures.
	OperatorClient func() client.Client
	Database       *database.Reconciler
	Run            *run.Reconciler
	experiment     *experiment.Reconciler
	Credentials    *operatorca.Keeper
	// ExperimentsWait pauses the reconciliation of experiments, as if the operator were busy with other objects.
	ExperimentsWait bool
	// Deaths is the number of times that the operator has died because of DieAfterEveryWrite. dead is set from its death
	// until it is restarted.
	Deaths int
	dead   bool
}

// ClusterParts simulates the parts of the cluster that create pods.
type ClusterParts struct {
	nextIP int
	// Mutate, if not nil, changes pods at creation, like a webhook.
	Mutate func(*corev1.Pod)
	// StepEnds are the outcomes of steps of spec.init, by name.
	StepEnds map[string]StepEnd
	// JobsRun is the number of worker pods of each Job.
	JobsRun map[string]int
	// Mesh is the version of the simulated Istio, or empty if there is no mesh. Istio injects its proxy into each new pod
	// that does not opt out.
	Mesh string
	// Ambient puts new pods that do not opt out into an ambient mesh.
	Ambient bool
	// ProxyCounters returns the counters of the mesh's proxies at an address.
	ProxyCounters func(addr, path string) (string, error)
}

// NodeParts simulates the nodes of databases, and the stewards of databases that are not Geobench's own.
type NodeParts struct {
	// PlayedNodes are the nodes by the IP of their pods.
	PlayedNodes    map[string]*FakeNode
	EverybodyLeads bool
	// Ended contains processes that other processes of the same pod have replaced. Joins lists, for each process that has
	// joined, its node and its incarnation.
	Ended []*FakeNode
	Joins []string
	// RTTOff is added to every measured round trip.
	RTTOff time.Duration
	// LinksShort contains the names of pods whose links are not completely emulated yet.
	LinksShort map[string]bool
	// Kernel is the final output of probe pods.
	Kernel string
	// PlayedSidecars are the WAN sidecars of pods.
	PlayedSidecars *fakeSidecars
	// Servers are the servers that stewards report for their databases.
	Servers []result.Server
	// Pending is the number of pending transactions of every node.
	Pending int
	// NoAudit is the error of audits of all nodes; nil if audits succeed.
	NoAudit error
	// Loads is the number of data sets that nodes have loaded.
	Loads int
	// Hangs contains the names of databases whose nodes never finish loading. GivenUp is the number of their cancelled
	// loads.
	Hangs   map[string]bool
	GivenUp int
	// TooMuch is the reason why nodes refuse their data; empty if they accept it.
	TooMuch string
	// Bytes is the number of bytes that nodes have sent over each link, in addition to the first 1000.
	Bytes int64
}

// WorkerParts simulates the load generators.
type WorkerParts struct {
	// WorkersHang, if not nil, is the state in which workers stay.
	WorkersHang *string
	// Starts are the distinct start times that workers received.
	Starts map[string][]string
	// Committed is the number of committed transactions that each worker reports. CommittedOn overrides it by engine.
	Committed   int64
	CommittedOn map[string]int64
	// UnknownIn lists runs whose workers did not receive the outcome of one transaction.
	UnknownIn []string
	// RecordedHistory returns the history of a region's worker. If it is nil, histories are empty.
	RecordedHistory func(region string) []history.Txn
	// HistoryFull is set if the history exceeds the worker's file. HistoryAway is the number of further requests that
	// return only half of the history.
	HistoryFull bool
	HistoryAway int
	// ClockBehind is the time by which the clocks of a region's workers are behind.
	ClockBehind map[string]time.Duration
	// histories contains the recorded histories by the IP of the worker's pod.
	histories map[string][]byte
}

// ChaosParts simulates Chaos Mesh and its log.
type ChaosParts struct {
	// ChaosMesh is set while Chaos Mesh acts on its objects.
	ChaosMesh bool
	// ChaosWaits, if not nil, reports whether Chaos Mesh ignores an object for now.
	ChaosWaits func(*unstructured.Unstructured) bool
	// ShutDown contains the names of pods whose images Chaos Mesh has replaced.
	ShutDown map[string]bool
	// ChaosMade lists the objects on which Chaos Mesh has acted.
	ChaosMade []*unstructured.Unstructured
	// ChaosLog is empty unless a test starts it.
	ChaosLog *chaosaudit.Log
}

// StepEnd is the outcome of a step of spec.init; "" is success.
type StepEnd string

const (
	// StepRuns: the step does not end. StepFails: it fails and is retried. StepLate: it fails after its deadline.
	StepRuns  StepEnd = "runs"
	StepFails StepEnd = "fails"
	StepLate  StepEnd = "is late"
)

// Around is the operator's description of the cluster.
var Around = &netpol.Cluster{OperatorNamespace: "geobench-system", Operator: map[string]string{"app.kubernetes.io/component": "operator"}, APIServerPorts: []int32{443}}

func NewWorld(t *testing.T) *World {
	t.Helper()
	c, namespace := NewNamespace(t)
	w := &World{
		T: t, Ctx: context.Background(), Client: c, Namespace: namespace,
		FakeClock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)),
		waits:     map[<-chan time.Time]time.Time{},
	}
	w.PlayedNodes, w.JobsRun = map[string]*FakeNode{}, map[string]int{}
	w.Starts, w.Committed, w.histories = map[string][]string{}, 5000, map[string][]byte{}
	w.OperatorClient = func() client.Client { return c }
	w.ShutDown = map[string]bool{}
	w.PlayedSidecars = &fakeSidecars{w: w, files: map[types.UID]*wan.Config{}, Logs: map[types.UID]*wan.Log{}}
	w.Kernel = `{"missing":{"netem":"no such file or directory"}}`
	w.Recorder = &events.FakeRecorder{Events: make(chan string, 10_000)}
	w.RestartOperator()
	return w
}

// RestartOperator drops everything that the operator has in memory.
func (w *World) RestartOperator() {
	if w.Run != nil { // the old operator must not continue its jobs
		ended, end := context.WithCancel(w.Ctx)
		end()
		// A runner whose context has ended cancels its jobs and starts no further jobs.
		w.Must(w.Run.Jobs.Start(ended))
	}
	abilities := check.Default(nil)
	c := w.OperatorClient()
	choice := database.NewEmulationChoice(c, c, TestImage, w.FakeClock)
	w.Credentials = &operatorca.Keeper{Client: c, Live: c, Namespace: w.Namespace, Clock: w.FakeClock}
	w.Database = &database.Reconciler{Client: c, Live: c, Pods: w, Choose: choice.Choose, Credentials: w.Credentials, Abilities: abilities, Around: Around, Image: TestImage, Events: w.Recorder, Clock: w.FakeClock}
	w.ChaosLog = &chaosaudit.Log{Client: w.Client.(client.WithWatch), Namespace: w.Namespace, Clock: w.FakeClock, Wait: run.Wait}
	w.Run = &run.Reconciler{Client: c, Live: c, Pods: w, Chaos: w.ChaosLog, Choose: choice.Choose, Credentials: w.Credentials, Unfit: choice.ChaosUnfit, Abilities: abilities, Jobs: background.NewRunner(), Loads: background.NewBudget(run.LoadsAtOnce), Memory: background.NewBudget(1 << 20), Image: TestImage, Events: w.Recorder, Clock: w.FakeClock,
		Wait: w.wait}
	w.experiment = &experiment.Reconciler{Client: c, Live: c, Abilities: abilities, Jobs: background.NewRunner(), Judgements: experiment.NewJudgements(), Checks: experiment.NewChecks(), SlowChecks: experiment.NewSlowChecks(), Events: w.Recorder, Clock: w.FakeClock}
}

// Revive restarts the operator without its state in memory, if it has died.
func (w *World) Revive() {
	if w.dead {
		w.RestartOperator()
	}
}

func (w *World) Create(objects ...client.Object) {
	w.T.Helper()
	for _, obj := range objects {
		obj.SetNamespace(w.Namespace)
		if err := w.Client.Create(w.Ctx, obj); err != nil {
			w.T.Fatalf("creating %s %s: %v", kube.KindOf(obj), obj.GetName(), err)
		}
	}
}

func (w *World) Get(name string, obj client.Object) client.Object {
	w.T.Helper()
	if err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: name}, obj); err != nil {
		w.T.Fatalf("getting %s %s: %v", kube.KindOf(obj), name, err)
	}
	return obj
}

func (w *World) GetRun(name string) *v1alpha1.BenchmarkRun {
	return w.Get(name, &v1alpha1.BenchmarkRun{}).(*v1alpha1.BenchmarkRun)
}

func (w *World) GetDatabase(name string) *v1alpha1.GeoDatabase {
	return w.Get(name, &v1alpha1.GeoDatabase{}).(*v1alpha1.GeoDatabase)
}

// Step lets everything act once: all controllers on every object, then the cluster. Then it advances the clock until a
// controller wants to be called again.
func (w *World) Step() {
	w.T.Helper()
	w.again = kube.PollFast
	// The operator acts before the cluster, so it always works with the state of the previous step, like a real operator
	// with delayed events.
	w.reconcileAll()
	w.PlayCluster()
	now := w.FakeClock.Now()
	w.Mu.Lock()
	// The clock must not pass a time for which a job waits, such as the planned time of a kill.
	for _, until := range w.waits {
		w.again = min(w.again, until.Sub(now))
	}
	w.Mu.Unlock()
	w.FakeClock.Step(w.again)
	w.Settle()
}

// wait blocks a background job until the clock has advanced by d.
func (w *World) wait(ctx context.Context, d time.Duration) error {
	until, passed := w.FakeClock.Now().Add(d), w.FakeClock.After(d)
	w.Mu.Lock()
	w.waits[passed] = until
	w.Mu.Unlock()
	defer func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		delete(w.waits, passed)
	}()
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *World) reconcileAll() {
	w.T.Helper()
	databases := &v1alpha1.GeoDatabaseList{}
	runs := &v1alpha1.BenchmarkRunList{}
	experiments := &v1alpha1.ExperimentList{}
	w.Must(w.Client.List(w.Ctx, experiments, client.InNamespace(w.Namespace)))
	for i := range experiments.Items {
		if !w.ExperimentsWait {
			w.Reconcile(w.experiment, &experiments.Items[i])
			// The first reconciliation only starts the expansion, whose end wakes the experiment up.
			w.hearExperiments(&experiments.Items[i])
		}
	}
	w.Must(w.Client.List(w.Ctx, databases, client.InNamespace(w.Namespace)))
	w.Must(w.Client.List(w.Ctx, runs, client.InNamespace(w.Namespace)))
	for i := range databases.Items {
		w.Reconcile(w.Database, &databases.Items[i])
	}
	for i := range runs.Items {
		w.Reconcile(w.Run, &runs.Items[i])
	}
	w.Settle()
}

// hearExperiments reconciles an experiment again as long as background jobs report events for it.
func (w *World) hearExperiments(e *v1alpha1.Experiment) {
	w.T.Helper()
	for {
		w.experiment.Jobs.Wait()
		select {
		case <-w.experiment.Jobs.News:
			w.Reconcile(w.experiment, e)
		default:
			return
		}
	}
}

// Settle waits until the only jobs in progress are loads into databases that hang.
func (w *World) Settle() {
	idle := func() int { // number of jobs that cannot continue now
		w.Mu.Lock()
		defer w.Mu.Unlock()
		n := len(w.Hangs)
		for _, until := range w.waits {
			if until.After(w.FakeClock.Now()) {
				n++
			}
		}
		return n
	}
	for w.Run.Jobs.Underway() > idle() {
		goruntime.Gosched()
	}
	w.experiment.Jobs.Wait()
}

// errKilled is the error of the operator's client once the test has killed the operator.
var errKilled = errors.New("the operator was killed")

func (w *World) Reconcile(r reconcile.Reconciler, obj client.Object) {
	w.T.Helper()
	res, err := r.Reconcile(w.Ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	if res.RequeueAfter > 0 {
		w.again = min(w.again, res.RequeueAfter)
	}
	if err != nil {
		w.again = min(w.again, 10*time.Millisecond) // the queue retries immediately
	}
	// A conflict is not an error: the operator retries with the current object.
	if err != nil && !errors.Is(err, errKilled) && !apierrors.IsConflict(err) {
		w.T.Fatalf("reconciling %s %s: %v", kube.KindOf(obj), obj.GetName(), err)
	}
}

// Away lets time pass without an operator.
func (w *World) Away(d time.Duration) {
	w.T.Helper()
	w.RestartOperator()
	for end := w.FakeClock.Now().Add(d); w.FakeClock.Now().Before(end); {
		w.FakeClock.Step(min(500*time.Millisecond, end.Sub(w.FakeClock.Now())))
		w.PlayCluster()
	}
}

// Until steps until the condition holds.
func (w *World) Until(what string, done func() bool) {
	w.T.Helper()
	for range 600 {
		if done() {
			return
		}
		w.Step()
	}
	w.T.Fatalf("gave up waiting until %s\n%s", what, w.Describe())
}

// Describe returns the runs and databases as text, for a failed test.
func (w *World) Describe() string {
	var b strings.Builder
	runs := &v1alpha1.BenchmarkRunList{}
	databases := &v1alpha1.GeoDatabaseList{}
	w.Must(w.Client.List(w.Ctx, runs, client.InNamespace(w.Namespace)))
	w.Must(w.Client.List(w.Ctx, databases, client.InNamespace(w.Namespace)))
	experiments := &v1alpha1.ExperimentList{}
	w.Must(w.Client.List(w.Ctx, experiments, client.InNamespace(w.Namespace)))
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

func (w *World) UntilStage(name string, stage v1alpha1.Stage) *v1alpha1.BenchmarkRun {
	w.T.Helper()
	w.Until(fmt.Sprintf("run %s is in stage %s", name, stage), func() bool {
		run := w.GetRun(name)
		if kube.Over(run) && run.Status.Stage != stage {
			w.T.Fatalf("run %s ended: %s %s: %s", name, run.Status.Verdict, run.Status.Reason, run.Status.Message)
		}
		return run.Status.Stage == stage
	})
	return w.GetRun(name)
}

// UntilOver steps until the run is over and cleaned up.
func (w *World) UntilOver(name string) *v1alpha1.BenchmarkRun {
	w.T.Helper()
	w.Until("run "+name+" is over", func() bool {
		run := w.GetRun(name)
		return kube.Over(run) && !controllerutil.ContainsFinalizer(run, kube.Finalizer)
	})
	return w.GetRun(name)
}

func (w *World) UntilReady(name string) *v1alpha1.GeoDatabase {
	w.T.Helper()
	w.Until("database "+name+" is ready", func() bool {
		return ConditionIs(w.GetDatabase(name).Status.Conditions, v1alpha1.ConditionNetworkVerified, metav1.ConditionTrue)
	})
	return w.GetDatabase(name)
}

func ConditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// PlayCluster simulates the controllers of StatefulSets and Jobs, the kubelet, the garbage collector and the workers.
func (w *World) PlayCluster() {
	w.T.Helper()
	sets := &appsv1.StatefulSetList{}
	w.Must(w.Client.List(w.Ctx, sets, client.InNamespace(w.Namespace)))
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Status.ObservedGeneration != set.Generation {
			set.Status.ObservedGeneration = set.Generation
			// the operator may write it at the same time
			if err := w.Client.Status().Update(w.Ctx, set); !apierrors.IsConflict(err) {
				w.Must(err)
			}
		}
		for ordinal := range int(*set.Spec.Replicas) {
			w.ensurePod(set, fmt.Sprintf("%s-%d", set.Name, ordinal), &set.Spec.Template, nil)
		}
	}
	jobs := &batchv1.JobList{}
	w.Must(w.Client.List(w.Ctx, jobs, client.InNamespace(w.Namespace)))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.DeletionTimestamp != nil {
			continue
		}
		for index := range int(*job.Spec.Completions) {
			name := fmt.Sprintf("%s-%d-aaaaa", job.Name, index)
			if w.ensurePod(job, name, &job.Spec.Template, map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(index)}) {
				w.JobsRun[name]++
			}
		}
	}
	w.PlayChaosMesh()
	w.playProbes()
	w.PlayedSidecars.follow()
	w.collectGarbage()
	w.collectOrphans()
	w.playSteps()
	w.playWorkers()
}

// playSteps finishes the Jobs of steps of spec.init.
func (w *World) playSteps() {
	w.T.Helper()
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	w.Must(w.Client.List(w.Ctx, jobs, client.InNamespace(w.Namespace), client.HasLabels{kube.LabelInit}))
	w.Must(w.Client.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.HasLabels{kube.LabelInit}))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		of := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return metav1.IsControlledBy(&p, job) })
		end := w.StepEnds[job.Labels[kube.LabelInit]]
		if of < 0 || len(job.Status.Conditions) > 0 || end == StepRuns {
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
		w.Must(w.Client.Status().Update(w.Ctx, pod))
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
		case StepLate:
			failed := condition(batchv1.JobFailed)
			failed.Reason, failed.Message = batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
			job.Status.Failed = 1
			job.Status.Conditions = []batchv1.JobCondition{condition(batchv1.JobFailureTarget), failed}
		default:
			job.Status.Failed = 1
		}
		w.Must(w.Client.Status().Update(w.Ctx, job))
	}
}

// tellRefused creates the event with which a controller reports that the API server refuses its pod.
func (w *World) tellRefused(owner client.Object, pod string, err error) {
	w.T.Helper()
	message := "Error creating: " + err.Error()
	if kube.KindOf(owner) == "StatefulSet" {
		message = fmt.Sprintf("create Pod %s in StatefulSet %s failed error: %v", pod, owner.GetName(), err)
	}
	now := metav1.NewTime(w.FakeClock.Now())
	about := corev1.ObjectReference{Kind: kube.KindOf(owner), Name: owner.GetName(), Namespace: w.Namespace}
	w.Must(client.IgnoreAlreadyExists(w.Client.Create(w.Ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: owner.GetName() + ".refused", Namespace: w.Namespace},
		InvolvedObject: about, Reason: "FailedCreate", Type: corev1.EventTypeWarning, Message: message,
		FirstTimestamp: now, LastTimestamp: now,
	})))
}

// ensurePod creates a pod unless it exists or the API server refuses it. It reports whether it created the pod.
func (w *World) ensurePod(owner client.Object, name string, template *corev1.PodTemplateSpec, annotations map[string]string) bool {
	w.T.Helper()
	existing := &corev1.Pod{}
	err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.Namespace, Name: name}, existing)
	if err == nil {
		return false
	}
	if !apierrors.IsNotFound(err) {
		w.T.Fatal(err)
	}
	if w.Ambient && template.Labels["istio.io/dataplane-mode"] != "none" {
		annotations = kube.WithLabel(annotations, "ambient.istio.io/redirection", "enabled")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace, Labels: template.Labels, Annotations: annotations},
		Spec:       *template.Spec.DeepCopy(),
	}
	w.Must(controllerutil.SetControllerReference(owner, pod, w.Client.Scheme()))
	if w.Mutate != nil {
		w.Mutate(pod)
	}
	if err := w.Client.Create(w.Ctx, pod); apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		w.tellRefused(owner, name, err)
		return false
	} else if err != nil {
		w.T.Fatal(err)
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return true
	}
	w.Mu.Lock()
	w.nextIP++
	ip := fmt.Sprintf("10.0.%d.%d", w.nextIP/250, w.nextIP%250+1)
	w.Mu.Unlock()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Ready: true, Image: TestImage, ImageID: "x",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	if w.Mesh != "" && pod.Labels["sidecar.istio.io/inject"] != "false" {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: mesh.ProxyContainer, Ready: true, Image: "docker.io/istio/proxyv2:" + w.Mesh, ImageID: "x",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	w.Must(w.Client.Status().Update(w.Ctx, pod))
	switch {
	case template.Labels[kube.LabelRole] == kube.RoleNode:
		w.StartNode(ip, string(pod.UID), pod)
	case isSteward(pod):
		w.startSteward(ip, pod)
	}
	return true
}
