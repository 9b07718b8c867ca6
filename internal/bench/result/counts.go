package result

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// Counts are the transactions that were due and finished in the measured windows, by outcome. A retried transaction
// counts once, by its last attempt. In Attempts the counts are of attempts.
type Counts struct {
	Committed int64 `json:"committed"`
	Aborted   int64 `json:"aborted"`
	Refused   int64 `json:"refused,omitempty"`
	// Unknown outcomes, Timeouts among them.
	Unknown  int64 `json:"unknown,omitempty"`
	Timeouts int64 `json:"timeouts,omitempty"`
	// Causes counts the uncommitted transactions by cause; omitted from the median.
	Causes map[string]int64 `json:"causes,omitempty"`
}

// add counts n with an outcome, and why they failed.
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
		c.Timeouts += f.Reasons[timeoutReason]
	}
	c.Causes = addNamed(c.Causes, f.Causes)
}

// Ended counts all that ended, however they did.
func (c *Counts) Ended() int64 { return c.Committed + c.Aborted + c.Refused + c.Unknown }

func (c *Counts) abortPPM() int64 { return c.sharePPM(c.Aborted) }

// abortCell is the share of aborted transactions as a cell of a table: "-" where none ended.
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

// Unanswered counts the transactions that were due in the measured windows and had not ended when the windows closed.
type Unanswered struct {
	// Due is the number of transactions that were due, counted when they became due, whether they ended or not.
	Due int64 `json:"due,omitempty"`
	// Unfinished transactions were still in flight. Hung counts the unfinished transactions that had waited for more than
	// a second and for more than three times the 99th percentile. The percentile covers the region's committed
	// transactions.
	Unfinished int64 `json:"unfinished"`
	Hung       int64 `json:"hung,omitempty"`
	// Dropped and Backlog transactions of an open loop were never sent: the queue was full, or the window closed first.
	Dropped int64 `json:"dropped"`
	Backlog int64 `json:"backlog,omitempty"`
	// CarriedOver transactions were due before a window and in flight when it closed. They are not due in it, and take
	// longer than it lasts.
	CarriedOver int64 `json:"carriedOver,omitempty"`
}

// all returns the number of transactions that were due or carried over; c counts the finished transactions.
func (u *Unanswered) all(c *Counts) int64 {
	return c.Ended() + u.Unfinished + u.Unsent() + u.CarriedOver
}

// Unsent returns how many transactions were never sent.
func (u *Unanswered) Unsent() int64 { return u.Dropped + u.Backlog }

func (u *Unanswered) addWindow(w *Window) {
	u.Due += w.Due
	u.Unfinished += w.Unfinished
	u.Dropped += w.Dropped
	u.Backlog += w.Backlog
	u.CarriedOver += w.CarriedOver
}

// unansweredPPM returns the share of due transactions whose clients have not learned the outcome in time. The outcome
// is unknown, the transaction hung when the window closed, or it was never sent. The share is 0 only if there is no
// such transaction: an objective that allows none does not allow one among millions.
func unansweredPPM(c *Counts, u *Unanswered) int64 {
	n, all := c.Unknown+u.Hung+u.Unsent(), u.all(c)
	if all == 0 {
		return 0
	}
	return max(ratio(all, 1, n, 1e6), min(n, 1))
}

// Attempts are the attempts that finished in the measured windows, whenever their transactions were due. To the
// database, each attempt is a separate transaction. Without spec.load.retry every transaction is one attempt.
type Attempts struct {
	Counts
	// Retried attempts were not the first of their transactions. They are counted in the window in which they were
	// sent.
	Retried   int64 `json:"retried"`
	PerSecond int64 `json:"perSecond"`
	// AbortPPM is the share of attempts that were aborted.
	AbortPPM int64 `json:"abortPPM"`
	// CommittedAfter counts the transactions that were due and committed in the windows, by their number of attempts, from
	// 1. It has an entry for each attempt that spec.load.retry allows. It is omitted without spec.load.retry, and from the
	// median.
	CommittedAfter []int64 `json:"committedAfter,omitempty"`
}

// Realised is the mix of the transactions that were due in the measured windows. It has the shares that the manifest
// governs, and the multi-home and multi-partition shares of all transactions. For transactions that cannot name their
// rows beforehand, All counts those that were committed or aborted in the windows.
type Realised struct {
	Shares []Share `json:"shares"`

	AllMultiHomePPM      int64 `json:"allMultiHomePPM"`
	AllMultiPartitionPPM int64 `json:"allMultiPartitionPPM"`
	All                  int64 `json:"all"`
}

// Share is a share as configured and as realised: workload.Share.
type Share struct {
	Name string `json:"name"`
	// Count is the number of what Of names.
	Of    string `json:"of"`
	Count int64  `json:"count"`

	// RealisedPPM and ConfiguredPPM are in parts per million, or in millionths where Mean says that they are a mean over
	// Count and no share.
	RealisedPPM   int64 `json:"realisedPPM"`
	ConfiguredPPM int64 `json:"configuredPPM"`
	Mean          bool  `json:"mean,omitzero"`
	// TolerancePercent is the allowed difference between the realised and the configured value, in percent of the
	// configured value. A share may differ by the sampling error in addition; 0 is one point.
	TolerancePercent int32 `json:"tolerancePercent,omitzero"`
}

// text is a value of the share: a percentage, or a mean.
func (s *Share) text(ppm int64) string {
	if s.Mean {
		return fmt.Sprintf("%.2f", float64(ppm)/1e6)
	}
	return formatPPM(ppm)
}

// Mix formats the shares, one line per transaction type.
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

// Outcomes are transactions or attempts, by how they ended.
type Outcomes struct {
	Committed int64 `json:"committed"`
	// The others by reason, and all of them by cause.
	Aborted map[string]int64 `json:"aborted"`
	Refused map[string]int64 `json:"refused,omitempty"`
	Unknown map[string]int64 `json:"unknown,omitempty"`
	Causes  map[string]int64 `json:"causes,omitempty"`
}

// add counts n with an outcome, and why they failed.
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

// total sums the reasons; other counts refused transactions and unknown outcomes.
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
