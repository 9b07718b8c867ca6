// Package apiservertest starts a real kube-apiserver and etcd for tests. The API server has Geobench's kinds, and kinds
// with the names of Chaos Mesh's kinds that accept any object. hack/chaosmesh tests which objects the real Chaos Mesh
// accepts.
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

// Missing is the message with which a test is skipped if it needs the API server but Start returns none.
const Missing = "KUBEBUILDER_ASSETS is not set: export KUBEBUILDER_ASSETS=$(go run -C hack/cluster . build envtest | tail -1) runs this test against a real API server"

// gcPercent is the value of GOGC for the tests. It lets heaps grow to five times their live bytes, which are tens of
// megabytes.
const gcPercent = 400

// patience is the maximum time for the start of etcd, and for the start of the API server. The API server needs three
// seconds of CPU time. On a machine that builds programs at the same time, its start may exceed envtest's default of
// twenty seconds.
const patience = 2 * time.Minute

// Start starts an API server. config connects to it as its administrator, without a limit on requests, and stop stops
// it. Both are nil if KUBEBUILDER_ASSETS is not set, because the location of the programs is then unknown.
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
	// Disable the watch cache: with it, a list request waits up to 100 ms until etcd confirms that the cache is current.
	// Tests that measure the load on the API server keep the cache, as in a normal cluster.
	if os.Getenv("GEOBENCH_CROWD") == "" {
		env.ControlPlane.GetAPIServer().Configure().Set("watch-cache", "false")
	}
	// Collect garbage less often, because it took a third of the CPU time. This also applies to etcd and the API
	// server, which inherit the environment of this process.
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

// New starts an API server that stops at the end of the test. It skips the test if the API server is not available.
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

// ChaosMeshKinds are the kinds of Chaos Mesh objects that runs and databases create.
var ChaosMeshKinds = []string{chaosmesh.NetworkChaos, chaosmesh.PodChaos, chaosmesh.StressChaos, chaosmesh.TimeChaos}

// chaosMesh returns CustomResourceDefinitions of Chaos Mesh's kinds. Their objects may have any content.
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
