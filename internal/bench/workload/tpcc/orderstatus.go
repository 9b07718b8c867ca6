package tpcc

import (
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// orderStatus reads a customer's balance and last order (clause 2.6). Only the index of orders by customer identifies
// the last order, so the footprint is a hint even if the customer's number is given. Ranges over all orders and lines
// of the district would make the footprint exact. But an engine that fetches the whole footprint would then fetch
// 30,000 lines instead of ten.
//
// The result contains, with sizes in bytes: C_ID 2, C_BALANCE 8, O_ID 4, O_ENTRY_D 8, O_CARRIER_ID 1. For each line, it
// contains OL_DELIVERY_D 8 and OL_AMOUNT 4.
var orderStatus = &txn.Procedure{
	ID:   procOrderStatus,
	Name: "orderStatus", ReadOnly: true,
	Declare: func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, customerArgs); err != nil {
			return err
		}
		by := readSelector(args)
		if err := by.check(); err != nil {
			return err
		}
		if by.name {
			f.AddScan(by.namesakes())
			return nil
		}
		f.Add(by.key(), txn.Read)
		f.AddScan(by.lastOrder())
		return nil
	},
	Run: runOrderStatus,
}

// key returns the key of a customer that is selected by number.
func (s *selector) key() txn.Key {
	return txn.Key(appendCustomerKey(make([]byte, 0, customerKeySize), s.w, s.d, s.number))
}

// lastOrder returns the index range of the last order of a customer that is selected by number.
func (s *selector) lastOrder() txn.Range {
	r := txn.Prefix(txn.Key(appendCustomersOrdersKey(make([]byte, 0, orderByCustomerKeySize), s.w, s.d, s.number)))
	r.Reverse, r.Limit = true, 1
	return r
}

func runOrderStatus(c txn.Ctx, args []byte) (result []byte, err error) {
	by := readSelector(args)
	if by.name {
		if by.number, err = by.find(c); err != nil {
			return nil, err
		}
	}
	v, err := get(c, by.key(), customerHead)
	if err != nil {
		return nil, err
	}
	result = be.AppendUint16(make([]byte, 0, 23+12*maxOrderLines), by.number)
	result = be.AppendUint64(result, uint64(customerRow(v).balance()))
	o := uint32(0)
	err = c.Scan(by.lastOrder(), func(k txn.Key, _ []byte) bool {
		o = lastUint32(k)
		return false
	})
	if err != nil {
		return nil, err
	}
	keys := txn.Key(appendOrderKey(appendOrderKey(make([]byte, 0, 2*orderKeySize), tableOrder, by.w, by.d, o), tableOrderLine, by.w, by.d, o))
	if v, err = get(c, keys[:orderKeySize], orderSize); err != nil {
		return nil, err
	}
	order := orderRow(v)
	result = append(be.AppendUint64(be.AppendUint32(result, o), order.entered()), order.carrier())
	err = scanLines(c, keys[orderKeySize:], func(_ txn.Key, line orderLineRow) {
		result = be.AppendUint32(be.AppendUint64(result, line.delivered()), uint32(line.amount()))
	})
	return slices.Clip(result), err
}

// scanLines calls f for the lines of an order, whose keys start with order.
func scanLines(c txn.Ctx, order txn.Key, f func(k txn.Key, line orderLineRow)) (err error) {
	short := false
	err = c.Scan(txn.Prefix(order), func(k txn.Key, v []byte) bool {
		if len(v) < orderLineSize {
			short = true
			return false
		}
		f(k, v)
		return true
	})
	if err == nil && short {
		err = abortNoRow
	}
	return err
}
