//go:build full

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers"
	"github.com/geobench/geobench/internal/manifest/check"
	"github.com/geobench/geobench/internal/result"
)

// clusterFlags say which cluster and namespace, as kubectl's flags do.
type clusterFlags struct{ kubeconfig, context, namespace string }

// addClusterFlags adds them to a command that can read from a cluster.
func addClusterFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringP("namespace", "n", "", "`namespace` of objects on a cluster (default: the context's)")
	f.String("context", "", "`name` of the kubeconfig context (default: the current one)")
	f.String("kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG, else ~/.kube/config)")
	_ = cmd.MarkFlagFilename("kubeconfig")
}

func clusterFlagsOf(cmd *cobra.Command) (f clusterFlags) {
	for name, to := range map[string]*string{"kubeconfig": &f.kubeconfig, "context": &f.context, "namespace": &f.namespace} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*to = flag.Value.String()
		}
	}
	return f
}

// cluster is a connection to an API server and the namespace to look at.
type cluster struct {
	client.Client
	namespace string
}

// connect connects to the cluster that the flags name.
var connect = func(f clusterFlags) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, usageError("no cluster: %w; `kubectl config get-contexts` lists those that are known", err)
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, usageError("no cluster: %w", err)
	}
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme) // cannot fail: the types are fixed
	_ = v1alpha1.AddToScheme(scheme)
	c, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("no cluster: %w", err)
	}
	return &cluster{c, namespace}, nil
}

func connectFor(cmd *cobra.Command) (*cluster, error) { return connect(clusterFlagsOf(cmd)) }

// run reads a BenchmarkRun; the error names those that there are.
func (c *cluster) run(ctx context.Context, name string) (*v1alpha1.BenchmarkRun, error) {
	run := &v1alpha1.BenchmarkRun{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, run)
	if !apierrors.IsNotFound(err) {
		return run, err
	}
	var names []string
	list := &v1alpha1.BenchmarkRunList{}
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return nil, c.notFound("BenchmarkRun", name, names)
}

func (c *cluster) notFound(kind, name string, names []string) error {
	text := fmt.Sprintf("there is no %s %s in namespace %s", kind, name, c.namespace)
	if near, ok := check.Nearest(name, names); ok {
		return usageError("%s; did you mean %s?", text, near)
	}
	if len(names) == 0 {
		return usageError("%s, nor any other; name its namespace with -n", text)
	}
	return usageError("%s (there is %s)", text, strings.Join(names[:min(len(names), 10)], ", "))
}

// document reads a run's result.
func (c *cluster) document(ctx context.Context, name string) (*result.Document, error) {
	run, err := c.run(ctx, name)
	if err != nil {
		return nil, err
	}
	if run.Status.ReportRef == nil {
		message := run.Status.Message
		if message == "" {
			message = "follow it with `kubectl geobench watch " + name + "`"
		}
		return nil, usageError("BenchmarkRun %s has no result: it is in stage %s: %s", name, stageOf(run), message)
	}
	cm := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: run.Status.ReportRef.Name}, cm); err != nil {
		return nil, fmt.Errorf("the result of BenchmarkRun %s: %w", name, err)
	}
	return controllers.ReadResult(cm)
}

func stageOf(run *v1alpha1.BenchmarkRun) string {
	if run.Status.Stage == "" {
		return "none: the operator has not seen it yet"
	}
	return string(run.Status.Stage)
}

// clusterDocument reads the result of a BenchmarkRun.
func clusterDocument(cmd *cobra.Command, name string) (*result.Document, error) {
	c, err := connectFor(cmd)
	if err != nil {
		return nil, err
	}
	return c.document(cmd.Context(), name)
}
