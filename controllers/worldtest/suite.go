package worldtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/apiservertest"
)

var (
	// APIServer is the configuration of a real kube-apiserver that all tests share; nil without KUBEBUILDER_ASSETS.
	APIServer *rest.Config
	// worldClient is the client of all simulated clusters. It answers repeated reads of unchanged objects from memory.
	worldClient client.WithWatch
	reads       = NewReadMemory()
)

// Main runs the tests of a package with one shared API server. Call it from TestMain.
func Main(m *testing.M) int {
	// Tests mostly wait for the API server, so run more of them in parallel than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(4*goruntime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config, stop, err := apiservertest.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the API server does not start:", err)
		return 1
	}
	if config == nil {
		return m.Run()
	}
	APIServer = config
	reads.SeeWrites(APIServer)
	remembering := rest.CopyConfig(APIServer)
	// The cache does not see writes of other processes.
	remember := os.Getenv(OperatorVariable) == "" && os.Getenv(FluxVariable) == ""
	if remember {
		reads.AnswerReads(remembering)
	}
	if worldClient, err = client.NewWithWatch(remembering, client.Options{Scheme: kube.Scheme()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if remember {
		worldClient = &rememberingClient{WithWatch: worldClient, reads: reads}
	}
	if err := worldClient.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		fmt.Fprintln(os.Stderr, "no node:", err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the API server does not stop:", err)
		return 1
	}
	return code
}

// NewNamespace creates a namespace for one test, and returns the client of all simulated clusters.
func NewNamespace(t *testing.T) (client.WithWatch, string) {
	t.Helper()
	if APIServer == nil {
		t.Skip(apiservertest.Missing)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := worldClient.Create(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reads.Forget(ns.Name) })
	return worldClient, ns.Name
}
