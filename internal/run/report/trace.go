package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/tracediagram"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Cycles returns the failed history checks of a result that list the transactions of a cycle.
func Cycles(d *result.Document) (checks []workload.Check) {
	for _, c := range d.Checks {
		if c.Cycle != nil && len(c.Cycle.Transactions) > 0 {
			checks = append(checks, c)
		}
	}
	return checks
}

// WriteTrace writes a page about the cycle of a check. The page shows the cycle's transactions as their clients
// observed them. It states when and in which region each was sent and answered, and why each must precede the next.
func WriteTrace(to io.Writer, d *result.Document, check workload.Check) error {
	page := &tracediagram.Diagram{
		Title: fmt.Sprintf("%s: not %s", d.Name, check.Name), Simulated: d.Simulated, Problems: []string{check.Message},
		Facts: []string{fmt.Sprintf("%s, seed %d, geobench %s. Times are those of the clients' clock since the run began; what the database's nodes did is not recorded.",
			d.Engine, d.Seed, d.Version)},
	}
	lanes := map[string]int{}
	for _, r := range d.Regions {
		if slices.ContainsFunc(check.Cycle.Transactions, func(t workload.CycleTransaction) bool { return t.Region == r.Name }) {
			lanes[r.Name] = len(page.Lanes)
			page.Lanes = append(page.Lanes, tracediagram.Lane{Name: "clients of " + r.Name})
		}
	}
	bars := map[string]int{}
	var last time.Duration
	// Determine the last known time first, because bars of unanswered transactions extend to it.
	for _, t := range check.Cycle.Transactions {
		last = max(last, t.Sent, t.Answered)
	}
	for _, t := range check.Cycle.Transactions {
		lane, ok := lanes[t.Region]
		if !ok {
			lane = len(page.Lanes)
			lanes[t.Region] = lane
			page.Lanes = append(page.Lanes, tracediagram.Lane{Name: "clients of " + t.Region})
		}
		bars[t.Name] = len(page.Bars)
		bar := tracediagram.Bar{Lane: lane, From: t.Sent, To: t.Answered, Kind: tracediagram.Doubtful, Label: t.Name + " " + t.ID, Text: fmt.Sprintf("%s is %s of client %d in %s: %s", t.Name, t.ID, t.Client, t.Region, t.Outcome)}
		page.Story = append(page.Story, tracediagram.Moment{At: t.Sent, Text: fmt.Sprintf("client %d in %s sends %s (%s)", t.Client, t.Region, t.Name, t.ID)})
		switch t.Outcome {
		case txn.Committed.String():
			bar.Kind = tracediagram.Committed
		case txn.Aborted.String():
			bar.Kind = tracediagram.Aborted
		case txn.Unknown.String():
			// The end of an unanswered transaction is unknown, so its bar is open and extends to the last known time.
			bar.To, bar.Open = last, true
		}
		if !bar.Open {
			page.Story = append(page.Story, tracediagram.Moment{At: t.Answered, Text: fmt.Sprintf("%s is %s", t.Name, t.Outcome)})
		}
		page.Bars = append(page.Bars, bar)
	}
	for _, e := range check.Cycle.Dependencies {
		from, known := bars[e.From]
		to, ok := bars[e.To]
		if known && ok {
			page.Edges = append(page.Edges, tracediagram.Edge{From: from, To: to, Label: e.Kind, Text: e.Text})
		}
	}
	slices.SortStableFunc(page.Story, func(a, b tracediagram.Moment) int { return int(a.At - b.At) })
	return page.Write(to)
}
