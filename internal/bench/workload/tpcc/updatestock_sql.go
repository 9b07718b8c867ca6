package tpcc

import (
	"cmp"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// updateStockSQL updates the stock rows of all lines in one statement, in key order.
var updateStockSQL = &sqlform.Transaction{Procedure: procUpdateStock, Statements: []*sqlform.Statement{updateStockLines}, Run: updateStockInSQL}

var updateStockLines = &sqlform.Statement{Name: "update_stock_lines", SQL: "update stock set s_quantity = s_quantity - l.quantity + case when s_quantity - l.quantity < 10 then 91 else 0 end, " +
	"s_ytd = s_ytd + l.quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + l.remote {, prior = version, version = $v} " +
	"from unnest($1::integer[], $2::integer[], $3::smallint[], $4::smallint[]) as l (warehouse, item, quantity, remote) " +
	"where s_w_id = l.warehouse and s_i_id = l.item returning s_w_id, s_i_id {, prior}",
	MySQL: "[<; >update stock set s_quantity = s_quantity - $3 + case when s_quantity - $3 < 10 then 91 else 0 end, " +
		"s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4 {, prior = version, version = $v} where s_w_id = $1 and s_i_id = $2]; " +
		"select s_w_id, s_i_id {, prior} from ([< union all >select $1 as warehouse, $2 as item]) as l straight_join stock on s_w_id = l.warehouse and s_i_id = l.item"}

func updateStockInSQL(c *sqlform.Call) ([]byte, error) {
	a := updateStockArgs(c.Args)
	n, found := a.lines(), 0
	order := make([]int, n)
	for i := range order {
		order[i] = i
		c.Use(a.key(i))
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(a.key(i), a.key(j)) })
	var arrays [4][maxOrderLines]int64
	for at, i := range order {
		remote := int64(0)
		if i > 0 {
			remote = 1
		}
		l := a.line(i)
		for column, value := range [...]int64{int64(a.warehouse(i)), int64(uint32(l[4])<<16 | uint32(l[5])<<8 | uint32(l[6])), int64(a.quantity(i)), remote} {
			arrays[column][at] = value
		}
	}
	c.Do(updateStockLines, func(r *sqlform.Row) error {
		found++
		w, item := uint32(r.Int()), uint32(r.Int())
		if c.Recorded() {
			c.Update(txn.Key(appendStockKey(nil, w, item)), r)
		}
		return nil
	}, sqlform.Ints(arrays[0][:n]), sqlform.Ints(arrays[1][:n]), sqlform.Ints(arrays[2][:n]), sqlform.Ints(arrays[3][:n]))
	if err := c.Send(); err != nil {
		return nil, err
	}
	if found < n {
		return nil, abortNoRow
	}
	return nil, nil
}
