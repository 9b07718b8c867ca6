package result

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// Counts counts the transactions that were due and finished in the measured windows, by outcome. A retried transaction
// counts once, with the outcome of its last attempt. In Attempts, every attempt counts.
type Counts struct {
	Committed int64 `json:"committed"`
	Aborted   int64 `json:"aborted"`
	Refused   int64 `json:"refused,omitempty"`
	// Unknown counts transactions with unknown outcomes, including Timeouts.
	Unknown  int64 `json:"unknown,omitempty"`
	Timeouts int64 `json:"timeouts,omitempty"`
	// Causes counts the transactions that did not commit, by cause; omitted from the median.
	Causes map[string]int64 `json:"causes,omitempty"`
}

// add adds n transactions with an outcome; f holds the reasons and causes of failures.
func (c *Counts) add(outcome string, n int64, f *Failures) {
	switch outcome {
	case txn.Committed.String():
		c.Committed += n
	case txn.Aborted.String():
		c.Aborted += n
	case txn.Refused.String():
		c.Refused += n
	case txn.Unknown.String():
		c.Unknown += n
		// The client gave up. The transaction may still have committed, so it also counts as unknown.
		c.Timeouts += f.Reasons[timeoutReason]
	}
	c.Causes = addNamed(c.Causes, f.Causes)
}

// Ended returns the number of finished transactions, whatever their outcome.
func (c *Counts) Ended() int64 { return c.Committed + c.Aborted + c.Refused + c.Unknown }

func (c *Counts) abortPPM() int64 { return c.sharePPM(c.Aborted) }

// abortCell formats the share of aborted transactions for a table; "-" if no transaction ended.
func (c *Counts) abortCell() string {
	if c.Ended() == 0 {
		return "-"
	}
	return formatPPM(c.abortPPM())
}

func (c *Counts) sharePPM(n int64) int64 {
	if c.Ended() == 0 {
		return 0
	}
	return ratio(c.Ended(), 1, n, 1e6)
}

// Unanswered counts the transactions that were due in the measured windows but unfinished when the windows closed.
type Unanswered struct {
	// Due is the number of transactions that became due in the windows, counted at that time, whether or not they ended.
	Due int64 `json:"due,omitempty"`
	// Unfinished counts the transactions in flight when a window closed. Hung counts the unfinished transactions
	// that had waited longer than a second, and longer than three times the 99th percentile of the region's
	// commits.
	Unfinished int64 `json:"unfinished"`
	Hung       int64 `json:"hung,omitempty"`
	// Dropped and Backlog count the transactions of an open loop that were never sent, because the queue was full or
	// because the window closed first.
	Dropped int64 `json:"dropped"`
	Backlog int64 `json:"backlog,omitempty"`
	// CarriedOver counts transactions that were due before a window opened and still in flight when it closed. They are
	// not part of Due, and their latency exceeds the length of the window.
	CarriedOver int64 `json:"carriedOver,omitempty"`
}

// all returns the number of transactions that were due or carried over. c counts the finished transactions.
func (u *Unanswered) all(c *Counts) int64 {
	return c.Ended() + u.Unfinished + u.Unsent() + u.CarriedOver
}

// Unsent returns the number of transactions that were never sent.
func (u *Unanswered) Unsent() int64 { return u.Dropped + u.Backlog }

func (u *Unanswered) addWindow(w *Window) {
	u.Due += w.Due
	u.Unfinished += w.Unfinished
	u.Dropped += w.Dropped
	u.Backlog += w.Backlog
	u.CarriedOver += w.CarriedOver
}

// unansweredPPM returns the share of transactions without an outcome in time, in parts per million: unknown, hung when
// the window closed, or never sent. The share is 0 only if there is no such transaction, so that an objective of 0
// rejects even one such transaction among millions.
func unansweredPPM(c *Counts, u *Unanswered) int64 {
	n, all := c.Unknown+u.Hung+u.Unsent(), u.all(c)
	if all == 0 {
		return 0
	}
	// Rounding must not turn a few unanswered transactions into none.
	return max(ratio(all, 1, n, 1e6), min(n, 1))
}

// Attempts counts the attempts that finished in the measured windows, regardless of when their transactions were due.
// To the database, each attempt is a separate transaction. Without spec.load.retry, every transaction has one attempt.
type Attempts struct {
	Counts
	// Retried counts the attempts that were sent in the windows, except the first attempt of each transaction.
	Retried   int64 `json:"retried"`
	PerSecond int64 `json:"perSecond"`
	// AbortPPM is the share of attempts that were aborted.
	AbortPPM int64 `json:"abortPPM"`
	// CommittedAfter[i] is the number of transactions that were due and committed in the windows with i+1 attempts. It
	// has an entry for each attempt that spec.load.retry allows. It is omitted without spec.load.retry, and from the
	// median.
	CommittedAfter []int64 `json:"committedAfter,omitempty"`
}

// Realised is the mix of the transactions that were due in the measured windows. It consists of the configured shares,
// and the multi-home and multi-partition shares of all transactions. All is the number of transactions that
// AllMultiHomePPM and AllMultiPartitionPPM refer to. A transaction whose rows are not known beforehand counts only once
// it commits or aborts.
type Realised struct {
	Shares []Share `json:"shares"`

	AllMultiHomePPM      int64 `json:"allMultiHomePPM"`
	AllMultiPartitionPPM int64 `json:"allMultiPartitionPPM"`
	All                  int64 `json:"all"`
}

// Share is a configured share of the workload (workload.Share) and its realised value.
type Share struct {
	Name string `json:"name"`
	// Of is a noun for the items that the share refers to, and Count the number of these items.
	Of    string `json:"of"`
	Count int64  `json:"count"`

	// RealisedPPM and ConfiguredPPM are parts per million of Count. If Mean is set, they are a mean over Count, in
	// millionths.
	RealisedPPM   int64 `json:"realisedPPM"`
	ConfiguredPPM int64 `json:"configuredPPM"`
	Mean          bool  `json:"mean,omitzero"`
	// TolerancePercent is the allowed difference between the realised and the configured value, in percent of the
	// configured value, in addition to the sampling error. For a share, 0 allows one percentage point.
	TolerancePercent int32 `json:"tolerancePercent,omitzero"`
}

// text formats a value of the share: as a percentage, or as a mean.
func (s *Share) text(ppm int64) string {
	if s.Mean {
		return fmt.Sprintf("%.2f", float64(ppm)/1e6)
	}
	return formatPPM(ppm)
}

// Mix formats the shares, one line for each kind of item in Share.Of, and a last line for all transactions.
func (r *Realised) Mix() (lines []string) {
	for shares := r.Shares; len(shares) > 0; {
		first, said := shares[0], ""
		for len(shares) > 0 && shares[0].Of == first.Of {
			said += fmt.Sprintf(", %s %s (asked for %s)", shares[0].Name, shares[0].text(shares[0].RealisedPPM), shares[0].text(shares[0].ConfiguredPPM))
			shares = shares[1:]
		}
		lines = append(lines, fmt.Sprintf("%s of %d %s", said[2:], first.Count, first.Of))
	}
	return append(lines, fmt.Sprintf("multi-home %s, multi-partition %s of all %d transactions", formatPPM(r.AllMultiHomePPM), formatPPM(r.AllMultiPartitionPPM), r.All))
}

// Outcomes counts transactions or attempts by outcome.
type Outcomes struct {
	Committed int64 `json:"committed"`
	// Aborted, Refused and Unknown count by reason. Causes counts the failures of all three kinds by cause.
	Aborted map[string]int64 `json:"aborted"`
	Refused map[string]int64 `json:"refused,omitempty"`
	Unknown map[string]int64 `json:"unknown,omitempty"`
	Causes  map[string]int64 `json:"causes,omitempty"`
}

// add adds n transactions with an outcome; f holds the reasons and causes of failures.
func (o *Outcomes) add(outcome string, n int64, f *Failures) {
	switch outcome {
	case txn.Committed.String():
		o.Committed += n
	case txn.Aborted.String():
		o.Aborted = addNamed(o.Aborted, f.Reasons)
	case txn.Refused.String():
		o.Refused = addNamed(o.Refused, f.Reasons)
	case txn.Unknown.String():
		o.Unknown = addNamed(o.Unknown, f.Reasons)
	}
	o.Causes = addNamed(o.Causes, f.Causes)
}

// total returns the number of transactions by outcome; other includes refused and unknown.
func (o *Outcomes) total() (committed, aborted, other int64) {
	for _, n := range o.Aborted {
		aborted += n
	}
	for _, m := range []map[string]int64{o.Refused, o.Unknown} {
		for _, n := range m {
			other += n
		}
	}
	return o.Committed, aborted, other
}
