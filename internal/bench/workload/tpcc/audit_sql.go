package tpcc

import (
	"strconv"

	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// auditSQL computes the same sums as Audit, but from the tables and in the database. Its queries return only totals and
// violations. The database maintains its own indexes. The numbers of customers and orders therefore also count as the
// numbers of entries in the two indexes of the procedures.
func (t *TPCC) auditSQL(q sqlform.Query) (sqlform.Audit, error) {
	a := &sqlAudit{q: q, sums: map[string]int64{}}
	for i, sql := range sqlTotals {
		a.ask(sql, func(r *sqlform.Row) { a.sums[totalNames[i]] = r.Int() })
	}
	for _, f := range sqlFindings {
		a.ask(f.sql, func(r *sqlform.Row) {
			w, d := uint64(r.Int()), uint64(r.Int())
			for _, what := range f.what {
				a.note(f.condition, what, w, d, r.Int())
			}
		})
	}
	a.ask(sqlUndelivered, func(r *sqlform.Row) {
		w, d := uint64(r.Int()), uint64(r.Int())
		a.note(11, "", w, d, r.Int()-int64(t.size.firstUndelivered-1))
	})
	for _, f := range sqlCustomers {
		a.askCustomers(f.condition, f.sql)
	}
	x := sqlform.Audit{Sums: a.sums}
	for _, table := range t.Form().Tables {
		a.ask("select count(*) from "+table.Name, func(r *sqlform.Row) {
			if n := r.Int(); table.Name == tables[sqlItem].Name {
				x.Everywhere = n
			} else {
				x.Rows += n
			}
		})
	}
	if t.balances() {
		a.ask("select b_w_id, b_amount from balance", func(r *sqlform.Row) { t.auditBalance(a.sums, uint32(r.Int()), r.Int()) })
	}
	return x, a.err
}

// The audit covers the orders of the districts whose row is present, as in Audit.
const (
	ofDistricts = " join district on d_id between 1 and 10 and "
	byDistrict  = "d_w_id, d_id, d_next_o_id"
)

// sqlTotals are the totals of an audit.
var sqlTotals = [numTotals]string{
	sumPayments:     "select coalesce(sum(w_ytd), 0.00) from warehouse",
	sumOrders:       "select count(*) from orders" + ofDistricts + "d_w_id = o_w_id and d_id = o_d_id",
	sumQuantity:     "select coalesce(sum(s_ytd), 0) from stock",
	sumDeliveries:   "select coalesce(sum(c_delivery_cnt), 0) from customer where c_d_id between 1 and 10",
	totalWarehouses: "select count(*) from warehouse",
	totalDistricts:  "select count(*) from district",
	totalCustomers:  "select count(*) from customer",
	totalStock:      "select count(*) from stock",
	totalHistory:    "select count(*) from history",
	totalNewOrders:  "select count(*) from new_order" + ofDistricts + "d_w_id = no_w_id and d_id = no_d_id",
	totalOrderLines: "select count(*) from order_line" + ofDistricts + "d_w_id = ol_w_id and d_id = ol_d_id",

	totalCustomersByName:  "select count(*) from customer",
	totalOrdersByCustomer: "select count(*) from orders",
}

// sqlFinding is a query for the violations of a condition. Each row has the warehouse, the district or 0, and one sum
// for each name in what, as in Audit.
type sqlFinding struct {
	condition int
	what      []string
	sql       string
}

// sqlWarehouses selects the warehouses that have a row or a district with a row, each with its number, W_YTD, and the
// sum of D_YTD.
const sqlWarehouses = `(select w, sum(warehouses) as ytd, sum(districts) as districts from
	(select w_id as w, w_ytd as warehouses, 0.00 as districts from warehouse union all select d_w_id, 0.00, d_ytd from district where d_id between 1 and 10) as parts
	group by w) as there`

var sqlFindings = []sqlFinding{
	{1, []string{""}, "select w, 0, round(ytd - districts, 2) from " + sqlWarehouses + " where ytd <> districts"},
	{8, []string{""}, "select w, 0, round(ytd - coalesce(paid, 0), 2) from " + sqlWarehouses +
		" left join (select h_w_id, sum(h_amount) as paid from history group by h_w_id) as h on w = h_w_id where ytd <> coalesce(paid, 0)"},
	{9, []string{""}, `select d_w_id, d_id, round(d_ytd - coalesce(paid, 0), 2) from district
		left join (select h_w_id, h_d_id, sum(h_amount) as paid from history group by h_w_id, h_d_id) as h on d_w_id = h_w_id and d_id = h_d_id
		where d_id between 1 and 10 and d_ytd <> coalesce(paid, 0)`},
	{2, []string{""}, "select d_w_id, d_id, d_next_o_id - 1 - coalesce(max(o_id), 0) from district left join orders on d_w_id = o_w_id and d_id = o_d_id " +
		"where d_id between 1 and 10 group by " + byDistrict + " having d_next_o_id - 1 <> coalesce(max(o_id), 0)"},
	{2, []string{newOrders}, "select d_w_id, d_id, d_next_o_id - 1 - max(no_o_id) from new_order" + ofDistricts + "d_w_id = no_w_id and d_id = no_d_id " +
		"group by " + byDistrict + " having d_next_o_id - 1 <> max(no_o_id)"},
	{3, []string{""}, "select d_w_id, d_id, count(*) - (max(no_o_id) - min(no_o_id) + 1) from new_order" + ofDistricts + "d_w_id = no_w_id and d_id = no_d_id " +
		"group by d_w_id, d_id having count(*) <> max(no_o_id) - min(no_o_id) + 1"},
	{4, []string{""}, `select d_w_id, d_id, coalesce(found, 0) - coalesce(told, 0) from district
		left join (select ol_w_id, ol_d_id, count(*) as found from order_line group by ol_w_id, ol_d_id) as l on d_w_id = ol_w_id and d_id = ol_d_id
		left join (select o_w_id, o_d_id, sum(o_ol_cnt) as told from orders group by o_w_id, o_d_id) as o on d_w_id = o_w_id and d_id = o_d_id
		where d_id between 1 and 10 and coalesce(found, 0) <> coalesce(told, 0)`},
	{5, []string{"", first}, "select d_w_id, d_id, count(*), min(o_id) from orders" + ofDistricts + `d_w_id = o_w_id and d_id = o_d_id
		left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id where (no_o_id is null) = (o_carrier_id is null) group by d_w_id, d_id`},
	{6, []string{"", first}, "select d_w_id, d_id, count(*), min(o_id) from orders" + ofDistricts + `d_w_id = o_w_id and d_id = o_d_id
		left join (select ol_w_id, ol_d_id, ol_o_id, count(*) as found from order_line group by ol_w_id, ol_d_id, ol_o_id) as l on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
		where coalesce(found, 0) <> o_ol_cnt group by d_w_id, d_id`},
	{7, []string{"", first}, "select d_w_id, d_id, count(*), min(o_id) from orders" + ofDistricts + `d_w_id = o_w_id and d_id = o_d_id
		join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where (ol_delivery_d is null) <> (o_carrier_id is null) group by d_w_id, d_id`},
}

// sqlUndelivered selects, for each district, the number of orders that condition 11 compares with the number of orders
// that were loaded as delivered.
const sqlUndelivered = `select d_w_id, d_id, coalesce(entered, 0) - coalesce(open, 0) - coalesce(delivered, 0) from district
	left join (select o_w_id, o_d_id, count(*) as entered from orders group by o_w_id, o_d_id) as o on d_w_id = o_w_id and d_id = o_d_id
	left join (select no_w_id, no_d_id, count(*) as open from new_order group by no_w_id, no_d_id) as n on d_w_id = no_w_id and d_id = no_d_id
	left join (select c_w_id, c_d_id, sum(c_delivery_cnt) as delivered from customer group by c_w_id, c_d_id) as c on d_w_id = c_w_id and d_id = c_d_id
	where d_id between 1 and 10`

// sqlDelivered selects the amounts of delivered order lines by customer, as negative amounts.
const sqlDelivered = "select o_w_id, o_d_id, o_c_id, -ol_amount from orders" + ofDistricts + `d_w_id = o_w_id and d_id = o_d_id
	join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ol_delivery_d is not null`

// sqlCustomers are queries for customers that violate a condition. Their columns are warehouse, district, customer and
// difference.
var sqlCustomers = []struct {
	condition int
	sql       string
}{
	{10, sqlOff("select c_w_id as w, c_d_id as d, c_id as c, c_balance as amount from customer", "select h_c_w_id, h_c_d_id, h_c_id, h_amount from history", sqlDelivered)},
	{12, sqlOff("select c_w_id as w, c_d_id as d, c_id as c, c_balance + c_ytd_payment as amount from customer", sqlDelivered)},
}

func sqlOff(parts ...string) string {
	sql := "select w, d, c, round(sum(amount), 2) from ("
	for i, part := range parts {
		if i > 0 {
			sql += " union all "
		}
		sql += part
	}
	return sql + ") as parts where d between 1 and 10 group by w, d, c having sum(amount) <> 0 order by w, d, c"
}

type sqlAudit struct {
	q    sqlform.Query
	sums map[string]int64
	err  error
}

// ask passes the rows of a query to f, unless an earlier query has failed.
func (a *sqlAudit) ask(sql string, f func(r *sqlform.Row)) {
	if a.err == nil {
		a.err = a.q(sql, func(r *sqlform.Row) error {
			f(r)
			return r.Err()
		})
	}
}

func (a *sqlAudit) note(condition int, what string, w, d uint64, value int64) {
	if value != 0 {
		a.sums[workload.FindingName(strconv.Itoa(condition), what, w, d)] += value
	}
}

// askCustomers sums the differences of the customers of each district as an Imbalance.
func (a *sqlAudit) askCustomers(condition int, sql string) {
	off := map[[2]uint64]*workload.Imbalance{}
	a.ask(sql, func(r *sqlform.Row) {
		at := [2]uint64{uint64(r.Int()), uint64(r.Int())}
		if off[at] == nil {
			off[at] = &workload.Imbalance{}
		}
		off[at].Add(uint64(r.Int()), r.Int())
	})
	for at, b := range off {
		b.Each(func(what string, value int64) { a.note(condition, what, at[0], at[1], value) })
	}
}
