package controllers

import (
	"errors"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/geobench/geobench/controllers/errand"
	"github.com/geobench/geobench/internal/engines"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/protocol"
)

// Options are what the controllers need besides a manager.
type Options struct {
	// Image of nodes and workers: the one with the geobench binary.
	Image string
	Clock clock.PassiveClock
	// Namespace is the operator's own, where it keeps its Secret.
	Namespace string
	// Pods, when set, takes the place of asking the pods themselves.
	Pods PodClients
	// Events, when set, takes the place of the manager's recorder.
	Events events.EventRecorder
}

// SetupWithManager registers all controllers.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	database, run, experiment := Reconcilers(mgr, o)
	return errors.Join(mgr.Add(run.Errands), mgr.Add(experiment.Errands), database.SetupWithManager(mgr), run.SetupWithManager(mgr), experiment.SetupWithManager(mgr))
}

// Reconcilers makes all controllers without registering them.
func Reconcilers(mgr ctrl.Manager, o Options) (*GeoDatabaseReconciler, *BenchmarkRunReconciler, *ExperimentReconciler) {
	if o.Events == nil {
		o.Events = mgr.GetEventRecorder("geobench-operator")
	}
	abilities := check.Default(engineTable{})
	credentials := &Credentials{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace, Clock: o.Clock}
	if o.Pods == nil {
		o.Pods = newPodClients(credentials)
	}
	choice := newEmulationChoice(mgr.GetClient(), mgr.GetAPIReader(), o.Image, o.Clock)
	return &GeoDatabaseReconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: o.Pods, Choose: choice.choose, Credentials: credentials, Abilities: abilities,
			Image: o.Image, Events: o.Events, Clock: o.Clock,
		}, &BenchmarkRunReconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: o.Pods, Choose: choice.choose, Credentials: credentials, Abilities: abilities,
			Unfit: choice.chaosUnfit, Errands: errand.NewRunner(), Loads: errand.NewBudget(loadsAtOnce), Memory: errand.NewBudget(historyMemory()), Image: o.Image, Events: o.Events, Clock: o.Clock, Wait: wait,
		}, &ExperimentReconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Abilities: abilities, Errands: errand.NewRunner(), Judgements: errand.NewBudget(judgementsAtOnce),
			Events: o.Events, Clock: o.Clock,
		}
}

// engineTable is package engines as the checks want it.
type engineTable struct{}

func (engineTable) Names() []string                             { return engines.Names() }
func (engineTable) Lookup(name string) (*protocol.Engine, bool) { return engines.Lookup(name) }
