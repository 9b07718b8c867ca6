package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// allowable are the reasons that spec.allowInvalid can name: reasons of Invalid results, and of Failed results with
// wrong or missing answers. Despite such a reason, a measurement may still decide a claim.
var allowable = []string{
	result.ReasonCheckFailed, result.ReasonUnanswered, result.ReasonClassMismatch, result.ReasonClocksApart, result.ReasonConnectionLost, result.ReasonDriverBound, result.ReasonFaultFailed,
	result.ReasonFaultMistimed, result.ReasonLinkTooFast, result.ReasonLossDiffers, result.ReasonMeshChanged, result.ReasonNetworkEdited,
	result.ReasonNetworkNotVerified, result.ReasonNodeRestarted, result.ReasonNodeStarved, result.ReasonNoTransactions, result.ReasonNotAudited,
	result.ReasonNotQuiet, result.ReasonObjectiveUndecided, result.ReasonPodDiffers, result.ReasonSettingsChanged, result.ReasonShareMismatch,
	result.ReasonStartMissed, result.ReasonTargetFailed, result.ReasonTooFewSamples, result.ReasonTooManyGaps, result.ReasonUndeclaredDisturbance, result.ReasonWorkerLost,
}

// never explains, for each other reason, why no claim can use a result with this reason.
var never = map[string]string{
	result.ReasonCancelled:       "the run was ended before it had measured all",
	result.ReasonEvidenceMissing: "it is not known what was measured",
	result.ReasonHistoryLost:     "what spec.verify asks for was not checked",
	result.ReasonHistoryTooLarge: "what spec.verify asks for was not checked",
	result.ReasonTestNotPassed:   "there is no result",
	result.ReasonManifestEdited:  "another manifest was measured",
	result.ReasonReportForged:    "the figures are somebody else's",
	result.ReasonResultForged:    "the figures are somebody else's",
	result.ReasonSnapshotForged:  "the figures are somebody else's",
	result.ReasonWorkloadBroken:  "transactions did not do what the workload says",
}

// failing are the reasons of Failed results whose figures are sound: the run only missed an objective.
var failing = []string{result.ReasonObjectiveMissed}

// allowed reports entries of spec.allowInvalid that are not in allowable.
func (x *expansion) allowed(context.Context) {
	for i, reason := range x.object.Spec.AllowInvalid {
		field := fmt.Sprintf("spec.allowInvalid[%d]", i)
		switch why, known := never[reason]; {
		case slices.Contains(allowable, reason):
		case known:
			x.problem(field, reason, "a result that is Invalid for %s never counts: %s", reason, why)
		case slices.Contains(failing, reason):
			x.problem(field, reason, "%s is a reason of the verdict Failed, not of Invalid: claims over such results are judged anyhow", reason)
		default:
			x.problem(field, reason, "no result is Invalid for %s%s", reason, nearest(reason, allowable))
		}
	}
}

// invalid returns the reasons for which a result counts only with the experiment's permission. It also returns the
// first of these reasons that the experiment does not allow. Both are nil if the result needs no permission.
func (e *Experiment) invalid(d *result.Document) (reasons []string, refused *result.Reason) {
	if d.Verdict == v1alpha1.VerdictPassed {
		return nil, nil
	}
	for i := range d.Reasons {
		r := &d.Reasons[i]
		// The figures are sound, because the run only missed an objective.
		if slices.Contains(failing, r.Reason) {
			continue
		}
		reasons = append(reasons, r.Reason)
		if refused == nil && (e.object == nil || !slices.Contains(e.object.Spec.AllowInvalid, r.Reason)) {
			refused = r
		}
	}
	if len(reasons) == 0 && d.Verdict == v1alpha1.VerdictInvalid { // a user edited the document
		return nil, &result.Reason{Reason: "Unknown", Message: "the result says no reason"}
	}
	return reasons, refused
}

// sound returns an error if the result of one of the point's runs does not count. A claim or cell that uses the point
// then has no result. sound also records the reasons of results that count only because of spec.allowInvalid.
func (b *board) sound(p *Point) error {
	for _, run := range p.Runs {
		d, err := b.results.Document(run)
		if err != nil {
			continue // the lookup of the figure reports this error
		}
		reasons, refused := b.invalid(d)
		if refused != nil {
			err := fmt.Errorf("%s is %s: %s: %s", run.Label, d.Verdict, refused.Reason, refused.Message)
			if b.unsound == nil {
				b.unsound = err
			}
			return err
		}
		for _, reason := range reasons {
			if !slices.Contains(b.counted, reason) {
				b.counted = append(b.counted, reason)
			}
		}
	}
	return nil
}

// countsInvalid returns the note for a claim or column that uses results which count only because of spec.allowInvalid.
func countsInvalid(reasons []string) string {
	return "results that are Invalid or Failed count, as spec.allowInvalid says: " + strings.Join(reasons, ", ")
}
