package worldtest

import (
	"context"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// FluxVariable is the environment variable with the path of kustomize-controller.
const FluxVariable = "GEOBENCH_KUSTOMIZE_CONTROLLER"

const (
	// FluxNamespace is the namespace of Flux's objects in gitops/flux/lab.yaml and the example repository.
	FluxNamespace = "flux-system"
	// FluxPatience is the timeout for actions that Flux, which works in real time, normally completes within seconds.
	// Flux checks health every 5 s.
	FluxPatience = 2 * time.Minute
)

func (w *World) FluxObject(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	w.T.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	w.Must(w.Client.Get(w.Ctx, types.NamespacedName{Namespace: FluxNamespace, Name: name}, u))
	return u
}

var requestCount = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="benchmarkruns".*subresource="",verb="(?:GET|LIST)".*\} (\d+)$`)

// FluxLooks waits, without advancing the simulated cluster, until Flux has read the runs twice. Flux has then acted on
// the first read. No other client reads runs while the simulated cluster stands still.
func (w *World) FluxLooks() {
	w.T.Helper()
	api, err := rest.HTTPClientFor(APIServer)
	w.Must(err)
	metrics, err := url.JoinPath(APIServer.Host, "metrics")
	w.Must(err)
	looks := func() (n int) {
		answer, err := api.Get(metrics)
		w.Must(err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		w.Must(err)
		for _, match := range requestCount.FindAllSubmatch(text, -1) {
			count, err := strconv.Atoi(string(match[1]))
			w.Must(err)
			n += count
		}
		if n == 0 {
			w.T.Fatalf("GET %s: %s: it does not count requests for runs", metrics, answer.Status)
		}
		return n
	}
	before := looks()
	w.Must(wait.PollUntilContextTimeout(w.Ctx, 250*time.Millisecond, FluxPatience, false, func(context.Context) (bool, error) {
		return looks() >= before+2, nil
	}))
}
