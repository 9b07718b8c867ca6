//go:build full

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
)

// selftestInterval is the time between two attempts at a check.
const selftestInterval = time.Second

func newSelftestCommand() *cobra.Command {
	var (
		namespace, deployment string
		timeout               time.Duration
	)
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Check an installation: resources served, operator available, right manifests accepted, wrong ones refused",
		Long: `Selftest checks an installation of the operator and changes nothing. It talks to the cluster that it runs in, or to that of
the current context. helm test runs it.

It needs the rights to get the operator's Deployment and to create BenchmarkRuns (only dry runs are made).`,
		Example: `  geobench selftest --namespace geobench-system`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError("--timeout: %s is not longer than 0s, for example 120s", timeout)
			}
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
				clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
			if err != nil {
				return fmt.Errorf("no cluster to test: %w", err)
			}
			s := selftest{namespace: namespace, deployment: deployment}
			if s.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
				return err
			}
			if s.apps, err = appsclient.NewForConfig(config); err != nil {
				return err
			}
			if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return s.run(ctx, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "geobench-system", "namespace of the operator")
	cmd.Flags().StringVar(&deployment, "deployment", "geobench-operator", "name of the operator's Deployment")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long the installation may take to become right")
	return cmd
}

// selftest checks an installation.
type selftest struct {
	namespace, deployment string
	discovery             discovery.ServerResourcesInterface
	apps                  appsclient.DeploymentsGetter
	dynamic               dynamic.Interface
}

// run repeats each check until it succeeds. If a check does not succeed before ctx is done, run reports it as failed.
func (s *selftest) run(ctx context.Context, out io.Writer) error {
	for _, check := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"the API server serves the resources of " + v1alpha1.GroupVersion.String(), s.served},
		{fmt.Sprintf("deployment %s/%s is available", s.namespace, s.deployment), s.available},
		{"a right BenchmarkRun is accepted (dry run)", s.accepts},
		{"a wrong BenchmarkRun is refused, and the refusal says why (dry run)", s.refuses},
	} {
		// A new installation takes some time until each check can succeed.
		for {
			err := check.do(ctx)
			if err == nil {
				fmt.Fprintln(out, "ok  ", check.name)
				break
			}
			select {
			case <-ctx.Done():
				fmt.Fprintln(out, "FAIL", check.name)
				return &codedError{code: exit.Failed, err: fmt.Errorf("selftest: %s: %w", check.name, err)}
			case <-time.After(selftestInterval):
			}
		}
	}
	return nil
}

func (s *selftest) served(context.Context) error {
	list, err := s.discovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return err
	}
	var missing []string
	for _, want := range []string{"networkprofiles", "geodatabases", "benchmarkruns"} {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == want }) {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s not served: install the chart's CustomResourceDefinitions (crds.enabled)", strings.Join(missing, ", "))
	}
	return nil
}

func (s *selftest) available(ctx context.Context) error {
	d, err := s.apps.Deployments(s.namespace).Get(ctx, s.deployment, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if d.Status.ObservedGeneration < d.Generation {
		return fmt.Errorf("its latest change has not been taken up yet")
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable {
			if c.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%d of %d pods are ready: %s", d.Status.ReadyReplicas, d.Status.Replicas, c.Message)
		}
	}
	return fmt.Errorf("it has no condition Available yet")
}

// selftestRun returns a BenchmarkRun as a user would write it.
func selftestRun(workload map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "BenchmarkRun",
		"metadata":   map[string]any{"generateName": "selftest-"},
		"spec": map[string]any{
			"databaseRef": map[string]any{"name": "selftest"},
			"workload":    workload,
			"load":        map[string]any{"clientsPerRegion": int64(10), "warmup": "5s", "duration": "30s"},
		},
	}}
}

func (s *selftest) create(ctx context.Context, run *unstructured.Unstructured) error {
	// A dry run passes validation and admission, but stores nothing.
	_, err := s.dynamic.Resource(v1alpha1.GroupVersion.WithResource("benchmarkruns")).Namespace(s.namespace).
		Create(ctx, run, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

func (s *selftest) accepts(ctx context.Context) error {
	return s.create(ctx, selftestRun(map[string]any{"smallbank": map[string]any{"customers": int64(1000)}}))
}

func (s *selftest) refuses(ctx context.Context) error {
	err := s.create(ctx, selftestRun(map[string]any{}))
	switch {
	case err == nil:
		return fmt.Errorf("a BenchmarkRun without a workload was accepted: the CustomResourceDefinitions are not this version's")
	case !apierrors.IsInvalid(err):
		return err
	// Any validation failure might be accidental. Only an error about this field shows that this version's rules are
	// active.
	case !strings.Contains(err.Error(), "workload"):
		return fmt.Errorf("a BenchmarkRun without a workload was refused without naming spec.workload: %w", err)
	}
	return nil
}
