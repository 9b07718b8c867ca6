// Package workload is the contract of a workload: its initial data set, its transactions, and the conditions that the
// data must satisfy afterwards. Workloads are deterministic: all random numbers derive from the seed.
package workload

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Workload is one workload with its parameters and seed, bound to a topology.
type Workload interface {
	// Name as in a manifest: smallbank, rmw, ...
	Name() string
	// Types lists the names of the transaction types, as results show them; Request.Type indexes it.
	Types() []string
	// Shares lists the shares that the manifest configures for the mix of requests, in a fixed order: the realised shares
	// must match.
	Shares() []Share
	// Rows calls put for the rows of one cell, in a fixed order. A row depends only on the seed and its key, so that cells
	// can be loaded separately and copies agree. It takes time in proportion to the cell.
	Rows(c geo.Cell, put func(k txn.Key, value []byte))
	// Everywhere calls put for the rows that every node holds (txn.Key.Everywhere), in a fixed order.
	Everywhere(put func(k txn.Key, value []byte))
	// KeyName returns a unique readable name for a row: checking(17). It also receives the keys of groups (txn.Key.Unit),
	// which are rows to engines. Keys that no row of the workload can have, such as the end of a range, are named by
	// k.String().
	KeyName(k txn.Key) string
	// Audit sums up the rows of a shard, one cell or several, for Verify. The sums of a copy's shards are added by name. A
	// violation in one row may have a separate sum, whose name identifies the row; it is omitted if there is none.
	Audit(rows Rows) map[string]int64
	// NewGenerator makes the transactions of the clients of one load generator.
	NewGenerator(c GeneratorConfig) Generator
	// Verify judges a run by the complete copies of the data, and by the merged ledgers
	// of all generators.
	Verify(copies []Copy, ledger Ledger) []Check
}

// Sized workloads know beforehand how much they load.
type Sized interface {
	// Size returns a lower bound of the loaded rows, within a third of their true size.
	Size() Size
}

// Size is the number of rows of a data set and the bytes of their keys and values. Each row counts once, however many
// nodes hold it.
type Size struct {
	// Field is the field of the workload's spec in proportion to which Rows and Bytes are, and Value its value.
	Field string
	Value int64

	Rows, Bytes int64
	// EverywhereRows and EverywhereBytes count the rows that every node holds in addition to its other rows.
	EverywhereRows, EverywhereBytes int64
}

// rowMemory is the least memory of a row in a store in addition to its key and value, in bytes: its place and its
// writer.
const rowMemory = 64

// Memory returns a lower bound of the memory of a node, in bytes, that holds a share of the rows: a number of cells of
// all.
func (s Size) Memory(cells, of int) int64 {
	all := float64(s.Bytes) + float64(s.Rows)*rowMemory
	return int64(all*float64(cells)/float64(max(1, of))) + s.EverywhereBytes + s.EverywhereRows*rowMemory
}

// Copy is a complete copy of the data.
type Copy struct {
	// Name distinguishes it from the other copies: its region, for example.
	Name string
	// Sums are the sums of Audit over all its shards.
	Sums map[string]int64
}

// Rows are the rows of a quiescent shard, for Audit. Values must not be changed.
type Rows interface {
	// Each calls f for every row, in no particular order: f's result must not depend on it.
	Each(f func(k txn.Key, value []byte))
	// Scan calls f for the rows of a range, in its order, until f returns false.
	Scan(r txn.Range, f func(k txn.Key, value []byte) bool)
}

// Fill calls put for the rows that node n holds. It returns the errors of FillCell and FillEverywhere.
func Fill(w Workload, l *geo.Layout, n geo.NodeID, put func(k txn.Key, value []byte)) error {
	for _, shard := range l.ShardsOf(n) {
		for _, c := range l.Cells(shard) {
			if err := FillCell(w, l.Topology, c, put); err != nil {
				return err
			}
		}
	}
	return FillEverywhere(w, put)
}

// FillCell calls put for the rows of one cell. It fails when Rows puts a row that belongs elsewhere, because a loaded
// database would never look for it there.
func FillCell(w Workload, t *geo.Topology, c geo.Cell, put func(k txn.Key, value []byte)) error {
	var err error
	place := t.Placement()
	name := func(c geo.Cell) string { return fmt.Sprintf("%s/%d", t.Regions[c.Home], c.Partition) }
	w.Rows(c, func(k txn.Key, value []byte) {
		switch {
		case err != nil:
		case k.Everywhere():
			err = fmt.Errorf("workload %s: Rows(%s) put %s, which is everywhere: leave it to Everywhere", w.Name(), name(c), w.KeyName(k))
		case place.Cell(k) != c:
			err = fmt.Errorf("workload %s: Rows(%s) put a row of %s: %s", w.Name(), name(c), name(place.Cell(k)), w.KeyName(k))
		default:
			put(k, value)
		}
	})
	return err
}

// FillEverywhere calls put for the rows that every node holds. It fails when Everywhere puts a row that belongs to a
// cell.
func FillEverywhere(w Workload, put func(k txn.Key, value []byte)) error {
	var err error
	w.Everywhere(func(k txn.Key, value []byte) {
		switch {
		case err != nil:
		case !k.Everywhere():
			err = fmt.Errorf("workload %s: Everywhere put %s, which has a place: leave it to Rows, or make its key with txn.EverywhereKey",
				w.Name(), w.KeyName(k))
		default:
			put(k, value)
		}
	})
	return err
}

// GeneratorConfig identifies the clients whose transactions a generator makes.
type GeneratorConfig struct {
	// Region is the home of the clients: geo.Topology.HomeOf of where they are.
	Region geo.Region
	// Clients is the number of clients; they are numbered 0 .. Clients-1. FirstClient is the number of clients of this
	// home that other generators have before them. RegionClients is the number of clients of all generators of this home.
	// Work that must be done exactly once, such as work on a loaded row, is distributed by FirstClient + client, which is
	// below RegionClients. The number of generators depends on the CPUs, and must not affect figures.
	Clients, FirstClient, RegionClients int
	// Stream is unique among the generators of a run: the source of its randomness, and part of the numbers of the rows
	// that it inserts.
	Stream uint32
	// Measured is the length of the measured time, for parameters that change over it.
	Measured time.Duration
}

// Request describes a transaction to observers that record it.
type Request struct {
	// Type indexes Workload.Types.
	Type uint8
	// Class is the location of its keys, computed from its accesses. If its footprint is not exact, the outcome's class
	// counts instead.
	Class txn.Class
	// Keying is the time that a client of a closed loop takes to enter the transaction before it is due and sent (TPC-C,
	// clause 5.2.5.7). Think is the time that it takes after the answer, in addition to the load's think time. A
	// transaction that is being keyed in when the load pauses is never sent: Done receives a refusal for it.
	Keying, Think time.Duration
}

// Generator makes transactions for many clients. A client has at most one transaction in flight.
type Generator interface {
	// Next fills t with the client's next transaction: procedure, arguments and footprint (txn.Procedure.Call). The
	// caller has set t.ID and may have given t.Accesses room. Memory is fresh, since t is immutable once submitted.
	// elapsed is the time since measuring began, negative before.
	Next(client int, elapsed time.Duration, t *txn.Transaction) Request
	// Done passes the outcome of the client's transaction: of its last attempt, with the id of that attempt, since earlier
	// attempts left no trace. After any outcome but Committed the client starts over with a new transaction.
	Done(client int, o txn.Outcome)
	// Late passes the true outcome of a transaction for which Done received Unknown after the client's timeout. It narrows
	// the ledger and has no other effect.
	Late(o txn.Outcome)
	// Ledger returns what Verify needs of all transactions so far. Those under way count as unknown.
	Ledger() Ledger
	// Realised counts the shares that Workload.Shares lists, in its order, in the requests of the measured windows: those
	// with elapsed 0 or more. The locality of a transaction whose footprint is not exact is known when Done receives its
	// class. The caller must not change it.
	Realised() []Count
}

// MaxUnknown bounds the unknown outcomes that a Generator remembers: the late truth about more does not narrow the
// ledger.
const MaxUnknown = 1 << 20

// Share is a share of requests, or of something in them, that a manifest configures.
type Share struct {
	// Name identifies the hits, and Of is the plural of the base: multi-home of final phases.
	Name, Of string
	// ConfiguredPPM is the configured share in parts per million. Of a mean it is the configured mean, in millionths.
	ConfiguredPPM int64
	// Mean says that it is no share but a mean, of something that Count.Hits adds up over Count.Of: its name says what, in
	// the plural.
	Mean bool
	// TolerancePercent is the allowed difference between the realised and the configured value, in percent of the
	// configured value. A share may differ by the sampling error in addition. 0 is one point, and is valid only for a
	// share.
	TolerancePercent int32
}

// Percent returns a share that is configured in percent.
func Percent(name, of string, percent int32) Share {
	return Share{Name: name, Of: of, ConfiguredPPM: int64(percent) * 10_000}
}

// MeanOf returns a Share for a mean and its tolerance in percent.
func MeanOf(name, of string, configured, tolerancePercent int32) Share {
	return Share{Name: name, Of: of, ConfiguredPPM: int64(configured) * 1_000_000, Mean: true, TolerancePercent: tolerancePercent}
}

// Count holds the counts for a Share. For a mean, Hits is the sum.
type Count struct {
	Hits int64 `json:"hits"`
	Of   int64 `json:"of"`
}

// Add counts one more element of Share.Of.
func (c *Count) Add(hit bool) {
	c.Of++
	if hit {
		c.Hits++
	}
}

// LocalityShares is the part of Shares for a workload whose manifest sets the shares of multi-home and of
// multi-partition requests. CountLocality is its part of Realised.
func LocalityShares(of string, multiHomePercent, multiPartitionPercent int32) []Share {
	return []Share{Percent("multi-home", of, multiHomePercent), Percent("multi-partition", of, multiPartitionPercent)}
}

// CountLocality counts a request of this class for the shares of LocalityShares.
func CountLocality(counts []Count, c txn.Class) {
	counts[0].Add(c.MultiHome())
	counts[1].Add(c.MultiPartition())
}

// ForeignShare is the part of Shares for the single-home transactions whose home is not their client's region. It is
// empty if the manifest does not configure them. CountForeign is its part of Realised.
func ForeignShare(of string, percent int32) []Share {
	if percent == 0 {
		return nil
	}
	return []Share{Percent("foreign", "single-home "+of, percent)}
}

// CountForeign counts a single-home request for the share of ForeignShare. region is the region of its client, c its
// class, and home the home of its first row.
func CountForeign(count *Count, c txn.Class, home, region geo.Region) {
	if !c.MultiHome() {
		count.Add(home != region)
	}
}

// DependentShare is the part of Shares for the transactions whose rows depend on the values that they read. It is empty
// if the manifest does not configure them.
func DependentShare(of string, percent int32) []Share {
	if percent == 0 {
		return nil
	}
	return []Share{Percent("dependent", of, percent)}
}

// Ledger sums up the effects of transactions as their clients know them. Low and High differ where outcomes are
// unknown.
type Ledger map[string]Interval

// Interval bounds a sum, inclusive.
type Interval struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// Merge adds other to l.
func (l Ledger) Merge(other Ledger) {
	for name, o := range other {
		i := l[name]
		l[name] = Interval{i.Low + o.Low, i.High + o.High}
	}
}

// Check is a verdict on the data.
type Check struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Message describes the place of a violation, with both figures. For a passed check it describes the comparison, with
	// the figures and the number of copies.
	Message string `json:"message,omitempty"`
	// Cycle shows the violation in a history; nil for other checks, and for passed checks.
	Cycle *Cycle `json:"cycle,omitempty"`
}

// Cycle is a set of transactions whose observations no order explains.
type Cycle struct {
	// Transactions by the names that the check's message gives them: T1, T2, and so on.
	Transactions []CycleTransaction `json:"transactions"`
	// Dependencies are the reasons why each transaction precedes the next.
	Dependencies []CycleDependency `json:"dependencies"`
}

// CycleTransaction is a transaction of a Cycle, as its client knows it.
type CycleTransaction struct {
	Name   string `json:"name"`
	ID     string `json:"id"`
	Region string `json:"region"`
	// Client is numbered within its region.
	Client uint32 `json:"client"`
	// Sent and Answered are on the common clock of the history; Answered is 0 when the outcome is unknown.
	Sent     time.Duration `json:"sentNanoseconds"`
	Answered time.Duration `json:"answeredNanoseconds,omitempty"`
	Outcome  string        `json:"outcome"`
}

// CycleDependency is the reason why a transaction precedes another.
type CycleDependency struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Kind is ww, wr, rw, predicate-rw, process or realtime, and Text says it in words.
	Kind string `json:"kind"`
	Text string `json:"text"`
}
