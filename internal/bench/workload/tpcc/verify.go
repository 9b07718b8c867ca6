package tpcc

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/geobench/geobench/internal/bench/workload"
)

// conditions are the consistency conditions, numbered by the last part of their clause. says describes a finding in
// words.
var conditions = [...]struct {
	number int
	says   func(f workload.Finding) string
}{
	{1, func(f workload.Finding) string { return "W_YTD is " + money(f.Values[""]) + " the sum of D_YTD" }},
	{2, func(f workload.Finding) string {
		var parts []string
		for _, p := range []struct{ what, column string }{{"", "O_ID"}, {newOrders, "NO_O_ID"}} {
			if v := f.Values[p.what]; v != 0 {
				parts = append(parts, "D_NEXT_O_ID - 1 is "+count(v)+" the largest "+p.column)
			}
		}
		return strings.Join(parts, " and ")
	}},
	{3, func(f workload.Finding) string {
		return "the number of rows of NEW-ORDER is " + count(f.Values[""]) + " that of the numbers from their smallest NO_O_ID to the largest"
	}},
	{4, func(f workload.Finding) string {
		return "the number of rows of ORDER-LINE is " + count(f.Values[""]) + " the sum of O_OL_CNT"
	}},
	{5, func(f workload.Finding) string {
		return orders(f, "a carrier although they are in NEW-ORDER, or none although they are not")
	}},
	{6, func(f workload.Finding) string {
		return orders(f, "another number of rows in ORDER-LINE than O_OL_CNT")
	}},
	{7, func(f workload.Finding) string {
		return fmt.Sprintf("%d order lines have a delivery date although their order has no carrier, or none although it has one; the first is of order %d",
			f.Values[""], f.Values[first])
	}},
	{8, func(f workload.Finding) string { return "W_YTD is " + money(f.Values[""]) + " the sum of H_AMOUNT" }},
	{9, func(f workload.Finding) string { return "D_YTD is " + money(f.Values[""]) + " the sum of H_AMOUNT" }},
	{10, func(f workload.Finding) string {
		return customers(f, "C_BALANCE", "what was delivered less the sum of H_AMOUNT")
	}},
	{11, func(f workload.Finding) string {
		return "the number of orders that are not in NEW-ORDER is " + count(f.Values[""]) + " those that were loaded as delivered and the sum of C_DELIVERY_CNT"
	}},
	{12, func(f workload.Finding) string {
		return customers(f, "C_BALANCE + C_YTD_PAYMENT", "what was delivered")
	}},
}

// money and count describe the difference of two values in words.
func money(cents int64) string {
	sign := "more"
	if cents < 0 {
		sign, cents = "less", -cents
	}
	return fmt.Sprintf("%d.%02d %s than", cents/100, cents%100, sign)
}

func count(n int64) string {
	if n < 0 {
		return fmt.Sprintf("%d less than", -n)
	}
	return fmt.Sprintf("%d more than", n)
}

func orders(f workload.Finding, what string) string {
	return fmt.Sprintf("%d orders have %s; the first is %d", f.Values[""], what, f.Values[first])
}

// customers describes a finding about balances. It names the customer if only one balance is wrong.
func customers(f workload.Finding, what, than string) string {
	sum := f.Values[""]
	if c, alone := f.OffAlone(); alone && c >= 1 && c <= customersPerDistrict {
		return fmt.Sprintf("%s of customer %d is %s %s", what, c, money(sum), than)
	}
	if sum == 0 {
		return fmt.Sprintf("%s of several customers are not %s, though they are in sum", what, than)
	}
	return fmt.Sprintf("%s of several customers are in sum %s %s", what, money(sum), than)
}

// Verify checks the consistency conditions and the ledger in every copy. The specification states condition 11 for a
// database without transactions since loading, so Verify adds the deliveries.
func (t *TPCC) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	var checks []workload.Check
	for _, c := range conditions {
		checks = append(checks, workload.NoFindings(fmt.Sprintf("tpcc-3.3.2.%d", c.number), strconv.Itoa(c.number), copies,
			func(f workload.Finding) (string, string) { return place(f), c.says(f) }, fmt.Sprintf("holds for %d warehouses", t.warehouses())))
	}
	checks = append(checks, t.cardinalities(copies))
	w := int64(t.warehouses())
	customers := w * districtsPerWarehouse * int64(t.size.customers)
	initial := [numSums]int64{sumPayments: w * t.size.warehouseYTD(), sumOrders: customers}
	for i, name := range ledgerNames {
		checks = append(checks, workload.WithinLedger(name, totalNames[i], initial[i], copies, ledger[name]))
	}
	if n := ledger[ledgerUnduly].High; n > 0 {
		checks = append(checks, workload.Check{Name: ledgerUnduly, Message: fmt.Sprintf("%d orders with an unused item were committed", n)})
	}
	if t.balances() {
		checks = append(checks, t.verifyBalances(copies, ledger)...)
	}
	var totals []workload.Copy
	for _, c := range copies {
		of := workload.Copy{Name: c.Name, Sums: map[string]int64{}}
		for _, name := range totalNames {
			of.Sums[name] = c.Sums[name]
		}
		for _, name := range []string{totalBalances, totalBalance} {
			if n, ok := c.Sums[name]; ok {
				of.Sums[name] = n
			}
		}
		totals = append(totals, of)
	}
	return append(checks, workload.CopiesAgree(totals))
}

// place describes the location of a violation: the warehouse, and the district unless it is 0.
func place(f workload.Finding) string {
	if d := f.Place[1]; d != 0 {
		return fmt.Sprintf("district %d of warehouse %d", d, f.Place[0])
	}
	return fmt.Sprintf("warehouse %d", f.Place[0])
}

// cardinalities checks the row counts of tables that no transaction inserts into, and of the index of orders.
func (t *TPCC) cardinalities(copies []workload.Copy) workload.Check {
	w := int64(t.warehouses())
	customers := w * districtsPerWarehouse * int64(t.size.customers)
	var wrong []string
	for _, held := range copies {
		for _, x := range []struct {
			total int
			want  int64
		}{
			{totalWarehouses, w}, {totalDistricts, w * districtsPerWarehouse}, {totalCustomers, customers}, {totalCustomersByName, customers},
			{totalStock, w * int64(t.size.items)},
			{totalOrdersByCustomer, held.Sums[totalNames[sumOrders]]},
		} {
			if got := held.Sums[totalNames[x.total]]; got != x.want {
				wrong = append(wrong, fmt.Sprintf("%s holds %d %s, not %d", held.Name, got, totalNames[x.total], x.want))
			}
		}
	}
	return workload.Judge("tpcc-cardinalities", copies, workload.FirstOf(wrong),
		fmt.Sprintf("%d warehouses with their districts, customers, stock and index of orders in %d of %d copies", w, len(copies), len(copies)))
}
