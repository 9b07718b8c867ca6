package sqlform

import (
	"errors"
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
)

// Connection executes the statements of a transaction.
type Connection interface {
	// Queue adds a statement to the next Send. The caller may reuse args once Queue returns. If row is not nil, Send calls
	// it with the values of each row until row returns false. The values are valid until row returns.
	Queue(s *Statement, args []Arg, row func(values [][]byte) bool)
	// Send sends the queued statements in one round trip and waits for all answers. It returns the error of the first
	// failed statement; the database has not run any later statement.
	Send() error
}

// Call is a transaction in progress.
type Call struct {
	// Args are the arguments of the procedure.
	Args []byte

	conn Connection
	use  func(txn.Key)
	err  error // error of the first unreadable row

	id       txn.ID
	recorded bool
	ops      []history.Op
	room     [32]history.Op

	args []Arg // of the statement being queued; reused
}

// Run runs x, the SQL form of the procedure that t calls, without a commit or rollback. It records the history of t if
// t has the number of a traced procedure. Run calls use for each row that determines the class of t. It returns the
// same errors as Transaction.Run.
func (c *Call) Run(x *Transaction, t *txn.Transaction, conn Connection, use func(txn.Key)) ([]byte, error) {
	c.Args, c.conn, c.use, c.err = t.Args, conn, use, nil
	c.id, c.recorded, c.ops = t.ID, Recorded(t), c.room[:0]
	if c.recorded {
		r := codec.NewReader(t.Args)
		if id := r.ID(); r.Err() != nil || id != t.ID {
			return nil, fmt.Errorf("the arguments of transaction %v, which is recorded, do not start with its id: %w", t.ID, txn.ErrProcedure)
		}
		c.Args = t.Args[len(t.Args)-r.Len():]
	}
	result, err := x.Run(c)
	if err != nil || !c.recorded {
		return result, err
	}
	// Statements that are still queued may report the versions that they replace, and the trace needs these versions.
	if err := c.Send(); err != nil {
		return nil, err
	}
	return history.AppendTrace(result, c.ops), nil
}

// Recorded reports whether a transaction belongs to a recorded run. Number returns the number of the transaction's
// procedure, without the mark of traced procedures.
func Recorded(t *txn.Transaction) bool     { return t.Proc >= history.Traced }
func Number(t *txn.Transaction) txn.ProcID { return t.Proc &^ history.Traced }

// Do queues a statement. Send passes its rows to row and returns the error of row.
func (c *Call) Do(s *Statement, row func(r *Row) error, args ...Arg) {
	c.args = append(c.args[:0], args...)
	if c.recorded && s.stamps() {
		c.args = append(c.args, Int(c.id))
	}
	if row == nil {
		c.conn.Queue(s, c.args, nil)
		return
	}
	c.conn.Queue(s, c.args, func(values [][]byte) bool {
		r := Row{values: values}
		err := row(&r)
		if err == nil {
			err = r.err
		}
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("statement %s: %w", s.Name, err)
			if abort := txn.Abort(""); !errors.As(err, &abort) {
				c.err = fmt.Errorf("%w: %w", txn.ErrProcedure, c.err)
			}
		}
		return err == nil
	})
}

// Send sends the queued statements. It returns a txn.ErrProcedure if a row cannot be read.
func (c *Call) Send() error {
	if err := c.conn.Send(); err != nil {
		return err
	}
	return c.err
}

// Use records that the transaction accesses a row, for its class.
func (c *Call) Use(k txn.Key) { c.use(k) }

// Recorded reports whether the run records a history. If not, the methods below need not be called.
func (c *Call) Recorded() bool { return c.recorded }

// Read records the read of a row. The next column of r is the row's version.
func (c *Call) Read(k txn.Key, r *Row) { c.read(k, txn.ID(r.Int())) }

func (c *Call) read(k txn.Key, version txn.ID) {
	if version == c.id {
		return // the transaction's own write: it implies nothing about other transactions
	}
	c.ops = append(c.ops, history.Op{Kind: history.Read, Key: k, Version: version, Known: true})
}

// Update records the replacement of a row by a statement that read it. The next column of r is the replaced version.
func (c *Call) Update(k txn.Key, r *Row) {
	version := txn.ID(r.Int())
	c.read(k, version)
	c.write(k, version, false)
}

// Overwrite is Update for a statement that did not read the row before writing it.
func (c *Call) Overwrite(k txn.Key, r *Row) { c.write(k, txn.ID(r.Int()), false) }

// Delete is Update for a deleted row.
func (c *Call) Delete(k txn.Key, r *Row) {
	version := txn.ID(r.Int())
	c.read(k, version)
	c.write(k, version, true)
}

func (c *Call) write(k txn.Key, version txn.ID, gone bool) {
	if version == c.id {
		return // the transaction's first write has recorded it
	}
	c.ops = append(c.ops, history.Op{Kind: history.Write, Key: k, Version: version, Known: true, Gone: gone})
}

// Insert records the insertion of a row that did not exist.
func (c *Call) Insert(k txn.Key) {
	c.ops = append(c.ops, history.Op{Kind: history.Write, Key: k, Version: history.Initial, Known: true})
}

// Scan records that the transaction inspected all rows in [from, to) and found exactly the rows that it has recorded as
// read. gone is set if rows may have been deleted there.
func (c *Call) Scan(from, to txn.Key, gone bool) {
	c.ops = append(c.ops, history.Op{Kind: history.Scan, Key: from, To: to, Gone: gone})
}
