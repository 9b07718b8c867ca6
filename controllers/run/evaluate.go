package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	targets "github.com/geobench/geobench/internal/bench/target/catalog"
	"github.com/geobench/geobench/internal/net/rtt"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// evaluate determines the verdict of the run. It waits until the database is quiescent, requests the sums of the rows
// from every node, merges the workers' reports and writes the result document. The document is written before the
// status. So an operator that restarts between the two writes finds the document and continues from it.
func (s *scope) evaluate(ctx context.Context) error {
	doc, digest, err := s.storedResult(ctx)
	if err != nil {
		return err
	}
	if doc == nil {
		judged, err := s.judge(ctx)
		if judged == nil || err != nil {
			return err
		}
		if err := s.storeResult(ctx, judged); err != nil {
			return err
		}
		// The verdict must be derived from the stored document. Read it again in case it was replaced.
		if doc, digest, err = s.storedResult(ctx); doc == nil {
			return err
		}
	}
	s.noteQuiet(doc)
	if compared, err := s.compareWithBaseline(doc); !compared {
		return err
	}
	s.run.Status.ReportDigest = digest
	s.conclude(doc)
	return nil
}

// noteQuiet sets the condition DatabaseQuiet from the document: whether the database was quiescent and could be
// audited.
func (s *scope) noteQuiet(doc *result.Document) {
	status, reason, message := metav1.ConditionTrue, "Quiet", "every node has finished all transactions and was audited"
	if gone := len(s.taken()); gone > 0 {
		message = fmt.Sprintf("faults have taken %d nodes; of the others, those that wait for them were left out, and all the rest audited", gone)
	}
	for _, r := range doc.Reasons {
		if r.Reason == result.ReasonNotQuiet || r.Reason == result.ReasonNotAudited {
			status, reason, message = metav1.ConditionFalse, r.Reason, r.Message
		}
	}
	s.say(v1alpha1.ConditionDatabaseQuiet, status, reason, message)
}

// judge creates the result document, or returns nil while it waits. A background job audits the nodes, fetches the
// history and checks it.
func (s *scope) judge(ctx context.Context) (*result.Document, error) {
	judging := s.job("judge")
	doc, state, err := background.Outcome[*result.Document](s.Jobs, judging)
	var later *notYetError
	switch {
	// A failed audit or fetch does not end the run: the job starts again in the next reconciliation, until the deadline.
	case errors.As(err, &later):
		s.condition(v1alpha1.ConditionDatabaseQuiet, false, later.reason, later.message)
		s.again = kube.PollFast
		return nil, nil
	case err != nil:
		return nil, err
	case state == background.Done:
		// The job may have audited a node that restarted with no rows in the meantime.
		if lost, err := s.lostSince(ctx); lost || err != nil {
			return nil, err
		}
		return doc, nil
	case state == background.None:
		s.again = kube.PollFast
		f := &judge.Facts{}
		if quiet, err := s.awaitQuiet(ctx, f); !quiet {
			return nil, err
		}
		workers, err := s.observeWorkers(ctx)
		if err != nil {
			return nil, err
		}
		// A run without a history to check needs no memory and does not wait for the histories of other runs.
		var memory int64
		var budget *background.Budget
		if recorded(s.run) {
			if memory, f.Unrecorded = s.historyFits(workers); f.Unrecorded == nil {
				budget = s.Memory
			}
		}
		if err := s.gather(ctx, f); err != nil {
			return nil, err
		}
		aside := s.aside()
		background.Go(s.Jobs, judging, budget, memory, func(ctx context.Context) (*result.Document, error) { return aside.document(ctx, f, workers) })
	}
	s.underway(state, v1alpha1.ConditionDatabaseQuiet, metav1.ConditionFalse, "Judging", "all transactions have ended; nodes are audited, and what was recorded is checked")
	return nil, nil
}

// reasonAuditFailed is the reason of DatabaseQuiet while audits fail.
const reasonAuditFailed = "AuditFailed"

// lostSince ends the run if a node was lost during the evaluation, and reports whether it did so. The run
// cannot continue, because a restarted node has no rows to audit.
func (s *scope) lostSince(ctx context.Context) (bool, error) {
	nodes, err := database.ObserveNodes(ctx, s.Client, s.Pods, s.db, &s.current.Database)
	if err != nil {
		return false, err
	}
	before, err := s.startSnapshot(ctx)
	if err != nil {
		return false, err
	}
	gone := s.taken()
	for i := range nodes {
		// The loss of these nodes is planned.
		if slices.Contains(gone, nodes[i].ID) {
			continue
		}
		if s.nodeLost(&nodes[i], before); s.moved() {
			return true, nil
		}
	}
	return false, nil
}

// document adds the audits, the history and the reports to the facts, and creates the result document from them.
func (s *scope) document(ctx context.Context, f *judge.Facts, workers []workerState) (*result.Document, error) {
	var err error
	if f.Audits != nil {
		if s.stewarded() {
			f.Audits.Nodes, f.Target.ServersAfter, err = s.stewardAudit(ctx)
		} else {
			f.Audits.Nodes, err = s.audit(ctx, f.Audits.LeftOut)
		}
	}
	if err != nil {
		return nil, notYet(reasonAuditFailed, "the rows could not be audited: %s", err)
	}
	if recorded(s.run) && f.Unrecorded == nil {
		// The history may be large, so its memory is returned to the machine immediately.
		defer debug.FreeOSMemory()
		var lost *trouble
		switch f.History, err = s.history(ctx, workers); {
		case errors.As(err, &lost): // the other figures do not depend on the history
			f.History, f.Unrecorded = nil, &result.Reason{Reason: lost.reason, Message: lost.message}
		case err != nil:
			return nil, err
		}
	}
	// Check the history before taking the lock, so that the reports of other runs need not wait for it.
	f.CheckHistory()
	s.reading.Lock()
	defer s.reading.Unlock()
	if f.Reports, err = s.readReports(ctx, workers); err != nil {
		return nil, err
	}
	doc, err := judge.Document(f)
	if err != nil {
		return nil, err
	}
	doc.FunctionalTests, err = s.passedTests(ctx)
	return doc, err
}

// inStage returns the time for which the run has been in its current stage.
func (s *scope) inStage() time.Duration {
	return s.Clock.Now().Sub(s.run.Status.StageStartTime.Time)
}

// awaitQuiet waits until every node has finished all transactions. It also waits for messages in flight between nodes,
// which no node counts as pending. It returns false until the nodes can be audited. The workers have received all their
// answers before this stage.
//
// After faults that removed nodes permanently, some of the remaining nodes may wait for the lost nodes forever. The
// audit omits these nodes. A database that is not quiescent in time is not audited.
func (s *scope) awaitQuiet(ctx context.Context, f *judge.Facts) (quiet bool, err error) {
	gone := s.taken()
	left := func(n geo.NodeID) bool { return !slices.Contains(gone, n) }
	if s.nodes, err = database.ObserveNodes(ctx, s.Client, s.Pods, s.db, &s.current.Database); err != nil {
		return false, err
	}
	before, err := s.startSnapshot(ctx)
	if err != nil {
		return false, err
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if !left(n.ID) {
			continue
		}
		if s.nodeLost(n, before); s.moved() {
			return false, nil
		}
		if n.Status == nil {
			s.condition(v1alpha1.ConditionDatabaseQuiet, false, "NodesNotReady", fmt.Sprintf("node %s: %s", n.PodName, n.Problem))
			return false, nil
		}
		f.Unfinished += n.Status.Pending
	}
	if s.stewarded() {
		n, err := s.steward(ctx)
		if err != nil {
			return false, err
		}
		if !n.Ready {
			s.condition(v1alpha1.ConditionDatabaseQuiet, false, "DatabaseSilent", fmt.Sprintf("steward %s: %s", n.PodName, n.Problem))
			// Give up the audit, not the run: a run that exceeds the deadline of the stage has no result.
			if s.inStage() > judge.QuietWithin {
				f.Unaudited = fmt.Errorf("what goes on in the database after the last answer is not known: %s", n.Problem)
				return true, nil
			}
			return false, nil
		}
		f.Unfinished += n.Status.Pending
		f.Leader, f.Elections = n.Status.Leader, n.Status.Elections
		gone = nil // Geobench does not track the state of a program, so the steward reads the rows even if nodes were removed
	}
	if f.Unfinished > 0 && !s.stalled(f.Unfinished, len(gone) > 0) {
		return s.inStage() > judge.QuietWithin, nil
	}
	longest := s.current.Database.Topology.LongestRTT()
	const rounded = time.Second // stage times in the status are rounded to whole seconds
	if left := longest + rounded - s.inStage(); left > 0 {
		s.condition(v1alpha1.ConditionDatabaseQuiet, false, "Settling", fmt.Sprintf("what was committed may still be on its way between regions, whose longest round trip is %s", rtt.Round(longest)))
		s.again = left
		return false, nil
	}
	// A counter read too early would omit bytes that the proxies have carried but not reported yet.
	if left := mesh.ReportsEvery + rounded - s.inStage(); left > 0 && before.Mesh != nil && before.Mesh.Late {
		s.condition(v1alpha1.ConditionDatabaseQuiet, false, "Settling", fmt.Sprintf("the proxies of the service mesh tell what they have carried every %s", mesh.ReportsEvery))
		s.again = left
		return false, nil
	}
	if s.reason(v1alpha1.ConditionDatabaseQuiet) == reasonAuditFailed && s.inStage() > judge.QuietWithin {
		f.Unaudited = errors.New(meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionDatabaseQuiet).Message)
		return true, nil
	}
	f.Audits = &audit.Audits{Out: judge.LeftOut(&s.current.Database.Topology, gone, func(n geo.NodeID) int { return s.node(n).Status.Pending })}
	return true, nil
}

// stalled sets the message of DatabaseQuiet to the number of unfinished transactions, and reports whether they count as
// permanently unfinished. gone is set if faults have removed nodes permanently. Transactions that wait for these nodes
// never finish.
func (s *scope) stalled(pending int, gone bool) bool {
	message := fmt.Sprintf("%d transactions are unfinished", pending)
	if was := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionDatabaseQuiet); was != nil && was.Message == message {
		return gone && s.Clock.Now().Sub(was.LastTransitionTime.Time) > stalledPatience
	}
	// Recreate the condition, so that its transition time is the time of the last change of this number.
	meta.RemoveStatusCondition(&s.run.Status.Conditions, v1alpha1.ConditionDatabaseQuiet)
	s.condition(v1alpha1.ConditionDatabaseQuiet, false, "TransactionsPending", message)
	return false
}

// gather collects all facts except audits, reports and the history.
func (s *scope) gather(ctx context.Context, f *judge.Facts) error {
	d := &s.current.Database
	f.Emulation, f.Machine, f.Execution = string(s.current.Emulation()), result.ThisMachine(), s.execution()
	found, changed, err := s.leftMesh(ctx)
	if err != nil {
		return err
	}
	f.Mesh, f.Incidents = found, append(f.Incidents, changed...)
	before, err := s.startSnapshot(ctx)
	if err != nil {
		return err
	}
	end, err := s.takenSnapshot(ctx, snapshotEnd)
	if err != nil {
		return err
	}
	after, err := s.takeSnapshot(ctx, snapshotAfter)
	if err != nil {
		return err
	}
	f.Before, f.After = before.Nodes, loadedRoundTrips(after, end).Nodes
	f.Readings = s.readings(before, after)
	m, err := s.readManifests(ctx)
	if err != nil {
		return err
	}
	// noteEdits returns an error if a mounted file was changed. It must run before all steps that rely on the manifests.
	if err := s.noteEdits(ctx, m); err != nil {
		return err
	}
	f.ConfigMaps = m.ConfigMaps
	// Pods that replaced other pods during the measurement must meet the same requirements.
	if err := s.holdPods(ctx); err != nil {
		return err
	}
	if f.Pods, err = s.notedPods(ctx); err != nil {
		return err
	}
	// The plan needs a copy of the run, because a background job reads it while the run's status is written.
	if f.Plan, err = plan.Deployed(s.run.DeepCopy(), d, m.Database, m.Network); err != nil {
		return err
	}
	if s.stewarded() {
		f.Layout = s.oneCopy()
		if f.Target, err = s.target(ctx); err != nil {
			return err
		}
		f.Target.Promises, f.Target.ConnectionsPerRegion = f.Plan.Engine.Promises(f.Plan.Params).String(), targets.Connections(f.Plan.Params)
	} else {
		f.Layout = f.Plan.Engine.Layout(&d.Topology, f.Plan.Params)
	}
	if f.Clocks, err = s.workerClocks(ctx); err != nil {
		return err
	}
	// The instructions and logs of nodes and sidecars are checked even without faults.
	injector := s.injector()
	if injector == nil {
		tl := fault.NewTimeline(fault.NewPlan(nil, &d.Topology, 0), faultstatus.Poll, faultstatus.Patience)
		tl.Start = s.run.Status.MeasureStartTime.Time
		injector = newInjector(s, tl)
	}
	f.Timeline = injector.timeline
	if f.Deviations, f.FastLinks, err = injector.deviations(ctx); err != nil {
		return err
	}
	if f.NodeFacts, err = injector.nodeFacts(ctx); err != nil {
		return err
	}
	if len(s.run.Spec.Faults) > 0 {
		faultstatus.Keep(s.run, injector.timeline)
	}
	f.Gaps = s.gaps(injector.timeline)
	return nil
}

// gaps returns the periods of the measured windows in which the emulated network was incomplete. Either a replaced pod
// ran before its links were in place, or Chaos Mesh recreated links for a fault, which removes them for a moment.
func (s *scope) gaps(tl *fault.Timeline) (out []result.Gap) {
	schedule := load.PlanOf(s.run.Spec.Load, 0)
	add := func(from, to time.Duration, cause, fault string) { // relative to the start of the first warm-up
		for rep := 1; rep <= schedule.Repetitions; rep++ {
			begin, end := schedule.Window(rep)
			if from < end && to > begin {
				out = append(out, result.Gap{Repetition: rep, FromMicroseconds: max(0, from-begin).Microseconds(), ToMicroseconds: (min(to, end) - begin).Microseconds(), Cause: cause, Fault: fault})
			}
		}
	}
	for _, g := range s.db.Status.EmulationGaps {
		to := s.Clock.Now()
		if g.To != nil {
			to = g.To.Time
		}
		start := s.run.Status.WarmupStartTime.Time
		add(g.From.Sub(start), to.Sub(start), "pod "+g.Pod+" ran before all of its links were there", "")
	}
	if s.current.Emulation() != v1alpha1.EmulationChaosMesh {
		return out
	}
	measuring, _ := schedule.Window(1)
	for _, l := range tl.Lives {
		if l.Fault.Between() == nil {
			continue
		}
		if l.Injecting != nil && l.Injected != nil {
			add(measuring+*l.Injecting, measuring+*l.Injected, "links were made anew for fault "+l.Fault.Name, l.Fault.Name)
		}
		if l.Recovering != nil && l.Recovered != nil {
			add(measuring+*l.Recovering, measuring+*l.Recovered, "links were made anew after fault "+l.Fault.Name, l.Fault.Name)
		}
	}
	return out
}

// loadedRoundTrips replaces the round trips in snapshot after with the round trips in snapshot end, and returns after.
// When after was taken, nodes had already discarded the round trips that they measured under load.
func loadedRoundTrips(after, end *snapshot) *snapshot {
	for i := range after.Nodes {
		for j := range after.Nodes[i].Links {
			l := &after.Nodes[i].Links[j]
			for k := range end.Nodes[i].Links {
				if e := &end.Nodes[i].Links[k]; e.To == l.To {
					l.RTT = e.RTT
				}
			}
		}
	}
	return after
}

// conclude copies the outcome in the document to the status and finishes the run.
func (s *scope) conclude(doc *result.Document) {
	st := &s.run.Status
	st.Summary, st.Regions = doc.RunSummary(), doc.RunRegions()
	st.Objectives, st.Checks = doc.RunObjectives(), doc.RunChecks()
	fit(st)
	st.Repetitions = repetitions(s.run, doc)
	st.ReportRef = &v1alpha1.LocalReference{Name: kube.ResultName(s.run)}
	reason, objectives := "ObjectivesHold", fmt.Sprintf("%d objectives hold", len(doc.Objectives))
	if len(doc.Objectives) == 0 {
		objectives = "no objective was set"
	}
	message := fmt.Sprintf("%d transactions per second, p50 %s, p99 %s; %s, %d checks passed", doc.Summary.ThroughputPerSecond,
		result.FormatQuantile(doc.Summary.LatencyMicroseconds.P50), result.FormatQuantile(doc.Summary.LatencyMicroseconds.P99), objectives, len(doc.Checks))
	if len(doc.Reasons) > 0 {
		reason, message = doc.Reasons[0].Reason, doc.Reasons[0].Message
		for _, r := range doc.Reasons[1:] {
			message += "; " + r.Message
		}
	}
	s.end(v1alpha1.StageCompleted, doc.Verdict, reason, message)
}

// mostChecks is the maximum number of checks in a status.
const mostChecks = 64

// fit shortens a status to the limits of the API. Otherwise the API server would reject the status at every retry.
// Failed checks are kept in preference to passed checks.
func fit(st *v1alpha1.BenchmarkRunStatus) {
	if len(st.Checks) > mostChecks {
		slices.SortStableFunc(st.Checks, func(a, b v1alpha1.CheckStatus) int {
			switch {
			case a.Passed == b.Passed:
				return 0
			case b.Passed:
				return -1
			}
			return 1
		})
		st.Checks = st.Checks[:mostChecks]
	}
	for i := range st.Checks {
		c := &st.Checks[i]
		c.Name, c.Message = kube.Truncate(c.Name, 128), kube.Truncate(c.Message, 4096)
	}
	for i := range st.Objectives {
		o := &st.Objectives[i]
		o.Name, o.Measured = kube.Truncate(o.Name, 256), kube.Truncate(o.Measured, 256)
	}
}

// repetitions returns the status of each measured window.
func repetitions(run *v1alpha1.BenchmarkRun, doc *result.Document) []v1alpha1.RepetitionStatus {
	schedule := load.PlanOf(run.Spec.Load, 0)
	var out []v1alpha1.RepetitionStatus
	for i := range doc.Repetitions {
		r := &doc.Repetitions[i]
		from, _ := schedule.Window(r.Index)
		start := metav1.NewMicroTime(run.Status.WarmupStartTime.Add(from))
		status := r.RunRepetition()
		status.StartTime = &start
		out = append(out, status)
	}
	return out
}

// audit requests the sums of its rows from every node for which leftOut returns false. The result is in the order of
// geo.NodeID.
func (s *scope) audit(ctx context.Context, leftOut func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	audits := make([][]store.ShardSums, len(s.nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i := range s.nodes {
		if leftOut(s.nodes[i].ID) {
			continue
		}
		group.Go(func() error {
			a, err := s.Pods.Nodes(s.db.UID).Audit(ctx, s.nodes[i].Address)
			if err != nil {
				return fmt.Errorf("node %s: %w", s.nodes[i].PodName, err)
			}
			audits[i] = a.Shards
			return nil
		})
	}
	return audits, group.Wait()
}
