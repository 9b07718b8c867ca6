package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/health"
	"github.com/geobench/geobench/internal/run/experiment"
)

// expansions caches expanded experiments, because the validation of thousands of points takes seconds. An entry can
// always be recomputed. The least recently used entries are evicted, because tenants decide how large experiments are.
type expansions struct {
	mu   sync.Mutex
	kept map[types.NamespacedName]*expansion
	uses int64
}

// keptRuns is the maximum total number of runs of the cached experiments, excluding the most recently used one. The
// runs take about 40 MB.
const keptRuns = experiment.MaxPoints

// expansion is an expanded experiment, or the error of the expansion.
type expansion struct {
	// of identifies the inputs of the expansion: the UIDs and generations of the experiment and of all objects to which
	// it refers.
	of         string
	experiment *experiment.Experiment
	err        error
	// late is set if the expansion did not finish within its time limit.
	late bool
	runs int
	used int64 // sequence number of the last use
}

func (x *expansions) get(name types.NamespacedName, of string) (*expansion, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.kept[name]
	if !ok || e.of != of {
		return nil, false
	}
	x.uses++
	e.used = x.uses
	return e, true
}

// put stores an expansion, and evicts others if the cache is too large.
func (x *expansions) put(name types.NamespacedName, e *expansion) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.kept == nil {
		x.kept = map[types.NamespacedName]*expansion{}
	}
	if e.experiment != nil {
		e.runs = e.experiment.MostRuns
	}
	x.uses++
	e.used = x.uses
	x.kept[name] = e
	runs := 0
	byUse := slices.SortedFunc(maps.Keys(x.kept), func(a, b types.NamespacedName) int { return cmp.Compare(x.kept[b].used, x.kept[a].used) })
	for i, n := range byUse {
		if runs += x.kept[n].runs; i > 0 && runs > keptRuns {
			delete(x.kept, n)
		}
	}
}

func (x *expansions) forget(name types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.kept, name)
}

// Time limits of an expansion. Most expansions take a few hundredths of a second. An expansion that exceeds quickCheck
// is repeated in a separate queue, one at a time, so that quick expansions need not wait for it.
const (
	quickCheck = 5 * time.Second
	slowCheck  = 2 * time.Minute
	// quickRuns is the maximum number of runs that can be expanded within quickCheck. A larger experiment starts in the
	// slow queue.
	quickRuns = 2000
)

// errLate is the error of an expansion that takes too long.
var errLate = errors.New("the expansion takes too long")

// errUnderway ends a reconciliation that waits for a job.
var errUnderway = errors.New("a job is under way")

// expand expands the spec into points. It refuses an invalid spec with a list of all problems, as geobench validate
// does.
func (s *scope) expand(ctx context.Context) error {
	bundle, of, err := s.bundle(ctx)
	if err != nil {
		return err
	}
	x, err := s.expansion(bundle, of)
	if err != nil {
		return err
	}
	s.survived(v1alpha1.WorkExpand)
	if problems, ok := check.As(x.err); ok && problems.NotFound() {
		return kube.Refuse(health.ReferenceNotFound, "%s", problems)
	} else if ok {
		return kube.Refuse("InvalidSpec", "%s", problems)
	} else if x.err != nil {
		return x.err // a refusal
	}
	s.expanded = x.experiment
	valid := experiment.Counted(len(x.experiment.Runs()), "point")
	if n := len(x.experiment.Searches); n > 0 {
		searches := "1 search"
		if n > 1 {
			searches = fmt.Sprintf("%d searches", n)
		}
		valid = fmt.Sprintf("%s at all rates of %s",
			experiment.Counted(len(x.experiment.Points)*int(s.experiment.Spec.Repetitions), "point"), searches)
	}
	s.condition(v1alpha1.ConditionAccepted, true, "Possible", fmt.Sprintf("Valid: %s, and %s", valid, experiment.Counted(len(s.experiment.Spec.Claims), "claim")))
	return nil
}

// expansion returns the expansion of the spec, once a job has computed it.
func (s *scope) expansion(bundle *manifest.Bundle, of string) (*expansion, error) {
	name := client.ObjectKeyFromObject(s.experiment)
	if x, ok := s.expansions.get(name, of); ok {
		return x, nil
	}
	key := background.Key{Object: name, Phase: jobPhase(s.experiment), Name: "expand"}
	x, state, err := background.Outcome[*expansion](s.Jobs, key)
	if err != nil {
		return nil, err
	}
	slowly := experiment.Runs(&s.experiment.Spec) > quickRuns
	if state == background.Done {
		s.Jobs.Drop(key)
		if x.of == of && !x.late {
			s.expansions.put(name, x)
			return x, nil
		}
		// If the inputs have changed in the meantime, the job starts again. Otherwise the expansion was too slow for the
		// quick queue.
		slowly, state = slowly || x.of == of, background.None
	}
	if state == background.None {
		budget, limit := s.Checks, quickCheck
		if slowly {
			budget, limit = s.SlowChecks, slowCheck
		}
		object, abilities := s.experiment.DeepCopy(), s.Abilities
		err = s.carefully(key, budget, v1alpha1.WorkExpand, of, func(ctx context.Context) (any, error) {
			x := &expansion{of: of}
			limited, cancel := context.WithTimeoutCause(ctx, limit, errLate)
			defer cancel()
			x.experiment, x.err = experiment.New(limited, bundle, object, abilities)
			switch {
			// The job was cancelled, so its error says nothing about the spec.
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case !errors.Is(x.err, errLate):
			case slowly:
				x.err = kube.Refuse("TooLarge", "expanding and checking the spec took longer than %v: sweep fewer values, or claim less", limit)
			default:
				x.late = true
			}
			return x, nil
		})
	}
	return nil, cmp.Or(err, errUnderway)
}

// bundle returns the objects to which the experiment may refer, and a text that changes whenever one of them changes.
func (s *scope) bundle(ctx context.Context) (*manifest.Bundle, string, error) {
	b := &manifest.Bundle{
		Place:     "namespace " + s.experiment.Namespace,
		Profiles:  map[string]*v1alpha1.NetworkProfile{},
		Databases: map[string]*v1alpha1.GeoDatabase{},
	}
	of := []string{fmt.Sprintf("%s %d", s.experiment.UID, s.experiment.Generation)}
	profiles := &v1alpha1.NetworkProfileList{}
	if err := s.Client.List(ctx, profiles, client.InNamespace(s.experiment.Namespace)); err != nil {
		return nil, "", err
	}
	for i := range profiles.Items {
		p := &profiles.Items[i]
		b.Profiles[p.Name] = p
		of = append(of, fmt.Sprintf("%s %d", p.UID, p.Generation))
	}
	for _, ref := range s.experiment.Spec.DatabaseRefs {
		db := &v1alpha1.GeoDatabase{}
		err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.experiment.Namespace, Name: ref.Name}, db)
		if client.IgnoreNotFound(err) != nil {
			return nil, "", err
		}
		if err == nil && db.DeletionTimestamp == nil {
			b.Databases[ref.Name] = db
			of = append(of, fmt.Sprintf("%s %d", db.UID, db.Generation))
		}
	}
	slices.Sort(of[1:])
	return b, strings.Join(of, ", "), nil
}
