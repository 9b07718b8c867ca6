package experiment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/experiment"
)

// reportDigits is the number of significant digits of a report's figures. It suffices for the accuracy of a
// measurement, and the report of the largest possible experiment still fits into a ConfigMap.
const reportDigits = 5

// resultsAtOnce is the number of results that are read concurrently.
const resultsAtOnce = 32

// judge evaluates the claims over the results of all points, stores the report and finishes the experiment. The report
// is stored before the status, so a new operator that starts between the two writes stores the same report again.
func (s *scope) judge(ctx context.Context) error {
	if !s.schedule.done() {
		return nil
	}
	judging := background.Key{Object: client.ObjectKeyFromObject(s.experiment), Phase: jobPhase(s.experiment), Name: "judge"}
	report, state, err := background.Outcome[*experiment.Report](s.Jobs, judging)
	if err != nil {
		return err
	}
	if state != background.Done {
		if state == background.None {
			err = s.carefully(judging, s.Judgements, v1alpha1.WorkJudge, jobPhase(s.experiment), func(ctx context.Context) (any, error) { return s.report(ctx) })
		}
		s.again = kube.PollRun
		return err
	}
	if err := s.storeReport(ctx, report); err != nil {
		return err
	}
	s.conclude(report)
	s.experiment.Status.Checks = nil // no work is left that could crash an operator
	return nil
}

// judgeLimit bounds the time for the evaluation of the claims. Reading thousands of results takes about a minute.
const judgeLimit = 10 * time.Minute

// report evaluates the claims over all results. It runs as a background job, which is safe because it only reads the
// scope, and no reconciliation changes the scope any more.
func (s *scope) report(ctx context.Context) (*experiment.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, judgeLimit,
		kube.Refuse("TooLarge", "reading the results and judging the claims took longer than %v: sweep fewer values, or claim less", judgeLimit))
	defer cancel()
	results, err := s.results(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	report := experiment.NewReport(ctx, []*experiment.Experiment{s.expanded}, results)
	report.Round(reportDigits)
	return report, context.Cause(ctx)
}

// results reads the results of all runs. A run without a result has an entry with an error.
func (s *scope) results(ctx context.Context) (*experiment.Results, error) {
	points := s.schedule.all()
	documents := make([]*result.Document, len(points))
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(resultsAtOnce)
	for i, p := range points {
		if p.object.Status.ReportRef == nil || p.isOther() {
			continue
		}
		g.Go(func() (err error) {
			documents[i], err = s.document(reading, p.object)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := experiment.NewResults("in a cluster")
	for i, p := range points {
		st := &p.object.Status
		switch {
		case documents[i] != nil:
			out.Add(p.Run, documents[i], nil)
		case st.ReportRef != nil && !p.isOther():
			out.Add(p.Run, nil, fmt.Errorf("%s: the result in ConfigMap %s is gone, or another one is there: delete BenchmarkRun %s to have it measured again",
				p.Label, st.ReportRef.Name, p.object.Name))
		default:
			out.Add(p.Run, nil, p.couldNotRun())
		}
	}
	return out, nil
}

// document reads the parts of a run's result that claims need, because the timelines and histograms of thousands of
// runs would not fit into memory. It returns nil if the ConfigMap is deleted or does not contain the run's original
// result.
func (s *scope) document(ctx context.Context, run *v1alpha1.BenchmarkRun) (*result.Document, error) {
	cm := &corev1.ConfigMap{}
	err := s.Live.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: run.Status.ReportRef.Name}, cm)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil || !metav1.IsControlledBy(cm, run) || cm.Labels[kube.LabelAttempt] != kube.Attempt(run) {
		return nil, nil
	}
	d, err := results.Read(run, cm)
	if errors.Is(err, results.ErrOther) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if d, err = d.WithFiguresOnly(); err != nil {
		return nil, fmt.Errorf("config map %s: %w", cm.Name, err)
	}
	return d, nil
}

// storeReport stores the report in the experiment's ConfigMap, and replaces an earlier report.
func (s *scope) storeReport(ctx context.Context, report *experiment.Report) error {
	cm, err := reportConfigMap(report)
	if err != nil {
		return err
	}
	cm.ObjectMeta = s.objectMeta(kube.FindingsName(s.experiment), kube.RoleFindings)
	old := &corev1.ConfigMap{}
	err = s.Live.Get(ctx, client.ObjectKeyFromObject(cm), old)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return kube.EnsureCreated(ctx, s.Client, s.Live, s.experiment, cm)
	}
	if !kube.MadeFor(old, s.experiment) {
		return kube.NameTaken(cm)
	}
	base := old.DeepCopy()
	old.Labels, old.Data, old.BinaryData = cm.Labels, cm.Data, cm.BinaryData
	if equality.Semantic.DeepEqual(base, old) {
		return nil
	}
	return s.Client.Patch(ctx, old, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// reportConfigMap returns a ConfigMap with the report. It omits the figures by transaction type, and the text version,
// if they would not fit.
func reportConfigMap(report *experiment.Report) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{Data: map[string]string{}}
	document, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	// This leaves room for the text version in the same ConfigMap.
	if len(document) <= results.PlainLimit/2 {
		cm.Data[results.ReportKey] = string(document)
	} else {
		packed, err := compress.Text(document)
		if err != nil {
			return nil, err
		}
		if len(packed) > results.PlainLimit {
			report.LeaveOutTypes()
			if document, err = json.Marshal(report); err != nil {
				return nil, err
			}
			if packed, err = compress.Text(document); err != nil {
				return nil, err
			}
		}
		document = packed
		cm.BinaryData = map[string][]byte{results.ReportKeyGzip: packed}
	}
	var text bytes.Buffer
	if err := report.Table(&text); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	if err := report.Figures(&text); err != nil {
		return nil, err
	}
	if len(document)+text.Len() <= results.PlainLimit {
		cm.Data[results.ReportText] = text.String()
	}
	return cm, nil
}

// conclude copies the outcome of the report to the status and finishes the experiment.
func (s *scope) conclude(report *experiment.Report) {
	st := &s.experiment.Status
	now := metav1.NewTime(s.Clock.Now())
	st.CompletionTime = &now
	st.ReportRef = &v1alpha1.LocalReference{Name: kube.FindingsName(s.experiment)}
	st.Claims = nil
	hold, unanswered := 0, 0
	for i := range report.Claims {
		f := &report.Claims[i]
		c := v1alpha1.ClaimStatus{ID: f.ID, Holds: f.Holds, Message: kube.Truncate(f.Measured, 4096)}
		switch {
		case f.Error != "":
			unanswered++
			c.Message = kube.Truncate("no result: "+f.Error, 4096)
		case f.Holds:
			hold++
		}
		if len(f.Invalid) > 0 {
			c.Message = kube.Truncate(fmt.Sprintf("%s; over results that are Invalid, which spec.allowInvalid lets count: %s", c.Message, strings.Join(f.Invalid, ", ")), 4096)
		}
		st.Claims = append(st.Claims, c)
	}
	all := len(report.Claims)
	reason, message := "NoClaims", fmt.Sprintf("all %d points have ended; nothing was claimed", st.Points)
	st.ClaimsHold = ""
	if all > 0 {
		st.ClaimsHold = fmt.Sprintf("%d/%d", hold, all)
		reason, message = "ClaimsHold", fmt.Sprintf("all %d points have ended; all %d claims hold", st.Points, all)
		if hold < all {
			reason, message = "ClaimsDiffer", fmt.Sprintf("all %d points have ended; %d of %d claims hold", st.Points, hold, all)
		}
	}
	s.condition(v1alpha1.ConditionCompleted, true, reason, message)
	s.condition(v1alpha1.ConditionProgressing, false, "Completed", message)
	end := kube.Normal(reason, "Judge", message)
	switch {
	// The first reason that applies is the most serious: missing or wrong results make the claims unreliable.
	case st.Failed > 0:
		message = fmt.Sprintf("%d of %d points failed: %s", st.Failed, st.Points, report.Wrong[0])
		s.condition(v1alpha1.ConditionFailed, true, "PointsFailed", message)
		end = kube.Warning("PointsFailed", "Judge", message)
	case unanswered > 0:
		message = fmt.Sprintf("%d of %d claims have no result", unanswered, all)
		s.condition(v1alpha1.ConditionFailed, true, "ClaimsUnanswered", message)
		end = kube.Warning("ClaimsUnanswered", "Judge", message)
	case len(report.Invalid) > 0:
		message = fmt.Sprintf("%d of %d points are Invalid: %s", len(report.Invalid), st.Points, report.Invalid[0])
		s.condition(v1alpha1.ConditionFailed, true, "PointsInvalid", message)
		end = kube.Warning("PointsInvalid", "Judge", message)
	case len(report.NoPeak()) > 0:
		message = fmt.Sprintf("%d of %d searches found no peak: %s", len(report.NoPeak()), len(s.expanded.Searches), report.NoPeak()[0])
		s.condition(v1alpha1.ConditionFailed, true, "NoPeak", message)
		end = kube.Warning("NoPeak", "Judge", message)
	case s.experiment.Spec.Gate == v1alpha1.GateClaims && hold < all:
		s.condition(v1alpha1.ConditionFailed, true, reason, message)
		end = kube.Warning(reason, "Judge", message)
	default:
		s.condition(v1alpha1.ConditionFailed, false, reason, message)
	}
	s.events = append(s.events, end)
	s.again = 0
}
