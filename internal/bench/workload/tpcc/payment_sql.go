package tpcc

import (
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// paymentSQL books a payment in two round trips: the updates, then the insertion into HISTORY, which needs names that
// the updates return. A lookup by last name takes a third round trip.
var paymentSQL = &sqlform.Transaction{
	Procedure:  procPayment,
	Statements: []*sqlform.Statement{paymentWarehouse, paymentDistrict, customersByName, paymentCustomer, paymentHistory},
	Run:        paymentInSQL,
}

var (
	paymentWarehouse = &sqlform.Statement{Name: "payment_warehouse", SQL: "update warehouse set w_ytd = w_ytd + $2 {, prior = version, version = $v} " +
		"where w_id = $1 returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip {, prior}"}
	paymentDistrict = &sqlform.Statement{Name: "payment_district", SQL: "update district set d_ytd = d_ytd + $3 {, prior = version, version = $v} " +
		"where d_w_id = $1 and d_id = $2 returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip {, prior}"}
	customersByName = &sqlform.Statement{Name: "customers_by_name", SQL: "select c_id {, version} from customer " +
		"where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first, c_id"}
	paymentCustomer = &sqlform.Statement{Name: "payment_customer", SQL: "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, " +
		"c_payment_cnt = c_payment_cnt + 1, c_data = case c_credit when 'BC' then left($5::text || c_data, 500) else c_data end {, prior = version, version = $v} " +
		"where c_w_id = $1 and c_d_id = $2 and c_id = $3 " +
		"returning c_balance, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, " +
		"case c_credit when 'BC' then left(c_data, 200) end {, prior}"}
	paymentHistory = &sqlform.Statement{Name: "payment_history", SQL: "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data {, version}) " +
		"values ($1, $2, $3, $4, $5, $6, $7, $8 {, $v})"}
)

// addressColumns are the columns W_STREET_1 to W_ZIP, for the terminal. customerColumns are the columns that
// paymentCustomer returns after C_BALANCE.
const (
	addressColumns  = 5
	customerColumns = 14
)

func paymentInSQL(c *sqlform.Call) ([]byte, error) {
	a := paymentArgs(c.Args)
	k, by := a.keys(), a.customer()
	w, d := a.warehouse(), a.district()
	c.Use(k.warehouse())
	found, data := 0, make([]byte, 0, maxHistory)
	named := func(k txn.Key) func(r *sqlform.Row) error {
		return func(r *sqlform.Row) error {
			if found++; len(data) > 0 {
				data = append(data, "    "...)
			}
			data = append(data, r.Text()...)
			r.Skip(addressColumns)
			if c.Recorded() {
				c.Update(k, r)
			}
			return nil
		}
	}
	c.Do(paymentWarehouse, named(k.warehouse()), sqlform.Int(w), sqlform.Money(a.amount()))
	c.Do(paymentDistrict, named(k.district()), sqlform.Int(w), sqlform.Int(d), sqlform.Money(a.amount()))
	if by.name {
		var err error
		if by.number, err = by.findInSQL(c); err != nil {
			return nil, err
		}
	}
	c.Use(by.key())
	var balance int64
	c.Do(paymentCustomer, func(r *sqlform.Row) error {
		found++
		balance = r.Int()
		r.Skip(customerColumns)
		if c.Recorded() {
			c.Update(by.key(), r)
		}
		return nil
	}, sqlform.Int(by.w), sqlform.Int(by.d), sqlform.Int(by.number), sqlform.Money(a.amount()), sqlform.Text(a.appendNote(nil, &by)))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if found < 3 {
		return nil, abortNoRow
	}
	c.Do(paymentHistory, nil, sqlform.Int(by.number), sqlform.Int(by.d), sqlform.Int(by.w), sqlform.Int(d), sqlform.Int(w),
		sqlform.Date(a.date()), sqlform.Money(a.amount()), sqlform.Text(data))
	if c.Recorded() {
		c.Insert(k.history())
	}
	return be.AppendUint64(be.AppendUint16(make([]byte, 0, 10), by.number), uint64(balance)), nil
}

// findInSQL is the SQL variant of find: it selects the customer with SQL statements.
func (s *selector) findInSQL(c *sqlform.Call) (uint16, error) {
	name := appendLastName(nil, int(s.number))
	var room [32]uint16
	found := room[:0]
	c.Do(customersByName, func(r *sqlform.Row) error {
		found = append(found, uint16(r.Int()))
		if c.Recorded() {
			by := selector{w: s.w, d: s.d, number: found[len(found)-1]}
			c.Read(by.key(), r)
		}
		return nil
	}, sqlform.Int(s.w), sqlform.Int(s.d), sqlform.Text(name))
	if err := c.Send(); err != nil {
		return 0, err
	}
	return middle(found)
}
