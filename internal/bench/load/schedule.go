package load

import "time"

// drain is the pause after each repetition. No transaction is sent in this pause, so that late transactions of a
// repetition do not affect the next warm-up.
const drain = 2 * time.Second

// Schedule is the plan of a run. All load generators count from the same time, so they agree on the schedule without
// communication. Each repetition has a warm-up, a measured window and a drain.
type Schedule struct {
	// Start is the time at which the first warm-up starts, on the clock of the load generator's environment.
	Start time.Duration
	// Warmup and Duration are the lengths of a repetition's warm-up and measured window.
	Warmup, Duration time.Duration
	// Repetitions is at least 1.
	Repetitions int
	// Timeout is the time after which a client gives up on a transaction.
	Timeout time.Duration
}

// begin returns the start of the warm-up of repetition rep, which counts from 1.
func (s Schedule) begin(rep int) time.Duration {
	return s.Start + time.Duration(rep-1)*(s.Warmup+s.Duration+drain)
}

// Window returns the measured window of repetition rep, which counts from 1: from inclusive, to exclusive.
func (s Schedule) Window(rep int) (from, to time.Duration) {
	from = s.begin(rep) + s.Warmup
	return from, from + s.Duration
}

// LastWindow returns the time at which the last window closes. Nothing is sent after it.
func (s Schedule) LastWindow() time.Duration {
	_, to := s.Window(s.Repetitions)
	return to
}

// End returns the time by which every client has received its last answer or given up on it.
func (s Schedule) End() time.Duration { return s.LastWindow() + s.Timeout }

// Stage is the current activity of a load generator.
type Stage int32

// The stages. Warmup, Measure and Drain repeat.
const (
	Waiting Stage = iota
	Warmup
	Measure
	Drain
	Done
)

// String returns the name of the stage in lower case.
func (s Stage) String() string {
	return [...]string{"waiting", "warmup", "measure", "drain", "done"}[s]
}
