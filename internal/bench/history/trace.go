package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"unsafe"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
)

// Traced is the offset from the number of a procedure to the number of its traced form.
const Traced txn.ProcID = 1 << 12

// A traced procedure stores the version of a row after its value, as a stamp. The version thus travels with the value
// through any engine, including replication and remote reads:
//
//	value | nth write, 1 byte | kind, 1 byte | writer, 8 bytes little-endian | checksum of key, value and these, 4 bytes
//
// A value without a valid stamp is the initial version. The checksum also detects a value that an engine stored under
// the wrong key. When a traced procedure deletes a row, it leaves a stamp, so that the version of a missing row is
// known.
const (
	stampSize  = 14
	stampValue = 1
	stampGone  = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func stampSum(k txn.Key, stamped []byte) uint32 {
	// A conversion to bytes would allocate, and nothing modifies these bytes.
	sum := crc32.Update(0, castagnoli, unsafe.Slice(unsafe.StringData(string(k)), len(k)))
	return crc32.Update(sum, castagnoli, stamped)
}

func appendStamp(k txn.Key, value []byte, writer txn.ID, nth, kind uint8) []byte {
	b := make([]byte, 0, len(value)+stampSize)
	b = append(append(b, value...), nth, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(writer))
	return binary.LittleEndian.AppendUint32(b, stampSum(k, b))
}

// splitStamp splits a stored value into value and stamp. It returns a value without a stamp unchanged, as the initial
// version.
func splitStamp(k txn.Key, stored []byte) (value []byte, writer txn.ID, nth uint8, gone bool) {
	n := len(stored) - stampSize
	if n < 0 {
		return stored, Initial, 0, false
	}
	body := stored[:len(stored)-4]
	if kind := stored[n+1]; kind != stampValue && kind != stampGone || binary.LittleEndian.Uint32(stored[len(body):]) != stampSum(k, body) {
		return stored, Initial, 0, false
	}
	return stored[:n:n], txn.ID(binary.LittleEndian.Uint64(stored[n+2:])), stored[n], stored[n+1] == stampGone
}

// stamps is a Ctx that stores versions in values.
type stamps struct {
	txn.Ctx
	id  txn.ID
	rec *Recorder
	// deletes are the tables that may contain deleted rows.
	deletes txn.Tables

	// key, writer and nth describe the row of the last Get, whose version the recorder looks up next.
	key    txn.Key
	writer txn.ID
	nth    uint8
}

func (s *stamps) Get(k txn.Key) ([]byte, error) {
	stored, err := s.Ctx.Get(k)
	if err != nil {
		s.key, s.writer, s.nth = k, Initial, 0
		return nil, err
	}
	value, gone := s.split(k, stored)
	if gone {
		return nil, txn.ErrNotFound
	}
	return value, nil
}

// split splits a stored value and stores its version in s.
func (s *stamps) split(k txn.Key, stored []byte) (value []byte, gone bool) {
	s.key = k
	value, s.writer, s.nth, gone = splitStamp(k, stored)
	return value, gone
}

// moreRows is the number of rows that the first request of a scan reads beyond the scan's limit, because some rows may
// be deleted.
const moreRows = 16

// Scan hides deleted rows from the procedure, but records reads of them.
func (s *stamps) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	left, limit := r.Limit, r.Limit
	if limit > 0 && s.deletes.Has(r.From.Table()) {
		limit += moreRows
	}
	for {
		part, met, more := r, 0, true
		part.Limit = limit
		var last txn.Key
		err := s.Ctx.Scan(part, func(k txn.Key, stored []byte) bool {
			met, last = met+1, k
			value, gone := s.split(k, stored)
			if gone {
				s.rec.read(k, true)
				return true
			}
			left--
			more = f(k, value) && left != 0
			return more
		})
		// Fewer rows than requested means that the range is exhausted.
		if err != nil || !more || limit == 0 || met < limit {
			return err
		}
		if r.Reverse {
			r.To = last
		} else {
			r.From = last + "\x00"
		}
		if r.From >= r.To {
			return nil
		}
		// Doubling keeps the number of requests logarithmic if a range has many deleted rows.
		limit *= 2
	}
}

func (s *stamps) Put(k txn.Key, value []byte) { s.put(k, value, stampValue) }

func (s *stamps) Delete(k txn.Key) { s.put(k, nil, stampGone) }

func (s *stamps) put(k txn.Key, value []byte, kind uint8) {
	// The version of the last read no longer describes the row after a write.
	s.key = ""
	s.Ctx.Put(k, appendStamp(k, value, s.id, s.rec.nth(k), kind))
}

// lookup implements Lookup. It knows only the version of the row that was read last.
func (s *stamps) lookup(k txn.Key) (txn.ID, uint8, bool) {
	if s.key != k {
		return Initial, 0, false
	}
	return s.writer, s.nth, true
}

// tracing is a Recorder on top of stamps. Before the first write of a row, it reads the row to learn the overwritten
// version. To the database this is an ordinary read, so the history contains it. Rows of groups are written without a
// read: they are mostly new, and a transaction need not declare the group rows that it writes.
type tracing struct {
	Recorder
	stamps  stamps
	deletes txn.Tables // tables from which the procedure may delete rows
	err     error
	room    [8]Op
}

func (t *tracing) Put(k txn.Key, value []byte) {
	t.readFirst(k)
	t.Recorder.Put(k, value)
}

func (t *tracing) Delete(k txn.Key) {
	if !t.deletes.Has(k.Table()) {
		t.err = fmt.Errorf("row %v was deleted, and Deletes of the procedure does not have its table %d", k, k.Table())
	}
	t.readFirst(k)
	t.Recorder.Delete(k)
}

// readFirst reads the row before its first write. It stores an error in err, because the procedure does not know of the
// read and may not make another call that could fail.
func (t *tracing) readFirst(k txn.Key) {
	if k.Ordered() || t.find(Read, k) != nil || t.find(Write, k) != nil {
		return
	}
	if _, err := t.Get(k); err != nil && err != txn.ErrNotFound && t.err == nil {
		t.err = err
	}
}

var errTracedArgs = errors.New("the arguments of a traced call do not start with a transaction's id")

// tracedArgs splits the arguments of a traced call into the transaction's ID and the procedure's own arguments. The ID
// identifies the versions that the call writes.
func tracedArgs(args []byte) (txn.ID, []byte, error) {
	r := codec.NewReader(args)
	id := r.ID()
	if r.Err() != nil || id == Initial {
		return 0, nil, errTracedArgs
	}
	return id, args[len(args)-r.Len():], nil
}

// Trace returns the traced form of a procedure. Its number is p's number plus Traced. Its arguments are the
// transaction's ID (as written by codec.AppendID) and p's arguments. Its result ends with the operations: see
// SplitTrace. The traced form also reads each row without a group that p only writes, to learn the overwritten version.
//
// Tables in deleted may contain stamps of deleted rows. Scans must skip these stamps, so the footprint declares scans
// of such tables without limits. A database that runs traced procedures must not run any other writing procedures until
// it is loaded again.
func Trace(p *txn.Procedure, deleted txn.Tables) *txn.Procedure {
	if p.ID >= Traced {
		panic(fmt.Sprintf("history: procedure %s has number %d, which is not below %d", p.Name, p.ID, Traced))
	}
	return &txn.Procedure{
		ID:       p.ID + Traced,
		Name:     p.Name + "-traced",
		ReadOnly: p.ReadOnly,
		Deletes:  p.Deletes,
		Declare: func(args []byte, f *txn.Footprint) error {
			_, args, err := tracedArgs(args)
			if err == nil {
				err = p.Declare(args, f)
			}
			for i := range f.Accesses {
				if a := &f.Accesses[i]; !a.Key.Ordered() {
					a.Mode |= txn.Read
				}
			}
			for i := range f.Ranges {
				if r := &f.Ranges[i]; deleted.Has(r.From.Table()) {
					r.Limit, r.Reverse = 0, false
				}
			}
			return err
		},
		Run: func(c txn.Ctx, args []byte) ([]byte, error) {
			id, args, err := tracedArgs(args)
			if err != nil {
				return nil, err
			}
			t := &tracing{stamps: stamps{Ctx: c, id: id, deletes: deleted}, deletes: p.Deletes}
			t.ops, t.stamps.rec = t.room[:0], &t.Recorder
			t.Reset(&t.stamps, t.stamps.lookup)
			result, err := p.Run(t, args)
			if err == nil {
				err = t.err
			}
			if err != nil {
				return result, err
			}
			return AppendTrace(slices.Grow(result, 16+12*len(t.ops)), t.ops), nil
		},
	}
}

// TraceAll returns procs and the traced form of each. procs must be all procedures of the workload.
func TraceAll(procs ...*txn.Procedure) []*txn.Procedure {
	var deleted txn.Tables
	for _, p := range procs {
		deleted |= p.Deletes
	}
	out := procs[:len(procs):len(procs)]
	for _, p := range procs {
		out = append(out, Trace(p, deleted))
	}
	return out
}

// Plain returns the value of a row without its stamp, as untraced procedures would have left it, for a workload's
// audit. It returns false for a deleted row.
func Plain(k txn.Key, stored []byte) (value []byte, there bool) {
	value, _, _, gone := splitStamp(k, stored)
	return value, !gone
}
