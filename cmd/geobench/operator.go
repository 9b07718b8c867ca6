//go:build full

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/geobench/geobench/controllers"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/controllers/run"
	"github.com/geobench/geobench/internal/base/version"
	"github.com/geobench/geobench/internal/ops/deploy/netpol"
)

// podNamespaceFile contains the name of the pod's namespace.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// operatorOptions are the flags of geobench operator.
type operatorOptions struct {
	metricsAddress string
	metricsSecure  bool
	probeAddress   string
	leaderElect    bool
	leaseNamespace string
	ownNamespace   string
	namespace      string
	nodeImage      string
	imageRegistry  string
	policies       string
	logLevel       string
	qps            float32
	burst          int
}

func newOperatorCommand() *cobra.Command {
	o := &operatorOptions{}
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Deploy databases and lead runs through their stages (runs in a pod)",
		Long: `operator reconciles GeoDatabases and BenchmarkRuns. It runs in a pod with the service account that config/rbac or
the Helm chart make; outside of a cluster it follows $KUBECONFIG, but then it must be able to reach the pods' addresses.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", `address of the metrics endpoint, "0" for none`)
	f.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics over TLS, to those who may get /metrics by RBAC")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "act only while holding the lease, so that several operators can stand by")
	f.StringVar(&o.leaseNamespace, "leader-election-namespace", "", "namespace of the lease (the pod's own)")
	f.StringVar(&o.ownNamespace, "credentials-namespace", "", "namespace of the Secret that all credentials come from (the pod's own)")
	f.StringVar(&o.namespace, "namespace", "", "look at this namespace only (all)")
	f.StringVar(&o.nodeImage, "node-image", os.Getenv("GEOBENCH_IMAGE"), "image of nodes and workers ($GEOBENCH_IMAGE)")
	f.StringVar(&o.imageRegistry, "image-registry", os.Getenv("GEOBENCH_IMAGE_REGISTRY"), "registry in place of docker.io and quay.io for the images of vendors' servers ($GEOBENCH_IMAGE_REGISTRY)")
	f.StringVar(&o.policies, "network-policies", "", `make NetworkPolicies for databases and the workers of their runs, given as JSON what is around them:
the labels of the operator's pods, and optionally apiServerPorts, apiServerCIDRs, externalCIDRs and metricsFrom (peers as in a NetworkPolicy);
for example {"operator": {"app.kubernetes.io/component": "operator"}} (none)`)
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.Float32Var(&o.qps, "kube-api-qps", kube.RequestsPerSecond, "requests to the API server per second, for each kind of object")
	f.IntVar(&o.burst, "kube-api-burst", kube.RequestBurst, "requests to the API server at once, for each kind of object")
	return cmd
}

func (o *operatorOptions) run(cmd *cobra.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return usageError("--log-level: %q is not one of debug, info, warn, error", o.logLevel)
	}
	if o.nodeImage == "" {
		return usageError("--node-image: no image is given; name the one that holds geobench, or set GEOBENCH_IMAGE")
	}
	if o.ownNamespace == "" {
		b, err := os.ReadFile(podNamespaceFile)
		if err != nil {
			return usageError("--credentials-namespace: outside of a pod it must be given: the namespace that is to hold Secret %s", operatorca.SecretName)
		}
		o.ownNamespace = strings.TrimSpace(string(b))
	}
	around, err := o.around()
	if err != nil {
		return err
	}
	// Set the limits before the caches fill.
	leaveRoom()
	log := logr.FromSlogHandler(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no cluster: %w", err)
	}
	mgr, err := o.manager(config, log, around)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version.String(), "image", o.nodeImage, "namespace", o.namespace)
	return mgr.Start(cmd.Context())
}

// leaveRoom reserves a tenth of the Go runtime's memory limit (GOMEMLIMIT) for memory outside the runtime's control.
// The chart cannot do this: it can only set the limit to the container's limit. Unless GOGC is set, it also starts a
// garbage collection once the heap has grown by half. A burst of work then needs half as much additional memory, and
// leaves a less fragmented heap.
func leaveRoom() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// memoryReturner returns memory to the machine after a burst. The runtime starts a garbage collection only once the
// heap has doubled, and keeps freed pages for reuse. So after a burst, the operator would use twice the required memory
// for hours.
type memoryReturner struct{}

// NeedLeaderElection returns false, because standby operators must return memory, too.
func (memoryReturner) NeedLeaderElection() bool { return false }

// Start returns memory every minute, which takes some hundredths of a second, until ctx is done.
func (memoryReturner) Start(ctx context.Context) error {
	for tick := time.NewTicker(time.Minute); ; {
		select {
		case <-tick.C:
			debug.FreeOSMemory()
		case <-ctx.Done():
			tick.Stop()
			return nil
		}
	}
}

// around returns the environment of databases for their NetworkPolicies, or nil if no policies are requested.
func (o *operatorOptions) around() (*netpol.Cluster, error) {
	if o.policies == "" {
		return nil, nil
	}
	// These are the defaults for fields that the JSON omits.
	c := &netpol.Cluster{OperatorNamespace: o.ownNamespace, APIServerPorts: []int32{443, 6443}}
	d := json.NewDecoder(strings.NewReader(o.policies))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, usageError("--network-policies: %s", err)
	}
	if len(c.Operator) == 0 {
		return nil, usageError("--network-policies: operator: the labels of the operator's pods are missing: without them nobody would reach databases; for example %s",
			`{"operator": {"app.kubernetes.io/component": "operator"}}`)
	}
	for _, cidr := range c.ExternalCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return nil, usageError("--network-policies: externalCIDRs: %q is not a network, for example 10.20.0.0/16", cidr)
		}
	}
	if len(c.APIServerPorts) == 0 {
		return nil, usageError("--network-policies: apiServerPorts: the list is empty, which would let workers reach everything; leave it out for 443 and 6443")
	}
	return c, nil
}

// manager creates the manager with all controllers.
func (o *operatorOptions) manager(config *rest.Config, log logr.Logger, around *netpol.Cluster) (ctrl.Manager, error) {
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "geobench-operator/" + version.String()
	metricsOptions := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if o.metricsSecure {
		metricsOptions.FilterProvider = filters.WithAuthenticationAndAuthorization
		// HTTP/2 has had denial-of-service vulnerabilities, and a metrics endpoint does not need it.
		metricsOptions.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  kube.Scheme(),
		Logger:                  log,
		Cache:                   kube.CacheOptions(o.namespace),
		Metrics:                 metricsOptions,
		HealthProbeBindAddress:  o.probeAddress,
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        "geobench-operator",
		LeaderElectionNamespace: o.leaseNamespace,
		// With this option, a successor need not wait until the lease expires.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		controllers.SetupWithManager(mgr, controllers.Options{Namespace: o.ownNamespace, Watched: o.namespace, Image: o.nodeImage, ImageRegistry: o.imageRegistry, Around: around, Clock: clock.RealClock{}}),
		metrics.Registry.Register(run.NewCollector(mgr.GetClient(), clock.RealClock{})),
		mgr.Add(memoryReturner{}),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); err != nil {
		return nil, err
	}
	return mgr, nil
}
