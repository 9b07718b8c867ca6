// Package health derives the conditions from which GitOps and CI tools determine the state of a BenchmarkRun, an
// Experiment or a GeoDatabase. The conditions are Ready, Reconciling, Stalled and Succeeded, with the polarity of
// kstatus. Without them, Flux, Helm, Argo CD and Tekton report an object of an unknown kind as "Current" or "Succeeded"
// as soon as it is created. The conditions depend only on other fields of the status, so the write that changes a
// verdict also changes the conditions.
//
// NetworkProfiles have no such conditions. A profile is data that no controller reconciles, and measurements are in the
// status of each GeoDatabase.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Patience is the time for which an object may wait for a missing object before it counts as stalled. Manifests that
// are applied together arrive in any order, and some tools give up at the first stalled object.
const Patience = 2 * time.Minute

// Reasons of conditions. Further reasons are the names of stages, and reasons taken from a status.
const (
	// Suspended is the reason of Ready while spec.suspend prevents the start.
	Suspended = "Suspended"
	// DatabaseBusy is the reason of a run's condition Accepted while the run waits for other runs. It is then also the
	// reason of Reconciling.
	DatabaseBusy = "DatabaseBusy"
	// RunActive is the reason of a database's condition Progressing while a run keeps the database from following its
	// spec.
	RunActive = "RunActive"
	// StepFailed is the reason of a database's condition Initialized after a step of spec.init has failed permanently.
	StepFailed = "StepFailed"
	// ProfileNotFound, ReferenceNotFound and NameTaken are reasons of Accepted for problems that may resolve on their own.
	// A missing object may still be applied, and a conflicting object may be about to be deleted.
	ProfileNotFound   = "ProfileNotFound"
	ReferenceNotFound = "ReferenceNotFound"
	NameTaken         = "NameTaken"

	pending       = "Pending"
	startingOver  = "StartingOver"
	terminating   = "Terminating"
	newGeneration = "NewGeneration"
	deploying     = "Deploying"
	serving       = "Serving"
)

// kinds are the conditions that this package sets.
var kinds = []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionSucceeded}

// state is the state of an object, as expressed by its conditions.
type state int

const (
	working state = iota
	suspended
	good
	bad
)

// finding is a state with its reason.
type finding struct {
	state           state
	reason, message string
	// verdict is the verdict of a finished object, which the condition Succeeded reports.
	verdict string
}

// conditions returns the conditions that express the finding for an object's generation.
func (f finding) conditions(generation int64) []metav1.Condition {
	var parts []string
	for _, part := range []string{f.verdict, f.reason, f.message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	message := strings.Join(parts, ": ")
	var out []metav1.Condition
	say := func(kind string, value bool) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: f.reason, Message: message, ObservedGeneration: generation}
		if value {
			c.Status = metav1.ConditionTrue
		}
		out = append(out, c)
	}
	say(v1alpha1.ConditionReady, f.state == good)
	switch f.state {
	case working:
		say(v1alpha1.ConditionReconciling, true)
	case bad:
		say(v1alpha1.ConditionStalled, true)
	}
	if f.verdict != "" {
		say(v1alpha1.ConditionSucceeded, f.state == good)
	}
	return out
}

// Run returns the conditions of a run. They express the run's verdict once there is a verdict for the current
// spec.runID.
func Run(run *v1alpha1.BenchmarkRun) []metav1.Condition {
	return ofRun(run).conditions(run.Generation)
}

func ofRun(run *v1alpha1.BenchmarkRun) finding {
	st := &run.Status
	switch {
	case run.DeletionTimestamp != nil:
		return finding{reason: terminating, message: "the run is being deleted"}
	case st.Stage == "" && run.Held():
		return finding{state: suspended, reason: Suspended, message: "the run begins when spec.suspend is taken back"}
	case st.Stage == "":
		return finding{reason: pending, message: "the run is about to begin"}
	// Check the attempt before the verdict, because the verdict may belong to the previous runID.
	case st.RunID != run.Spec.RunID:
		return finding{reason: startingOver, message: fmt.Sprintf("what is left of the attempt with runID %q goes before the next one begins", st.RunID)}
	case st.Verdict == v1alpha1.VerdictPassed:
		return finding{state: good, reason: st.Reason, message: st.Message, verdict: string(st.Verdict)}
	case st.Verdict != "":
		return finding{state: bad, reason: st.Reason, message: st.Message, verdict: string(st.Verdict)}
	}
	f := finding{reason: string(st.Stage)}
	// The stages require these conditions in this order, so the first false condition explains the current stage.
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionNetworkVerified,
		v1alpha1.ConditionDataLoaded, v1alpha1.ConditionMeasured, v1alpha1.ConditionDatabaseQuiet} {
		if c := meta.FindStatusCondition(st.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			f.message = c.Message
			if c.Reason == DatabaseBusy {
				f.reason = DatabaseBusy
			}
			break
		}
	}
	return f
}

// Experiment returns the conditions of an experiment at the given time. They express whether the runs were carried out,
// whether the claims were evaluated, and whether spec.gate is satisfied. The status condition Failed covers all three.
func Experiment(e *v1alpha1.Experiment, now time.Time) []metav1.Condition {
	return ofExperiment(e, now).conditions(e.Generation)
}

func ofExperiment(e *v1alpha1.Experiment, now time.Time) finding {
	st := &e.Status
	find := func(kind string) metav1.Condition { return conditionOf(st.Conditions, kind) }
	accepted, progressing, completed, failed := find(v1alpha1.ConditionAccepted), find(v1alpha1.ConditionProgressing),
		find(v1alpha1.ConditionCompleted), find(v1alpha1.ConditionFailed)
	switch {
	case e.DeletionTimestamp != nil:
		return finding{reason: terminating, message: "the experiment is being deleted"}
	// The conditions below may still describe an earlier spec.
	case st.ObservedGeneration != e.Generation:
		return finding{reason: newGeneration, message: "the present spec was not looked at to its end yet"}
	case accepted.Status == metav1.ConditionFalse:
		return refused(accepted, failed.LastTransitionTime.Time, now)
	case completed.Status == metav1.ConditionTrue && failed.Status == metav1.ConditionTrue:
		return finding{state: bad, reason: failed.Reason, message: failed.Message, verdict: string(v1alpha1.VerdictFailed)}
	case completed.Status == metav1.ConditionTrue:
		return finding{state: good, reason: completed.Reason, message: completed.Message, verdict: string(v1alpha1.VerdictPassed)}
	case progressing.Reason == Suspended:
		return finding{state: suspended, reason: Suspended, message: progressing.Message}
	case progressing.Reason == "":
		return finding{reason: pending, message: "the experiment is about to begin"}
	}
	return finding{reason: progressing.Reason, message: progressing.Message}
}

// Database returns the conditions of a database at the given time. It is ready when all nodes serve the spec and the
// measured network between them matches the declared network.
func Database(db *v1alpha1.GeoDatabase, now time.Time) []metav1.Condition {
	return ofDatabase(db, now).conditions(db.Generation)
}

func ofDatabase(db *v1alpha1.GeoDatabase, now time.Time) finding {
	st := &db.Status
	find := func(kind string) metav1.Condition { return conditionOf(st.Conditions, kind) }
	accepted, progressing, nodes, network := find(v1alpha1.ConditionAccepted), find(v1alpha1.ConditionProgressing),
		find(v1alpha1.ConditionNodesReady), find(v1alpha1.ConditionNetworkVerified)
	initialized := find(v1alpha1.ConditionInitialized)
	switch {
	case db.DeletionTimestamp != nil:
		return finding{reason: terminating, message: "the database is being deleted"}
	// The conditions below may still describe an earlier spec.
	case st.ObservedGeneration != db.Generation:
		return finding{reason: newGeneration, message: "the present spec was not looked at to its end yet"}
	case accepted.Status == metav1.ConditionFalse:
		return refused(accepted, accepted.LastTransitionTime.Time, now)
	case initialized.Reason == StepFailed: // without the step, nodes may never become ready
		return finding{state: bad, reason: StepFailed, message: initialized.Message}
	case nodes.Status == "":
		return finding{reason: deploying, message: "the nodes are being deployed"}
	case initialized.Status == metav1.ConditionFalse && initialized.Reason != "WaitingForPods":
		return finding{reason: initialized.Reason, message: initialized.Message}
	case nodes.Status != metav1.ConditionTrue:
		return finding{reason: nodes.Reason, message: nodes.Message}
	case initialized.Status == metav1.ConditionFalse:
		return finding{reason: initialized.Reason, message: initialized.Message}
	case progressing.Status == metav1.ConditionTrue || progressing.Reason == RunActive:
		return finding{reason: progressing.Reason, message: progressing.Message}
	case network.Status != metav1.ConditionTrue:
		return finding{reason: cmp.Or(network.Reason, deploying), message: network.Message}
	}
	return finding{state: good, reason: serving, message: nodes.Message + ", and the network between them is the declared one"}
}

// refused returns the finding for a spec that was rejected at the time since. The finding is bad, unless a missing
// object may still arrive.
func refused(accepted metav1.Condition, since, now time.Time) finding {
	mayCome := slices.Contains([]string{ProfileNotFound, ReferenceNotFound, NameTaken}, accepted.Reason)
	if mayCome && now.Sub(since) < Patience {
		return finding{reason: accepted.Reason, message: accepted.Message}
	}
	return finding{state: bad, reason: accepted.Reason, message: accepted.Message}
}

// conditionOf returns the condition of the given kind, or an empty condition if there is none.
func conditionOf(conditions []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind}
}

// Apply merges the conditions in judged into the conditions of an object. before are the conditions in the API server.
// A condition with the same status as in before keeps its last transition time, even if the reconciliation changed the
// status back and forth.
func Apply(conditions *[]metav1.Condition, before, judged []metav1.Condition, now metav1.Time) {
	// kstatus reads every condition that is present, so remove conditions that no longer apply.
	for _, kind := range kinds {
		if !slices.ContainsFunc(judged, func(c metav1.Condition) bool { return c.Type == kind }) {
			meta.RemoveStatusCondition(conditions, kind)
		}
	}
	for _, c := range judged {
		c.LastTransitionTime = now
		meta.SetStatusCondition(conditions, c)
	}
	for i := range *conditions {
		c := &(*conditions)[i]
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
}

// Outcome is the outcome of an object that its conditions express.
type Outcome string

const (
	// Underway: the operator is working on the object or has not seen it yet, or the object is suspended.
	Underway Outcome = "Underway"
	// Succeeded: the object is in the state that its spec requires.
	Succeeded Outcome = "Succeeded"
	// Failed: the object will not succeed without a change.
	Failed Outcome = "Failed"
)

// Judge interprets the conditions that Apply has set, according to the rules of kstatus. It also returns the
// corresponding message. It ignores a status for another generation.
func Judge(generation, observed int64, conditions []metav1.Condition) (Outcome, string) {
	ready, stalled := conditionOf(conditions, v1alpha1.ConditionReady), conditionOf(conditions, v1alpha1.ConditionStalled)
	switch {
	case observed != generation:
		return Underway, "the operator has not seen it yet"
	case stalled.Status == metav1.ConditionTrue:
		return Failed, stalled.Message
	case ready.Status == metav1.ConditionTrue:
		return Succeeded, ready.Message
	}
	return Underway, ready.Message
}
