package tpcc

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// This file contains TPC-C in SQL: the tables of clause 1.3 with their types and keys. Each transaction is in the file
// named after it. Names sort by bytes, regardless of the database's collation. The procedures' index has the same
// order, so both forms select the same middle customer of a last name.

// Indexes of tables.
const (
	sqlWarehouse = iota
	sqlDistrict
	sqlCustomer
	sqlHistory
	sqlItem
	sqlStock
	sqlOrders
	sqlNewOrder
	sqlOrderLine
	sqlBalance
)

// tables are the tables of the schema, followed by Dike's table.
var tables = []sqlform.Table{
	sqlWarehouse: {
		Name: "warehouse",
		Columns: []string{"w_id integer not null", "w_name varchar(10) not null", "w_street_1 varchar(20) not null", "w_street_2 varchar(20) not null",
			"w_city varchar(20) not null", "w_state char(2) not null", "w_zip char(9) not null", "w_tax numeric(4,4) not null", "w_ytd numeric(12,2) not null"},
		Key: "w_id",
	},
	sqlDistrict: {
		Name: "district",
		Columns: []string{"d_id smallint not null", "d_w_id integer not null", "d_name varchar(10) not null", "d_street_1 varchar(20) not null",
			"d_street_2 varchar(20) not null", "d_city varchar(20) not null", "d_state char(2) not null", "d_zip char(9) not null",
			"d_tax numeric(4,4) not null", "d_ytd numeric(12,2) not null", "d_next_o_id integer not null"},
		Key:        "d_w_id, d_id",
		References: []sqlform.Reference{{Columns: "d_w_id", Of: "warehouse (w_id)"}},
	},
	sqlCustomer: {
		Name: "customer",
		Columns: []string{"c_id integer not null", "c_d_id smallint not null", "c_w_id integer not null", `c_first varchar(16) collate "C" not null`,
			"c_middle char(2) not null", `c_last varchar(16) collate "C" not null`, "c_street_1 varchar(20) not null", "c_street_2 varchar(20) not null",
			"c_city varchar(20) not null", "c_state char(2) not null", "c_zip char(9) not null", "c_phone char(16) not null",
			"c_since timestamp not null", "c_credit char(2) not null", "c_credit_lim numeric(12,2) not null", "c_discount numeric(4,4) not null",
			"c_balance numeric(12,2) not null", "c_ytd_payment numeric(12,2) not null", "c_payment_cnt integer not null",
			"c_delivery_cnt integer not null", "c_data varchar(500) not null"},
		Key:        "c_w_id, c_d_id, c_id",
		Indexes:    []string{"c_w_id, c_d_id, c_last, c_first, c_id"},
		References: []sqlform.Reference{{Columns: "c_w_id, c_d_id", Of: "district (d_w_id, d_id)"}},
	},
	sqlHistory: {
		Name: "history",
		Columns: []string{"h_c_id integer not null", "h_c_d_id smallint not null", "h_c_w_id integer not null", "h_d_id smallint not null",
			"h_w_id integer not null", "h_date timestamp not null", "h_amount numeric(6,2) not null", "h_data varchar(24) not null"},
		References: []sqlform.Reference{{Columns: "h_c_w_id, h_c_d_id, h_c_id", Of: "customer (c_w_id, c_d_id, c_id)"},
			{Columns: "h_w_id, h_d_id", Of: "district (d_w_id, d_id)"}},
	},
	sqlItem: {
		Name: "item",
		Columns: []string{"i_id integer not null", "i_im_id integer not null", "i_name varchar(24) not null", "i_price numeric(5,2) not null",
			"i_data varchar(50) not null"},
		Key: "i_id",
	},
	sqlStock: {
		Name: "stock",
		Columns: []string{"s_i_id integer not null", "s_w_id integer not null", "s_quantity smallint not null",
			"s_dist_01 char(24) not null", "s_dist_02 char(24) not null", "s_dist_03 char(24) not null", "s_dist_04 char(24) not null",
			"s_dist_05 char(24) not null", "s_dist_06 char(24) not null", "s_dist_07 char(24) not null", "s_dist_08 char(24) not null",
			"s_dist_09 char(24) not null", "s_dist_10 char(24) not null", "s_ytd integer not null", "s_order_cnt integer not null",
			"s_remote_cnt integer not null", "s_data varchar(50) not null"},
		Key:        "s_w_id, s_i_id",
		References: []sqlform.Reference{{Columns: "s_w_id", Of: "warehouse (w_id)"}, {Columns: "s_i_id", Of: "item (i_id)"}},
	},
	sqlOrders: {
		Name: "orders",
		Columns: []string{"o_id integer not null", "o_d_id smallint not null", "o_w_id integer not null", "o_c_id integer not null",
			"o_entry_d timestamp not null", "o_carrier_id smallint", "o_ol_cnt smallint not null", "o_all_local smallint not null"},
		Key:        "o_w_id, o_d_id, o_id",
		Indexes:    []string{"o_w_id, o_d_id, o_c_id, o_id"},
		References: []sqlform.Reference{{Columns: "o_w_id, o_d_id, o_c_id", Of: "customer (c_w_id, c_d_id, c_id)"}},
		// The transaction that entered the order also counts as the writer of the order's entry in the index by customer.
		Recorded: []string{"entered bigint not null default 0"},
	},
	sqlNewOrder: {
		Name:       "new_order",
		Columns:    []string{"no_o_id integer not null", "no_d_id smallint not null", "no_w_id integer not null"},
		Key:        "no_w_id, no_d_id, no_o_id",
		References: []sqlform.Reference{{Columns: "no_w_id, no_d_id, no_o_id", Of: "orders (o_w_id, o_d_id, o_id)"}},
	},
	sqlOrderLine: {
		Name: "order_line",
		Columns: []string{"ol_o_id integer not null", "ol_d_id smallint not null", "ol_w_id integer not null", "ol_number smallint not null",
			"ol_i_id integer not null", "ol_supply_w_id integer not null", "ol_delivery_d timestamp", "ol_quantity smallint not null",
			"ol_amount numeric(6,2) not null", "ol_dist_info char(24) not null"},
		Key: "ol_w_id, ol_d_id, ol_o_id, ol_number",
		References: []sqlform.Reference{{Columns: "ol_w_id, ol_d_id, ol_o_id", Of: "orders (o_w_id, o_d_id, o_id)"},
			{Columns: "ol_supply_w_id, ol_i_id", Of: "stock (s_w_id, s_i_id)"}},
	},
	sqlBalance: {
		Name:    "balance",
		Columns: []string{"b_w_id integer not null", "b_amount numeric(12,2) not null"},
		Key:     "b_w_id",
	},
}

// Form implements sqlform.Workload.
func (t *TPCC) Form() *sqlform.Form {
	f := &sqlform.Form{Tables: tables, Row: appendColumns, Audit: t.auditSQL}
	if !t.balances() {
		f.Tables = tables[:sqlBalance]
	}
	return f
}

// Transactions returns the SQL transactions of TPC-C and Dike.
func Transactions() []*sqlform.Transaction {
	return []*sqlform.Transaction{newOrderSQL, paymentSQL, orderStatusSQL, deliverySQL, stockLevelSQL, updateStockSQL, updateBalanceSQL, selectBalanceSQL}
}

// heads are the sizes, in bytes, of the fixed-size columns at the start of each table's rows.
var heads = map[txn.Table]int{
	tableItem: itemHead, tableWarehouse: warehouseHead, tableDistrict: districtHead, tableCustomer: customerHead, tableStock: stockHead,
	tableHistory: historyHead, tableOrder: orderSize, tableOrderLine: orderLineSize, tableBalance: balanceSize,
}

// appendColumns implements sqlform.Form.Row. It converts a row of the procedures to columns.
func appendColumns(k txn.Key, v []byte, c *sqlform.Columns) (table int, err error) {
	if !k.Valid() || k.Table() > tableBalance || len(v) < heads[k.Table()] {
		return 0, fmt.Errorf("%s with %d bytes is no row of TPC-C", keyName(k), len(v))
	}
	if size, fixed := keySizes[k.Table()]; fixed && len(k) != size {
		return 0, fmt.Errorf("%s is no row's key", keyName(k))
	}
	w := int64(warehouseOf(k))
	texts := func(head, n int) {
		for i := range n {
			c.Text(text(v, head, i))
		}
	}
	dateOrNull := func(date uint64) {
		if date == 0 {
			c.Null()
		} else {
			c.Date(date)
		}
	}
	switch k.Table() {
	case tableItem:
		r := itemRow(v)
		c.Int(int64(uint32(k[1])<<16 | uint32(k[2])<<8 | uint32(k[3])))
		c.Int(int64(be.Uint32(r[4:])))
		c.Text(text(r, itemHead, 0))
		c.Money(r.price())
		c.Text(r.data())
		return sqlItem, nil
	case tableWarehouse:
		r := warehouseRow(v)
		c.Int(w)
		texts(warehouseHead, 6)
		c.Share(r.tax())
		c.Money(r.ytd())
		return sqlWarehouse, nil
	case tableDistrict:
		r := districtRow(v)
		c.Int(int64(districtOf(k)))
		c.Int(w)
		texts(districtHead, 6)
		c.Share(r.tax())
		c.Money(r.ytd())
		c.Int(int64(r.nextOrder()))
		return sqlDistrict, nil
	case tableCustomer:
		r := customerRow(v)
		c.Int(int64(customerOf(k)))
		c.Int(int64(districtOf(k)))
		c.Int(w)
		c.Text(r.first())
		c.Text(r[44:46])
		for i := 1; i < customerTexts; i++ {
			c.Text(text(r, customerHead, i))
		}
		c.Date(be.Uint64(r[32:]))
		c.Text(r[42:44])
		c.Money(int64(be.Uint64(r[24:])))
		c.Share(r.discount())
		c.Money(r.balance())
		c.Money(r.ytdPayment())
		c.Int(int64(r.payments()))
		c.Int(int64(r.deliveries()))
		c.Text(r[r.dataAt():])
		return sqlCustomer, nil
	case tableStock:
		r := stockRow(v)
		c.Int(int64(uint32(k[9])<<16 | uint32(k[10])<<8 | uint32(k[11])))
		c.Int(w)
		c.Int(int64(r.quantity()))
		for d := range uint8(districtsPerWarehouse) {
			c.Text(r.distInfo(d + 1))
		}
		c.Int(int64(r.ytd()))
		c.Int(int64(be.Uint32(r[4:])))
		c.Int(int64(be.Uint32(r[8:])))
		c.Text(r.data())
		return sqlStock, nil
	case tableHistory:
		r := historyRow(v)
		c.Int(int64(r.customer()))
		c.Int(int64(r.customersDistrict()))
		c.Int(int64(r.customersWarehouse()))
		c.Int(int64(r.district()))
		c.Int(w)
		c.Date(be.Uint64(r[8:]))
		c.Money(r.amount())
		c.Text(r[historyHead:])
		return sqlHistory, nil
	case tableOrder:
		r := orderRow(v)
		c.Int(int64(lastUint32(k)))
		c.Int(int64(districtOf(k)))
		c.Int(w)
		c.Int(int64(r.customer()))
		c.Date(r.entered())
		if r.carrier() == 0 {
			c.Null()
		} else {
			c.Int(int64(r.carrier()))
		}
		c.Int(int64(r.lines()))
		c.Int(int64(r[12]))
		return sqlOrders, nil
	case tableNewOrder:
		c.Int(int64(lastUint32(k)))
		c.Int(int64(districtOf(k)))
		c.Int(w)
		return sqlNewOrder, nil
	case tableOrderLine:
		r := orderLineRow(v)
		o, number := lineOf(k)
		c.Int(int64(o))
		c.Int(int64(districtOf(k)))
		c.Int(w)
		c.Int(int64(number))
		c.Int(int64(r.item()))
		c.Int(int64(be.Uint32(r[16:])))
		dateOrNull(r.delivered())
		c.Int(int64(r[20]))
		c.Money(r.amount())
		c.Text(r[21:])
		return sqlOrderLine, nil
	case tableBalance:
		c.Int(w)
		c.Money(int64(be.Uint64(v)))
		return sqlBalance, nil
	}
	return sqlform.NoTable, nil // indexes by name and by customer
}
