// Package rerun runs a stored procedure when some of its rows are stored on other nodes. A procedure that needs a
// missing row stops. The engine fetches the row and runs the procedure again from the start, with the rows received so
// far. Procedures are pure functions of their arguments and reads, so a second run repeats the first and gets further.
// All engines that execute before they order (deferred update, two-phase locking, 2PC) use this package. No goroutine
// waits for rows.
//
// Rows in the footprint are requested in parallel, before the first run. Other rows are requested sequentially, each
// with a round trip, as for an interactive client. An interactive task ignores the footprint.
package rerun

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/checkpoint"
)

// Row is a row that was read.
type Row struct {
	Key txn.Key
	store.Record
}

func (r *Row) keyValue() (txn.Key, []byte) { return r.Key, r.Value }

// Read is the result of reading a key or a range. Its rows are in the range's order.
type Read struct {
	Range txn.Range
	Rows  []Row
	// Absent is the version of an absent row: the version of its deletion (store.Versioned.Newest), or 0. The supplier of
	// the read sets it; a store.Hash has no such versions.
	Absent uint64
}

// Need is a read that a task waits for.
type Need struct {
	Range txn.Range
	// Mode is ReadWrite if the footprint declares writes to the rows, else Read.
	Mode txn.Mode
}

// Task is the execution of a transaction's procedure, in one or more runs. It implements txn.Ctx.
type Task struct {
	t          *txn.Transaction
	p          *txn.Procedure
	everywhere store.Reader
	hinted     bool // the footprint's reads have not been requested yet
	stray      bool // the procedure has read a row outside its exact footprint

	reads  []Read
	points map[txn.Key]int // indexes of single rows in reads; nil while reads is short
	needs  []Need
	runs   int

	writes txn.WriteSet
	result []byte
	err    error
}

// few is the number of reads up to which a linear search is as fast as a map.
const few = 16

// New returns a task that runs t. Keys that every node stores (txn.Key.Everywhere) are read from everywhere. If
// interactive is set, the task ignores the footprint as a hint.
func New(procs *txn.Registry, t *txn.Transaction, everywhere store.Reader, interactive bool) *Task {
	return &Task{t: t, p: procs.Lookup(t.Proc), everywhere: everywhere, hinted: !interactive}
}

// Step runs the procedure as far as the supplied rows allow. It returns the reads that the procedure needs to continue,
// or an empty slice when it has finished. The caller must supply all these reads before the next step. The slice is
// valid until then.
func (k *Task) Step() []Need {
	k.needs = k.needs[:0]
	if k.hinted {
		k.hinted = false
		k.hints()
		// A run before these rows arrive would only stop at the first of them.
		if len(k.needs) > 0 {
			return k.needs
		}
	}
	k.runs++
	k.writes.Reset()
	k.stray = false
	k.result, k.err = k.p.Run(k, k.t.Args)
	if k.strays() {
		// A transaction that uses rows outside its footprint aborts in any case, so its missing rows need not be fetched.
		k.needs, k.result, k.err = k.needs[:0], nil, txn.ErrUndeclared
	}
	return k.needs
}

// strays reports whether the procedure has used a row outside its exact footprint.
func (k *Task) strays() bool {
	if !k.t.Exact || k.stray {
		return k.stray
	}
	// miss has checked the reads. Writes are checked only here, because Put returns no error.
	for _, w := range k.writes.Entries() {
		if !k.t.Writes(w.Key) {
			return true
		}
	}
	return false
}

// hints requests the reads in the footprint, and allocates space for these and for the writes. Growing these lists row
// by row would account for a sixth of the allocations of a transaction with ten rows.
func (k *Task) hints() {
	k.needs = slices.Grow(k.needs, len(k.t.Accesses)+len(k.t.Ranges))
	k.reads = slices.Grow(k.reads, len(k.t.Accesses)+len(k.t.Ranges))
	written := 0
	for i := range k.t.Accesses {
		if k.t.Accesses[i].Mode&txn.Write != 0 {
			written++
		}
	}
	k.writes.Grow(written)
	for i := range k.t.Accesses {
		// The access to an ordered key stands for its whole group. The footprint's ranges specify the part that is read.
		if a := &k.t.Accesses[i]; a.Mode&txn.Read != 0 && !a.Key.Ordered() {
			k.need(txn.Point(a.Key))
		}
	}
	for i := range k.t.Ranges {
		k.need(k.t.Ranges[i])
	}
}

// need requests a read unless it has been supplied.
func (k *Task) need(r txn.Range) {
	if k.find(&r) != nil {
		return
	}
	n := Need{Range: r, Mode: txn.Read}
	// An engine with locks can then request an exclusive lock immediately. This avoids an upgrade, which could deadlock.
	if k.t.Writes(r.From) {
		n.Mode = txn.ReadWrite
	}
	k.needs = append(k.needs, n)
}

// Supply adds a read, which the task need not have requested.
func (k *Task) Supply(r Read) {
	if r.Range.Point() {
		// The map pays off only for transactions with many reads.
		if k.points == nil && len(k.reads) >= few {
			k.points = map[txn.Key]int{}
			for i := range k.reads {
				if k.reads[i].Range.Point() {
					k.points[k.reads[i].Range.From] = i
				}
			}
		}
		if k.points != nil {
			k.points[r.Range.From] = len(k.reads)
		}
	}
	k.reads = append(k.reads, r)
}

// find returns a supplied read that covers a range, or nil.
func (k *Task) find(r *txn.Range) *Read {
	if r.Point() && k.points != nil {
		if i, ok := k.points[r.From]; ok {
			return &k.reads[i]
		}
		// No range can cover a key without a group, but an ordered key may be inside a supplied range.
		if !r.From.Ordered() {
			return nil
		}
	}
	for i := range k.reads {
		if k.reads[i].Range.Covers(r) {
			return &k.reads[i]
		}
	}
	return nil
}

// miss handles a read of the range wanted, which has not been supplied. It requests the range all, which includes
// wanted, and returns the error for the procedure.
func (k *Task) miss(wanted *txn.Range, all txn.Range) error {
	if k.t.Exact && !k.t.Reads(wanted) {
		k.stray = true
		return txn.ErrUndeclared
	}
	k.need(all)
	return missing{}
}

// missing is the error of a read that must be fetched first.
type missing struct{}

func (missing) Error() string { return "the row is not here yet" }

var _ = checkpoint.Register[missing]()

// Get implements txn.Ctx.
func (k *Task) Get(key txn.Key) ([]byte, error) {
	if w := k.writes.Get(key); w != nil {
		if w.Deleted {
			return nil, txn.ErrNotFound
		}
		return w.Value, nil
	}
	// Every node stores this row, so it need not be fetched.
	if key.Everywhere() {
		return found(k.everywhere.Get(key))
	}
	r := txn.Point(key)
	read := k.find(&r)
	if read == nil {
		return nil, k.miss(&r, r)
	}
	for i := range read.Rows {
		if read.Rows[i].Key == key {
			return read.Rows[i].Value, nil
		}
	}
	return nil, txn.ErrNotFound
}

func found(r store.Record, there bool) ([]byte, error) {
	if !there {
		return nil, txn.ErrNotFound
	}
	return r.Value, nil
}

// GetAll implements txn.Ctx. It requests all missing rows at once.
func (k *Task) GetAll(keys []txn.Key) ([][]byte, error) {
	var err error
	for _, key := range keys {
		if r := txn.Point(key); !key.Everywhere() && k.writes.Get(key) == nil && k.find(&r) == nil {
			err = k.miss(&r, r)
		}
	}
	if err != nil {
		return nil, err
	}
	return txn.GetEach(k, keys)
}

// Scan implements txn.Ctx.
func (k *Task) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	if err := r.CheckScan(); err != nil {
		return err
	}
	// The transaction's own deletions hide rows, so a scan with a limit may need more rows than the limit.
	wide := k.writes.Widen(r)
	read := k.find(&wide)
	if read == nil {
		return k.miss(&r, wide)
	}
	return k.writes.Scan(r, func(r txn.Range, f func(txn.Key, []byte) bool) error {
		txn.ScanRows(read.Rows, (*Row).keyValue, r, f)
		return nil
	}, f)
}

// Put implements txn.Ctx.
func (k *Task) Put(key txn.Key, value []byte) { k.writes.Put(key, value) }

// Delete implements txn.Ctx.
func (k *Task) Delete(key txn.Key) { k.writes.Delete(key) }

// Result returns the procedure's result after Step has returned no needs. The error is txn.ErrUndeclared if the
// procedure used a row outside its exact footprint.
func (k *Task) Result() ([]byte, error) { return k.result, k.err }

// Reads returns all supplied reads in the order of their supply. They include reads that only an earlier run needed.
// Where ranges overlap, they may include several versions of a row. An engine that validates reads must validate all of
// them.
func (k *Task) Reads() []Read { return k.reads }

// Writes returns the transaction's writes.
func (k *Task) Writes() *txn.WriteSet { return &k.writes }

// Runs returns the number of runs of the procedure so far.
func (k *Task) Runs() int { return k.runs }

// Footprint returns all reads and writes, including the transaction's declared footprint. It is marked exact, which is
// true until a transaction changes the rows read.
func (k *Task) Footprint() txn.Footprint {
	f := txn.Footprint{Exact: true}
	f.Accesses = append(f.Accesses, k.t.Accesses...)
	f.Ranges = append(f.Ranges, k.t.Ranges...)
	known := map[txn.Key]int{}
	for i := range f.Accesses {
		known[f.Accesses[i].Key] = i
	}
	use := func(unit txn.Key, m txn.Mode) {
		if i, ok := known[unit]; ok {
			f.Accesses[i].Mode |= m
			return
		}
		known[unit] = len(f.Accesses)
		f.Accesses = append(f.Accesses, txn.Access{Key: unit, Mode: m})
	}
	for i := range k.reads {
		r := &k.reads[i].Range
		// The declared footprint or an earlier read covers this range already.
		if f.Reads(r) {
			continue
		}
		use(r.From.Unit(), txn.Read)
		if r.From.Ordered() {
			f.Ranges = append(f.Ranges, *r)
		}
	}
	for _, w := range k.writes.Entries() {
		if !w.Key.Everywhere() {
			use(w.Key.Unit(), txn.Write)
		}
	}
	return f
}

// Class returns the class of the rows that the transaction has used.
func (k *Task) Class(p geo.Placement) txn.Class {
	f := k.Footprint()
	return p.Class(f.Accesses)
}
