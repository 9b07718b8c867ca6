package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/bench/result"
)

// compareWithBaseline sets status.baseline and the condition NotRegressed if the run has a baseline. It returns false
// while the comparison is running. The size of a baseline is not limited, so the comparison reserves the whole memory
// budget.
func (s *scope) compareWithBaseline(doc *result.Document) (bool, error) {
	if s.run.Spec.BaselineRef == nil {
		return true, nil
	}
	comparing := s.job("baseline")
	b, state, err := background.Outcome[*v1alpha1.BaselineStatus](s.Jobs, comparing)
	if err != nil {
		return false, err
	}
	if state != background.Done {
		if state == background.None {
			aside := s.aside()
			background.Go(s.Jobs, comparing, s.Memory, s.Memory.Size(), func(ctx context.Context) (*v1alpha1.BaselineStatus, error) { return aside.compared(ctx, doc) })
		}
		s.underway(state, v1alpha1.ConditionNotRegressed, metav1.ConditionUnknown, "Comparing", "the result is compared with that of "+s.run.Spec.BaselineRef.Name)
		return false, nil
	}
	s.run.Status.Baseline = b
	status := metav1.ConditionTrue
	switch b.Verdict {
	case v1alpha1.ChangeRegression:
		status = metav1.ConditionFalse
	case v1alpha1.ChangeUndecided:
		status = metav1.ConditionUnknown
	}
	meta.SetStatusCondition(&s.run.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionNotRegressed, Status: status, Reason: string(b.Verdict), Message: b.Message,
		ObservedGeneration: s.run.Generation, LastTransitionTime: s.now(),
	})
	return true, nil
}

// compared compares the run's document with its baseline.
func (s *scope) compared(ctx context.Context, doc *result.Document) (*v1alpha1.BaselineStatus, error) {
	b := &v1alpha1.BaselineStatus{Name: s.run.Spec.BaselineRef.Name, Verdict: v1alpha1.ChangeUndecided}
	baseline, problem, err := s.baseline(ctx, b.Name)
	if err != nil {
		return nil, err
	}
	// A missing or unreadable baseline leaves the comparison Undecided. It does not affect the run's own verdict.
	if problem != "" {
		b.Message = problem
		return b, nil
	}
	c := result.Compare([]*result.Document{baseline}, []*result.Document{doc}, result.CompareOptions{})
	b.Verdict, b.Message = c.Verdict, c.Message
	for _, w := range c.Warnings {
		b.Message += "; warning: " + w
	}
	b.Message = kube.Truncate(b.Message, 4096)
	return b, nil
}

// baseline reads the result of the run with the given name. problem is the reason if there is no result.
func (s *scope) baseline(ctx context.Context, name string) (doc *result.Document, problem string, err error) {
	run := &v1alpha1.BenchmarkRun{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: name}, run); err != nil {
		return nil, fmt.Sprintf("spec.baselineRef.name: namespace %s has no BenchmarkRun %q", s.run.Namespace, name), client.IgnoreNotFound(err)
	}
	if run.Status.ReportRef == nil {
		return nil, fmt.Sprintf("spec.baselineRef.name: BenchmarkRun %s has no result to compare with: it is in stage %q", name, run.Status.Stage), nil
	}
	cm := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: run.Status.ReportRef.Name}, cm); err != nil {
		return nil, fmt.Sprintf("the result of BenchmarkRun %s, config map %s, is gone", name, run.Status.ReportRef.Name), client.IgnoreNotFound(err)
	}
	if doc, err = results.Read(run, cm); err != nil {
		return nil, err.Error(), nil
	}
	return doc, "", nil
}
