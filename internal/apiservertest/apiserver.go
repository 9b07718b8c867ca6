// Package apiservertest starts the real kube-apiserver and etcd that tests talk to. It has the kinds of Geobench, and
// stand-ins for Chaos Mesh's kinds. hack/chaosmesh tests what Chaos Mesh itself accepts.
package apiservertest

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/geobench/geobench/config/crd"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
)

// Missing is why a test that needs the API server is skipped where Start returns none.
const Missing = "KUBEBUILDER_ASSETS is not set: export KUBEBUILDER_ASSETS=$(go run -C hack/cluster . build envtest | tail -1) runs this test against a real API server"

// gcPercent lets heaps grow to five times what is live, which is tens of megabytes.
const gcPercent = 400

// patience is how long etcd and the API server may take to start, each. An API server takes three seconds of CPU to do
// so, and on a machine that builds programs beside it more than the twenty that are usual.
const patience = 2 * time.Minute

// Start starts an API server and returns how its administrator reaches it, without a limit on requests, and how it is
// stopped. Both are nil where KUBEBUILDER_ASSETS does not say where the programs are.
func Start() (config *rest.Config, stop func() error, err error) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, nil, nil
	}
	definitions, err := crd.Definitions()
	if err != nil {
		return nil, nil, err
	}
	env := &envtest.Environment{CRDs: append(definitions, chaosMesh()...), ControlPlaneStartTimeout: patience}
	// With its cache of watches, a list waits up to 100 ms until etcd has said that nothing is newer than what the cache
	// holds. Tests that measure what the operator does to an API server have one as others do.
	if os.Getenv("GEOBENCH_CROWD") == "" {
		env.ControlPlane.GetAPIServer().Configure().Set("watch-cache", "false")
	}
	// Collecting garbage took a third of the processors' time, here and in the programs, which take their environment from
	// this process.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		if err := os.Setenv("GOGC", strconv.Itoa(gcPercent)); err != nil {
			return nil, nil, err
		}
		defer func() { _ = os.Unsetenv("GOGC") }()
	}
	if config, err = env.Start(); err != nil {
		return nil, nil, err
	}
	config.QPS, config.Burst = -1, 0
	return config, env.Stop, nil
}

// New starts an API server that stops with the test, which is skipped where there is none to start.
func New(t *testing.T) *rest.Config {
	t.Helper()
	config, stop, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	if config == nil {
		t.Skip(Missing)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

// ChaosMeshKinds are the kinds of Chaos Mesh's objects that runs and databases make.
var ChaosMeshKinds = []string{chaosmesh.NetworkChaos, chaosmesh.PodChaos, chaosmesh.StressChaos, chaosmesh.TimeChaos}

// chaosMesh returns definitions of Chaos Mesh's kinds whose objects may be anything.
func chaosMesh() (out []*apiextensionsv1.CustomResourceDefinition) {
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	for _, kind := range ChaosMeshKinds {
		name := strings.ToLower(kind)
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name + "." + chaosmesh.GroupVersion.Group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: chaosmesh.GroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: name, Singular: name, Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: chaosmesh.GroupVersion.Version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &open}}},
			},
		})
	}
	return out
}
