// Package workload defines the contract of a workload: its initial data, its transactions, and the invariants of the
// data after a run. Workloads are deterministic: all random numbers derive from the seed.
package workload

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Workload is a workload with its parameters and seed, bound to a topology.
type Workload interface {
	// Name returns the workload's name in a manifest: smallbank, rmw, ...
	Name() string
	// Types returns the names of the transaction types, as shown in results. Request.Type is an index into this slice.
	Types() []string
	// Shares returns the shares of requests that the manifest configures, in a fixed order. The realised shares must
	// match them.
	Shares() []Share
	// Rows calls put for the rows of one cell, in a fixed order. A row depends only on the seed and its key, so that
	// cells can be loaded separately and copies agree. Rows takes time in proportion to the size of the cell.
	Rows(c geo.Cell, put func(k txn.Key, value []byte))
	// Everywhere calls put for the rows that every node stores (txn.Key.Everywhere), in a fixed order.
	Everywhere(put func(k txn.Key, value []byte))
	// KeyName returns a unique readable name for a row, such as checking(17). It also accepts keys of groups
	// (txn.Key.Unit), which engines treat as rows. For keys that no row of the workload can have, such as the end of a
	// range, it returns k.String().
	KeyName(k txn.Key) string
	// Audit returns sums over the rows of a shard, which consists of one or more cells, for Verify. The sums of a copy's
	// shards are added by name. A violation in a single row may have a separate sum whose name identifies the row; without
	// a violation the sum is omitted.
	Audit(rows Rows) map[string]int64
	// NewGenerator returns a generator for the clients of one load generator.
	NewGenerator(c GeneratorConfig) Generator
	// Verify returns the verdicts on a run, given the complete copies of the data and the merged ledgers of all
	// generators.
	Verify(copies []Copy, ledger Ledger) []Check
}

// Sized is implemented by workloads that can estimate the size of their data before loading.
type Sized interface {
	// Size returns a lower bound of the loaded rows and bytes, at least two thirds of their true size.
	Size() Size
}

// Size is the number of rows of a data set and the bytes of their keys and values. Each row counts once, regardless of
// the number of nodes that store it.
type Size struct {
	// Field is the field of the workload's spec that Rows and Bytes are proportional to, and Value is its value.
	Field string
	Value int64

	Rows, Bytes int64
	// EverywhereRows and EverywhereBytes count the rows that every node stores in addition to its other rows.
	EverywhereRows, EverywhereBytes int64
}

// rowMemory is the minimum memory, in bytes, of a row in a store in addition to its key and value. It contains the
// row's slot and the ID of its writer.
const rowMemory = 64

// Memory returns a lower bound of the memory, in bytes, of a node that stores the given number of cells. of is the
// number of all cells.
func (s Size) Memory(cells, of int) int64 {
	all := float64(s.Bytes) + float64(s.Rows)*rowMemory
	return int64(all*float64(cells)/float64(max(1, of))) + s.EverywhereBytes + s.EverywhereRows*rowMemory
}

// Copy is a complete copy of the data.
type Copy struct {
	// Name distinguishes the copy from other copies: the region's name, for example.
	Name string
	// Sums are the sums that Audit returns, added over all shards of the copy.
	Sums map[string]int64
}

// Rows provides the rows of a quiescent shard to Audit. Callers must not change values.
type Rows interface {
	// Each calls f for every row in unspecified order. The caller's result must not depend on the order.
	Each(f func(k txn.Key, value []byte))
	// Scan calls f for the rows of a range in key order, until f returns false.
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

// FillCell calls put for the rows of one cell. It returns an error if Rows puts a row that belongs to another cell.
// Transactions would look for this row only in the other cell.
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

// FillEverywhere calls put for the rows that every node stores. It returns an error if Everywhere puts a row that
// belongs to a cell.
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
	// Region is the home of the clients: geo.Topology.HomeOf of the region that they run in.
	Region geo.Region
	// Clients is the number of clients, numbered 0 .. Clients-1. FirstClient is the number of this home's clients in
	// preceding generators. RegionClients is the number of clients in all generators of this home.
	//
	// FirstClient + client is unique among the clients of the home, and below RegionClients. A workload uses this number
	// to distribute work that must be done exactly once, such as work on a loaded row. The number of generators depends on
	// the CPUs and must not affect figures.
	Clients, FirstClient, RegionClients int
	// Stream is unique among the generators of a run. It seeds the random generator, and is part of the keys of the rows
	// that this generator inserts.
	Stream uint32
	// Measured is the length of the measured time, for parameters that change over it.
	Measured time.Duration
}

// Request describes a transaction to observers that record it.
type Request struct {
	// Type is an index into Workload.Types.
	Type uint8
	// Class is the transaction's locality, computed from its accesses. If the footprint is not exact, the class in the
	// outcome applies instead.
	Class txn.Class
	// Keying is the time that a client of a closed loop takes to enter the transaction before sending it (TPC-C, clause
	// 5.2.5.7). Think is the time that the client pauses after the answer, in addition to the load's think time. If the
	// load pauses during the keying time, the transaction is never sent and Done receives a refusal for it.
	Keying, Think time.Duration
}

// Generator generates transactions for many clients. A client has at most one transaction in flight.
type Generator interface {
	// Next fills t with the client's next transaction: procedure, arguments and footprint (txn.Procedure.Call). The caller
	// has set t.ID and may have preallocated t.Accesses. Next allocates new memory for all values, because t is immutable
	// once submitted. elapsed is the time since the start of measuring; it is negative during the warm-up.
	Next(client int, elapsed time.Duration, t *txn.Transaction) Request
	// Done receives the outcome of the client's transaction. o has the status and ID of the last attempt, because earlier
	// attempts had no effect. After any outcome except Committed, the client continues with a new transaction.
	Done(client int, o txn.Outcome)
	// Late receives the true outcome of a transaction for which Done received Unknown after the client's timeout. It
	// narrows the ledger and has no other effect.
	Late(o txn.Outcome)
	// Ledger returns the effects of all transactions so far, for Verify. Transactions in flight count as unknown.
	Ledger() Ledger
	// Realised returns the counts for Workload.Shares, in the same order, over the requests of the measured windows
	// (elapsed >= 0). If a footprint is not exact, the locality of its transaction is counted when Done receives the
	// class. The caller must not change the slice.
	Realised() []Count
}

// MaxUnknown is the maximum number of unknown outcomes that a Generator remembers. Late outcomes of further
// transactions do not narrow the ledger.
const MaxUnknown = 1 << 20

// Share is a configured share of requests, or of elements of requests.
type Share struct {
	// Name describes the hits, and Of names the counted elements in the plural. Example: Name multi-home, Of final phases.
	Name, Of string
	// ConfiguredPPM is the configured share in parts per million. If Mean is set, it is the configured mean in
	// millionths.
	ConfiguredPPM int64
	// Mean is set if the value is a mean rather than a share. Count.Hits is then the sum over Count.Of elements, and Name
	// is the summed quantity in the plural.
	Mean bool
	// TolerancePercent is the allowed difference between the realised and the configured value, in percent of the
	// configured value. For a share, the sampling error is allowed in addition. 0 allows one percentage point and is
	// valid only for a share.
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

// Count is the realised count of a Share. For a mean, Hits is the sum.
type Count struct {
	Hits int64 `json:"hits"`
	Of   int64 `json:"of"`
}

// Add counts one element of Share.Of, and a hit if hit is set.
func (c *Count) Add(hit bool) {
	c.Of++
	if hit {
		c.Hits++
	}
}

// LocalityShares returns the entries of Shares for a workload whose manifest configures the shares of multi-home and
// multi-partition requests. CountLocality updates their counts.
func LocalityShares(of string, multiHomePercent, multiPartitionPercent int32) []Share {
	return []Share{Percent("multi-home", of, multiHomePercent), Percent("multi-partition", of, multiPartitionPercent)}
}

// CountLocality counts a request of this class for the shares of LocalityShares.
func CountLocality(counts []Count, c txn.Class) {
	counts[0].Add(c.MultiHome())
	counts[1].Add(c.MultiPartition())
}

// ForeignShare returns the entry of Shares for single-home transactions whose home is not their client's region. It
// returns nil if percent is 0. CountForeign updates its count.
func ForeignShare(of string, percent int32) []Share {
	if percent == 0 {
		return nil
	}
	return []Share{Percent("foreign", "single-home "+of, percent)}
}

// CountForeign counts a single-home request for the share of ForeignShare. c is the request's class, home the home of
// its first row, and region the client's region. Multi-home requests do not count.
func CountForeign(count *Count, c txn.Class, home, region geo.Region) {
	if !c.MultiHome() {
		count.Add(home != region)
	}
}

// DependentShare returns the entry of Shares for transactions whose row set depends on values that they read. It
// returns nil if percent is 0.
func DependentShare(of string, percent int32) []Share {
	if percent == 0 {
		return nil
	}
	return []Share{Percent("dependent", of, percent)}
}

// Ledger maps names to the summed effects of transactions, as their clients know them. Low and High differ if outcomes
// are unknown.
type Ledger map[string]Interval

// Interval is a lower and an upper bound of a sum, both inclusive.
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
	// Message describes a violation and its place, with the expected and the actual figure. For a passed check it
	// describes the comparison, with the figures and the number of copies.
	Message string `json:"message,omitempty"`
	// Cycle shows the violation in a history. It is nil for passed checks and for checks of rows.
	Cycle *Cycle `json:"cycle,omitempty"`
}

// Cycle is a set of transactions whose observations no order of the transactions can explain.
type Cycle struct {
	// Transactions are named as in the check's message: T1, T2, and so on.
	Transactions []CycleTransaction `json:"transactions"`
	// Dependencies explain why each transaction precedes the next.
	Dependencies []CycleDependency `json:"dependencies"`
}

// CycleTransaction is a transaction of a Cycle, as observed by its client.
type CycleTransaction struct {
	Name   string `json:"name"`
	ID     string `json:"id"`
	Region string `json:"region"`
	// Client is numbered within its region.
	Client uint32 `json:"client"`
	// Sent and Answered are times on the common clock of the history. Answered is 0 if the outcome is unknown.
	Sent     time.Duration `json:"sentNanoseconds"`
	Answered time.Duration `json:"answeredNanoseconds,omitempty"`
	Outcome  string        `json:"outcome"`
}

// CycleDependency explains why transaction From precedes transaction To.
type CycleDependency struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Kind is ww, wr, rw, predicate-rw, process or realtime. Text explains the dependency in words.
	Kind string `json:"kind"`
	Text string `json:"text"`
}
