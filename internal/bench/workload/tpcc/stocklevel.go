package tpcc

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// stockLevel counts the items of a district's last 20 orders whose stock is below a threshold (clause 2.8). Only the
// orders' lines identify these items. Clause 2.8.2.3 permits weaker isolation; here the transaction runs at the same
// isolation level as all other transactions.
//
// With several warehouses, it is dStockLevel of Dike (figure 12), which counts in the same district of each warehouse.
//
// The result is the number of items (4 bytes).
var stockLevel = &txn.Procedure{
	ID:   procStockLevel,
	Name: "stockLevel", ReadOnly: true,
	Declare: func(args []byte, f *txn.Footprint) error {
		a := stockLevelArgs(args)
		if err := a.check(); err != nil {
			return err
		}
		for i := range a.warehouses() {
			k := a.keys(i)
			f.Accesses = append(f.Accesses, txn.Access{Key: k[:districtKeySize], Mode: txn.Read})
			f.AddScan(lastLines(k[districtKeySize:]))
		}
		return nil
	},
	Run: runStockLevel,
}

// stockLevelArgs contains, with sizes in bytes: W_ID 4, D_ID 1, threshold 1; W_ID 4 of each further warehouse.
type stockLevelArgs []byte

const (
	stockLevelArgsSize = 6
	// recentOrders is the number of orders that stockLevel inspects. recentLines is the maximum number of their lines.
	recentOrders = 20
	recentLines  = recentOrders * maxOrderLines
)

// warehouses returns the number of warehouses, and warehouse returns warehouse i.
func (a stockLevelArgs) warehouses() int { return 1 + (len(a)-stockLevelArgsSize)/4 }
func (a stockLevelArgs) warehouse(i int) uint32 {
	if i == 0 {
		return be.Uint32(a)
	}
	return be.Uint32(a[stockLevelArgsSize+4*(i-1):])
}
func (a stockLevelArgs) district() uint8 { return a[4] }
func (a stockLevelArgs) threshold() int  { return int(a[5]) }

func appendStockLevel(b []byte, w uint32, d, threshold uint8, others ...uint32) []byte {
	b = append(be.AppendUint32(b, w), d, threshold)
	for _, w := range others {
		b = be.AppendUint32(b, w)
	}
	return b
}

func (a stockLevelArgs) check() error {
	if further := max(0, len(a)-stockLevelArgsSize) / 4; len(a) < stockLevelArgsSize || further >= maxOrderLines {
		return txn.CheckLen(a, stockLevelArgsSize)
	} else if err := txn.CheckLen(a, stockLevelArgsSize+4*further); err != nil {
		return err
	}
	if a.threshold() == 0 {
		return fmt.Errorf("the threshold is 0, below which no stock is")
	}
	for i := range a.warehouses() {
		if err := checkPlace(a.warehouse(i), a.district()); err != nil {
			return err
		}
		for j := range i {
			if a.warehouse(j) == a.warehouse(i) {
				return fmt.Errorf("warehouse %d is named twice", a.warehouse(i))
			}
		}
	}
	return nil
}

// keys returns the key of the district's row in warehouse i, followed by the key of the group of its order lines.
func (a stockLevelArgs) keys(i int) txn.Key {
	var room [districtKeySize + groupKeySize]byte
	return txn.Key(appendGroupKey(appendDistrictKey(room[:0], a.warehouse(i), a.district()), tableOrderLine, a.warehouse(i), a.district()))
}

// lastLines returns a range of the last lines of a district that includes the lines of its last 20 orders. The number
// of the first of these orders, D_NEXT_O_ID - 20, is unknown when the footprint is declared. The range therefore starts
// at the last line and runs backwards.
func lastLines(group txn.Key) txn.Range {
	r := txn.Prefix(group)
	r.Reverse, r.Limit = true, recentLines
	return r
}

func runStockLevel(c txn.Ctx, args []byte) ([]byte, error) {
	a := stockLevelArgs(args)
	low := uint32(0)
	for i := range a.warehouses() {
		n, err := a.low(c, i)
		if err != nil {
			return nil, err
		}
		low += n
	}
	return be.AppendUint32(make([]byte, 0, 4), low), nil
}

// low returns the number of items below the threshold in warehouse i.
func (a stockLevelArgs) low(c txn.Ctx, i int) (low uint32, err error) {
	k := a.keys(i)
	v, err := get(c, k[:districtKeySize], districtHead)
	if err != nil {
		return 0, err
	}
	next := districtRow(v).nextOrder()
	var room [recentLines]uint32
	found, short := room[:0], false
	err = c.Scan(lastLines(k[districtKeySize:]), func(k txn.Key, v []byte) bool {
		o, _ := lineOf(k)
		if o+recentOrders < next {
			return false
		}
		if len(v) < orderLineSize {
			short = true
			return false
		}
		if o < next {
			found = append(found, orderLineRow(v).item())
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	if short {
		return 0, abortNoRow
	}
	slices.Sort(found)
	found = slices.Compact(found)
	b := make([]byte, 0, len(found)*stockKeySize)
	for _, item := range found {
		b = appendStockKey(b, a.warehouse(i), item)
	}
	values, err := c.GetAll(cut(txn.Key(b), stockKeySize))
	if err != nil {
		return 0, err
	}
	for _, v := range values {
		if len(v) < stockHead {
			return 0, abortNoRow
		}
		if stockRow(v).quantity() < a.threshold() {
			low++
		}
	}
	return low, nil
}
