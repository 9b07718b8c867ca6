package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/servers"
	"github.com/geobench/geobench/internal/net/emulation"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
	"github.com/geobench/geobench/internal/ops/deploy/netpol"
	"github.com/geobench/geobench/internal/ops/health"
)

// Reconciler deploys GeoDatabases.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	Pods podclient.Clients
	// Choose selects the backend that emulates a database's network.
	Choose Chooser
	// Credentials issues the credentials of pods.
	Credentials *operatorca.Keeper
	// Abilities restricts the specs that the checks accept.
	Abilities check.Abilities
	// Around describes the environment of databases for their NetworkPolicies. If it is nil, the operator creates no
	// policies.
	Around *netpol.Cluster
	// Resolve, if set, replaces net.Resolver.LookupNetIP.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// Image is the image of nodes.
	Image string
	// ImageRegistry replaces the public registries of the images of vendors' servers; empty for no replacement.
	ImageRegistry string
	Events        events.EventRecorder
	Clock         clock.PassiveClock

	// credentialsLooked maps the UID of each database to the time at which its credentials were last checked.
	credentialsLooked sync.Map
	// accounts contains the UIDs of the databases whose ServiceAccount is known to exist.
	accounts sync.Map
	// processes maps the UID of each database to its *seenProcesses, to detect that a process was replaced even if the
	// other nodes have not noticed.
	processes sync.Map
}

// scope is one reconciliation of a GeoDatabase. Steps change db in memory; the status is written at the end.
type scope struct {
	*Reconciler
	db *v1alpha1.GeoDatabase
	// logins maps the name of each Secret for which the operator generates a password to the user name.
	logins map[string]string
	// untested is a notice for a rendered database whose deployment has never been tested, else "".
	untested string
	// rendered is set if the spec names only the engine, and its configuration was generated.
	rendered bool
	// plan is set unless the spec is refused.
	plan *Plan
	// current is the current incarnation, set by incarnate. While a run uses the database, current may belong to an
	// earlier spec.
	current *Incarnation
	old     []corev1.ConfigMap
	// nodes is set by observe.
	nodes []Node
	// steps are the Jobs of spec.init in the current incarnation, by step name. They are set by initialize.
	steps map[string]*batchv1.Job
	// faults is the timeline of the faults that a run injects into the current incarnation, or nil. It is set by
	// findFaults.
	faults *fault.Timeline
	// network and state are set by emulate.
	network *emulation.Network
	state   emulation.State
	// linksMoved reports whether the links in the status have changed.
	linksMoved bool
	// again is the time until the next reconciliation.
	again time.Duration
	// events are emitted once the status is written.
	events []kube.Event
}

// databasesAtOnce is the number of databases that are reconciled concurrently. It is high, because a database with
// unresponsive nodes occupies a worker until the requests time out.
const databasesAtOnce = 128

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofDatabase := kube.ByLabel(kube.LabelDatabase, func(obj client.Object) bool { return obj.GetLabels()[kube.LabelRole] == kube.RoleNode })
	byProfile := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		list := &v1alpha1.GeoDatabaseList{}
		if err := r.Client.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
			return nil
		}
		var out []reconcile.Request
		for i := range list.Items {
			if ref := list.Items[i].Spec.Network.ProfileRef; ref != nil && ref.Name == obj.GetName() {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
		return out
	})
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.GeoDatabase{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, activeRunChanged{}))).
		Owns(&appsv1.StatefulSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Owns(&corev1.Service{}, builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&corev1.Pod{}, ofDatabase).
		Watches(&v1alpha1.NetworkProfile{}, byProfile, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: databasesAtOnce}).
		Complete(r)
}

// activeRunChanged passes an update if a run has reserved or released the database, because the database is polled more
// often while a run uses it.
type activeRunChanged struct{ predicate.Funcs }

func (activeRunChanged) Update(e ctrlevent.UpdateEvent) bool {
	was, ok1 := e.ObjectOld.(*v1alpha1.GeoDatabase)
	is, ok2 := e.ObjectNew.(*v1alpha1.GeoDatabase)
	return ok1 && ok2 && was.Status.ActiveRun != is.Status.ActiveRun
}

// Reconcile brings the actual state of one database closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	db := &v1alpha1.GeoDatabase{}
	if err := r.Live.Get(ctx, req.NamespacedName, db); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var logins map[string]string
	rendered, err := Render(ctx, r.Client, db)
	if err != nil {
		return reconcile.Result{}, err
	}
	if rendered { // a spec that cannot be rendered is refused by planSpec
		logins = servers.Secrets(db)
		servers.Mirror(db, r.ImageRegistry)
	}
	before := db.DeepCopy()
	s := &scope{Reconciler: r, db: db, logins: logins}
	s.rendered = rendered
	if f := servers.FactsOf(db.Spec.Engine.Name); rendered && f != nil {
		s.untested = "; untested: nobody has run " + f.Product + " as it is deployed here"
	}
	if db.DeletionTimestamp != nil {
		// All objects are owned by the database and are deleted with it. A run that uses the database detects the deletion
		// itself.
		r.processes.Delete(db.UID)
		r.credentialsLooked.Delete(db.UID)
		r.accounts.Delete(db.UID)
		if !controllerutil.ContainsFinalizer(db, kube.Finalizer) {
			return reconcile.Result{}, nil
		}
		err = s.release(ctx)
	} else {
		err = s.reconcile(ctx)
	}
	// A failed reconciliation has not processed the spec completely, so the generation is not acknowledged.
	if err == nil {
		db.Status.ObservedGeneration = db.Generation
	}
	now := r.Clock.Now()
	health.Apply(&db.Status.Conditions, before.Status.Conditions, health.Database(db, now), metav1.NewTime(now))
	return kube.Conclusion{
		Before: before, After: db,
		Changed:  !equality.Semantic.DeepEqual(before.Status, db.Status),
		Err:      err,
		Again:    s.again,
		Recorded: func() { kube.EmitAll(ctx, s.events, r.Events, db) },
	}.Conclude(ctx, r.Client)
}

func (s *scope) reconcile(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		s.releaseDeadRun,
		s.planSpec,
		s.incarnate,
		s.findFaults,
		s.admit,
		s.giveAccount,
		s.giveCredentials,
		s.giveLogins,
		s.deploy,
		s.replacePods,
		s.emulate,
		s.observe,
		s.initialize,
		s.noticeLoss,
		s.join,
		s.describe,
		s.sweep,
	} {
		err := step(ctx)
		if r := kube.AsRefusal(err); r != nil {
			s.refused(r)
			return nil
		}
		var pending *PendingError
		if errors.As(err, &pending) {
			s.waiting(pending)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// releaseDeadRun releases the database if its run no longer exists. Normally, a run releases its database itself,
// unless a user has removed the run's finalizer.
func (s *scope) releaseDeadRun(ctx context.Context) error {
	if s.db.Status.ActiveRun == "" {
		return nil
	}
	run := &v1alpha1.BenchmarkRun{}
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.db.Namespace, Name: s.db.Status.ActiveRun}, run)
	if apierrors.IsNotFound(err) || err == nil && !kube.HoldsDatabase(run, s.db) {
		s.db.Status.ActiveRun = ""
		return nil
	}
	return err
}

func (s *scope) planSpec(ctx context.Context) error {
	var err error
	s.plan, err = NewPlan(ctx, s.Client, s.Live, s.Abilities, s.Choose, s.db, s.Image)
	return err
}

// incarnate finds the current incarnation, and creates the next one if the spec has changed. While a run uses the
// database, the changed spec is not deployed: otherwise the run would measure a database that its manifest does not
// declare.
func (s *scope) incarnate(ctx context.Context) error {
	var err error
	if s.current, s.old, err = FindIncarnations(ctx, s.Live, s.Credentials, s.db); err != nil {
		return err
	}
	switch {
	case s.current == nil:
		return s.nextIncarnation(ctx, 0, "the first one")
	// A topology without a valid seal must not be deployed, even if its hash matches.
	case s.current.Foreign:
		return s.nextIncarnation(ctx, 0, "the topology of the present one was made by somebody else, or by an operator of before there were credentials")
	case s.current.Hash == s.plan.Hash:
		s.condition(metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "UpToDate",
			Message: "the nodes run what the spec says"})
		return nil
	case s.db.Status.ActiveRun != "":
		message := fmt.Sprintf("BenchmarkRun %s uses the database: the change is made when it is over; delete the run to make it now", s.db.Status.ActiveRun)
		if was := s.conditionOf(v1alpha1.ConditionProgressing); was == nil || was.Reason != health.RunActive {
			s.events = append(s.events, kube.Warning("ChangeWaits", "Plan", message))
		}
		s.condition(metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: health.RunActive, Message: message})
		return nil
	}
	return s.nextIncarnation(ctx, 0, "the spec or the operator's image changed")
}

// nextIncarnation creates the next incarnation and makes it the current one.
func (s *scope) nextIncarnation(ctx context.Context, losses int, cause string) error {
	next := nextIncarnation(s.db, s.current, s.plan, s.Clock.Now(), losses, cause)
	key, err := topologyKey(ctx, s.Credentials, s.db)
	if err != nil {
		return err
	}
	cm, err := buildTopology(s.db, next, key)
	if err != nil {
		return err
	}
	if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.db, cm); err != nil {
		return err
	}
	kept := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(cm), kept); err != nil {
		return err
	}
	// Another user may have created the ConfigMap first, with a topology that nodes must not use.
	if !operatorca.IsSealed(key, kept) {
		err := s.Client.Delete(ctx, kept, client.Preconditions{UID: &kept.UID})
		return errors.Join(fmt.Errorf("ConfigMap %s was made by somebody else: it is deleted", kept.Name), client.IgnoreNotFound(err))
	}
	next.highest = next.sequence
	s.current = next
	s.events = append(s.events, eventDeployed(s.db, next.ID(), cause))
	s.condition(metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: "Deploying",
		Message: "incarnation " + next.ID() + ": " + cause})
	return nil
}

// upToDate reports whether the current incarnation matches the spec.
func (s *scope) upToDate() bool { return s.current.Hash == s.plan.Hash }

func (s *scope) findFaults(ctx context.Context) (err error) {
	s.faults, err = faultstatus.PlayedOn(ctx, s.Live, s.db, s.current.ID(), &s.current.Database.Topology)
	return err
}

func (s *scope) deploy(ctx context.Context) error {
	if !s.upToDate() {
		return nil
	}
	if err := s.holdForRelease(ctx); err != nil {
		return err
	}
	if s.current.Database.Elsewhere() {
		return nil
	}
	for i := range s.db.Spec.Regions {
		region := &s.db.Spec.Regions[i]
		for _, pod := range deploy.PodsIn(s.db, region.Name) {
			if !pod.ServiceOfItsOwn() {
				continue
			}
			if err := kube.Ensure(ctx, s.Client, s.Live, s.db, buildPodService(s.db, &pod)); err != nil {
				return err
			}
		}
		for _, role := range rolesIn(s.db, i) {
			if err := kube.Ensure(ctx, s.Client, s.Live, s.db, buildService(s.db, region.Name, role)); err != nil {
				return err
			}
			set := buildStatefulSet(s.db, region, role, s.current.ID(), s.Image)
			Prepare(s.backend(), s.db, &s.current.Database.Topology, region.Name, &set.Spec.Template.Spec)
			// If this write omitted the gates, it would remove the gates that the run has set in the StatefulSet.
			if faultstatus.StaysDown(s.faults, region.Name) {
				set.Spec.Template.Spec.SchedulingGates = faultstatus.ShutdownGates
			}
			if err := kube.Ensure(ctx, s.Client, s.Live, s.db, set); err != nil {
				return err
			}
		}
		if s.current.Emulation() != v1alpha1.EmulationSidecar {
			continue
		}
		if err := kube.Ensure(ctx, s.Client, s.Live, s.db, buildGeneratorsService(s.db, region.Name)); err != nil {
			return err
		}
	}
	return nil
}

// replacePods deletes pods of earlier incarnations, and pods that a fault kept down until the fault was over. Their
// StatefulSets create new pods.
func (s *scope) replacePods(ctx context.Context) error {
	if !s.upToDate() {
		return nil
	}
	pods := &corev1.PodList{}
	if err := s.Client.List(ctx, pods, client.InNamespace(s.db.Namespace),
		client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelRole: kube.RoleNode}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		keptDown := len(pod.Spec.SchedulingGates) > 0 && !faultstatus.StaysDown(s.faults, pod.Labels[kube.LabelRegion])
		if pod.Labels[kube.LabelIncarnation] == s.current.ID() && !keptDown || pod.DeletionTimestamp != nil {
			continue
		}
		// A StatefulSet reuses names, so the UID ensures that the new pod is not deleted.
		precondition := client.Preconditions{UID: &pod.UID}
		if err := s.Client.Delete(ctx, pod, precondition); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (s *scope) observe(ctx context.Context) error {
	var err error
	if s.nodes, err = ObserveNodes(ctx, s.Client, s.Pods, s.db, &s.current.Database); err != nil {
		return err
	}
	s.explainMissing(ctx)
	return s.findMesh(ctx)
}

// explainMissing replaces the problem of the first node that is not ready with the reason from events, if the node has
// no pod. The status shows only the first problem.
func (s *scope) explainMissing(ctx context.Context) {
	i := slices.IndexFunc(s.nodes, func(n Node) bool { return !n.Ready })
	if i < 0 || s.nodes[i].Problem != noPod {
		return
	}
	pod := s.nodes[i].PodName
	set := pod[:max(0, strings.LastIndexByte(pod, '-'))] // the name without the ordinal
	if why := kube.NoPods(ctx, s.Live, "StatefulSet", s.db.Namespace, set); why != "" {
		s.nodes[i].Problem = why
	}
}

// noticeLoss creates the next incarnation once a node of the current incarnation has lost its state.
func (s *scope) noticeLoss(ctx context.Context) error {
	why := s.lostState()
	if s.db.Spec.RunsPrograms() { // Geobench does not track the state of a user's program.
		why = s.lostInit()
	}
	if why == "" {
		return nil
	}
	if s.current.Database.Topology.Nodes() > 0 && !s.upToDate() {
		// A run still uses the outdated incarnation. The run also detects the loss and ends, and then the next incarnation is
		// created from the changed spec.
		return nil
	}
	now := s.Clock.Now()
	// Nodes that lose their state again and again, for example for lack of memory, must not be replaced in a tight loop.
	if wait := s.current.lossDelay() - now.Sub(s.current.born); wait > 0 {
		s.condition(metav1.Condition{Type: v1alpha1.ConditionNodesReady, Status: metav1.ConditionFalse, Reason: "StateLost",
			Message: fmt.Sprintf("%s; the database is made anew in %s", why, wait.Round(time.Second))})
		s.again = wait
		return nil
	}
	s.events = append(s.events, eventStateLost(why+"; making the database anew"))
	if err := s.nextIncarnation(ctx, s.current.lossesAt(now), why); err != nil {
		return err
	}
	s.nodes = nil
	s.condition(metav1.Condition{Type: v1alpha1.ConditionNodesReady, Status: metav1.ConditionFalse, Reason: "StateLost",
		Message: why + "; the database is made anew as incarnation " + s.current.ID()})
	s.again = time.Second
	return nil
}

// lostState returns the reason why the incarnation has lost its state, or "" if it has not.
func (s *scope) lostState() string {
	seen, _ := s.processes.LoadOrStore(s.db.UID, &seenProcesses{})
	nodes := s.nodes
	// Losses that faults cause are planned: the nodes are replaced, or the database is recreated after the run.
	if s.faults != nil {
		gone := append(s.faults.Departed(s.Clock.Now().Sub(s.faults.Start)), faultstatus.Down(s.faults)...)
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return slices.Contains(gone, n.ID) })
	}
	return seen.(*seenProcesses).compare(s.current.ID(), nodes)
}

// describe writes the observed state to the status.
func (s *scope) describe(context.Context) error {
	st := &s.db.Status
	s.condition(metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Possible",
		Message: "the database can be deployed as the spec says" + s.untested})
	if open := servers.Open(s.db.Spec.Engine.Name); s.rendered && open != "" {
		s.condition(metav1.Condition{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: "ServersAskNobody",
			Message: open + "; NetworkPolicies are all that keeps others out"})
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionAuthenticated)
	}
	st.TopologyHash, st.Incarnation = s.current.Hash, s.current.ID()
	st.Emulation, st.EmulationReason = s.current.Emulation(), kube.Truncate(cmp.Or(s.current.Why, s.plan.Why), 1024)
	t, elsewhere := &s.current.Database.Topology, s.current.Database.Elsewhere()
	st.RegionNames = kube.Truncate(strings.Join(t.Regions, ","), 1024)
	st.Regions = nil
	nodes := make([]int32, len(t.Regions))
	for i := range s.current.Database.Nodes {
		if s.current.Database.Nodes[i].Admin != "" {
			nodes[t.RegionOf(geo.NodeID(i))]++
		}
	}
	total := 0
	for i, region := range t.Regions {
		st.Regions = append(st.Regions, v1alpha1.RegionStatus{Name: region, Nodes: nodes[i]})
		total += int(nodes[i])
	}
	ready, problem := 0, ""
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.Ready {
			ready++
			st.Regions[t.RegionOf(n.ID)].ReadyNodes++
		} else if problem == "" {
			problem = fmt.Sprintf("node %s: %s", n.PodName, n.Problem)
		}
	}
	if m := st.Mesh; m != nil && m.Mode != v1alpha1.MeshNone && problem != "" {
		problem += fmt.Sprintf("; nodes reach each other through a service mesh (%s): what it refuses is in the log of its proxies", mesh.Name(m))
	}
	st.Groups = s.groups()
	st.ReadyNodes = fmt.Sprintf("%d/%d", ready, total)
	all := ready == total

	was := s.conditionOf(v1alpha1.ConditionNodesReady)
	switch {
	case all:
		if was == nil || was.Status != metav1.ConditionTrue {
			s.events = append(s.events, eventDatabaseReady(st.ReadyNodes))
		}
		ready := metav1.Condition{Type: v1alpha1.ConditionNodesReady, Status: metav1.ConditionTrue, Reason: "NodesReady", Message: fmt.Sprintf("all %d nodes serve", total)}
		if elsewhere {
			ready.Reason, ready.Message = "RunsElsewhere", "nothing is deployed; whether the endpoints can be connected to is found out by each run"
		}
		s.condition(ready)
		if s.upToDate() {
			s.condition(metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "UpToDate",
				Message: "the nodes run what the spec says"})
		}
	case s.nodes != nil && !(was != nil && was.Reason == "StateLost" && s.again > 0):
		s.condition(metav1.Condition{Type: v1alpha1.ConditionNodesReady, Status: metav1.ConditionFalse, Reason: "NodesNotReady",
			Message: kube.Truncate(fmt.Sprintf("%d of %d nodes are ready; %s", ready, total, problem), 1024)})
	}

	st.Endpoints = endpoints(s.db, t)
	s.recordGaps()
	links, err := Measure(t, s.nodes)
	if err != nil {
		return err
	}
	shown := linkStatuses(links, st.Links)
	s.linksMoved = !equality.Semantic.DeepEqual(shown, st.Links)
	st.Links = shown
	verifiedBefore := s.isTrue(v1alpha1.ConditionNetworkVerified)
	s.networkConditions(links, all)
	verified := s.isTrue(v1alpha1.ConditionNetworkVerified)
	if c := s.conditionOf(v1alpha1.ConditionNetworkVerified); verified != verifiedBefore {
		if verified {
			s.events = append(s.events, eventNetworkVerified(c.Message))
		} else if all {
			s.events = append(s.events, eventNetworkLost(c.Message))
		}
	}

	if s.again == 0 {
		switch {
		case !all || !verified || len(s.db.Spec.Init) > 0 && !s.isTrue(v1alpha1.ConditionInitialized):
			s.again = s.patience()
		case st.ActiveRun != "":
			s.again = kube.PollRun
		default:
			s.again = kube.PollSlow
		}
	}
	return nil
}

// patience returns the time until the next reconciliation of a database that is not ready or whose network is not
// verified. The time grows with the time since the last change. Events of the database's pods trigger an earlier
// reconciliation.
func (s *scope) patience() time.Duration {
	var changed time.Time
	for _, kind := range []string{v1alpha1.ConditionNodesReady, v1alpha1.ConditionNetworkVerified} {
		if c := s.conditionOf(kind); c != nil && c.LastTransitionTime.After(changed) {
			changed = c.LastTransitionTime.Time
		}
	}
	return min(max(kube.PollFast, s.Clock.Now().Sub(changed)/3), kube.PollSlow)
}

// sweep deletes objects of earlier specs and incarnations, once all nodes of the current incarnation are ready.
func (s *scope) sweep(ctx context.Context) error {
	// While nodes are not ready, pods of an earlier incarnation may still mount these objects.
	if !s.isTrue(v1alpha1.ConditionNodesReady) || !s.upToDate() {
		return nil
	}
	if s.current.Emulation() != v1alpha1.EmulationChaosMesh && controllerutil.ContainsFinalizer(s.db, kube.Finalizer) {
		if err := s.release(ctx); err != nil {
			return err
		}
	}
	var leftovers []client.Object
	for i := range s.old {
		leftovers = append(leftovers, &s.old[i])
	}
	keep := map[string]bool{}
	for i, region := range s.db.Spec.Regions {
		for _, role := range rolesIn(s.db, i) {
			keep[setName(s.db, region.Name, role)] = true
		}
		for _, pod := range deploy.PodsIn(s.db, region.Name) {
			keep[pod.Name] = keep[pod.Name] || pod.ServiceOfItsOwn()
		}
		if s.current.Emulation() == v1alpha1.EmulationSidecar {
			keep[kube.GeneratorsName(s.db, region.Name)], keep[kube.NetworkName(s.db, region.Name)] = true, true
		}
	}
	with := func(role string) []client.ListOption {
		return []client.ListOption{client.InNamespace(s.db.Namespace), client.MatchingLabels{kube.LabelDatabase: s.db.Name, kube.LabelRole: role, kube.LabelManagedBy: kube.ManagedBy}}
	}
	sets, services, others, configs := &appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}
	if err := errors.Join(s.Client.List(ctx, sets, with(kube.RoleNode)...), s.Client.List(ctx, services, with(kube.RoleNode)...),
		s.Client.List(ctx, others, with(kube.RoleNetwork)...), s.Client.List(ctx, configs, with(kube.RoleNetwork)...)); err != nil {
		return err
	}
	services.Items = append(services.Items, others.Items...)
	for i := range configs.Items {
		leftovers = append(leftovers, &configs.Items[i])
	}
	for i := range sets.Items {
		leftovers = append(leftovers, &sets.Items[i])
	}
	for i := range services.Items {
		leftovers = append(leftovers, &services.Items[i])
	}
	for _, obj := range leftovers {
		if keep[obj.GetName()] || !metav1.IsControlledBy(obj, s.db) || obj.GetDeletionTimestamp() != nil {
			continue
		}
		if err := s.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// refused reports a spec that cannot be carried out. Everything that is already running remains unchanged.
func (s *scope) refused(r *kube.Refusal) {
	message := kube.Truncate(r.Message, 4096)
	was := s.conditionOf(v1alpha1.ConditionProgressing)
	if was == nil || was.Reason != r.Reason || was.Message != message {
		s.events = append(s.events, kube.Refused(r))
	}
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgressing, v1alpha1.ConditionNodesReady} {
		s.condition(metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: r.Reason, Message: message})
	}
	// The obstacle, for example a missing profile, may disappear without an event that the operator watches.
	s.again = kube.PollSlow
	if r.Reason == health.NameTaken {
		s.again = kube.PollRun // objects of a deleted database of the same name may still be terminating
	}
}

// waiting reports that the operator does not know yet whether the spec can be carried out.
func (s *scope) waiting(p *PendingError) {
	for _, kind := range []string{v1alpha1.ConditionProgressing, v1alpha1.ConditionNodesReady} {
		s.condition(metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Probing", Message: kube.Truncate(p.Message, 1024)})
	}
	s.condition(metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionUnknown, Reason: "Probing", Message: kube.Truncate(p.Message, 1024)})
	s.again = kube.PollFast
}

func (s *scope) condition(c metav1.Condition) {
	c.ObservedGeneration = s.db.Generation
	c.LastTransitionTime = metav1.NewTime(s.Clock.Now())
	meta.SetStatusCondition(&s.db.Status.Conditions, c)
}

func (s *scope) conditionOf(kind string) *metav1.Condition {
	return meta.FindStatusCondition(s.db.Status.Conditions, kind)
}

func (s *scope) isTrue(kind string) bool {
	return meta.IsStatusConditionTrue(s.db.Status.Conditions, kind)
}
