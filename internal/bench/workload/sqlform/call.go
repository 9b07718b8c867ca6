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
	// Queue has a statement go with the next Send. Args are used until it returns. row, which may be nil, gets the values
	// of each row, which are valid until it returns, until it returns false.
	Queue(s *Statement, args []Arg, row func(values [][]byte) bool)
	// Send sends the queued statements, in one round trip, and returns once all are answered. The error is the error of
	// the first statement that failed; no later statement was run.
	Send() error
}

// Call is a transaction under way.
type Call struct {
	// Args are the arguments of the procedure.
	Args []byte

	conn Connection
	use  func(txn.Key)
	err  error // the first row that could not be read

	id       txn.ID
	recorded bool
	ops      []history.Op
	room     [32]history.Op

	args []Arg // of the statement that is queued, used again
}

// Run runs the transaction of which t is a call, without its commit or rollback. It is traced if t has the number of a
// traced procedure. Run passes to use each row that determines the class of t. It returns errors like Transaction.Run.
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
	// Queued statements may report the versions that they replaced.
	if err := c.Send(); err != nil {
		return nil, err
	}
	return history.AppendTrace(result, c.ops), nil
}

// Recorded reports whether a transaction belongs to a recorded run, and Number is the number of its procedure.
func Recorded(t *txn.Transaction) bool     { return t.Proc >= history.Traced }
func Number(t *txn.Transaction) txn.ProcID { return t.Proc &^ history.Traced }

// Do queues a statement. row gets its rows, once they are sent for; its error is what Send returns.
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

// Send sends the queued statements. A row that could not be read is a txn.ErrProcedure.
func (c *Call) Send() error {
	if err := c.conn.Send(); err != nil {
		return err
	}
	return c.err
}

// Use notes a row that the transaction uses, for its class.
func (c *Call) Use(k txn.Key) { c.use(k) }

// Recorded reports whether the run records a history: whether the following methods need to be called.
func (c *Call) Recorded() bool { return c.recorded }

// Read records that a row was read, whose version is the next column.
func (c *Call) Read(k txn.Key, r *Row) { c.read(k, txn.ID(r.Int())) }

func (c *Call) read(k txn.Key, version txn.ID) {
	if version == c.id {
		return // of the transaction's own writes, which say nothing about others
	}
	c.ops = append(c.ops, history.Op{Kind: history.Read, Key: k, Version: version, Known: true})
}

// Update notes that a row was replaced, by a statement that has read it; the next column is the version that it had.
func (c *Call) Update(k txn.Key, r *Row) {
	version := txn.ID(r.Int())
	c.read(k, version)
	c.write(k, version, false)
}

// Overwrite is Update by a statement that has not read the row.
func (c *Call) Overwrite(k txn.Key, r *Row) { c.write(k, txn.ID(r.Int()), false) }

// Delete is Update of a row that was deleted.
func (c *Call) Delete(k txn.Key, r *Row) {
	version := txn.ID(r.Int())
	c.read(k, version)
	c.write(k, version, true)
}

func (c *Call) write(k txn.Key, version txn.ID, gone bool) {
	if version == c.id {
		return // the first write has said it
	}
	c.ops = append(c.ops, history.Op{Kind: history.Write, Key: k, Version: version, Known: true, Gone: gone})
}

// Insert notes that a row was inserted, where there was none before.
func (c *Call) Insert(k txn.Key) {
	c.ops = append(c.ops, history.Op{Kind: history.Write, Key: k, Version: history.Initial, Known: true})
}

// Scan records that the transaction has looked at all rows from one key to another, excluding the latter. It has found
// exactly the rows that it has read before. gone means that rows may have been deleted there.
func (c *Call) Scan(from, to txn.Key, gone bool) {
	c.ops = append(c.ops, history.Op{Kind: history.Scan, Key: from, To: to, Gone: gone})
}
