package tpcc

import (
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// delivery delivers the oldest new order of each district of a warehouse (clause 2.7) in a single transaction, as
// clause 2.7.4.2 allows. It finds these orders in NEW-ORDER. The footprint can name only the first rows of that table.
//
// The result is the O_ID delivered in each district, 4 bytes each. The O_ID is 0 for a district without a new order,
// which clause 2.7.4.2 skips.
var delivery = &txn.Procedure{
	ID:      procDelivery,
	Name:    "delivery",
	Deletes: txn.TablesOf(tableNewOrder),
	Declare: func(args []byte, f *txn.Footprint) error {
		a := deliveryArgs(args)
		if err := a.check(); err != nil {
			return err
		}
		f.Accesses, f.Ranges = slices.Grow(f.Accesses, districtsPerWarehouse), slices.Grow(f.Ranges, districtsPerWarehouse)
		for d := uint8(1); d <= districtsPerWarehouse; d++ {
			r := a.oldest(d)
			f.Accesses = append(f.Accesses, txn.Access{Key: r.From, Mode: txn.ReadWrite})
			f.Ranges = append(f.Ranges, r)
		}
		return nil
	},
	Run: runDelivery,
}

// deliveryArgs contains, with sizes in bytes: W_ID 4, O_CARRIER_ID 1, OL_DELIVERY_D 8.
type deliveryArgs []byte

const deliveryArgsSize = 13

func (a deliveryArgs) warehouse() uint32 { return be.Uint32(a) }
func (a deliveryArgs) carrier() uint8    { return a[4] }
func (a deliveryArgs) date() uint64      { return be.Uint64(a[5:]) }

func appendDelivery(b []byte, w uint32, carrier uint8, date uint64) []byte {
	return be.AppendUint64(append(be.AppendUint32(b, w), carrier), date)
}

func (a deliveryArgs) check() error {
	if err := txn.CheckLen(a, deliveryArgsSize); err != nil {
		return err
	}
	if a.carrier() == 0 {
		return fmt.Errorf("the carrier is 0, which is no carrier")
	}
	return checkPlace(a.warehouse(), 1)
}

// oldest returns the range of the oldest new order of a district.
func (a deliveryArgs) oldest(d uint8) txn.Range {
	r := txn.Prefix(txn.Key(appendGroupKey(make([]byte, 0, groupKeySize), tableNewOrder, a.warehouse(), d)))
	r.Limit = 1
	return r
}

// delivered is the delivery in one district.
type delivered struct {
	d        uint8
	o        uint32
	customer uint16
	amount   int64 // of all lines
	rows     []byte
	lines    []txn.Key
}

func runDelivery(c txn.Ctx, args []byte) ([]byte, error) {
	a := deliveryArgs(args)
	var room [districtsPerWarehouse]delivered
	orders := room[:0]
	for d := uint8(1); d <= districtsPerWarehouse; d++ {
		err := c.Scan(a.oldest(d), func(k txn.Key, _ []byte) bool {
			orders = append(orders, delivered{d: d, o: lastUint32(k)})
			// Orders sort by number, so the first order is the oldest.
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	var keyRoom [districtsPerWarehouse * 2 * orderKeySize]byte
	b := keyRoom[:0]
	for _, table := range [...]txn.Table{tableOrder, tableNewOrder} {
		for i := range orders {
			b = appendOrderKey(b, table, a.warehouse(), orders[i].d, orders[i].o)
		}
	}
	keys := cut(txn.Key(b), orderKeySize)
	if err := a.read(c, orders, keys[:len(orders)]); err != nil {
		return nil, err
	}
	if err := a.charge(c, orders); err != nil {
		return nil, err
	}
	for i := range orders {
		// The order's lines follow in the same memory. The capacity ends with the order, so that an append cannot overwrite
		// the lines.
		c.Put(keys[i], orders[i].rows[:orderSize:orderSize])
	}
	for i := range orders {
		c.Delete(keys[len(orders)+i])
	}
	for i := range orders {
		rows := orders[i].rows[orderSize:]
		for _, k := range orders[i].lines {
			c.Put(k, rows[:orderLineSize:orderLineSize])
			rows = rows[orderLineSize:]
		}
	}
	result := make([]byte, 4*districtsPerWarehouse)
	for i := range orders {
		be.PutUint32(result[4*(orders[i].d-1):], orders[i].o)
	}
	return result, nil
}

// read reads orders with their lines, and sets the carrier of the orders and the date of the lines. It sums the amounts
// that the customers must pay. An order and its lines share one allocation, as after newOrder.
func (a deliveryArgs) read(c txn.Ctx, orders []delivered, keys []txn.Key) error {
	values, err := c.GetAll(keys)
	if err != nil {
		return err
	}
	for i := range orders {
		if len(values[i]) < orderSize {
			return abortNoRow
		}
		x, old := &orders[i], orderRow(values[i])
		x.customer = old.customer()
		x.rows = append(make([]byte, 0, orderSize+old.lines()*orderLineSize), old[:orderSize]...)
		x.lines = make([]txn.Key, 0, old.lines())
		orderRow(x.rows).setCarrier(a.carrier())
		order := appendOrderKey(make([]byte, 0, orderKeySize), tableOrderLine, a.warehouse(), x.d, x.o)
		err := scanLines(c, txn.Key(order), func(k txn.Key, line orderLineRow) {
			x.amount += line.amount()
			x.lines = append(x.lines, k)
			x.rows = append(x.rows, line[:orderLineSize]...)
			orderLineRow(x.rows[len(x.rows)-orderLineSize:]).setDelivered(a.date())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// charge adds the delivered amounts to the customers' balances.
func (a deliveryArgs) charge(c txn.Ctx, orders []delivered) error {
	var room [districtsPerWarehouse * customerKeySize]byte
	b := room[:0]
	for i := range orders {
		b = appendCustomerKey(b, a.warehouse(), orders[i].d, orders[i].customer)
	}
	keys := cut(txn.Key(b), customerKeySize)
	values, err := c.GetAll(keys)
	if err != nil {
		return err
	}
	for i := range orders {
		if len(values[i]) < customerHead {
			return abortNoRow
		}
		customer := customerRow(slices.Clone(values[i]))
		customer.setBalance(customer.balance() + orders[i].amount)
		customer.setDeliveries(customer.deliveries() + 1)
		c.Put(keys[i], customer)
	}
	return nil
}

// cut splits all into keys of the given size, which share its memory.
func cut(all txn.Key, size int) []txn.Key {
	keys := make([]txn.Key, len(all)/size)
	for i := range keys {
		keys[i] = all[i*size : (i+1)*size]
	}
	return keys
}
