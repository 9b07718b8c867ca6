// Package script executes transactions on a database statement by statement in a given order. Each session has a
// separate connection. Play returns the versions that each transaction read and wrote. An anomaly that a database
// allows in that order is therefore reproducible, as in Hermitage (M. Kleppmann 2014).
//
// A statement may have to wait for another transaction, whose next statement follows later in the script. The script
// asks the database whether a statement is waiting, because a slow statement is not necessarily a waiting one. If the
// statement is waiting, the script continues with the other sessions. The remaining statements of the waiting
// transaction follow once the waiting statement is answered.
//
// The script's clock advances by a millisecond per statement. In the recorded times, transaction A is answered before
// transaction B is sent if and only if this was so in the script.
package script

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/target"
)

// Database is the part of a database that a script needs in addition to its clients.
type Database interface {
	// Waits reports whether, according to the server of a region, the client's running statement waits for another
	// transaction.
	Waits(ctx context.Context, region geo.Region, client target.Connection) (bool, error)
	// CatchUp returns once the clients of every region can read everything that was committed before the call.
	CatchUp(ctx context.Context) error
}

// Session is a client: its connection, and the function that classifies its errors.
type Session struct {
	Connection target.Connection
	Region     geo.Region
	Classify   func(err error) target.Failure
}

// Transaction is a transaction of a script.
type Transaction struct {
	ID txn.ID
	// Session is the index of the session that executes the transaction, after the session's earlier transactions are
	// answered.
	Session int
	// After lists the indexes of earlier transactions, of any session, that must be answered first.
	After []int
	// Run is the transaction's body. Each call of the Ctx is a statement. If Run returns an error, the transaction is
	// rolled back; otherwise it is committed. The commit or rollback takes a step, too. Run must not wait for other
	// transactions.
	Run func(c txn.Ctx) error
}

// Step is CatchUp, or the index of the transaction that sends its next statement. Steps of a transaction that the
// database has aborted are skipped.
type Step int

// CatchUp is a step that waits until clients of every region can read all earlier commits.
const CatchUp Step = -1

// Steps parses steps from words. A word is the index of a transaction, or = for CatchUp.
func Steps(text string) (steps []Step, err error) {
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(word, 10, 16)
		switch {
		case word == "=":
			steps = append(steps, CatchUp)
		case err != nil:
			return nil, fmt.Errorf("step %q is neither the number of a transaction nor =", word)
		default:
			steps = append(steps, Step(n))
		}
	}
	return steps, nil
}

// Played is the result of a transaction. The caller adds the other fields of a history.Txn.
type Played struct {
	Invoked, Answered time.Duration
	// Status is Committed, or Aborted.
	Status txn.Status
	// Cause is the cause of an abort: CauseConflict, or CauseProcedure if Run returned an error.
	Cause txn.Cause
	// Ops are the reads and writes of a committed transaction. If the transaction wrote a row without reading it first,
	// the version that the write replaced is unknown.
	Ops []history.Op
	// Waited is set if a statement waited for another transaction.
	Waited bool
}

const (
	// soon is the time after which the script first asks the database whether an unanswered statement is waiting. again is
	// the interval between further requests.
	soon  = 20 * time.Millisecond
	again = 5 * time.Millisecond
	// Patience is the timeout of a statement that does not wait for other transactions, and of a deadlock of all sessions.
	// It is longer than InnoDB's lock wait timeout of 50 s.
	Patience = 70 * time.Second
	// rollbackWithin is the timeout of a rollback.
	rollbackWithin = 5 * time.Second
)

// Play executes transactions in the order of steps. Each transaction needs one step per statement, and one for its
// commit or rollback. Play fails if a transaction fails for a reason other than a conflict, because its effects are
// then unknown. The connections are unusable after an error.
func Play(ctx context.Context, db Database, sessions []Session, txns []Transaction, steps []Step) ([]Played, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &player{db: db, events: make(chan event), steps: slices.Clone(steps)}
	for i := range txns {
		t := &txns[i]
		p.runs = append(p.runs, &run{n: i, t: t, s: &sessions[t.Session], p: p, step: make(chan struct{}), seen: map[txn.Key]version{}, nth: map[txn.Key]uint8{}})
	}
	err := p.play(ctx)
	// unanswered statements now end with their context
	cancel()
	for _, r := range p.runs {
		if r.state == flying || r.state == waiting || r.state == paused {
			close(r.step)
		}
	}
	// Wait for the goroutines: they use the sessions' connections, which the caller may close after the return.
	for _, r := range p.runs {
		for r.state != unsent && r.state != answered {
			e := <-p.events
			p.runs[e.txn].state = e.state
		}
	}
	if err != nil {
		return nil, err
	}
	var played []Played
	for _, r := range p.runs {
		played = append(played, r.played)
	}
	return played, nil
}

// state is the progress of a transaction.
type state int

const (
	unsent  state = iota
	paused        // its next statement has not been sent yet
	flying        // a statement is running
	waiting       // a statement is running, and the database reports that it waits
	answered
)

// event reports that a statement is finished.
type event struct {
	txn   int
	state state // paused or answered
	err   error // error that makes the script fail
}

type player struct {
	db     Database
	runs   []*run
	steps  []Step
	events chan event
	clock  time.Duration
}

func (p *player) tick() time.Duration {
	p.clock += time.Millisecond
	return p.clock
}

func (p *player) play(ctx context.Context) error {
	for len(p.steps) > 0 {
		// Take the first possible step. This keeps the script's order, except that other steps overtake the steps of waiting
		// transactions.
		i := slices.IndexFunc(p.steps, p.possible)
		if i < 0 {
			if !p.waits() {
				return fmt.Errorf("step %d waits for a transaction that has no steps left", p.steps[0])
			}
			// All sessions with remaining steps wait for each other, so the database must resolve the deadlock.
			if err := p.take(ctx, Patience); err != nil {
				return err
			}
		} else {
			step := p.steps[i]
			p.steps = slices.Delete(p.steps, i, i+1)
			if step == CatchUp {
				if err := p.db.CatchUp(ctx); err != nil {
					return err
				}
				continue
			}
			p.send(ctx, p.runs[step])
		}
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	for p.waits() {
		if err := p.take(ctx, Patience); err != nil {
			return err
		}
	}
	for _, r := range p.runs {
		if r.state != answered {
			return fmt.Errorf("the steps end before transaction %d does", r.n)
		}
	}
	return nil
}

// waits reports whether a running statement waits for another transaction.
func (p *player) waits() bool {
	return slices.ContainsFunc(p.runs, func(r *run) bool { return r.state == waiting })
}

// possible reports whether a step can be taken: all transactions that must precede it are answered, and the
// transaction's previous statement is finished.
func (p *player) possible(s Step) bool {
	if s == CatchUp {
		return true
	}
	r := p.runs[s]
	if r.state == unsent {
		for i, before := range p.runs[:r.n] {
			if before.state != answered && (before.t.Session == r.t.Session || slices.Contains(r.t.After, i)) {
				return false
			}
		}
		return true
	}
	return r.state == paused
}

// send sends the next statement of a transaction.
func (p *player) send(ctx context.Context, r *run) {
	now := p.tick()
	if r.state == unsent {
		r.played.Invoked = now
		go r.run(ctx)
	}
	r.state = flying
	r.step <- struct{}{}
}

// settle returns once every running statement has finished or, according to the database, waits.
func (p *player) settle(ctx context.Context) error {
	begin, first := time.Now(), soon
	for slices.ContainsFunc(p.runs, func(r *run) bool { return r.state == flying }) {
		switch err := p.take(ctx, first); {
		case err == nil:
			first = soon
			continue
		case !errors.Is(err, errNothing):
			return err
		}
		first = again
		for _, r := range p.runs {
			if r.state != flying {
				continue
			}
			waits, err := p.db.Waits(ctx, r.s.Region, r.s.Connection)
			if err != nil {
				return err
			}
			// The wait may end later: take sets the state back to flying when another transaction is answered.
			if waits {
				r.state, r.played.Waited = waiting, true
			} else if time.Since(begin) > Patience {
				return fmt.Errorf("a statement is not answered within %v, and the database does not say that it waits for another transaction", Patience)
			}
		}
	}
	return nil
}

var errNothing = errors.New("no statement that waits for another transaction is answered, and the database does not end that")

// take processes the next event. It returns errNothing if there is none within the timeout.
func (p *player) take(ctx context.Context, within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errNothing
	case e := <-p.events:
		r := p.runs[e.txn]
		r.state = e.state
		now := p.tick()
		if e.err != nil {
			return e.err
		}
		if e.state != answered {
			return nil
		}
		r.played.Answered = now
		// An aborted transaction may have remaining steps. Delete them, so that they do not block the script.
		p.steps = slices.DeleteFunc(p.steps, func(s Step) bool { return s == Step(e.txn) })
		// Transactions that waited for this transaction may continue, so settle must ask the database about them again.
		for _, other := range p.runs {
			if other.state == waiting {
				other.state = flying
			}
		}
		return nil
	}
}

// version identifies a version of a row: its writer, and the ordinal of the write among the writer's writes of the row.
type version struct {
	writer txn.ID
	nth    uint8
}

// run executes one transaction in a separate goroutine.
type run struct {
	n    int
	t    *Transaction
	s    *Session
	p    *player
	step chan struct{}
	// Only the player uses state. The goroutine sets played.Status, played.Cause and played.Ops before the transaction is
	// answered. The player sets the other fields of played.
	state  state
	played Played

	statement target.Statement
	recorder  history.Recorder
	seen      map[txn.Key]version
	nth       map[txn.Key]uint8
	err       error // the database's first error
}

func (r *run) run(ctx context.Context) {
	r.recorder.Reset(&access{r, ctx}, func(k txn.Key) (txn.ID, uint8, bool) {
		v, ok := r.seen[k]
		return v.writer, v.nth, ok
	})
	wrong := r.t.Run(&r.recorder)
	// The end of the transaction takes a separate step, unless the database has already ended it.
	if r.err == nil {
		r.next(ctx)
	}
	failed := r.err
	if failed == nil && wrong == nil && r.statement != nil {
		failed = r.statement.Commit(ctx)
	}
	e := event{txn: r.n, state: answered}
	switch {
	case failed == nil && wrong == nil:
		r.played.Status, r.played.Ops = txn.Committed, r.recorder.Ops()
		r.p.events <- e
		return
	case failed == nil:
		r.played.Cause = txn.CauseProcedure
	default:
		f := r.s.Classify(failed)
		if r.played.Cause = f.Cause; f.Cause != txn.CauseConflict {
			e.err = fmt.Errorf("a transaction failed, and not for a conflict (%s): %w", f.Reason, failed)
		}
	}
	r.played.Status = txn.Aborted
	if r.statement != nil {
		// The script's context may be canceled, but the transaction must not keep its locks.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWithin)
		defer cancel()
		if err := r.statement.Rollback(ctx); err != nil && e.err == nil {
			e.err = fmt.Errorf("a transaction could not be rolled back: %w", err)
		}
	}
	r.p.events <- e
}

// next waits for the step of the next statement. It sets r.err if the player has stopped.
func (r *run) next(ctx context.Context) {
	if _, ok := <-r.step; !ok {
		r.err = ctx.Err()
	}
}

// access is the Ctx that the transaction's recorder uses. Each call waits for its step.
type access struct {
	*run
	ctx context.Context
}

// do executes a statement at its step. After a failed statement, no further statement is executed, and the error
// becomes the result of the transaction.
func (r *access) do(statement func(target.Statement) error) error {
	if r.err != nil {
		return r.err
	}
	if r.next(r.ctx); r.err != nil {
		return r.err
	}
	if r.statement == nil {
		if r.statement, r.err = r.s.Connection.Begin(r.ctx, &txn.Transaction{ID: r.t.ID}); r.err != nil {
			return r.err
		}
	}
	err := statement(r.statement)
	if err != nil && err != txn.ErrNotFound {
		r.err = err
		return err
	}
	r.p.events <- event{txn: r.n, state: paused}
	return err
}

// Get implements txn.Ctx.
func (r *access) Get(k txn.Key) (value []byte, err error) {
	err = r.do(func(s target.Statement) error {
		stored, err := s.Get(k)
		value = r.see(k, stored)
		return err
	})
	return value, err
}

// GetAll implements txn.Ctx.
func (r *access) GetAll(keys []txn.Key) (values [][]byte, err error) {
	err = r.do(func(s target.Statement) error {
		values, err = s.GetAll(keys)
		for i, stored := range values {
			values[i] = r.see(keys[i], stored)
		}
		return err
	})
	return values, err
}

// Scan implements txn.Ctx.
func (r *access) Scan(g txn.Range, f func(k txn.Key, value []byte) bool) error {
	return r.do(func(s target.Statement) error {
		return s.Scan(g, func(k txn.Key, stored []byte) bool { return f(k, r.see(k, stored)) })
	})
}

// Put implements txn.Ctx.
func (r *access) Put(k txn.Key, value []byte) {
	_ = r.do(func(s target.Statement) error {
		r.nth[k]++
		return s.Put(k, Stamp(value, r.t.ID, r.nth[k]))
	})
}

// Delete implements txn.Ctx. It stores no stamp, because a deleted row has no version that a reader could observe.
func (r *access) Delete(k txn.Key) { _ = r.do(func(s target.Statement) error { return s.Delete(k) }) }

// see records the version of a row that was read, and returns the row's value.
func (r *run) see(k txn.Key, stored []byte) []byte {
	value, writer, nth := Stamped(stored)
	r.seen[k] = version{writer, nth}
	return value
}

// stampBytes is the size of the stamp after a value: the ordinal of the transaction's write of the row, and the
// transaction's ID.
const stampBytes = 1 + 8

// Stamp returns a row's value followed by the version's writer and ordinal. Loaded rows have the writer
// history.Initial.
func Stamp(value []byte, writer txn.ID, nth uint8) []byte {
	b := append(make([]byte, 0, len(value)+stampBytes), value...)
	return binary.BigEndian.AppendUint64(append(b, nth), uint64(writer))
}

// Stamped splits a value that Stamp returned. A nil value is a missing row, which counts as a loaded version.
func Stamped(stored []byte) (value []byte, writer txn.ID, nth uint8) {
	n := len(stored) - stampBytes
	if n < 0 {
		return nil, history.Initial, 0
	}
	return stored[:n:n], txn.ID(binary.BigEndian.Uint64(stored[n+1:])), stored[n]
}
