package rmw

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// Procedure numbers. They are part of messages, so they never change.
const (
	procRMW       txn.ProcID = 16
	procDependent txn.ProcID = 17
)

const table txn.Table = 0

// abortNoRecord does not occur in a loaded database that works correctly.
const abortNoRecord = txn.Abort("no-record")

// counterSize is the size of the big-endian counter at the start of a value, which counts the writes of its record. The
// remaining bytes are payload.
const counterSize = 8

// maxRecords is the maximum number of records that a transaction may name.
const maxRecords = 1000

// keySize is the length of txn.IntKey.
const keySize = 9

// Procedures returns the stored procedures.
func Procedures() []*txn.Procedure { return []*txn.Procedure{readModifyWrite, dependent} }

// The arguments:
//
//	records, writes, payload size   2 bytes each, big-endian
//	ids                             8 bytes for each record, big-endian; the first `writes` of them are written
//	payloads                        one for each write
const headSize = 6

type args []byte

func (a args) records() int     { return int(binary.BigEndian.Uint16(a)) }
func (a args) writes() int      { return int(binary.BigEndian.Uint16(a[2:])) }
func (a args) payloadSize() int { return int(binary.BigEndian.Uint16(a[4:])) }
func (a args) payload(i int) []byte {
	n := a.payloadSize()
	from := headSize + 8*a.records() + i*n
	return a[from : from+n]
}

func argsSize(records, writes, payload int) int { return headSize + 8*records + writes*payload }

func (a args) check() error {
	if len(a) < headSize {
		return fmt.Errorf("the arguments have %d bytes, not at least %d", len(a), headSize)
	}
	if a.writes() > a.records() {
		return fmt.Errorf("%d of %d records are written", a.writes(), a.records())
	}
	if a.records() == 0 || a.records() > maxRecords {
		return fmt.Errorf("%d records are named, not 1 to %d", a.records(), maxRecords)
	}
	if err := txn.CheckLen(a, argsSize(a.records(), a.writes(), a.payloadSize())); err != nil {
		return err
	}
	if id, ok := a.duplicate(); ok {
		return fmt.Errorf("record %d is named twice", id)
	}
	return nil
}

// duplicate returns an ID that occurs twice. It returns false if all IDs are different.
func (a args) duplicate() (uint64, bool) {
	ids := a[headSize : headSize+8*a.records()]
	if a.records() > 32 {
		seen := make(map[uint64]struct{}, a.records())
		for i := 0; i < len(ids); i += 8 {
			seen[binary.BigEndian.Uint64(ids[i:])] = struct{}{}
			if len(seen) != i/8+1 {
				return binary.BigEndian.Uint64(ids[i:]), true
			}
		}
		return 0, false
	}
	for i := 8; i < len(ids); i += 8 {
		id := binary.BigEndian.Uint64(ids[i:])
		for j := 0; j < i; j += 8 {
			if binary.BigEndian.Uint64(ids[j:]) == id {
				return id, true
			}
		}
	}
	return 0, false
}

// keys returns all keys in one string, keySize bytes each. This saves allocations, because every node calls keys for
// every transaction.
func (a args) keys() txn.Key {
	n := a.records()
	var room [16 * keySize]byte
	b := room[:0]
	for i := range n {
		b = append(b, byte(table))
		b = append(b, a[headSize+8*i:headSize+8*i+8]...)
	}
	return txn.Key(b)
}

// readModifyWrite reads all records. In each written record it increments the counter and replaces the payload.
var readModifyWrite = &txn.Procedure{
	ID:   procRMW,
	Name: "rmw",
	Declare: func(b []byte, f *txn.Footprint) error {
		a := args(b)
		if err := a.check(); err != nil {
			return err
		}
		n := a.records()
		f.Accesses, f.Exact = slices.Grow(f.Accesses, n), true
		keys := a.keys()
		for i := range n {
			f.Accesses = append(f.Accesses, txn.Access{Key: keys[i*keySize : (i+1)*keySize], Mode: a.mode(i)})
		}
		return nil
	},
	Run: func(c txn.Ctx, b []byte) ([]byte, error) { return nil, args(b).run(c, args(b).keys(), nil) },
}

// dependent is readModifyWrite with a last record that depends on the first record. The last two records in the
// arguments are candidates. The transaction accesses the second candidate if the counter of the first record is odd,
// and else the first candidate. The choice is unknown until the first record has been read. Without the unused
// candidate, there must be at least two records.
var dependent = &txn.Procedure{
	ID:   procDependent,
	Name: "dependent",
	Declare: func(b []byte, f *txn.Footprint) error {
		a := args(b)
		if err := a.check(); err != nil {
			return err
		}
		n := a.records() - 1
		if n < 2 || a.writes() > n {
			return fmt.Errorf("%d records of which %d are written cannot have one that depends on another", n, a.writes())
		}
		f.Accesses = slices.Grow(f.Accesses, n-1)
		keys := a.keys()
		for i := range n - 1 {
			f.Accesses = append(f.Accesses, txn.Access{Key: keys[i*keySize : (i+1)*keySize], Mode: a.mode(i)})
		}
		return nil
	},
	Run: func(c txn.Ctx, b []byte) ([]byte, error) {
		a := args(b)
		keys := a.keys()
		last := (a.records() - 1) * keySize
		return nil, a.run(c, keys[:last], func(first uint64) txn.Key {
			from := last - keySize*int(1-first%2)
			return keys[from : from+keySize]
		})
	},
}

// mode returns the access mode of record i.
func (a args) mode(i int) txn.Mode {
	if i < a.writes() {
		return txn.ReadWrite
	}
	return txn.Read
}

// run reads the records of keys, and writes the records whose mode includes writing. If choose is not nil, it returns
// the last key, given the counter of the first record.
func (a args) run(c txn.Ctx, keys txn.Key, choose func(first uint64) txn.Key) error {
	n, writes, payload := len(keys)/keySize, a.writes(), a.payloadSize()
	// The new values share one allocation instead of one per write. The whole allocation stays reachable as long as any of
	// its values, which costs at most a few times the memory of the live values.
	size := counterSize + payload
	values := make([]byte, writes*size)
	first := uint64(0)
	for i := range n {
		k := keys[i*keySize : (i+1)*keySize]
		if i == n-1 && choose != nil {
			k = choose(first)
		}
		old, err := txn.GetRow(c, k, counterSize, abortNoRecord)
		if err != nil {
			return err
		}
		counter := binary.BigEndian.Uint64(old)
		if i == 0 {
			first = counter
		}
		if i >= writes {
			continue
		}
		v := values[i*size : (i+1)*size : (i+1)*size]
		binary.BigEndian.PutUint64(v, counter+1)
		copy(v[counterSize:], a.payload(i))
		c.Put(k, v)
	}
	return nil
}

// Aborts are the reasons with which procedures abort.
var Aborts = []txn.Abort{abortNoRecord}
