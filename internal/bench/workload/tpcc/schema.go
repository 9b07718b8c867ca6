package tpcc

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// Procedure numbers. They are part of messages, so they never change.
const (
	procNewOrder    txn.ProcID = 32
	procPayment     txn.ProcID = 33
	procOrderStatus txn.ProcID = 34
	procDelivery    txn.ProcID = 35
	procStockLevel  txn.ProcID = 36

	procUpdateStock   txn.ProcID = 37
	procUpdateBalance txn.ProcID = 38
	procSelectBalance txn.ProcID = 39
)

// Tables of the schema (clause 1.3). The warehouse of a row determines the row's cell. Every node stores the ITEM rows.
//
// ORDER, NEW-ORDER, ORDER-LINE and the two indexes have ordered keys, grouped by district: each scan stays inside a
// district. Every writer of a group also writes the district's row, so locking a group as one row costs no concurrency
// between new orders.
const (
	tableItem             txn.Table = 0 // (I_ID), everywhere
	tableWarehouse        txn.Table = 1 // (W_ID)
	tableDistrict         txn.Table = 2 // (D_W_ID, D_ID)
	tableCustomer         txn.Table = 3 // (C_W_ID, C_D_ID, C_ID)
	tableStock            txn.Table = 4 // (S_W_ID, S_I_ID)
	tableHistory          txn.Table = 5 // (H_W_ID, a unique number: the specification defines no primary key)
	tableOrder            txn.Table = 6 // (O_W_ID, O_D_ID), O_ID
	tableNewOrder         txn.Table = 7 // (NO_W_ID, NO_D_ID), NO_O_ID
	tableOrderLine        txn.Table = 8 // (OL_W_ID, OL_D_ID), OL_O_ID, OL_NUMBER
	tableCustomersByName  txn.Table = 9 // (C_W_ID, C_D_ID), C_LAST, C_FIRST, C_ID
	tableOrdersByCustomer txn.Table = 10
	tableBalance          txn.Table = 11 // (W_ID), from Dike; used only if a mix needs it
)

// Cardinalities (clause 1.2.1).
const (
	items                 = 100_000
	districtsPerWarehouse = 10
	customersPerDistrict  = 3000
	firstUndelivered      = 2101 // the first order that is loaded as a new order (clause 4.3.3.1)
	maxOrderLines         = 15
	lastNames             = 1000
)

// size is the number of rows per table: the specification's cardinalities or a percentage of them. In the
// specification, only the number of warehouses varies.
type size struct {
	items            int // number of items; every warehouse has a stock row for each
	customers        int // customers of a district; each has one order in the loaded database
	firstUndelivered int // number of a district's first undelivered order
	lastNames        int // number of distinct last names among customers
}

// sizeOf returns the given percentage of the specification's cardinalities.
func sizeOf(percent int32) size {
	p := int(percent)
	customers := customersPerDistrict * p / 100
	return size{
		items: items * p / 100, customers: customers, firstUndelivered: (firstUndelivered-1)*p/100 + 1,
		lastNames: min(lastNames, customers),
	}
}

// districtYTD returns the sum of the payments of a district's customers in the loaded database, in cents.
func (s *size) districtYTD() int64 { return int64(s.customers) * loadedPayment }

// warehouseYTD returns the sum of districtYTD over a warehouse's districts, in cents.
func (s *size) warehouseYTD() int64 { return districtsPerWarehouse * s.districtYTD() }

// unusedItem is an item number that no item has (clause 2.4.1.4).
const unusedItem = items + 1

// Reasons why a procedure aborts.
const (
	// abortUnusedItem is the rollback that clause 2.4.1.4 requires.
	abortUnusedItem = txn.Abort("unused-item")
	// abortNoRow does not occur in a loaded database that works correctly.
	abortNoRow = txn.Abort("no-row")
)

// Procedures returns the stored procedures of TPC-C and Dike.
func Procedures() []*txn.Procedure { return procedures[:] }

// be is the byte order of all numbers. Big-endian keys sort in the order of their numbers.
var be = binary.BigEndian

// Sizes of keys in bytes.
const (
	warehouseKeySize       = 9
	districtKeySize        = warehouseKeySize + 1
	customerKeySize        = districtKeySize + 2
	stockKeySize           = warehouseKeySize + 3
	itemKeySize            = 4
	loadedHistoryKeySize   = customerKeySize
	historyKeySize         = warehouseKeySize + 8
	groupKeySize           = 11
	orderKeySize           = groupKeySize + 4
	orderLineKeySize       = orderKeySize + 1
	orderByCustomerKeySize = groupKeySize + 2 + 4
)

// shardOf returns the shard number of a warehouse, which determines its cell. Warehouses are numbered from 1 (clause
// 1.3.1).
func shardOf(w uint32) uint64 { return uint64(w) - 1 }

// warehouseOf returns the warehouse of a row.
func warehouseOf(k txn.Key) uint32 { return uint32(k.Shard()) + 1 }

func appendWarehouseKey(b []byte, w uint32) []byte {
	return txn.AppendIntKey(b, tableWarehouse, shardOf(w))
}

func appendBalanceKey(b []byte, w uint32) []byte {
	return txn.AppendIntKey(b, tableBalance, shardOf(w))
}

func appendDistrictKey(b []byte, w uint32, d uint8) []byte {
	return append(txn.AppendIntKey(b, tableDistrict, shardOf(w)), d)
}

func appendCustomerKey(b []byte, w uint32, d uint8, c uint16) []byte {
	return be.AppendUint16(append(txn.AppendIntKey(b, tableCustomer, shardOf(w)), d), c)
}

func appendStockKey(b []byte, w, item uint32) []byte {
	return appendItem(txn.AppendIntKey(b, tableStock, shardOf(w)), item)
}

func appendItemKey(b []byte, item uint32) []byte {
	return appendItem(txn.AppendEverywhereKey(b, tableItem), item)
}

func appendItem(b []byte, item uint32) []byte {
	return append(b, byte(item>>16), byte(item>>8), byte(item))
}

// appendHistoryKey appends the key of a payment's row. number is unique: see generator.historyNumber.
func appendHistoryKey(b []byte, w uint32, number uint64) []byte {
	return be.AppendUint64(txn.AppendIntKey(b, tableHistory, shardOf(w)), number)
}

// appendLoadedHistoryKey appends the key of a customer's loaded row. The key is shorter than the key of any payment, so
// the two kinds of keys never collide.
func appendLoadedHistoryKey(b []byte, w uint32, d uint8, c uint16) []byte {
	return be.AppendUint16(append(txn.AppendIntKey(b, tableHistory, shardOf(w)), d), c)
}

// appendGroupKey appends the key of a district's group in a table, which is the prefix of the keys of its rows.
func appendGroupKey(b []byte, table txn.Table, w uint32, d uint8) []byte {
	return txn.AppendGroupKey(b, table, shardOf(w), d)
}

// appendOrderKey appends the key of an order in ORDER or NEW-ORDER, or the key prefix shared by all its lines.
func appendOrderKey(b []byte, table txn.Table, w uint32, d uint8, o uint32) []byte {
	return be.AppendUint32(appendGroupKey(b, table, w, d), o)
}

func appendOrderLineKey(b []byte, w uint32, d uint8, o uint32, number int) []byte {
	return append(appendOrderKey(b, tableOrderLine, w, d, o), byte(number))
}

// appendNameKey appends the key prefix shared by all customers of a district who have the given last name.
func appendNameKey(b []byte, w uint32, d uint8, name uint16) []byte {
	return append(appendLastName(appendGroupKey(b, tableCustomersByName, w, d), int(name)), 0)
}

// appendCustomerByNameKey appends the key of a customer's entry in the index by name. Keys sort as clause 2.5.2.2
// requires.
func appendCustomerByNameKey(b []byte, w uint32, d uint8, name uint16, first []byte, c uint16) []byte {
	return be.AppendUint16(append(append(appendNameKey(b, w, d, name), first...), 0), c)
}

// appendCustomersOrdersKey appends the key prefix shared by all orders of a customer.
func appendCustomersOrdersKey(b []byte, w uint32, d uint8, c uint16) []byte {
	return be.AppendUint16(appendGroupKey(b, tableOrdersByCustomer, w, d), c)
}

func appendOrderByCustomerKey(b []byte, w uint32, d uint8, c uint16, o uint32) []byte {
	return be.AppendUint32(appendCustomersOrdersKey(b, w, d, c), o)
}

// lastUint16 and lastUint32 return the number in the last bytes of a key.
func lastUint16(k txn.Key) uint16 {
	n := len(k)
	return uint16(k[n-2])<<8 | uint16(k[n-1])
}

func lastUint32(k txn.Key) uint32 {
	n := len(k)
	return uint32(k[n-4])<<24 | uint32(k[n-3])<<16 | uint32(k[n-2])<<8 | uint32(k[n-1])
}

// districtOf returns the district of a row of DISTRICT, CUSTOMER or one of the tables with ordered keys.
func districtOf(k txn.Key) uint8 {
	if k.Ordered() {
		return k[groupKeySize-1]
	}
	return k[warehouseKeySize]
}

// customerOf returns the customer number of a row of CUSTOMER.
func customerOf(k txn.Key) uint16 { return lastUint16(k) }

// lineOf returns the order number and the line number of a row of ORDER-LINE.
func lineOf(k txn.Key) (o uint32, number int) {
	return lastUint32(k[:orderKeySize]), int(k[orderKeySize])
}

// keySizes are the key sizes of tables whose keys have a fixed size.
var keySizes = map[txn.Table]int{
	tableItem: itemKeySize, tableWarehouse: warehouseKeySize, tableDistrict: districtKeySize, tableCustomer: customerKeySize,
	tableStock: stockKeySize, tableOrder: orderKeySize, tableNewOrder: orderKeySize, tableOrderLine: orderLineKeySize,
	tableOrdersByCustomer: orderByCustomerKeySize, tableBalance: warehouseKeySize,
}

// keyName names a row of any TPC-C database by table and primary key, as in the specification, such as district(3, 4).
func keyName(k txn.Key) string {
	if !k.Valid() || k.Table() > tableBalance {
		return k.String()
	}
	w, group := warehouseOf(k), k.Ordered() && len(k) == groupKeySize
	if size, fixed := keySizes[k.Table()]; fixed && len(k) != size && !group {
		return k.String()
	}
	of := func(table string, rest ...any) string {
		s := fmt.Sprintf("%s(%d", table, w)
		for _, r := range rest {
			s += fmt.Sprintf(", %v", r)
		}
		return s + ")"
	}
	if group {
		table := map[txn.Table]string{tableOrder: "orders", tableNewOrder: "new orders", tableOrderLine: "order lines",
			tableCustomersByName: "customers by name", tableOrdersByCustomer: "orders by customer"}[k.Table()]
		return of(table, districtOf(k))
	}
	switch k.Table() {
	case tableItem:
		return fmt.Sprintf("item(%d)", uint32(k[1])<<16|uint32(k[2])<<8|uint32(k[3]))
	case tableWarehouse:
		return of("warehouse")
	case tableBalance:
		return of("balance")
	case tableDistrict:
		return of("district", districtOf(k))
	case tableCustomer:
		return of("customer", districtOf(k), customerOf(k))
	case tableStock:
		return of("stock", uint32(k[9])<<16|uint32(k[10])<<8|uint32(k[11]))
	case tableHistory:
		switch len(k) {
		case loadedHistoryKeySize:
			return of("history", districtOf(k), customerOf(k))
		case historyKeySize:
			return of("history", fmt.Sprintf("payment %x", string(k[warehouseKeySize:])))
		}
	case tableOrder:
		return of("order", districtOf(k), lastUint32(k))
	case tableNewOrder:
		return of("new order", districtOf(k), lastUint32(k))
	case tableOrderLine:
		o, number := lineOf(k)
		return of("order line", districtOf(k), o, number)
	case tableCustomersByName:
		if last, rest, ok := strings.Cut(string(k[groupKeySize:]), "\x00"); ok {
			first, _, _ := strings.Cut(rest, "\x00")
			return of("customer by name", districtOf(k), strings.TrimSuffix(last+" "+first, " "))
		}
	case tableOrdersByCustomer:
		return of("order by customer", districtOf(k), lastUint16(k[:len(k)-4]), lastUint32(k))
	}
	return k.String()
}

// Aborts are the reasons with which procedures abort.
var Aborts = []txn.Abort{abortUnusedItem, abortNoRow}
