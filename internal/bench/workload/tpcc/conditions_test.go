package tpcc

import (
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

// tampered is a Ctx that alters the procedure's operations. A nil function changes nothing; a function that returns
// false for a write drops it.
type tampered struct {
	txn.Ctx
	place func(k txn.Key) txn.Key
	scan  func(c txn.Ctx, r txn.Range, f func(txn.Key, []byte) bool) error
	put   func(c txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool)
}

func (t *tampered) Get(k txn.Key) ([]byte, error) {
	if t.place != nil {
		k = t.place(k)
	}
	return t.Ctx.Get(k)
}

func (t *tampered) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	if t.scan != nil {
		return t.scan(t.Ctx, r, f)
	}
	return t.Ctx.Scan(r, f)
}

func (t *tampered) Put(k txn.Key, v []byte) {
	if t.place != nil {
		k = t.place(k)
	}
	if t.put != nil {
		var keep bool
		if k, v, keep = t.put(t.Ctx, k, slices.Clone(v)); !keep {
			return
		}
	}
	t.Ctx.Put(k, v)
}

// drop drops the writes to a table.
func drop(table txn.Table) func(txn.Ctx, txn.Key, []byte) (txn.Key, []byte, bool) {
	return func(_ txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) { return k, v, k.Table() != table }
}

// keep restores n bytes of a table's rows, from offset at, to their previous values.
func keep(table txn.Table, at, n int) func(txn.Ctx, txn.Key, []byte) (txn.Key, []byte, bool) {
	return func(c txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
		if k.Table() == table {
			old, _ := c.Get(k)
			copy(v[at:at+n], old[at:])
		}
		return k, v, true
	}
}

// TestConditions plants a bug in a procedure for each consistency condition, and compares the set of conditions that
// detect the bug with the expected set. A condition that follows from other conditions cannot fail alone. Condition 1
// is the difference of conditions 9 and 8, summed over all districts, and condition 4 is condition 6, summed over all
// orders.
func TestConditions(t *testing.T) {
	const w, d, o = 1, 4, 3001
	order := appendNewOrder(nil, w, d, 17, date, 5)
	for i := range uint32(5) {
		order = appendLine(order, 10+i, w, 5)
	}
	local := appendPayment(nil, w, d, selector{w: w, d: d, number: 17}, date, 1, 500_00)
	remote := appendPayment(nil, w, d, selector{w: 2, d: 5, number: 18}, date, 1, 500_00)
	deliver := appendDelivery(nil, w, 6, date)
	for name, c := range map[string]struct {
		p    *txn.Procedure
		args []byte
		with tampered
		// The conditions that fail, and the text of the first failure.
		found, says string
	}{
		"1: a payment does not reach D_YTD": {payment, local, tampered{put: keep(tableDistrict, 0, 8)},
			"1 9", "warehouse 1 in a: W_YTD is 500.00 more than the sum of D_YTD"},
		"2: D_NEXT_O_ID does not move": {newOrder, order, tampered{put: drop(tableDistrict)},
			"2", "district 4 of warehouse 1 in a: D_NEXT_O_ID - 1 is 1 less than the largest O_ID and D_NEXT_O_ID - 1 is 1 less than the largest NO_O_ID"},
		"3: a delivery takes the second oldest order": {delivery, deliver, tampered{scan: func(c txn.Ctx, r txn.Range, f func(txn.Key, []byte) bool) error {
			if r.From.Table() != tableNewOrder || districtOf(r.From) != d {
				return c.Scan(r, f)
			}
			r.Limit, r.From = 1, txn.Key(appendOrderKey(nil, tableNewOrder, w, d, firstUndelivered+1))
			return c.Scan(r, f)
		}}, "3", "district 4 of warehouse 1 in a: the number of rows of NEW-ORDER is 1 less than that of the numbers from their smallest NO_O_ID to the largest"},
		"4: the last line is lost": {newOrder, order, tampered{put: func(_ txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
			return k, v, k.Table() != tableOrderLine || k[orderKeySize] != 5
		}}, "4 6", "district 4 of warehouse 1 in a: the number of rows of ORDER-LINE is 1 less than the sum of O_OL_CNT"},
		"5: a delivery forgets order, lines and amount": {delivery, deliver, tampered{put: func(c txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
			if districtOf(k) != d {
				return k, v, true
			}
			if k.Table() == tableCustomer {
				return keep(tableCustomer, 0, 8)(c, k, v)
			}
			return k, v, false
		}}, "5", "district 4 of warehouse 1 in a: 1 orders have a carrier although they are in NEW-ORDER, or none although they are not; the first is 2101"},
		"6: a line is added to another order": {newOrder, order, tampered{put: func(_ txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
			if k.Table() == tableOrderLine && k[orderKeySize] == 5 {
				k = txn.Key(appendOrderLineKey(nil, w, d, o-1, maxOrderLines+1))
			}
			return k, v, true
		}}, "6", "district 4 of warehouse 1 in a: 2 orders have another number of rows in ORDER-LINE than O_OL_CNT; the first is 3000"},
		"7: a delivery overlooks the first line": {delivery, deliver, tampered{scan: func(c txn.Ctx, r txn.Range, f func(txn.Key, []byte) bool) error {
			return c.Scan(r, func(k txn.Key, v []byte) bool {
				return k.Table() == tableOrderLine && districtOf(k) == d && k[orderKeySize] == 1 || f(k, v)
			})
		}}, "7", "district 4 of warehouse 1 in a: 1 order lines have a delivery date although their order has no carrier, or none although it has one; the first is of order 2101"},
		"8: a payment does not reach W_YTD": {payment, local, tampered{put: drop(tableWarehouse)},
			"1 8", "warehouse 1 in a: W_YTD is 500.00 less than the sum of D_YTD"},
		"9: a payment goes to another district": {payment, local, tampered{place: func(k txn.Key) txn.Key {
			if k.Table() == tableDistrict {
				return txn.Key(appendDistrictKey(nil, w, d+1))
			}
			return k
		}}, "9", "district 4 of warehouse 1 in a: D_YTD is 500.00 less than the sum of H_AMOUNT; district 5 of warehouse 1 in a: D_YTD is 500.00 more than the sum of H_AMOUNT"},
		"10: a payment is entered under another customer": {payment, local, tampered{put: func(_ txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
			if k.Table() == tableHistory {
				be.PutUint16(v[6:], 18)
			}
			return k, v, true
		}}, "10", "district 4 of warehouse 1 in a: C_BALANCE of several customers are not what was delivered less the sum of H_AMOUNT, though they are in sum"},
		"10: a remote payment is not entered": {payment, remote, tampered{put: func(_ txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
			if k.Table() == tableHistory {
				be.PutUint64(v[16:], 400_00)
			}
			return k, v, true
		}}, "8 9 10", "warehouse 1 in a: W_YTD is 100.00 more than the sum of H_AMOUNT"},
		"10: a remote payment does not reach C_BALANCE": {payment, remote, tampered{put: func(c txn.Ctx, k txn.Key, v []byte) (txn.Key, []byte, bool) {
			if k.Table() == tableCustomer {
				customerRow(v).setYTDPayment(customerRow(v).ytdPayment() - 500_00)
			}
			return keep(tableCustomer, 0, 8)(c, k, v)
		}}, "10", "district 5 of warehouse 2 in a: C_BALANCE of customer 18 is 500.00 more than what was delivered less the sum of H_AMOUNT"},
		"11: C_DELIVERY_CNT does not move": {delivery, deliver, tampered{put: keep(tableCustomer, 20, 4)},
			"11", "district 1 of warehouse 1 in a: the number of orders that are not in NEW-ORDER is 1 more than those that were loaded as delivered and the sum of C_DELIVERY_CNT"},
		"12: C_YTD_PAYMENT does not move": {payment, local, tampered{put: keep(tableCustomer, 8, 8)},
			"12", "district 4 of warehouse 1 in a: C_BALANCE + C_YTD_PAYMENT of customer 17 is 500.00 less than what was delivered"},
		"a sound order":          {newOrder, order, tampered{}, "", ""},
		"a sound payment":        {payment, local, tampered{}, "", ""},
		"a sound remote payment": {payment, remote, tampered{}, "", ""},
		"a sound delivery":       {delivery, deliver, tampered{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bank := newTPCC(t, spec(1), topology(2, 1)) // warehouse 2 is in another shard
			st := database(t, bank)
			view := &store.View{Rows: st}
			ctx := c.with
			ctx.Ctx = view
			// The embedded GetAll would call Get on the inner Ctx and bypass the tampered Get.
			if _, err := c.p.Run(&all{&ctx}, c.args); err != nil {
				t.Fatal(err)
			}
			defer st.Apply(0, st.Apply(1, view.Writes.Entries()))
			// Sum the audits of all shards, as package audit does.
			sums := map[string]int64{}
			for home := range uint32(2) {
				for name, v := range bank.Audit(shardOfHome{st.Rows(), home + 1}) {
					sums[name] += v
				}
			}
			var found []string
			message := ""
			for _, check := range bank.Verify(workloadtest.Copies(sums), nil) {
				if number, ok := strings.CutPrefix(check.Name, "tpcc-3.3.2."); ok && !check.Passed {
					found = append(found, number)
					if message == "" {
						message = check.Message
					}
				}
			}
			if got := strings.Join(found, " "); got != c.found || !strings.HasPrefix(message, c.says) {
				t.Errorf("conditions %q fail: %s\nwant %q: %s", got, message, c.found, c.says)
			}
		})
	}
}

// all is a Ctx whose GetAll reads the rows one by one from the wrapped Ctx.
type all struct{ txn.Ctx }

func (a *all) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(a.Ctx, keys) }

// shardOfHome contains the rows of one warehouse.
type shardOfHome struct {
	workload.Rows
	warehouse uint32
}

func (s shardOfHome) Each(f func(txn.Key, []byte)) {
	s.Rows.Each(func(k txn.Key, v []byte) {
		if !k.Everywhere() && warehouseOf(k) == s.warehouse {
			f(k, v)
		}
	})
}

// loadedDatabase is shared by all cases; each case restores it.
var loadedDatabase *workloadtest.Database

func database(t *testing.T, w *TPCC) *workloadtest.Database {
	if loadedDatabase == nil {
		loadedDatabase = loaded(t, w)
	}
	return loadedDatabase
}
