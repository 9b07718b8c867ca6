package database_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/base/geo"
)

func initialized(db *v1alpha1.GeoDatabase) metav1.Condition {
	if c := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionInitialized); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func variable(env []corev1.EnvVar, name string) string {
	if i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name }); i >= 0 {
		return env[i].Value
	}
	return "none"
}

// A database with several roles has a StatefulSet and a Service for each role in each of its regions, all in the
// emulated network. Its steps run in order; then it serves clients.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Roles().Emulation(v1alpha1.EmulationSidecar).Obj())
	w.StepEnds = map[string]worldtest.StepEnd{"begin": worldtest.StepRuns}
	w.Until("the first step runs", func() bool { return w.Steps()["begin"] != nil })
	for range 3 {
		w.Step()
	}
	db := w.GetDatabase("d")
	if c := initialized(db); c.Reason != "StepRunning" || !strings.Contains(c.Message, "step 1 of 2, begin, runs") || w.Steps()["users"] != nil {
		t.Errorf("%s: %s; steps %v", c.Reason, c.Message, w.Steps())
	}
	if worldtest.ConditionIs(db.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue) {
		t.Error("the database is ready before its steps are carried out")
	}
	w.StepEnds = nil
	db = w.UntilServing("d")
	if db.Status.ReadyNodes != "5/5" || db.Status.Regions[0].Nodes != 3 || db.Status.Regions[1].ReadyNodes != 2 || initialized(db).Status != metav1.ConditionTrue {
		t.Errorf("%s nodes, %+v, %+v", db.Status.ReadyNodes, db.Status.Regions, initialized(db))
	}
	host := func(pod, set string) string { return pod + "." + set + "." + w.Namespace + ".svc" }
	if e := db.Status.Endpoints; len(e) != 2 || e[1].Region != "ap-northeast-1" || e[1].Address != host("d-ap-northeast-1-data-0", "d-ap-northeast-1-data")+":5433" {
		t.Errorf("endpoints %+v", e)
	}
	for set, pods := range map[string]int32{"d-us-west-2-meta": 1, "d-us-west-2-data": 2, "d-ap-northeast-1-data": 2} {
		s := w.Get(set, &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
		service := w.Get(set, &corev1.Service{}).(*corev1.Service)
		role := set[strings.LastIndexByte(set, '-')+1:]
		if *s.Spec.Replicas != pods || s.Spec.Selector.MatchLabels[kube.LabelServer] != role || service.Spec.Selector[kube.LabelServer] != role || s.Spec.ServiceName != set {
			t.Errorf("%s has %d pods that are %v, and its Service's are %v", set, *s.Spec.Replicas, s.Spec.Selector.MatchLabels, service.Spec.Selector)
		}
	}
	if err := w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: "d-ap-northeast-1-meta"}, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("the second region has a role that is in the first only: %v", err)
	}

	pod := w.Get("d-ap-northeast-1-data-1", &corev1.Pod{}).(*corev1.Pod)
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"geobench-wan", "geobench-probe", "after-meta"}) {
		t.Errorf("before the program run %v: the network has to be there before who waits", names)
	}
	if await := pod.Spec.InitContainers[2]; strings.Join(await.Args, " ") != "await --hosts $(GEOBENCH_HOSTS_META) --port 2379 --need All --self $(GEOBENCH_HOST)" ||
		variable(await.Env, "GEOBENCH_HOSTS_META") != host("d-us-west-2-meta-0", "d-us-west-2-meta") {
		t.Errorf("it waits by %v", await.Args)
	}
	env := pod.Spec.Containers[0].Env
	for name, want := range map[string]string{
		"GEOBENCH_ROLE": "data", "GEOBENCH_REGION": "ap-northeast-1", "GEOBENCH_REGION_INDEX": "1", "GEOBENCH_HOST": "$(POD_NAME).d-ap-northeast-1-data.$(POD_NAMESPACE).svc",
		"GEOBENCH_LIST_META": "d-us-west-2-meta-0=http://" + host("d-us-west-2-meta-0", "d-us-west-2-meta") + ":2379",
	} {
		if got := variable(env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// The sidecar of a pod delays packets from all pods of the other region, and from the load generators and steps there.
	network := w.Get(kube.NetworkName(db, "us-west-2"), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if file := network.Data["d-us-west-2-meta-0.json"]; !strings.Contains(file, "d-ap-northeast-1-data-[0-1].d-ap-northeast-1-data.") || !strings.Contains(file, "d-ap-northeast-1-workers.") {
		t.Errorf("the sidecar of the first role is told %s", file)
	}
	users := w.Steps()["users"]
	if of := users.Spec.Template; of.Labels[kube.LabelRole] != kube.RoleWorker || of.Labels[kube.LabelRegion] != "ap-northeast-1" || of.Spec.InitContainers[0].Name != "geobench-wan" ||
		of.Spec.RestartPolicy != corev1.RestartPolicyNever || variable(of.Spec.Containers[0].Env, "GEOBENCH_HOST") != "none" || *users.Spec.ActiveDeadlineSeconds != 600 ||
		*w.Steps()["begin"].Spec.ActiveDeadlineSeconds != 90 {
		t.Errorf("the second step is %+v", users.Spec)
	}
	var ports []int32
	for _, p := range w.Get("d-workers", &networkingv1.NetworkPolicy{}).(*networkingv1.NetworkPolicy).Spec.Egress[1].Ports {
		ports = append(ports, p.Port.IntVal)
	}
	if !slices.Equal(ports, []int32{2379, 5433}) {
		t.Errorf("steps may talk to the ports %v", ports)
	}

	w.Create(worldtest.MakeRun("r").Database("d").Obj())
	if run := w.UntilOver("r"); run.Status.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(run.Status.Message, "GeoDatabase d has roles, and does not say how load generators talk to it: set client.secretRef") {
		t.Errorf("a run on it: %s %s", run.Status.Verdict, run.Status.Message)
	}
}

// Each pod of a role with servicePerPod has a separate Service, whose address stays the same when the pod is replaced.
// Programs and steps use this address, and sidecars know both addresses. Auto does not choose Chaos Mesh then. The
// Services are deleted when servicePerPod is unset.
func TestServicePerPod(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Kernel, w.ChaosMesh = `{}`, true
	w.Create(worldtest.MakeDatabase("d").Roles().Emulation(v1alpha1.EmulationAuto).Obj())
	if db := w.UntilServing("d"); db.Status.Emulation != v1alpha1.EmulationChaosMesh {
		t.Fatalf("Auto has taken %s: %s", db.Status.Emulation, db.Status.EmulationReason)
	}
	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.Roles[1].ServicePerPod = true })
	w.Until("Auto takes sidecars", func() bool {
		is := w.GetDatabase("d").Status
		return is.Emulation == v1alpha1.EmulationSidecar && strings.Contains(is.EmulationReason, "those of role data are reached by Services (servicePerPod)")
	})
	db := w.UntilServing("d")
	const own = "d-ap-northeast-1-data-1"
	service := w.Get(own, &corev1.Service{}).(*corev1.Service)
	selected := map[string]string{kube.LabelDatabase: "d", kube.LabelRole: kube.RoleNode, kube.LabelServer: "data", kube.LabelManagedBy: kube.ManagedBy, appsv1.StatefulSetPodNameLabel: own}
	for label, want := range selected {
		if got := service.Spec.Selector[label]; got != want {
			t.Errorf("the Service's pods have %s=%q, want %q", label, got, want)
		}
	}
	if s := service.Spec; s.ClusterIP == "" || s.ClusterIP == corev1.ClusterIPNone || s.Type != corev1.ServiceTypeClusterIP || !s.PublishNotReadyAddresses || len(s.Ports) != 1 || s.Ports[0].Port != 5433 {
		t.Errorf("the Service is %+v", s)
	}
	env := w.Get(own, &corev1.Pod{}).(*corev1.Pod).Spec.Containers[0].Env
	hosts := "d-us-west-2-data-0." + w.Namespace + ".svc,d-us-west-2-data-1." + w.Namespace + ".svc,d-ap-northeast-1-data-0." + w.Namespace + ".svc," + own + "." + w.Namespace + ".svc"
	for name, want := range map[string]string{
		"GEOBENCH_HOST": "$(POD_NAME).$(POD_NAMESPACE).svc", "GEOBENCH_HOSTS": hosts, "GEOBENCH_HOSTS_META": "d-us-west-2-meta-0.d-us-west-2-meta." + w.Namespace + ".svc",
	} {
		if got := variable(env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := variable(w.Steps()["begin"].Spec.Template.Spec.Containers[0].Env, "GEOBENCH_HOSTS_DATA"); got != hosts {
		t.Errorf("steps know the hosts %q, want %q", got, hosts)
	}
	// Connections that a pod opens have the pod's address as their source. Its replies on connections to the Service have
	// the Service's address. Clients and probes connect to the pod itself.
	network := w.Get(kube.NetworkName(db, "us-west-2"), &corev1.ConfigMap{}).(*corev1.ConfigMap)
	if file := network.Data["d-us-west-2-meta-0.json"]; !strings.Contains(file, own+".d-ap-northeast-1-data."+w.Namespace+".svc") || !strings.Contains(file, `"`+own+"."+w.Namespace+".svc") {
		t.Errorf("a sidecar is told %s", file)
	}
	if e := db.Status.Endpoints[1]; e.Address != "d-ap-northeast-1-data-0.d-ap-northeast-1-data."+w.Namespace+".svc:5433" {
		t.Errorf("clients connect to %s", e.Address)
	}

	w.PatchDatabase("d", func(db *v1alpha1.GeoDatabase) { db.Spec.Roles[1].ServicePerPod = false })
	w.Until("the Services are gone", func() bool {
		return apierrors.IsNotFound(w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: own}, &corev1.Service{}))
	})
	w.Get("d-ap-northeast-1-data", &corev1.Service{})
}

// A database with roles is loaded, measured and audited like any other database, if one role configures the connection
// of clients. The clients of a region connect to the first pod of that role in the region, at the port that the role
// names. Faults affect only pods in their region.
func TestRunOnRoles(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db := worldtest.MakeDatabase("d").Roles().Measurable().Emulation(v1alpha1.EmulationSidecar)
	run := worldtest.MakeRun("r").Database("d").Workers(2).Obj()
	run.Spec.Faults = []v1alpha1.Fault{{Name: "cut", At: v1alpha1.DurationOf(2 * time.Second), Duration: new(v1alpha1.DurationOf(time.Second)), NetworkPartition: &v1alpha1.NetworkPartitionFault{
		From: v1alpha1.NodeTarget{Regions: []string{"ap-northeast-1"}},
	}}}
	w.StepEnds = map[string]worldtest.StepEnd{"users": worldtest.StepRuns}
	w.Create(db.Obj(), run)
	w.Until("the run waits for the steps", func() bool {
		c := meta.FindStatusCondition(w.GetRun("r").Status.Conditions, v1alpha1.ConditionDatabaseReady)
		return c != nil && c.Reason == "StepRunning" && strings.Contains(c.Message, "step 2 of 2, users, runs")
	})
	w.StepEnds = nil
	w.UntilStage("r", v1alpha1.StageMeasure)
	jobs := &batchv1.JobList{}
	w.Must(w.Client.List(w.Ctx, jobs, client.InNamespace(w.Namespace), client.HasLabels{kube.LabelRun}))
	var made []string
	for i := range jobs.Items {
		pod := &jobs.Items[i].Spec.Template.Spec
		made = append(made, pod.Containers[0].Name+" "+jobs.Items[i].Labels[kube.LabelRegion])
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "login" }) {
			t.Errorf("%s has no Secret: %+v", made[i], pod.Volumes)
		}
	}
	slices.Sort(made)
	if want := []string{"steward us-west-2", "worker ap-northeast-1", "worker us-west-2"}; !slices.Equal(made, want) {
		t.Errorf("jobs of %q, want %q", made, want)
	}
	d := w.NodesOf("d")
	if c := d.Client; len(c.Endpoints) != 2 || c.Endpoints[1].Address != "d-ap-northeast-1-data-0.d-ap-northeast-1-data."+w.Namespace+".svc:5433" ||
		c.Steward != "us-west-2" || c.Database != "bench" || c.Field != "spec.roles[1].client" || !slices.Equal(d.Topology.Absent, []geo.NodeID{5}) {
		t.Errorf("what workers are told of the database: %+v of %+v", c, d)
	}
	over := w.UntilOver("r")
	if over.Status.Verdict != v1alpha1.VerdictPassed {
		t.Fatalf("%s %s: %s", over.Status.Verdict, over.Status.Reason, over.Status.Message)
	}
	doc := w.Document("r")
	if w.Loads != 1 || doc.Target == nil || doc.Target.Server != "PostgreSQL 15.0" || len(doc.Nodes) != 0 || len(doc.Links) != 4 || doc.Manifests.Database.Roles[1].Client == nil {
		t.Errorf("%d loads, target %+v, %d nodes, links %+v", w.Loads, doc.Target, len(doc.Nodes), doc.Links)
	}
	if f := over.Status.Faults; len(f) != 1 || !slices.Equal(f[0].Targets, []string{"ap-northeast-1/0/0", "ap-northeast-1/0/1"}) ||
		!slices.Equal(f[0].OtherSide, []string{"us-west-2/0/0", "us-west-2/0/1", "us-west-2/0/2"}) {
		t.Errorf("faults %+v", f)
	}
	w.Until("nothing is left but the result", func() bool { return slices.Equal(w.Leftovers("r"), []string{"ConfigMap r-result"}) })
}

// A failed step is retried, and the condition contains its name and its output, without passwords. After the step's
// timeout, the database is stalled until a user deletes the Job or changes the spec.
func TestStepFails(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.StepEnds = map[string]worldtest.StepEnd{"begin": worldtest.StepFails}
	b := worldtest.MakeDatabase("d").Roles().Emulation(v1alpha1.EmulationSidecar)
	b.Spec.Roles[0].Env = []v1alpha1.PodEnv{{Name: "PASSWORD", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "login", Key: "password"}}}
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: w.Namespace}, Data: map[string][]byte{"password": []byte("cannot\n")}}, b.Obj())
	w.Until("the step says what is wrong", func() bool {
		return strings.Contains(initialized(w.GetDatabase("d")).Message, "step 1 of 2, begin, runs; its last try ended with exit code 3: it *** be done")
	})
	w.StepEnds["begin"] = worldtest.StepLate
	w.Must(w.Client.DeleteAllOf(w.Ctx, &batchv1.Job{}, client.InNamespace(w.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.Until("the step has failed", func() bool { return initialized(w.GetDatabase("d")).Reason == "StepFailed" })
	db := w.GetDatabase("d")
	job := w.Steps()["begin"].Name
	for _, say := range []string{"step 1 of 2, begin, failed in role meta (DeadlineExceeded: Job was active longer than specified deadline)", "exit code 3: it *** be done", "delete Job " + job} {
		if c := initialized(db); !strings.Contains(c.Message, say) {
			t.Errorf("%q does not say %q", c.Message, say)
		}
	}
	if !worldtest.ConditionIs(db.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue) || w.Steps()["users"] != nil {
		t.Errorf("%+v; steps %v", db.Status.Conditions, w.Steps())
	}
	w.StepEnds = nil
	w.Must(w.Client.Delete(w.Ctx, w.Steps()["begin"], client.PropagationPolicy(metav1.DeletePropagationBackground)))
	again := w.UntilServing("d")
	if again.Status.Incarnation != db.Status.Incarnation || len(w.Steps()) != 2 {
		t.Errorf("incarnation %s after %s, steps %v", again.Status.Incarnation, db.Status.Incarnation, w.Steps())
	}
}

// A database that is deleted while a step is running leaves no objects. It owns all objects that were created for it,
// and no more are created.
func TestDeletedWhileAStepRuns(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.StepEnds = map[string]worldtest.StepEnd{"begin": worldtest.StepRuns}
	w.Create(worldtest.MakeDatabase("d").Roles().Emulation(v1alpha1.EmulationSidecar).Obj())
	w.Until("the step runs", func() bool { return w.Steps()["begin"] != nil })
	w.Step()
	db := w.GetDatabase("d")
	w.Must(w.Client.Delete(w.Ctx, db))
	w.Until("the database is gone", func() bool {
		return apierrors.IsNotFound(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(db), &v1alpha1.GeoDatabase{}))
	})
	owners := map[string]bool{string(db.UID): true}
	made := func() (out []client.Object) {
		for _, list := range []client.ObjectList{
			&appsv1.StatefulSetList{}, &batchv1.JobList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &networkingv1.NetworkPolicyList{}, &corev1.PodList{},
		} {
			w.Must(w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{kube.LabelDatabase: "d"}))
			w.Must(meta.EachListItem(list, func(obj runtime.Object) error {
				out = append(out, obj.(client.Object))
				return nil
			}))
		}
		return out
	}
	before := made()
	for _, obj := range before {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || !owners[string(owner.UID)] {
			t.Errorf("%s %s belongs to %+v, and stays", kube.KindOf(obj), obj.GetName(), owner)
		}
		owners[string(obj.GetUID())] = true
	}
	if len(before) < 15 {
		t.Errorf("only %d objects were made", len(before))
	}
	w.StepEnds = nil
	for range 3 {
		w.Step()
	}
	for _, obj := range made() {
		if !owners[string(obj.GetUID())] {
			t.Errorf("%s %s was made for a database that is gone", kube.KindOf(obj), obj.GetName())
		}
	}
}

// In the next incarnation, steps run again because all their effects are lost. They never run twice in one incarnation.
func TestStepsOfTheNextIncarnation(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	w.Create(worldtest.MakeDatabase("d").Roles().Emulation(v1alpha1.EmulationSidecar).Obj())
	first := w.UntilServing("d")
	begun := w.Steps()["begin"].UID
	replace := func(names ...string) {
		for _, name := range names {
			w.Must(w.Client.Delete(w.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, client.GracePeriodSeconds(0)))
		}
		w.PlayCluster()
	}
	replace("d-us-west-2-data-0", "d-us-west-2-data-1", "d-ap-northeast-1-data-0")
	for range 3 {
		w.Step()
	}
	if db := w.UntilServing("d"); db.Status.Incarnation != first.Status.Incarnation || w.Steps()["begin"].UID != begun {
		t.Errorf("with one pod of a role left, incarnation %s became %s", first.Status.Incarnation, db.Status.Incarnation)
	}
	replace("d-us-west-2-data-0", "d-us-west-2-data-1", "d-ap-northeast-1-data-0", "d-ap-northeast-1-data-1")
	w.Until("the loss is noticed", func() bool { return w.GetDatabase("d").Status.Incarnation != first.Status.Incarnation })
	second := w.UntilServing("d")
	if w.Steps()["begin"].UID == begun || len(w.Steps()) != 2 {
		t.Errorf("steps %v", w.Steps())
	}

	// Steps also run again after a change of the spec, and the old steps are deleted. Without steps, there is no
	// condition.
	db := w.GetDatabase("d")
	db.Spec.Init = db.Spec.Init[:1]
	w.Must(w.Client.Update(w.Ctx, db))
	w.Until("the change is made", func() bool { return w.GetDatabase("d").Status.Incarnation != second.Status.Incarnation })
	w.UntilServing("d")
	if len(w.Steps()) != 1 {
		t.Errorf("steps %v", w.Steps())
	}
	db = w.GetDatabase("d")
	db.Spec.Init = nil
	w.Must(w.Client.Update(w.Ctx, db))
	w.Until("there are no steps", func() bool { return len(w.Steps()) == 0 && initialized(w.GetDatabase("d")).Type == "" })
	w.UntilServing("d")
}
