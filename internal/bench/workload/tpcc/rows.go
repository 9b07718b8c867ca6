package tpcc

import (
	"bytes"

	"github.com/geobench/geobench/internal/base/txn"
)

// Rows contain the specification's columns (clause 1.3), except for columns in their keys. The fixed-size columns come
// first, at fixed offsets; the comments below give their sizes in bytes. Texts follow, each preceded by its length in
// one byte; a final text without a length extends to the end.
//
// Money is in cents. Taxes and discounts are in 1/10,000. Dates are microseconds since 1970, with 0 for null. Rows are
// shared, so a procedure clones a row before changing it.

// Sizes of the fixed-size columns at the start of each row, in bytes.
const (
	warehouseHead = 10
	districtHead  = 14
	customerHead  = 46
	historyHead   = 24
	orderSize     = 13
	orderLineSize = 45
	itemHead      = 8
	stockHead     = 14 + districtsPerWarehouse*distInfoSize
)

// maxHistory is the maximum size in bytes of a row of HISTORY.
const maxHistory = historyHead + 24

// distInfoSize is the size of S_DIST_xx and OL_DIST_INFO, in bytes.
const distInfoSize = 24

// get returns a row of at least head bytes, the size of its fixed-size columns. It aborts with abortNoRow if the row is
// missing or shorter.
func get(c txn.Ctx, k txn.Key, head int) ([]byte, error) {
	return txn.GetRow(c, k, head, abortNoRow)
}

// text returns the n-th text of a row whose texts start at offset head, or nil if the row has no such text.
func text(row []byte, head, n int) []byte {
	for {
		if len(row) <= head || len(row) < head+1+int(row[head]) {
			return nil
		}
		size := int(row[head])
		if n == 0 {
			return row[head+1 : head+1+size]
		}
		head += 1 + size
		n--
	}
}

func appendText(b []byte, text []byte) []byte { return append(append(b, byte(len(text))), text...) }

// warehouseRow contains W_YTD 8, W_TAX 2; W_NAME, W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP.
type warehouseRow []byte

func (r warehouseRow) ytd() int64     { return int64(be.Uint64(r)) }
func (r warehouseRow) setYTD(v int64) { be.PutUint64(r, uint64(v)) }
func (r warehouseRow) tax() int64     { return int64(be.Uint16(r[8:])) }
func (r warehouseRow) name() []byte   { return text(r, warehouseHead, 0) }

// districtRow contains D_YTD 8, D_NEXT_O_ID 4, D_TAX 2; D_NAME, D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP.
type districtRow []byte

func (r districtRow) ytd() int64            { return int64(be.Uint64(r)) }
func (r districtRow) setYTD(v int64)        { be.PutUint64(r, uint64(v)) }
func (r districtRow) nextOrder() uint32     { return be.Uint32(r[8:]) }
func (r districtRow) setNextOrder(o uint32) { be.PutUint32(r[8:], o) }
func (r districtRow) tax() int64            { return int64(be.Uint16(r[12:])) }
func (r districtRow) name() []byte          { return text(r, districtHead, 0) }

// customerRow contains C_BALANCE 8, C_YTD_PAYMENT 8, C_PAYMENT_CNT 4, C_DELIVERY_CNT 4, C_CREDIT_LIM 8, C_SINCE 8,
// C_DISCOUNT 2, C_CREDIT 2, C_MIDDLE 2. The texts are C_FIRST, C_LAST, C_STREET_1, C_STREET_2, C_CITY, C_STATE, C_ZIP,
// C_PHONE; C_DATA.
type customerRow []byte

// customerTexts is the number of a customer's texts before C_DATA.
const customerTexts = 8

// maxData is the maximum size of C_DATA, in bytes.
const maxData = 500

func (r customerRow) balance() int64         { return int64(be.Uint64(r)) }
func (r customerRow) setBalance(v int64)     { be.PutUint64(r, uint64(v)) }
func (r customerRow) ytdPayment() int64      { return int64(be.Uint64(r[8:])) }
func (r customerRow) setYTDPayment(v int64)  { be.PutUint64(r[8:], uint64(v)) }
func (r customerRow) payments() uint32       { return be.Uint32(r[16:]) }
func (r customerRow) setPayments(n uint32)   { be.PutUint32(r[16:], n) }
func (r customerRow) deliveries() uint32     { return be.Uint32(r[20:]) }
func (r customerRow) setDeliveries(n uint32) { be.PutUint32(r[20:], n) }
func (r customerRow) discount() int64        { return int64(be.Uint16(r[40:])) }
func (r customerRow) badCredit() bool        { return string(r[42:44]) == badCredit }
func (r customerRow) first() []byte          { return text(r, customerHead, 0) }
func (r customerRow) last() []byte           { return text(r, customerHead, 1) }
func (r customerRow) dataAt() (at int) {
	at = customerHead
	for range customerTexts {
		if at >= len(r) {
			return len(r)
		}
		at += 1 + int(r[at])
	}
	return min(at, len(r))
}

const (
	goodCredit = "GC"
	badCredit  = "BC"
)

// historyRow contains H_C_W_ID 4, H_C_D_ID 1, H_D_ID 1, H_C_ID 2, H_DATE 8, H_AMOUNT 8; H_DATA. H_W_ID is in the key.
type historyRow []byte

func (r historyRow) customersWarehouse() uint32 { return be.Uint32(r) }
func (r historyRow) customersDistrict() uint8   { return r[4] }
func (r historyRow) district() uint8            { return r[5] }
func (r historyRow) customer() uint16           { return be.Uint16(r[6:]) }
func (r historyRow) amount() int64              { return int64(be.Uint64(r[16:])) }

func appendHistory(b []byte, cw uint32, cd, d uint8, c uint16, date uint64, amount int64) []byte {
	b = be.AppendUint16(append(be.AppendUint32(b, cw), cd, d), c)
	return be.AppendUint64(be.AppendUint64(b, date), uint64(amount))
}

// orderRow contains O_ENTRY_D 8, O_C_ID 2, O_CARRIER_ID 1 (0 is null), O_OL_CNT 1, O_ALL_LOCAL 1.
type orderRow []byte

func (r orderRow) entered() uint64     { return be.Uint64(r) }
func (r orderRow) customer() uint16    { return be.Uint16(r[8:]) }
func (r orderRow) carrier() uint8      { return r[10] }
func (r orderRow) setCarrier(id uint8) { r[10] = id }
func (r orderRow) lines() int          { return int(r[11]) }
func (r orderRow) setRemote()          { r[12] = 0 }

// appendOrder appends an order whose lines are all local.
func appendOrder(b []byte, entered uint64, c uint16, carrier uint8, lines int) []byte {
	return append(be.AppendUint16(be.AppendUint64(b, entered), c), carrier, byte(lines), 1)
}

// orderLineRow contains OL_DELIVERY_D 8, OL_AMOUNT 4, OL_I_ID 4, OL_SUPPLY_W_ID 4, OL_QUANTITY 1, OL_DIST_INFO 24.
type orderLineRow []byte

func (r orderLineRow) delivered() uint64        { return be.Uint64(r) }
func (r orderLineRow) setDelivered(date uint64) { be.PutUint64(r, date) }
func (r orderLineRow) amount() int64            { return int64(be.Uint32(r[8:])) }
func (r orderLineRow) item() uint32             { return be.Uint32(r[12:]) }

func appendOrderLine(b []byte, delivered uint64, amount int64, item, supplier uint32, quantity uint8, distInfo []byte) []byte {
	b = be.AppendUint32(be.AppendUint64(b, delivered), uint32(amount))
	b = append(be.AppendUint32(be.AppendUint32(b, item), supplier), quantity)
	return append(b, distInfo...)
}

// itemRow contains I_PRICE 4, I_IM_ID 4; I_NAME; I_DATA.
type itemRow []byte

func (r itemRow) price() int64 { return int64(be.Uint32(r)) }
func (r itemRow) data() []byte {
	if at := itemHead + 1 + len(text(r, itemHead, 0)); at <= len(r) {
		return r[at:]
	}
	return nil
}

// stockRow contains S_YTD 4, S_ORDER_CNT 4, S_REMOTE_CNT 4, S_QUANTITY 2, S_DIST_01 to S_DIST_10 24 each; S_DATA.
type stockRow []byte

func (r stockRow) ytd() uint32   { return be.Uint32(r) }
func (r stockRow) quantity() int { return int(int16(be.Uint16(r[12:]))) }
func (r stockRow) data() []byte  { return r[stockHead:] }
func (r stockRow) distInfo(d uint8) []byte {
	at := 14 + distInfoSize*(int(d)-1)
	return r[at : at+distInfoSize]
}

// take removes a quantity of the item from stock for an order line (clause 2.4.2.2).
func (r stockRow) take(quantity int, remote bool) {
	left := r.quantity() - quantity
	if left < 10 {
		left += 91
	}
	be.PutUint16(r[12:], uint16(left))
	add(r, uint32(quantity))
	add(r[4:], 1)
	if remote {
		add(r[8:], 1)
	}
}

func add(b []byte, n uint32) { be.PutUint32(b, be.Uint32(b)+n) }

// original is the mark in the data of some items and of some stock rows (clause 4.3.3.1).
var original = []byte("ORIGINAL")

func isOriginal(data []byte) bool { return bytes.Contains(data, original) }
