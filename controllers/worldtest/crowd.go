package worldtest

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/geobench/geobench/controllers"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
)

// reachedAPI counts and blocks the requests of a test's manager to the API server.
type reachedAPI struct {
	Requests atomic.Int64
	// Away makes every request fail.
	Away atomic.Bool
}

// StartManager starts the controllers with a manager, in real time and with the limits of geobench operator. They stop
// with the test.
func (w *World) StartManager(pods podclient.Clients) *reachedAPI {
	w.T.Helper()
	api := &reachedAPI{}
	config := rest.CopyConfig(APIServer)
	config.QPS, config.Burst = kube.RequestsPerSecond, kube.RequestBurst
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			api.Requests.Add(1)
			if api.Away.Load() {
				return nil, errors.New("connection refused")
			}
			return next.RoundTrip(r)
		})
	})
	// Several managers of one test may have controllers with the same names.
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: kube.Scheme(), Cache: kube.CacheOptions(""),
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)}, Metrics: metricsserver.Options{BindAddress: "0"}})
	w.Must(err)
	w.Must(controllers.SetupWithManager(mgr, controllers.Options{Namespace: w.Namespace, Image: TestImage, Clock: clock.RealClock{}, Events: w.Recorder, Pods: pods}))
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	w.T.Cleanup(func() { stop(); w.Must(<-stopped) })
	w.realTime()
	return api
}

// realTime makes the simulated clock follow real time until the end of the test.
func (w *World) realTime() {
	ctx, stop := context.WithCancel(context.Background())
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; {
			w.FakeClock.SetTime(<-tick.C)
		}
	}()
	w.T.Cleanup(func() { stop(); <-ticking })
}

// Play advances the simulated cluster, in real time, until the condition holds.
func (w *World) Play(what string, until func() bool) {
	w.T.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); !until(); {
		now := <-tick.C
		w.PlayCluster()
		if now.Sub(start) > 5*time.Minute {
			w.T.Fatalf("gave up waiting until %s", what)
		}
	}
}

type RoundTripper func(*http.Request) (*http.Response, error)

func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
