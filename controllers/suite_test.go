package controllers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/emulation/chaosmesh"
)

// apiServer is a real kube-apiserver, shared by all tests; nil without KUBEBUILDER_ASSETS.
var apiServer *rest.Config

func TestMain(m *testing.M) { os.Exit(withAPIServer(m)) }

func withAPIServer(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	// Tests mostly wait for the API server: more of them at once than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(4*goruntime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return m.Run()
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		CRDs:                  chaosCRDs(),
	}
	config, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the API server does not start:", err)
		return 1
	}
	config.QPS, config.Burst = -1, 0
	apiServer = config
	if c, err := client.New(config, client.Options{Scheme: kube.Scheme()}); err != nil || c.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}) != nil {
		fmt.Fprintln(os.Stderr, "no node:", err)
		return 1
	}
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the API server does not stop:", err)
		return 1
	}
	return code
}

// chaosMeshKinds are the kinds of Chaos Mesh's objects that runs make.
var chaosMeshKinds = []string{chaosmesh.NetworkChaos, chaosmesh.PodChaos, chaosmesh.StressChaos, chaosmesh.TimeChaos}

// chaosCRDs stand for Chaos Mesh's own: what they must accept is tested in hack/chaosmesh.
func chaosCRDs() (out []*apiextensionsv1.CustomResourceDefinition) {
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	for _, kind := range chaosMeshKinds {
		name := strings.ToLower(kind)
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name + ".chaos-mesh.org"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "chaos-mesh.org", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: name, Singular: name, Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &open}}},
			},
		})
	}
	return out
}

// newNamespace makes a namespace of a test's own and a client.
func newNamespace(t *testing.T) (client.WithWatch, string) {
	t.Helper()
	if apiServer == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set: no API server to test against; see `make test`")
	}
	c, err := client.NewWithWatch(apiServer, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := c.Create(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	return c, ns.Name
}
