package codec

import "github.com/geobench/geobench/internal/base/txn"

// TxnArena decodes many transactions with few allocations: one for all transactions that were reserved together, and a
// few for their accesses.
type TxnArena struct {
	procs    *txn.Registry
	txns     []txn.Transaction
	accesses []txn.Access
}

// NewTxnArena returns an arena that prepares transactions with procs.
func NewTxnArena(procs *txn.Registry) *TxnArena { return &TxnArena{procs: procs} }

// Reserve allocates the memory of the next n transactions.
func (a *TxnArena) Reserve(n int) { a.txns = make([]txn.Transaction, n) }

// Next returns a new transaction without content.
func (a *TxnArena) Next() *txn.Transaction {
	if len(a.txns) == 0 {
		a.Reserve(1)
	}
	t := &a.txns[0]
	a.txns = a.txns[1:]
	return t
}

// Transaction decodes and prepares a transaction. If it cannot, r fails.
func (a *TxnArena) Transaction(r *Reader) *txn.Transaction {
	t := a.Next()
	r.Transaction(t)
	if r.err != nil {
		return t
	}
	// The message contains the footprint that a reconnaissance has found, so Prepare need not derive accesses.
	if t.Found {
		if err := a.procs.Prepare(t); err != nil {
			r.fail(err)
		}
		return t
	}
	if cap(a.accesses)-len(a.accesses) < 16 {
		a.accesses = make([]txn.Access, 0, max(16, min(16*(len(a.txns)+1), 512)))
	}
	// Prepare appends to the remaining memory of the buffer, so it usually does not allocate.
	t.Accesses = a.accesses[len(a.accesses):len(a.accesses):cap(a.accesses)]
	if err := a.procs.Prepare(t); err != nil {
		r.fail(err)
		return t
	}
	// Reserve the memory that Prepare has used. If the capacity was too small, Prepare has allocated its own memory, and
	// the buffer is unchanged.
	if used := len(a.accesses) + len(t.Accesses); used <= cap(a.accesses) {
		a.accesses = a.accesses[:used]
	}
	// An append to these accesses must not overwrite the next transaction's accesses, so limit the capacity.
	t.Accesses = t.Accesses[:len(t.Accesses):len(t.Accesses)]
	return t
}
