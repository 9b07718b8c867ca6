package tpcc

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Dike's dUpdateBalance and dSelectBalance (figure 13) test whether a database has global deadlocks and global
// snapshots. dUpdateBalance adds to the balances of all warehouses of a group, in random order. dSelectBalance reads
// these balances, which must be equal.
//
// In Dike the balance is W_YTD. Updates of W_YTD would violate consistency conditions 1 and 8, so here the balance has
// a separate table. Dike tests deadlocks with updates of any five warehouses. A sum over such updates cannot be
// checked, so here updates always cover whole groups.

// balanceStep is the amount that updateBalance adds, in cents.
const balanceStep = 10_00

// updateBalance adds balanceStep to the balance of each warehouse in its arguments. The result is empty.
var updateBalance = &txn.Procedure{
	ID:      procUpdateBalance,
	Name:    "updateBalance",
	Declare: declareBalances(txn.ReadWrite),
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		a := balanceArgs(args)
		for i := range a.warehouses() {
			v, err := get(c, a.key(i), balanceSize)
			if err != nil {
				return nil, err
			}
			c.Put(a.key(i), be.AppendUint64(make([]byte, 0, balanceSize), be.Uint64(v)+balanceStep))
		}
		return nil, nil
	},
}

// selectBalance returns 1 if the balances differ. It commits even then, because isolation levels constrain only the
// reads of committed transactions.
var selectBalance = &txn.Procedure{
	ID:   procSelectBalance,
	Name: "selectBalance", ReadOnly: true,
	Declare: declareBalances(txn.Read),
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		a := balanceArgs(args)
		var first uint64
		differ := byte(0)
		for i := range a.warehouses() {
			v, err := get(c, a.key(i), balanceSize)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				first = be.Uint64(v)
			} else if be.Uint64(v) != first {
				differ = 1
			}
		}
		return []byte{differ}, nil
	},
}

func declareBalances(m txn.Mode) func([]byte, *txn.Footprint) error {
	return func(args []byte, f *txn.Footprint) error {
		a := balanceArgs(args)
		if err := a.check(); err != nil {
			return err
		}
		f.Exact = true
		for i := range a.warehouses() {
			f.Accesses = append(f.Accesses, txn.Access{Key: a.key(i), Mode: m})
		}
		return nil
	}
}

// balanceArgs contains the W_ID (4 bytes) of each warehouse.
type balanceArgs []byte

// balanceSize is the size in bytes of a row of the balance table, which consists only of the balance.
const balanceSize = 8

func (a balanceArgs) warehouses() int        { return len(a) / 4 }
func (a balanceArgs) warehouse(i int) uint32 { return be.Uint32(a[4*i:]) }
func (a balanceArgs) key(i int) txn.Key      { return txn.Key(appendBalanceKey(nil, a.warehouse(i))) }

func (a balanceArgs) check() error {
	n := a.warehouses()
	if n < 2 || n > maxOrderLines || len(a) != 4*n {
		return fmt.Errorf("the arguments have %d bytes, not 4 for each of 2 to %d warehouses", len(a), maxOrderLines)
	}
	for i := range n {
		if a.warehouse(i) == 0 {
			return fmt.Errorf("a warehouse is 0; they count from 1")
		}
		for j := range i {
			if a.warehouse(j) == a.warehouse(i) {
				return fmt.Errorf("warehouse %d is named twice", a.warehouse(i))
			}
		}
	}
	return nil
}

// balances draws a group and the order of its warehouses.
func (g *generator) balances(x *terminal) []byte {
	size := int(g.t.dike.BalanceGroup)
	groups := g.t.warehouses() / size
	group := int(g.balance.Draw(g.rng, uint64(groups))) - 1
	x.amount = int32(size)
	b := g.room(4 * maxOrderLines)
	for _, i := range g.rng.Perm(size) {
		b = be.AppendUint32(b, g.t.nthOfAll(group+i*groups))
	}
	return b
}

// balanceGroup returns the group of a warehouse and its index in the group. For a warehouse outside of all groups,
// group equals groups. As in Dike, the warehouses of a group are as far apart as possible, and therefore in several
// partitions.
func (t *TPCC) balanceGroup(w uint32) (group, place, groups int) {
	groups = t.warehouses() / int(t.dike.BalanceGroup)
	i := t.placeOf(w)
	if i >= groups*int(t.dike.BalanceGroup) {
		return groups, 0, groups
	}
	return i % groups, i / groups, groups
}

// Names of an audit's sums about balances, of ledgers and of checks.
const (
	totalBalances    = "balances"        // number of balances
	totalBalance     = "balance"         // in cents
	totalDifferences = "balances-differ" // nonzero if balances of a group differ
	ledgerBalances   = "tpcc-balances"   // total amount that updateBalance has added
	ledgerUnequal    = "tpcc-snapshot"   // number of committed selectBalance transactions that read different balances
	checkEqual       = "tpcc-balances-agree"
)

// auditBalance adds a row of the balance table to sums. The rows of a group lie in several shards, so a weighted sum
// compares them. Each row has a random weight, and the weights of a group sum to 0.
func (t *TPCC) auditBalance(sums map[string]int64, w uint32, balance int64) {
	sums[totalBalances]++
	sums[totalBalance] += balance
	group, place, groups := t.balanceGroup(w)
	// Balances outside of all groups are never updated together, so there is nothing to compare.
	if group == groups {
		return
	}
	weight := func(i int) int64 {
		r := randomOf(t.seed, uint8(tableBalance), uint32(i), uint64(group))
		return int64(r.next())
	}
	if place > 0 {
		sums[totalDifferences] -= weight(place) * balance
		return
	}
	// The first row of a group has the negated sum of the other rows' weights, so equal balances cancel out.
	for i := 1; i < int(t.dike.BalanceGroup); i++ {
		sums[totalDifferences] += weight(i) * balance
	}
}

// verifyBalances checks the invariants of Dike's balance transactions.
func (t *TPCC) verifyBalances(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	var differ []string
	for _, c := range copies {
		if c.Sums[totalDifferences] != 0 || c.Sums[totalBalances] != int64(t.warehouses()) {
			differ = append(differ, fmt.Sprintf("%s has %d balances, not all of which are equal to the others of their group", c.Name, c.Sums[totalBalances]))
		}
	}
	unequal := ""
	if n := ledger[ledgerUnequal].High; n > 0 {
		unequal = fmt.Sprintf("%d committed selectBalance saw balances of a group that differ: the database has no global snapshot", n)
	}
	return []workload.Check{
		workload.Judge(checkEqual, copies, workload.FirstOf(differ),
			fmt.Sprintf("%d balances are equal to the others of their group in %d of %d copies", t.warehouses(), len(copies), len(copies))),
		workload.WithinLedger(ledgerBalances, totalBalance, 0, copies, ledger[ledgerBalances]),
		workload.Judge(ledgerUnequal, copies, unequal, "no committed selectBalance saw balances of a group that differ"),
	}
}
