package tpcc

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// newOrder enters an order (clause 2.4). Its footprint is exact: the numbers of the added rows depend on the district's
// row, but their groups are known in advance.
//
// The result is O_ID (4 bytes), the total amount in cents (8 bytes, clause 2.4.2.2), and a 2-byte bit mask. The mask
// has a bit for each line. The bit is set if the line's brand-generic field is "brand".
var newOrder = &txn.Procedure{
	ID:   procNewOrder,
	Name: "newOrder",
	Declare: func(args []byte, f *txn.Footprint) error {
		a := newOrderArgs(args)
		if err := a.check(); err != nil {
			return err
		}
		k := a.keys(false)
		n := a.lines()
		f.Accesses, f.Exact = slices.Grow(f.Accesses, 7+n), true
		f.Accesses = append(f.Accesses, txn.Access{Key: k.warehouse(), Mode: txn.Read}, txn.Access{Key: k.district(), Mode: txn.ReadWrite},
			txn.Access{Key: k.customer(), Mode: txn.Read})
		for i := range n {
			if a.sameAs(i) == i {
				f.Accesses = append(f.Accesses, txn.Access{Key: k.stock(i), Mode: txn.ReadWrite})
			}
		}
		for i := range newOrderGroups {
			f.Accesses = append(f.Accesses, txn.Access{Key: k.group(i), Mode: txn.Write})
		}
		return nil
	},
	Run: runNewOrder,
}

// newOrderArgs contains, with sizes in bytes: W_ID 4, D_ID 1, C_ID 2, O_ENTRY_D 8, the number of lines 1. For each
// line, it contains OL_I_ID 3, OL_SUPPLY_W_ID 4, OL_QUANTITY 1.
type newOrderArgs []byte

const (
	newOrderHead = 16
	lineArgs     = 8
)

func (a newOrderArgs) warehouse() uint32 { return be.Uint32(a) }
func (a newOrderArgs) district() uint8   { return a[4] }
func (a newOrderArgs) customer() uint16  { return be.Uint16(a[5:]) }
func (a newOrderArgs) date() uint64      { return be.Uint64(a[7:]) }
func (a newOrderArgs) lines() int        { return int(a[15]) }
func (a newOrderArgs) line(i int) []byte { return a[newOrderHead+lineArgs*i:][:lineArgs] }
func (a newOrderArgs) item(i int) uint32 {
	l := a.line(i)
	return uint32(l[0])<<16 | uint32(l[1])<<8 | uint32(l[2])
}
func (a newOrderArgs) supplier(i int) uint32 { return be.Uint32(a.line(i)[3:]) }
func (a newOrderArgs) quantity(i int) int    { return int(a.line(i)[7]) }

func appendNewOrder(b []byte, w uint32, d uint8, c uint16, date uint64, lines int) []byte {
	b = be.AppendUint16(append(be.AppendUint32(b, w), d), c)
	return append(be.AppendUint64(b, date), byte(lines))
}

func appendLine(b []byte, item, supplier uint32, quantity int) []byte {
	return append(be.AppendUint32(appendItem(b, item), supplier), byte(quantity))
}

func (a newOrderArgs) check() error {
	if len(a) < newOrderHead {
		return fmt.Errorf("the arguments have %d bytes, not at least %d", len(a), newOrderHead)
	}
	n := a.lines()
	if n < 1 || n > maxOrderLines {
		return fmt.Errorf("the order has %d lines, not 1 to %d", n, maxOrderLines)
	}
	if err := txn.CheckLen(a, newOrderHead+lineArgs*n); err != nil {
		return err
	}
	if err := checkPlace(a.warehouse(), a.district()); err != nil {
		return err
	}
	for i := range n {
		if a.supplier(i) == 0 {
			return fmt.Errorf("line %d is supplied by warehouse 0; they count from 1", i+1)
		}
	}
	return nil
}

// sameAs returns the first line with the same stock row as line i. An item may occur twice in an order (clause
// 2.4.1.5).
func (a newOrderArgs) sameAs(i int) int {
	stock := string(a.line(i)[:7])
	for j := range i {
		if string(a.line(j)[:7]) == stock {
			return j
		}
	}
	return i
}

// newOrderKeys contains, in one string, the keys that are known before a new order runs.
type newOrderKeys txn.Key

// newOrderTables are the tables to whose groups a new order adds rows.
var newOrderTables = [...]txn.Table{tableOrder, tableNewOrder, tableOrderLine, tableOrdersByCustomer}

const (
	newOrderGroups     = len(newOrderTables)
	newOrderGroupsAt   = warehouseKeySize + districtKeySize + customerKeySize
	newOrderStockAt    = newOrderGroupsAt + newOrderGroups*groupKeySize
	newOrderMaxKeys    = newOrderStockAt + maxOrderLines*(stockKeySize+itemKeySize)
	newOrderMaxNewKeys = 2*orderKeySize + orderByCustomerKeySize + maxOrderLines*orderLineKeySize
)

// keys returns the keys. It includes item keys only if withItems is set, because footprints omit rows that every node
// stores.
func (a newOrderArgs) keys(withItems bool) newOrderKeys {
	var room [newOrderMaxKeys]byte
	w, d, n := a.warehouse(), a.district(), a.lines()
	b := appendWarehouseKey(room[:0], w)
	b = appendDistrictKey(b, w, d)
	b = appendCustomerKey(b, w, d, a.customer())
	for _, table := range newOrderTables {
		b = appendGroupKey(b, table, w, d)
	}
	for i := range n {
		b = appendStockKey(b, a.supplier(i), a.item(i))
	}
	if withItems {
		for i := range n {
			b = appendItemKey(b, a.item(i))
		}
	}
	return newOrderKeys(b)
}

func (k newOrderKeys) cut(at, size int) txn.Key { return txn.Key(k[at : at+size]) }
func (k newOrderKeys) warehouse() txn.Key       { return k.cut(0, warehouseKeySize) }
func (k newOrderKeys) district() txn.Key        { return k.cut(warehouseKeySize, districtKeySize) }
func (k newOrderKeys) customer() txn.Key {
	return k.cut(warehouseKeySize+districtKeySize, customerKeySize)
}
func (k newOrderKeys) group(i int) txn.Key {
	return k.cut(newOrderGroupsAt+i*groupKeySize, groupKeySize)
}
func (k newOrderKeys) stock(i int) txn.Key {
	return k.cut(newOrderStockAt+i*stockKeySize, stockKeySize)
}
func (k newOrderKeys) item(i, lines int) txn.Key {
	return k.cut(newOrderStockAt+lines*stockKeySize+i*itemKeySize, itemKeySize)
}

func runNewOrder(c txn.Ctx, args []byte) ([]byte, error) {
	a := newOrderArgs(args)
	w, d, n := a.warehouse(), a.district(), a.lines()
	k := a.keys(true)
	v, err := get(c, k.warehouse(), warehouseHead)
	if err != nil {
		return nil, err
	}
	tax := warehouseRow(v).tax()
	if v, err = get(c, k.district(), districtHead); err != nil {
		return nil, err
	}
	district := districtRow(slices.Clone(v))
	tax += district.tax()
	o := district.nextOrder()
	// All new orders of a district conflict on this row, so their numbers are consecutive.
	district.setNextOrder(o + 1)
	c.Put(k.district(), district)
	if v, err = get(c, k.customer(), customerHead); err != nil {
		return nil, err
	}
	discount := customerRow(v).discount()

	found, err := a.read(c, k)
	if err != nil {
		return nil, err
	}
	// The order and its lines share one allocation: Delivery replaces all of them together.
	rows := make([]byte, 0, orderSize+n*orderLineSize)
	unused := false
	var sum int64
	var brand uint16
	rows = appendOrder(rows, a.date(), a.customer(), 0, n)
	for i := range n {
		supplier, quantity := a.supplier(i), a.quantity(i)
		if supplier != w {
			orderRow(rows).setRemote()
		}
		item := itemRow(found.items[i])
		if item == nil {
			// An unused item number rolls the transaction back, but not before the remainder of its profile has been executed
			// (clause 2.4.2.3).
			unused = true
			continue
		}
		stock := found.stock[found.same[i]]
		stock.take(quantity, supplier != w)
		amount := int64(quantity) * item.price()
		sum += amount
		if isOriginal(item.data()) && isOriginal(stock.data()) {
			brand |= 1 << i
		}
		rows = appendOrderLine(rows, 0, amount, a.item(i), supplier, uint8(quantity), stock.distInfo(d))
	}
	for i := range n {
		if s := found.stock[i]; s != nil {
			c.Put(k.stock(i), s)
		}
	}
	a.insert(c, o, rows)
	if unused {
		return nil, abortUnusedItem
	}
	total := sum * (10_000 - discount) * (10_000 + tax) / 1e8
	return be.AppendUint16(be.AppendUint64(be.AppendUint32(make([]byte, 0, 14), o), uint64(total)), brand), nil
}

// newOrderRows are the rows that an order's lines read: an item per line, and one stock row for all lines that use it.
type newOrderRows struct {
	items [maxOrderLines][]byte
	stock [maxOrderLines]stockRow // clones
	same  [maxOrderLines]int      // index of the line whose stock row each line uses
}

// read reads all items with one GetAll, and all stock rows with another.
func (a newOrderArgs) read(c txn.Ctx, k newOrderKeys) (r newOrderRows, err error) {
	n := a.lines()
	keys := make([]txn.Key, 0, n)
	for i := range n {
		keys = append(keys, k.item(i, n))
	}
	values, err := c.GetAll(keys)
	if err != nil {
		return r, err
	}
	copy(r.items[:], values)
	keys = keys[:0]
	for i := range n {
		r.same[i] = a.sameAs(i)
		if r.items[i] != nil && r.same[i] == i {
			if len(r.items[i]) < itemHead {
				return r, abortNoRow
			}
			keys = append(keys, k.stock(i))
		}
	}
	if values, err = c.GetAll(keys); err != nil {
		return r, err
	}
	for i := range n {
		if r.items[i] != nil && r.same[i] == i {
			if len(values[0]) < stockHead {
				return r, abortNoRow
			}
			r.stock[i], values = slices.Clone(values[0]), values[1:]
		}
	}
	return r, nil
}

// insert adds the rows of order o and its lines.
func (a newOrderArgs) insert(c txn.Ctx, o uint32, rows []byte) {
	var room [newOrderMaxNewKeys]byte
	w, d, lines := a.warehouse(), a.district(), (len(rows)-orderSize)/orderLineSize
	b := appendOrderKey(room[:0], tableOrder, w, d, o)
	b = appendOrderKey(b, tableNewOrder, w, d, o)
	for number := 1; number <= lines; number++ {
		b = appendOrderLineKey(b, w, d, o, number)
	}
	b = appendOrderByCustomerKey(b, w, d, a.customer(), o)
	keys := txn.Key(b)
	next := func(size int) (k txn.Key) {
		k, keys = keys[:size], keys[size:]
		return k
	}
	c.Put(next(orderKeySize), rows[:orderSize:orderSize])
	c.Put(next(orderKeySize), nil)
	for rows = rows[orderSize:]; len(rows) > 0; rows = rows[orderLineSize:] {
		c.Put(next(orderLineKeySize), rows[:orderLineSize:orderLineSize])
	}
	c.Put(next(orderByCustomerKeySize), nil)
}

// checkPlace returns an error if a warehouse or its district is invalid.
func checkPlace(w uint32, d uint8) error {
	if w == 0 {
		return fmt.Errorf("the warehouse is 0; they count from 1")
	}
	if d < 1 || d > districtsPerWarehouse {
		return fmt.Errorf("the district is %d, not 1 to %d", d, districtsPerWarehouse)
	}
	return nil
}
