package tpcc

import (
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// stockLevelSQL counts with one statement for each warehouse, while the sample in clause 2.8 uses two. In a recorded
// run it selects the counted rows instead, because a count does not identify them.
var stockLevelSQL = &sqlform.Transaction{
	Procedure:  procStockLevel,
	Statements: []*sqlform.Statement{stockLevelCount, stockLevelRows},
	Run:        stockLevelInSQL,
}

const stockLevelJoin = ` from district
	join order_line on ol_w_id = d_w_id and ol_d_id = d_id and ol_o_id >= d_next_o_id - 20 and ol_o_id < d_next_o_id
	join stock on s_w_id = d_w_id and s_i_id = ol_i_id
	where d_w_id = $1 and d_id = $2`

// stockLevelStraight is stockLevelJoin for MySQL, with a fixed join order that starts at the district. With another
// order, a server could scan a whole table and lock all its rows.
var stockLevelStraight = strings.ReplaceAll(stockLevelJoin, "join ", "straight_join ")

var (
	stockLevelCount = &sqlform.Statement{Name: "stock_level_count", SQL: "select count(distinct s_i_id)" + stockLevelJoin + " and s_quantity < $3",
		MySQL: "select count(distinct s_i_id)" + stockLevelStraight + " and s_quantity < $3"}
	stockLevelRows = &sqlform.Statement{Name: "stock_level_rows", SQL: "select d_next_o_id, ol_o_id, ol_number, s_i_id, s_quantity {, district.version, order_line.version, stock.version}" + stockLevelJoin,
		MySQL: "select d_next_o_id, ol_o_id, ol_number, s_i_id, s_quantity {, district.version, order_line.version, stock.version}" + stockLevelStraight}
)

func stockLevelInSQL(c *sqlform.Call) ([]byte, error) {
	a := stockLevelArgs(c.Args)
	low := uint32(0)
	for i := range a.warehouses() {
		w, d := a.warehouse(i), a.district()
		c.Use(txn.Key(appendWarehouseKey(nil, w)))
		if c.Recorded() {
			n, err := a.lowRecorded(c, w)
			if err != nil {
				return nil, err
			}
			low += n
			continue
		}
		c.Do(stockLevelCount, func(r *sqlform.Row) error {
			low += uint32(r.Int())
			return nil
		}, sqlform.Int(w), sqlform.Int(d), sqlform.Int(a.threshold()))
	}
	if err := c.Send(); err != nil {
		return nil, err
	}
	return be.AppendUint32(make([]byte, 0, 4), low), nil
}

// lowRecorded counts the items with low stock in a warehouse, in a recorded run.
func (a stockLevelArgs) lowRecorded(c *sqlform.Call, w uint32) (uint32, error) {
	d, next := a.district(), uint32(0)
	counted, low := map[uint32]bool{}, uint32(0)
	c.Do(stockLevelRows, func(r *sqlform.Row) error {
		first := next == 0
		next = uint32(r.Int())
		o, number, item, quantity := uint32(r.Int()), int(r.Int()), uint32(r.Int()), r.Int()
		if first {
			c.Read(txn.Key(appendDistrictKey(nil, w, d)), r)
		} else {
			r.Skip(1)
		}
		c.Read(txn.Key(appendOrderLineKey(nil, w, d, o, number)), r)
		if counted[item] {
			return nil
		}
		counted[item] = true
		if c.Read(txn.Key(appendStockKey(nil, w, item)), r); quantity < int64(a.threshold()) {
			low++
		}
		return nil
	}, sqlform.Int(w), sqlform.Int(d))
	if err := c.Send(); err != nil {
		return 0, err
	}
	if next > 0 {
		first := max(next, recentOrders+1) - recentOrders
		c.Scan(txn.Key(appendOrderKey(nil, tableOrderLine, w, d, first)), txn.Key(appendOrderKey(nil, tableOrderLine, w, d, next)), false)
	}
	return low, nil
}
