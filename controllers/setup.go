package controllers

import (
	"errors"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/chaosaudit"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/experiment"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/deploy/netpol"
)

// Options are the settings of the controllers that the manager does not provide.
type Options struct {
	// Image is the image with the geobench binary, for nodes and workers.
	Image string
	// ImageRegistry replaces the public registries of the images of vendors' servers; empty for no replacement.
	ImageRegistry string
	Clock         clock.PassiveClock
	// Namespace is the namespace of the operator, where it stores its Secret.
	Namespace string
	// Watched is the only namespace that the operator watches; empty for all namespaces.
	Watched string
	// Around describes the environment of databases for their NetworkPolicies. If it is nil, the operator creates no
	// policies.
	Around *netpol.Cluster
	// Pods, if set, replaces the clients that query pods over the network.
	Pods podclient.Clients
	// Events, if set, replaces the manager's recorder.
	Events events.EventRecorder
}

// SetupWithManager registers all controllers.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	databases, runs, experiments := Reconcilers(mgr, o)
	watching, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	runs.Chaos = &chaosaudit.Log{Client: watching, Namespace: o.Watched, Clock: o.Clock, Wait: run.Wait}
	return errors.Join(mgr.Add(runs.Chaos), mgr.Add(runs.Jobs), mgr.Add(experiments.Jobs), databases.SetupWithManager(mgr), runs.SetupWithManager(mgr), experiments.SetupWithManager(mgr))
}

// Reconcilers returns all controllers without registering them.
func Reconcilers(mgr ctrl.Manager, o Options) (*database.Reconciler, *run.Reconciler, *experiment.Reconciler) {
	if o.Events == nil {
		o.Events = mgr.GetEventRecorder("geobench-operator")
	}
	abilities := check.Default(nil)
	abilities.History.MemoryBytes = run.HistoryMemory()
	credentials := &operatorca.Keeper{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace, Clock: o.Clock}
	if o.Pods == nil {
		o.Pods = podclient.New(credentials)
	}
	choice := database.NewEmulationChoice(mgr.GetClient(), mgr.GetAPIReader(), o.Image, o.Clock)
	return &database.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: o.Pods, Choose: choice.Choose, Credentials: credentials, Abilities: abilities,
			Around: o.Around, Image: o.Image, ImageRegistry: o.ImageRegistry, Events: o.Events, Clock: o.Clock,
		}, &run.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Pods: o.Pods, Choose: choice.Choose, Credentials: credentials, Abilities: abilities,
			Unfit: choice.ChaosUnfit, Jobs: background.NewRunner(), Loads: background.NewBudget(run.LoadsAtOnce), Memory: background.NewBudget(run.HistoryMemory()), Image: o.Image, Events: o.Events, Clock: o.Clock, Wait: run.Wait,
		}, &experiment.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Abilities: abilities, Jobs: background.NewRunner(), Judgements: experiment.NewJudgements(),
			Checks: experiment.NewChecks(), SlowChecks: experiment.NewSlowChecks(),
			Events: o.Events, Clock: o.Clock,
		}
}
