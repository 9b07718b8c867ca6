package tpcc

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/workload"
)

// conditions are the consistency conditions, by the last part of their clause. Each says of a finding in words what is
// wrong.
var conditions = [...]struct {
	number int
	says   func(f finding) string
}{
	{1, func(f finding) string { return "W_YTD is " + money(f.values[""]) + " the sum of D_YTD" }},
	{2, func(f finding) string {
		var parts []string
		for _, p := range []struct{ what, column string }{{"", "O_ID"}, {newOrders, "NO_O_ID"}} {
			if v := f.values[p.what]; v != 0 {
				parts = append(parts, "D_NEXT_O_ID - 1 is "+count(v)+" the largest "+p.column)
			}
		}
		return strings.Join(parts, " and ")
	}},
	{3, func(f finding) string {
		return "the number of rows of NEW-ORDER is " + count(f.values[""]) + " that of the numbers from their smallest NO_O_ID to the largest"
	}},
	{4, func(f finding) string {
		return "the number of rows of ORDER-LINE is " + count(f.values[""]) + " the sum of O_OL_CNT"
	}},
	{5, func(f finding) string {
		return orders(f, "a carrier although they are in NEW-ORDER, or none although they are not")
	}},
	{6, func(f finding) string { return orders(f, "another number of rows in ORDER-LINE than O_OL_CNT") }},
	{7, func(f finding) string {
		return fmt.Sprintf("%d order lines have a delivery date although their order has no carrier, or none although it has one; the first is of order %d",
			f.values[""], f.values[first])
	}},
	{8, func(f finding) string { return "W_YTD is " + money(f.values[""]) + " the sum of H_AMOUNT" }},
	{9, func(f finding) string { return "D_YTD is " + money(f.values[""]) + " the sum of H_AMOUNT" }},
	{10, func(f finding) string {
		return customers(f, "C_BALANCE", "what was delivered less the sum of H_AMOUNT")
	}},
	{11, func(f finding) string {
		return fmt.Sprintf("the number of orders that are not in NEW-ORDER is %s %d and the sum of C_DELIVERY_CNT", count(f.values[""]), firstUndelivered-1)
	}},
	{12, func(f finding) string { return customers(f, "C_BALANCE + C_YTD_PAYMENT", "what was delivered") }},
}

// money and count say by how much one value is more or less than another.
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

func orders(f finding, what string) string {
	return fmt.Sprintf("%d orders have %s; the first is %d", f.values[""], what, f.values[first])
}

// customers names the customer who is off, if one is alone.
func customers(f finding, what, than string) string {
	sum := f.values[""]
	if sum != 0 && f.values[byNumber]%sum == 0 {
		if c := f.values[byNumber] / sum; c >= 1 && c <= customersPerDistrict && f.values[hash] == customerHash(f.w, f.d, uint16(c))*sum {
			return fmt.Sprintf("%s of customer %d is %s %s", what, c, money(sum), than)
		}
	}
	if sum == 0 {
		return fmt.Sprintf("%s of several customers are not %s, though they are in sum", what, than)
	}
	return fmt.Sprintf("%s of several customers are in sum %s %s", what, money(sum), than)
}

// Verify judges the consistency conditions and the ledger in every copy. Condition 11, which the specification gives
// for a database that was just loaded, counts the deliveries since then.
func (t *TPCC) Verify(copies []workload.Copy, ledger workload.Ledger) []workload.Check {
	var found []map[int][]finding
	for _, c := range copies {
		found = append(found, findings(c.Sums))
	}
	var checks []workload.Check
	for _, c := range conditions {
		check := workload.Check{Name: fmt.Sprintf("tpcc-3.3.2.%d", c.number), Passed: len(copies) > 0}
		var wrong []string
		for i := range found {
			for _, f := range found[i][c.number] {
				place := fmt.Sprintf("warehouse %d", f.w)
				if f.d != 0 {
					place = fmt.Sprintf("district %d of warehouse %d", f.d, f.w)
				}
				wrong = append(wrong, fmt.Sprintf("%s in %s: %s", place, copies[i].Name, c.says(f)))
			}
		}
		switch {
		case len(copies) == 0:
			check.Message = workload.NoCopy
		case len(wrong) > 0:
			check.Passed, check.Message = false, firstOf(wrong)
		default:
			check.Message = fmt.Sprintf("holds for %d warehouses in %d of %d copies", t.warehouses(), len(copies), len(copies))
		}
		checks = append(checks, check)
	}
	checks = append(checks, t.cardinalities(copies))
	w := int64(t.warehouses())
	initial := [numSums]int64{sumPayments: w * loadedWarehouseYTD, sumOrders: w * districtsPerWarehouse * ordersPerDistrict}
	for i, name := range ledgerNames {
		checks = append(checks, workload.WithinLedger(name, totalNames[i], initial[i], copies, ledger[name]))
	}
	if n := ledger[ledgerUnduly].High; n > 0 {
		checks = append(checks, workload.Check{Name: ledgerUnduly, Message: fmt.Sprintf("%d orders with an unused item were committed", n)})
	}
	var totals []workload.Copy
	for _, c := range copies {
		of := workload.Copy{Name: c.Name, Sums: map[string]int64{}}
		for _, name := range totalNames {
			of.Sums[name] = c.Sums[name]
		}
		totals = append(totals, of)
	}
	return append(checks, workload.CopiesAgree(totals))
}

// firstOf says the first few of what is wrong, and how many more there are.
func firstOf(wrong []string) string {
	const most = 3
	if len(wrong) <= most {
		return strings.Join(wrong, "; ")
	}
	return fmt.Sprintf("%s; and at %d more places", strings.Join(wrong[:most], "; "), len(wrong)-most)
}

// cardinalities checks the tables to which no transaction adds a row, and the index of the orders.
func (t *TPCC) cardinalities(copies []workload.Copy) workload.Check {
	c := workload.Check{Name: "tpcc-cardinalities", Passed: len(copies) > 0, Message: workload.NoCopy}
	w := int64(t.warehouses())
	var wrong []string
	for _, held := range copies {
		for _, x := range []struct {
			total int
			want  int64
		}{
			{totalWarehouses, w}, {totalDistricts, w * districtsPerWarehouse}, {totalCustomers, w * districtsPerWarehouse * customersPerDistrict},
			{totalCustomersByName, w * districtsPerWarehouse * customersPerDistrict}, {totalStock, w * items},
			{totalOrdersByCustomer, held.Sums[totalNames[sumOrders]]},
		} {
			if got := held.Sums[totalNames[x.total]]; got != x.want {
				wrong = append(wrong, fmt.Sprintf("%s holds %d %s, not %d", held.Name, got, totalNames[x.total], x.want))
			}
		}
	}
	switch {
	case len(wrong) > 0:
		c.Passed, c.Message = false, firstOf(wrong)
	case len(copies) > 0:
		c.Message = fmt.Sprintf("%d warehouses with their districts, customers, stock and index of orders in %d of %d copies", w, len(copies), len(copies))
	}
	return c
}
