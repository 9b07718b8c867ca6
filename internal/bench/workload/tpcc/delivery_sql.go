package tpcc

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// deliverySQL delivers in all districts of a warehouse in three round trips. The first finds the oldest orders, the
// second updates these orders and their lines, and the third updates the customers' balances. Even at READ COMMITTED,
// two concurrent deliveries take different orders, because the first delivery locks its orders.
var deliverySQL = &sqlform.Transaction{
	Procedure:  procDelivery,
	Statements: []*sqlform.Statement{deliveryOldest, deliveryNewOrders, deliveryOrders, deliveryLines, deliveryCustomers},
	Run:        deliveryInSQL,
}

var (
	deliveryOldest = &sqlform.Statement{Name: "delivery_oldest", SQL: "select no_d_id, no_o_id {, version} from generate_series(1, 10) as d cross join lateral " +
		"(select * from new_order where no_w_id = $1 and no_d_id = d order by no_o_id limit 1 for update) as oldest",
		MySQL: strings.Join(deliveryOldestOf(), "; ")}
	deliveryNewOrders = &sqlform.Statement{Name: "delivery_new_orders", SQL: "delete from new_order using unnest($2::smallint[], $3::integer[]) as x (d, o) " +
		"where no_w_id = $1 and no_d_id = x.d and no_o_id = x.o",
		MySQL: "[<; >delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3]"}
	deliveryOrders = &sqlform.Statement{Name: "delivery_orders", SQL: "update orders set o_carrier_id = $4 {, prior = version, version = $v} " +
		"from unnest($2::smallint[], $3::integer[]) as x (d, o) where o_w_id = $1 and o_d_id = x.d and o_id = x.o returning o_d_id, o_c_id {, prior}",
		MySQL: "[<; >update orders set o_carrier_id = $4 {, prior = version, version = $v} where o_w_id = $1 and o_d_id = $2 and o_id = $3]; " +
			"select o_d_id, o_c_id {, prior} from " + deliveryOf + " straight_join orders on o_w_id = $1 and o_d_id = x.d and o_id = x.o"}
	deliveryLines = &sqlform.Statement{Name: "delivery_lines", SQL: "update order_line set ol_delivery_d = $4 {, prior = version, version = $v} " +
		"from unnest($2::smallint[], $3::integer[]) as x (d, o) where ol_w_id = $1 and ol_d_id = x.d and ol_o_id = x.o returning ol_d_id, ol_amount {, ol_number, prior}",
		MySQL: "[<; >update order_line set ol_delivery_d = $4 {, prior = version, version = $v} where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3]; " +
			"select ol_d_id, ol_amount {, ol_number, prior} from " + deliveryOf + " straight_join order_line on ol_w_id = $1 and ol_d_id = x.d and ol_o_id = x.o"}
	deliveryCustomers = &sqlform.Statement{Name: "delivery_customers", SQL: "update customer set c_balance = c_balance + x.amount, c_delivery_cnt = c_delivery_cnt + 1 {, prior = version, version = $v} " +
		"from unnest($2::smallint[], $3::integer[], $4::numeric[]) as x (d, c, amount) where c_w_id = $1 and c_d_id = x.d and c_id = x.c returning c_d_id {, prior}",
		MySQL: "[<; >update customer set c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 {, prior = version, version = $v} where c_w_id = $1 and c_d_id = $2 and c_id = $3]; " +
			"select c_d_id {, prior} from " + deliveryOf + " straight_join customer on c_w_id = $1 and c_d_id = x.d and c_id = x.o"}
)

// deliveryOf is a derived table for MySQL, with a row for each element of the array parameters. The row contains a
// district d, and its order or customer o.
const deliveryOf = "([< union all >select $2 as d, $3 as o]) as x"

// deliveryOldestOf returns statements for MySQL, which has no lateral join. Each statement finds and locks the oldest
// new order of a district.
func deliveryOldestOf() (districts []string) {
	for d := range districtsPerWarehouse {
		districts = append(districts, fmt.Sprintf("select no_d_id, no_o_id {, version} from new_order where no_w_id = $1 and no_d_id = %d order by no_o_id limit 1 for update", d+1))
	}
	return districts
}

func deliveryInSQL(c *sqlform.Call) ([]byte, error) {
	a := deliveryArgs(c.Args)
	w := a.warehouse()
	c.Use(txn.Key(appendWarehouseKey(nil, w)))
	orders, err := a.findOldest(c)
	if err != nil {
		return nil, err
	}
	result := make([]byte, 4*districtsPerWarehouse)
	var districts, numbers, customers, amounts [districtsPerWarehouse]int64
	n := 0
	for d := uint8(1); d <= districtsPerWarehouse; d++ {
		if o := orders[d-1].o; o > 0 {
			districts[n], numbers[n] = int64(d), int64(o)
			n++
			be.PutUint32(result[4*(d-1):], o)
		}
	}
	if n == 0 {
		return result, nil
	}
	of := func(r *sqlform.Row) (d uint8, x *delivered) {
		d = uint8(r.Int())
		return d, &orders[(d-1)%districtsPerWarehouse]
	}
	found := 0
	c.Do(deliveryNewOrders, nil, sqlform.Int(w), sqlform.Ints(districts[:n]), sqlform.Ints(numbers[:n]))
	c.Do(deliveryOrders, func(r *sqlform.Row) error {
		found++
		d, x := of(r)
		x.customer = uint16(r.Int())
		if c.Recorded() {
			c.Update(txn.Key(appendOrderKey(nil, tableOrder, w, d, x.o)), r)
		}
		return nil
	}, sqlform.Int(w), sqlform.Ints(districts[:n]), sqlform.Ints(numbers[:n]), sqlform.Int(a.carrier()))
	c.Do(deliveryLines, func(r *sqlform.Row) error {
		d, x := of(r)
		x.amount += r.Int()
		if c.Recorded() {
			number := int(r.Int())
			c.Update(txn.Key(appendOrderLineKey(nil, w, d, x.o, number)), r)
		}
		return nil
	}, sqlform.Int(w), sqlform.Ints(districts[:n]), sqlform.Ints(numbers[:n]), sqlform.Date(a.date()))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if found < n {
		return nil, abortNoRow
	}
	for i := range n {
		x := &orders[districts[i]-1]
		customers[i], amounts[i] = int64(x.customer), x.amount
		if c.Recorded() {
			lines := txn.Prefix(txn.Key(appendOrderKey(nil, tableOrderLine, w, uint8(districts[i]), x.o)))
			c.Scan(lines.From, lines.To, false)
		}
	}
	c.Do(deliveryCustomers, func(r *sqlform.Row) error {
		d, x := of(r)
		if c.Recorded() {
			c.Update(txn.Key(appendCustomerKey(nil, w, d, x.customer)), r)
		}
		return nil
	}, sqlform.Int(w), sqlform.Ints(districts[:n]), sqlform.Ints(customers[:n]), sqlform.Monies(amounts[:n]))
	return result, nil
}

// findOldest finds and locks the oldest new order of each district. In a district without new orders, the number is 0.
func (a deliveryArgs) findOldest(c *sqlform.Call) (orders [districtsPerWarehouse]delivered, err error) {
	c.Do(deliveryOldest, func(r *sqlform.Row) error {
		d := uint8(r.Int())
		x := &orders[(d-1)%districtsPerWarehouse]
		x.o = uint32(r.Int())
		if c.Recorded() {
			c.Delete(txn.Key(appendOrderKey(nil, tableNewOrder, a.warehouse(), d, x.o)), r)
		}
		return nil
	}, sqlform.Int(a.warehouse()))
	if err := c.Send(); err != nil || !c.Recorded() {
		return orders, err
	}
	for i := range orders {
		looked := a.oldest(uint8(i + 1))
		if o := orders[i].o; o > 0 {
			looked.To = txn.Key(appendOrderKey(nil, tableNewOrder, a.warehouse(), uint8(i+1), o)) + "\x00"
		}
		c.Scan(looked.From, looked.To, true)
	}
	return orders, nil
}
