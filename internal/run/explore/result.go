package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
)

// Failure is a kind of problem.
type Failure string

const (
	// Unmade: the scenario could not be generated.
	Unmade Failure = "world"
	// Violated: an invariant did not hold. Later problems of the execution are usually its consequences.
	Violated Failure = "invariant"
	// Panicked: the protocol panicked.
	Panicked Failure = "panic"
	// Endless: the protocol never stops producing events, either at a single instant or beyond Config.MaxEvents.
	Endless Failure = "endless"
	// Bloated: the process uses too much memory, for this scenario alone or together with concurrent scenarios.
	Bloated Failure = "memory"
	// Unanswered: long after the last fault, transactions have no answer or are still pending at nodes.
	Unanswered Failure = "completion"
	// Doubtful: transactions were refused or have an unknown outcome although no node was lost.
	Doubtful Failure = "outcome"
	// Late: transactions of the second phase took longer than the protocol promises.
	Late Failure = "core"
	// Restless: rows changed although nothing was pending.
	Restless Failure = "pending"
	// Diverged: copies differ.
	Diverged Failure = "convergence"
	// Misclassified: the Outcome.Class of committed transactions is wrong.
	Misclassified Failure = "class"
	// Unrecorded: the history could not be recorded completely.
	Unrecorded Failure = "history"
	// Misreported: figures differ from the engine's declaration. A counter decreased, or a reading is not declared.
	Misreported Failure = "figures"
	// Unsound: the data of a run's workload violates an invariant.
	Unsound Failure = "workload"
	// Anomalous: the history violates the required isolation level.
	Anomalous Failure = "anomaly"
)

// Passed reports whether there are no problems.
func (r *Result) Passed() bool { return len(r.Problems) == 0 }

// Has reports whether r has a problem of kind f.
func (r *Result) Has(f Failure) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Failure == f })
}

// wrong returns the kind of the most informative problem: Anomalous if there is an anomaly, and otherwise the kind of
// the first problem.
func (r *Result) wrong() Failure {
	// Other problems, such as diverged copies, are usually consequences of the anomaly.
	if r.Has(Anomalous) {
		return Anomalous
	}
	return r.Problems[0].Failure
}

// Incomplete reports whether the execution did not finish, or answered some transactions too late.
func (r *Result) Incomplete() bool { return r.Has(Endless) || r.Has(Unanswered) || r.Has(Late) }

func (r *Result) problem(f Failure, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{f, fmt.Sprintf(format, args...)})
}

// Replay returns the command that runs the seed again and prints every event.
func (r *Result) Replay() string { return r.command() + " --trace" }

func (r *Result) command() string {
	flags := ""
	if r.Broken {
		flags += " --broken"
	}
	if r.Hostile && !r.Broken { // --broken already implies the scenarios in which a faulty variant fails
		flags += " --hostile"
	}
	if r.Slow && !r.Broken {
		flags += " --slow"
	}
	if r.Core && !r.Broken {
		flags += " --core"
	}
	if r.Buggify && !r.Broken {
		flags += " --buggify"
	}
	if r.Replace && !r.Broken {
		flags += " --replace"
	}
	if r.Runs {
		flags += " --runs"
	}
	if r.Wide {
		flags += " --wide"
	}
	if r.Invariants {
		flags += " --invariants"
	}
	if r.Checkpoints {
		flags += " --checkpoints"
	}
	if r.Disk && !r.Broken {
		flags += " --disk"
	}
	level := ""
	if r.Level != 0 {
		level = fmt.Sprintf(" --level %v", r.Level)
	}
	return fmt.Sprintf("geobench explore%s --engine %s --seed %d%s", flags, r.Engine, r.Seed, level)
}

// String describes a failure: the scenario, the problems of the execution, and the command that reproduces it.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d\n%s", r.Engine, r.Seed, indent(r.World))
	for _, p := range buggify.All() {
		if n := r.Marks.Of(p.Mark); n > 0 {
			fmt.Fprintf(&b, "  on purpose: %s, %d times\n", p.Name, n)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "WRONG: %s\n", strings.TrimSpace(p.Text))
	}
	fmt.Fprintf(&b, "replay: %s\n", r.Replay())
	return b.String()
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}

const (
	// patience is the time after the last fault and the last transaction within which everything must complete. It is long
	// because Janus's recovery parameter can be up to 8 s. In addition, a node that recovers another node's transactions
	// may fail as well.
	patience = 5 * time.Minute
	// look is the interval between two checks for completion.
	look = 50 * time.Millisecond
)
