package tpcc

import (
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// orderStatusSQL reads a customer with the last order, and then the order's lines. A lookup by last name precedes these
// reads.
var orderStatusSQL = &sqlform.Transaction{
	Procedure:  procOrderStatus,
	Statements: []*sqlform.Statement{customersByName, orderStatusCustomer, orderStatusOrder, orderStatusLines},
	Run:        orderStatusInSQL,
}

var (
	orderStatusCustomer = &sqlform.Statement{Name: "order_status_customer", SQL: "select c_balance, c_first, c_middle, c_last {, version} " +
		"from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3"}
	orderStatusOrder = &sqlform.Statement{Name: "order_status_order", SQL: "select o_id, o_entry_d, o_carrier_id {, version, entered} " +
		"from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1"}
	orderStatusLines = &sqlform.Statement{Name: "order_status_lines", SQL: "select ol_delivery_d, ol_amount, ol_i_id, ol_supply_w_id, ol_quantity {, ol_number, version} " +
		"from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3 order by ol_number"}
)

func orderStatusInSQL(c *sqlform.Call) (result []byte, err error) {
	by := readSelector(c.Args)
	if by.name {
		if by.number, err = by.findInSQL(c); err != nil {
			return nil, err
		}
	}
	k := by.key()
	c.Use(k)
	found := 0
	result = be.AppendUint16(make([]byte, 0, 23+12*maxOrderLines), by.number)
	c.Do(orderStatusCustomer, func(r *sqlform.Row) error {
		found++
		result = be.AppendUint64(result, uint64(r.Int()))
		r.Skip(3) // the customer's names, for the terminal
		if c.Recorded() {
			c.Read(k, r)
		}
		return nil
	}, sqlform.Int(by.w), sqlform.Int(by.d), sqlform.Int(by.number))
	var o uint32
	c.Do(orderStatusOrder, func(r *sqlform.Row) error {
		found++
		o = uint32(r.Int())
		result = append(be.AppendUint64(be.AppendUint32(result, o), r.Date()), byte(r.Int()))
		if c.Recorded() {
			c.Read(txn.Key(appendOrderKey(nil, tableOrder, by.w, by.d, o)), r)
			c.Read(txn.Key(appendOrderByCustomerKey(nil, by.w, by.d, by.number, o)), r)
		}
		return nil
	}, sqlform.Int(by.w), sqlform.Int(by.d), sqlform.Int(by.number))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if c.Recorded() {
		looked := by.lastOrder()
		if o > 0 {
			looked.From = txn.Key(appendOrderByCustomerKey(nil, by.w, by.d, by.number, o))
		}
		c.Scan(looked.From, looked.To, false)
	}
	if found < 2 {
		return nil, abortNoRow
	}
	lines := txn.Prefix(txn.Key(appendOrderKey(nil, tableOrderLine, by.w, by.d, o)))
	c.Do(orderStatusLines, func(r *sqlform.Row) error {
		date, amount := r.Date(), r.Int()
		result = be.AppendUint32(be.AppendUint64(result, date), uint32(amount))
		r.Skip(3) // the item, its warehouse and the quantity, for the terminal
		if c.Recorded() {
			number := int(r.Int())
			c.Read(txn.Key(appendOrderLineKey(nil, by.w, by.d, o, number)), r)
		}
		return nil
	}, sqlform.Int(by.w), sqlform.Int(by.d), sqlform.Int(o))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if c.Recorded() {
		c.Scan(lines.From, lines.To, false)
	}
	return slices.Clip(result), nil
}
