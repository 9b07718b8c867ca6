package tpcc

import (
	"cmp"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// newOrderSQL enters an order in two round trips. The first reads the rows that the order depends on. The second writes
// all of the order's rows. The stock rows are updated in key order, so that concurrent orders cannot deadlock on them.
var newOrderSQL = &sqlform.Transaction{
	Procedure:  procNewOrder,
	Statements: []*sqlform.Statement{newOrderWarehouse, newOrderDistrict, newOrderCustomer, newOrderItems, newOrderOrder, newOrderNewOrder, newOrderLines},
	Run:        newOrderInSQL,
}

var (
	newOrderWarehouse = &sqlform.Statement{Name: "new_order_warehouse", SQL: "select w_tax {, version} from warehouse where w_id = $1"}
	newOrderDistrict  = &sqlform.Statement{Name: "new_order_district", SQL: "update district set d_next_o_id = d_next_o_id + 1 {, prior = version, version = $v} " +
		"where d_w_id = $1 and d_id = $2 returning d_next_o_id - 1, d_tax {, prior}"}
	newOrderCustomer = &sqlform.Statement{Name: "new_order_customer", SQL: "select c_discount, c_last, c_credit {, version} " +
		"from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3"}
	newOrderItems = &sqlform.Statement{Name: "new_order_items", SQL: "select i_id, i_price, i_name, i_data {, version} from item where i_id = any($1::integer[])",
		MySQL: "select i_id, i_price, i_name, i_data {, version} from item where i_id in ([$1])"}
	newOrderOrder = &sqlform.Statement{Name: "new_order_order", SQL: "insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local {, version, entered}) " +
		"values ($1, $2, $3, $4, $5, $6, $7 {, $v, $v})"}
	newOrderNewOrder = &sqlform.Statement{Name: "new_order_new_order", SQL: "insert into new_order (no_o_id, no_d_id, no_w_id {, version}) values ($1, $2, $3 {, $v})"}
	newOrderLines    = &sqlform.Statement{Name: "new_order_lines", SQL: `with taken as (
	update stock set s_quantity = s_quantity - l.quantity + case when s_quantity - l.quantity < 10 then 91 else 0 end,
		s_ytd = s_ytd + l.quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + l.remote {, prior = version, version = $v}
	from unnest($4::smallint[], $5::integer[], $6::integer[], $7::smallint[], $8::smallint[], $9::numeric[]) as l (number, item, supplier, quantity, remote, amount)
	where s_w_id = l.supplier and s_i_id = l.item
	returning l.number, l.item, l.supplier, l.quantity, l.amount, s_quantity, s_data,
		case $2::smallint ` + distInfo + ` as dist_info {, prior}
), lines as (
	insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info {, version})
	select $1::integer, $2::smallint, $3::integer, number, item, supplier, quantity, amount, dist_info {, $v::bigint} from taken
)
select number, s_quantity, s_data {, prior} from taken`,
		MySQL: `[<; >update stock set s_quantity = s_quantity - $7 + case when s_quantity - $7 < 10 then 91 else 0 end,
		s_ytd = s_ytd + $7, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $8 {, prior = version, version = $v}
	where s_w_id = $6 and s_i_id = $5]; insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info {, version})
	select $1, $2, $3, number, item, supplier, quantity, amount, case $2 ` + distInfo + ` {, $v}
	from ([< union all >select $4 as number, $5 as item, $6 as supplier, $7 as quantity, $9 as amount]) as l straight_join stock on s_w_id = supplier and s_i_id = item; ` +
			"select number, s_quantity, s_data {, prior} from ([< union all >select $4 as number, $5 as item, $6 as supplier]) as l straight_join stock on s_w_id = supplier and s_i_id = item"}
)

// distInfo is the rest of a CASE expression on the district's number. The expression selects S_DIST_xx of the district.
const distInfo = `when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04 when 5 then s_dist_05
		when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08 when 9 then s_dist_09 else s_dist_10 end`

// orderedLine contains the data of an order's line and its item that the statements need.
type orderedLine struct {
	number       int // from 0
	price        int64
	used, remote bool
	original     bool // of the item
	turn         int  // number of earlier lines with the same stock row
}

func newOrderInSQL(c *sqlform.Call) ([]byte, error) {
	a := newOrderArgs(c.Args)
	w, d, n := a.warehouse(), a.district(), a.lines()
	k := a.keys(false)
	c.Use(k.warehouse())
	var found, o uint32
	var tax, discount int64
	c.Do(newOrderWarehouse, func(r *sqlform.Row) error {
		found++
		tax += r.Int()
		if c.Recorded() {
			c.Read(k.warehouse(), r)
		}
		return nil
	}, sqlform.Int(w))
	c.Do(newOrderDistrict, func(r *sqlform.Row) error {
		found++
		o = uint32(r.Int())
		tax += r.Int()
		if c.Recorded() {
			c.Update(k.district(), r)
		}
		return nil
	}, sqlform.Int(w), sqlform.Int(d))
	c.Do(newOrderCustomer, func(r *sqlform.Row) error {
		found++
		discount = r.Int()
		_, _ = r.Text(), r.Text() // C_LAST and C_CREDIT, for the terminal
		if c.Recorded() {
			c.Read(k.customer(), r)
		}
		return nil
	}, sqlform.Int(w), sqlform.Int(d), sqlform.Int(a.customer()))
	var lineRoom [maxOrderLines]orderedLine
	lines := lineRoom[:n]
	a.askItems(c, lines)
	if err := c.Send(); err != nil {
		return nil, err
	}
	if found < 3 {
		return nil, abortNoRow
	}

	allLocal, unused, turns := 1, false, 0
	var sum int64
	for i := range lines {
		x := &lines[i]
		x.number, x.remote = i, a.supplier(i) != w
		if x.remote {
			allLocal = 0
		}
		if !x.used {
			unused = true // not before the remainder of the profile has been executed (clause 2.4.2.3)
			continue
		}
		c.Use(k.stock(i))
		for j := range i {
			if lines[j].used && string(a.line(j)[:7]) == string(a.line(i)[:7]) {
				x.turn++
			}
		}
		turns = max(turns, x.turn+1)
		sum += x.price * int64(a.quantity(i))
	}
	c.Do(newOrderOrder, nil, sqlform.Int(o), sqlform.Int(d), sqlform.Int(w), sqlform.Int(a.customer()), sqlform.Date(a.date()), sqlform.Int(n), sqlform.Int(allLocal))
	c.Do(newOrderNewOrder, nil, sqlform.Int(o), sqlform.Int(d), sqlform.Int(w))
	if c.Recorded() {
		c.Insert(txn.Key(appendOrderKey(nil, tableOrder, w, d, o)))
		c.Insert(txn.Key(appendOrderByCustomerKey(nil, w, d, a.customer(), o)))
		c.Insert(txn.Key(appendOrderKey(nil, tableNewOrder, w, d, o)))
	}
	// An item may occur twice in an order (clause 2.4.1.5), but a statement updates a row only once. The lines are
	// therefore updated in turns, with one statement for each turn. Lines with the same stock row have different turns.
	taken, wanted, brand := 0, 0, uint16(0)
	for turn := range turns {
		wanted += a.take(c, o, lines, turn, func(number int, stockOriginal bool) {
			taken++
			if lines[number].original && stockOriginal {
				brand |= 1 << number
			}
		})
	}
	if err := c.Send(); err != nil {
		return nil, err
	}
	switch {
	case taken < wanted:
		return nil, abortNoRow
	case unused:
		return nil, abortUnusedItem
	}
	total := sum * (10_000 - discount) * (10_000 + tax) / 1e8
	return be.AppendUint16(be.AppendUint64(be.AppendUint32(make([]byte, 0, 14), o), uint64(total)), brand), nil
}

// askItems queries the items of all lines.
func (a newOrderArgs) askItems(c *sqlform.Call, lines []orderedLine) {
	var room [maxOrderLines]int64
	ids := room[:len(lines)]
	for i := range ids {
		ids[i] = int64(a.item(i))
	}
	c.Do(newOrderItems, func(r *sqlform.Row) error {
		id, price := uint32(r.Int()), r.Int()
		_ = r.Text() // I_NAME, for the terminal
		original := r.Contains(original)
		for i := range lines {
			if a.item(i) == id {
				lines[i].used, lines[i].price, lines[i].original = true, price, original
			}
		}
		if c.Recorded() {
			c.Read(txn.Key(appendItemKey(nil, id)), r)
		}
		return nil
	}, sqlform.Ints(ids))
}

// take updates the stock of the lines with the given turn, and inserts these lines. It returns the number of lines. For
// each inserted line, take calls each with the line's number; original reports whether the data of the line's stock row
// contain ORIGINAL.
func (a newOrderArgs) take(c *sqlform.Call, o uint32, lines []orderedLine, turn int, each func(number int, original bool)) (n int) {
	var room [maxOrderLines]*orderedLine
	chosen := room[:0]
	for i := range lines {
		if lines[i].used && lines[i].turn == turn {
			chosen = append(chosen, &lines[i])
		}
	}
	slices.SortFunc(chosen, func(x, y *orderedLine) int {
		return cmp.Or(cmp.Compare(a.supplier(x.number), a.supplier(y.number)), cmp.Compare(a.item(x.number), a.item(y.number)))
	})
	var arrays [6][maxOrderLines]int64
	for i, x := range chosen {
		remote := int64(0)
		if x.remote {
			remote = 1
		}
		quantity := int64(a.quantity(x.number))
		for column, value := range [...]int64{int64(x.number) + 1, int64(a.item(x.number)), int64(a.supplier(x.number)), quantity, remote, quantity * x.price} {
			arrays[column][i] = value
		}
	}
	n = len(chosen)
	w, d := a.warehouse(), a.district()
	c.Do(newOrderLines, func(r *sqlform.Row) error {
		number := int(r.Int()) - 1
		_ = r.Int() // S_QUANTITY, for the terminal
		each(number, r.Contains(original))
		if c.Recorded() {
			c.Update(txn.Key(appendStockKey(nil, a.supplier(number), a.item(number))), r)
			c.Insert(txn.Key(appendOrderLineKey(nil, w, d, o, number+1)))
		}
		return nil
	}, sqlform.Int(o), sqlform.Int(d), sqlform.Int(w), sqlform.Ints(arrays[0][:n]), sqlform.Ints(arrays[1][:n]), sqlform.Ints(arrays[2][:n]),
		sqlform.Ints(arrays[3][:n]), sqlform.Ints(arrays[4][:n]), sqlform.Monies(arrays[5][:n]))
	return n
}
