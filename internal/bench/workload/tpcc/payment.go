package tpcc

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/geobench/geobench/internal/base/txn"
)

// payment books a customer's payment at its warehouse and district (clause 2.5). The customer may belong to a warehouse
// other than the payment's. The footprint is exact if the customer's number is given. With a last name, only the index
// identifies the customer.
//
// The result is C_ID (2 bytes) and the new C_BALANCE (8 bytes).
var payment = &txn.Procedure{
	ID:   procPayment,
	Name: "payment",
	Declare: func(args []byte, f *txn.Footprint) error {
		a := paymentArgs(args)
		if err := a.check(); err != nil {
			return err
		}
		k := a.keys()
		by := a.customer()
		f.Accesses, f.Exact = slices.Grow(f.Accesses, 4), !by.name
		f.Accesses = append(f.Accesses, txn.Access{Key: k.warehouse(), Mode: txn.ReadWrite}, txn.Access{Key: k.district(), Mode: txn.ReadWrite})
		if by.name {
			f.AddScan(by.namesakes())
		} else {
			f.Accesses = append(f.Accesses, txn.Access{Key: k.customer(), Mode: txn.ReadWrite})
		}
		f.Accesses = append(f.Accesses, txn.Access{Key: k.history(), Mode: txn.Write})
		return nil
	},
	Run: runPayment,
}

// paymentArgs contains, with sizes in bytes: W_ID 4, D_ID 1, customer 8, H_DATE 8, number of the history row 8,
// H_AMOUNT 4.
type paymentArgs []byte

const paymentArgsSize = 5 + customerArgs + 20

func (a paymentArgs) warehouse() uint32  { return be.Uint32(a) }
func (a paymentArgs) district() uint8    { return a[4] }
func (a paymentArgs) customer() selector { return readSelector(a[5:]) }
func (a paymentArgs) date() uint64       { return be.Uint64(a[5+customerArgs:]) }
func (a paymentArgs) history() uint64    { return be.Uint64(a[13+customerArgs:]) }
func (a paymentArgs) amount() int64      { return int64(be.Uint32(a[21+customerArgs:])) }

func appendPayment(b []byte, w uint32, d uint8, s selector, date, history uint64, amount int32) []byte {
	b = s.append(append(be.AppendUint32(b, w), d))
	return be.AppendUint32(be.AppendUint64(be.AppendUint64(b, date), history), uint32(amount))
}

func (a paymentArgs) check() error {
	if err := txn.CheckLen(a, paymentArgsSize); err != nil {
		return err
	}
	if err := checkPlace(a.warehouse(), a.district()); err != nil {
		return err
	}
	return a.customer().check()
}

// paymentKeys contains, in one string, the keys that are known before a payment runs.
type paymentKeys txn.Key

const paymentHistoryAt = warehouseKeySize + districtKeySize

// keys returns the keys. The customer's key is valid only if the customer is selected by number.
func (a paymentArgs) keys() paymentKeys {
	var room [warehouseKeySize + districtKeySize + historyKeySize + customerKeySize]byte
	w, d, by := a.warehouse(), a.district(), a.customer()
	b := appendDistrictKey(appendWarehouseKey(room[:0], w), w, d)
	b = appendHistoryKey(b, w, a.history())
	return paymentKeys(appendCustomerKey(b, by.w, by.d, by.number))
}

func (k paymentKeys) warehouse() txn.Key { return txn.Key(k[:warehouseKeySize]) }
func (k paymentKeys) district() txn.Key  { return txn.Key(k[warehouseKeySize:paymentHistoryAt]) }
func (k paymentKeys) history() txn.Key {
	return txn.Key(k[paymentHistoryAt : paymentHistoryAt+historyKeySize])
}
func (k paymentKeys) customer() txn.Key { return txn.Key(k[paymentHistoryAt+historyKeySize:]) }

func runPayment(c txn.Ctx, args []byte) ([]byte, error) {
	a := paymentArgs(args)
	k := a.keys()
	amount, by := a.amount(), a.customer()
	v, err := get(c, k.warehouse(), warehouseHead)
	if err != nil {
		return nil, err
	}
	warehouse := warehouseRow(slices.Clone(v))
	warehouse.setYTD(warehouse.ytd() + amount)
	if v, err = get(c, k.district(), districtHead); err != nil {
		return nil, err
	}
	district := districtRow(slices.Clone(v))
	district.setYTD(district.ytd() + amount)
	customerKey := k.customer()
	if by.name {
		if by.number, err = by.find(c); err != nil {
			return nil, err
		}
		customerKey = by.key()
	}
	if v, err = get(c, customerKey, customerHead); err != nil {
		return nil, err
	}
	// The value belongs to the database and may be shared, so change a copy.
	customer := customerRow(slices.Clone(v))
	customer.setBalance(customer.balance() - amount)
	customer.setYTDPayment(customer.ytdPayment() + amount)
	customer.setPayments(customer.payments() + 1)
	// Only customers with bad credit keep notes about their payments (clause 2.5.2.2).
	if customer.badCredit() {
		customer = customer.remember(&by, a)
	}
	c.Put(k.warehouse(), warehouse)
	c.Put(k.district(), district)
	c.Put(customerKey, customer)

	history := appendHistory(make([]byte, 0, maxHistory), by.w, by.d, a.district(), by.number, a.date(), amount)
	history = append(append(append(history, warehouse.name()...), "    "...), district.name()...)
	c.Put(k.history(), history)
	return be.AppendUint64(be.AppendUint16(make([]byte, 0, 10), by.number), uint64(customer.balance())), nil
}

// remember returns r with the payment inserted at the start of C_DATA. It truncates C_DATA to 500 characters (clause
// 2.5.2.2).
func (r customerRow) remember(by *selector, a paymentArgs) customerRow {
	at := r.dataAt()
	b := a.appendNote(append(make([]byte, 0, at+maxData), r[:at]...), by)
	return append(b, r[at:][:min(len(r)-at, at+maxData-len(b))]...)
}

// appendNote appends the note about the payment that is stored in C_DATA.
func (a paymentArgs) appendNote(b []byte, by *selector) []byte {
	for _, n := range [...]uint64{uint64(by.number), uint64(by.d), uint64(by.w), uint64(a.district()), uint64(a.warehouse()), uint64(a.amount())} {
		b = append(strconv.AppendUint(b, n, 10), ' ')
	}
	return b
}

// selector identifies the customer of a transaction by number or by last name (clause 2.5.1.2).
type selector struct {
	w      uint32
	d      uint8
	name   bool
	number uint16 // of the customer or of the last name
}

// customerArgs is the size of a selector in arguments. A selector contains, with sizes in bytes: C_W_ID 4, C_D_ID 1, a
// flag for selection by name 1, the number 2.
const customerArgs = 8

func readSelector(b []byte) selector {
	return selector{w: be.Uint32(b), d: b[4], name: b[5] == 1, number: be.Uint16(b[6:])}
}

func (s *selector) append(b []byte) []byte {
	name := byte(0)
	if s.name {
		name = 1
	}
	return be.AppendUint16(append(be.AppendUint32(b, s.w), s.d, name), s.number)
}

func (s selector) check() error {
	if s.name && s.number >= lastNames {
		return fmt.Errorf("last name %d is not one of 0 to %d", s.number, lastNames-1)
	}
	return checkPlace(s.w, s.d)
}

// namesakes returns the range of index entries of the customers with the last name.
func (s *selector) namesakes() txn.Range {
	return txn.Prefix(txn.Key(appendNameKey(make([]byte, 0, groupKeySize+16), s.w, s.d, s.number)))
}

// find returns the number of the customer with the last name. Of n such customers, sorted by first name, it selects the
// customer at position n/2, rounded up (clause 2.5.2.2).
func (s *selector) find(c txn.Ctx) (uint16, error) {
	var room [32]uint16
	found := room[:0]
	err := c.Scan(s.namesakes(), func(k txn.Key, _ []byte) bool {
		found = append(found, lastUint16(k))
		return true
	})
	if err != nil {
		return 0, err
	}
	return middle(found)
}

func middle(found []uint16) (uint16, error) {
	if len(found) == 0 {
		return 0, abortNoRow
	}
	return found[(len(found)+1)/2-1], nil
}
