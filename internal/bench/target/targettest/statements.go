package targettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
)

const (
	// table contains the rows of these checks. No workload uses this table.
	table = txn.MaxTable
	// procedureID differs from the ID of every workload's procedure, so that no target takes these transactions for
	// transactions of a workload.
	procedureID txn.ProcID = 1000
	// randomTransactions is the number of random transactions that check the statements.
	randomTransactions = 200
)

// Statements tests properties that runs of workloads do not show, on a database whose clients are a target.Statements.
// Statements must return and leave the same rows as the model, store.View. A data set must replace the previous data
// set. Running statements must count as pending. A session that is closed during a transaction must leave nothing in
// the database.
//
// Statements returns all violations. Each message starts with the tested part: load, statements, activity or close.
func Statements(ctx context.Context, p *plan.Plan, db target.Database) error {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	s, ok := db.Clients(0).(*target.Statements)
	if !ok {
		return fmt.Errorf("statements: the clients of the database are a %T, not a *target.Statements", db.Clients(0))
	}
	defer s.Close() //nolint:errcheck // it has nothing to release
	x := &statements{p: p, db: db, s: s}
	var wrong []error
	for _, c := range []struct {
		name  string
		check func(context.Context) error
	}{
		{"load", x.load},
		{"statements", x.random},
		{"activity", x.activity},
		{"close", x.close},
	} {
		if err := c.check(ctx); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(wrong...)
}

type statements struct {
	p  *plan.Plan
	db target.Database
	s  *target.Statements
}

// client runs one transaction after another.
type client struct {
	session  target.Session
	outcomes chan txn.Outcome
	sent     uint64
	// body is the body of the next transaction.
	body func(txn.Ctx) error
	// began, if not nil, receives the context of each Begin.
	began func(context.Context)
}

// watched is a connection that reports when a transaction starts.
type watched struct {
	target.Connection
	client *client
}

func (w watched) Begin(ctx context.Context, t *txn.Transaction) (target.Statement, error) {
	if w.client.began != nil {
		w.client.began(ctx)
	}
	return w.Connection.Begin(ctx, t)
}

// open opens a session whose only procedure runs client.body.
func (x *statements) open(ctx context.Context) (*client, error) {
	c := &client{outcomes: make(chan txn.Outcome, 1)}
	own := &target.Statements{Placement: x.s.Placement, Connections: x.s.Connections, Classify: x.s.Classify, Pending: x.s.Pending}
	own.Procedures = txn.NewRegistry(&txn.Procedure{
		ID: procedureID, Name: "targettest",
		Declare: func([]byte, *txn.Footprint) error { return nil },
		Run:     func(ctx txn.Ctx, _ []byte) ([]byte, error) { return nil, c.body(ctx) },
	})
	own.Connect = func(ctx context.Context) (target.Connection, error) {
		connection, err := x.s.Connect(ctx)
		return watched{connection, c}, err
	}
	var err error
	c.session, err = own.Open(ctx, func(batch []txn.Outcome) {
		for _, o := range batch {
			c.outcomes <- o
		}
	})
	return c, err
}

// begin submits a transaction.
func (c *client) begin(body func(txn.Ctx) error) {
	c.sent++
	c.body = body
	c.session.Submit(&txn.Transaction{ID: txn.MakeID(1, c.sent), Proc: procedureID})
	c.session.Flush()
}

// transact runs a transaction and waits for its outcome.
func (c *client) transact(ctx context.Context, body func(txn.Ctx) error) (txn.Outcome, error) {
	c.begin(body)
	select {
	case o := <-c.outcomes:
		return o, nil
	case <-ctx.Done():
		return txn.Outcome{}, fmt.Errorf("a transaction was not answered within %v", Within)
	}
}

// commit runs a transaction that has no concurrent transactions. It returns an error unless the transaction commits.
func (c *client) commit(ctx context.Context, body func(txn.Ctx) error) error {
	o, err := c.transact(ctx, body)
	if err == nil && o.Status != txn.Committed {
		err = fmt.Errorf("a transaction that nobody competes with ended as %v, cause %v, reason %q; it should commit", o.Status, o.Cause, o.Reason)
	}
	return err
}

// loaded loads the plan's data set and opens a client.
func (x *statements) loaded(ctx context.Context) (*client, error) {
	spec, err := x.p.WorkloadJSON()
	if err != nil {
		return nil, err
	}
	d := target.Dataset{Name: "targettest", Workload: x.p.Workload, Spec: spec, Seed: x.p.Seed()}
	if err := x.db.Load(ctx, d); err != nil {
		return nil, err
	}
	return x.open(ctx)
}

// load checks that a second data set replaces the first.
func (x *statements) load(ctx context.Context) (err error) {
	c, err := x.loaded(ctx)
	if err != nil {
		return err
	}
	before, err := x.db.Audit(ctx, nil)
	if err != nil {
		return errors.Join(err, c.session.Close())
	}
	k := txn.IntKey(table, 1)
	err = c.commit(ctx, func(c txn.Ctx) error { c.Put(k, []byte("of the first data set")); return nil })
	if err = errors.Join(err, c.session.Close()); err != nil {
		return err
	}
	if c, err = x.loaded(ctx); err != nil {
		return err
	}
	var found error
	err = c.commit(ctx, func(c txn.Ctx) error { _, found = c.Get(k); return nil })
	switch err = errors.Join(err, c.session.Close()); {
	case err != nil:
		return err
	case found != txn.ErrNotFound:
		return fmt.Errorf("a row that was written before the data set was loaded a second time is still there (Get: %v); Load replaces all rows", found)
	}
	after, err := x.db.Audit(ctx, nil)
	if err == nil && !reflect.DeepEqual(before, after) {
		err = fmt.Errorf("the audit of the data set, loaded a second time, is %+v, not %+v", after, before)
	}
	return err
}

// random checks that random statements return and leave the same rows as store.View.
func (x *statements) random(ctx context.Context) (err error) {
	c, err := x.loaded(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.session.Close()) }()
	m := model{rows: store.NewHash(), rng: rand.New(rand.NewPCG(1, 2))}
	err = c.commit(ctx, func(c txn.Ctx) error {
		for i := range byte(manyRows) {
			c.Put(member(manyRows, i), []byte{i})
			m.rows.Put(member(manyRows, i), []byte{i}, 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range randomTransactions {
		if err := m.transaction(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// model is the expected rows of the database.
type model struct {
	rows *store.Hash
	rng  *rand.Rand
}

// transaction runs a random transaction, then a transaction that checks its effects.
func (m *model) transaction(ctx context.Context, c *client) error {
	var wrong error
	view := store.View{Rows: m.rows}
	rollback := m.rng.IntN(4) == 0
	o, err := c.transact(ctx, func(c txn.Ctx) error {
		for range 1 + m.rng.IntN(10) {
			if wrong = m.step(c, &view); wrong != nil {
				return wrong
			}
		}
		if rollback {
			return txn.Abort("rolled back")
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return wrong
	case rollback && (o.Status != txn.Aborted || o.Cause != txn.CauseProcedure):
		return fmt.Errorf("a transaction whose procedure gave up ended as %v, cause %v, reason %q; it should be aborted", o.Status, o.Cause, o.Reason)
	case !rollback && o.Status != txn.Committed:
		return fmt.Errorf("a transaction that nobody competes with ended as %v, cause %v, reason %q; it should commit", o.Status, o.Cause, o.Reason)
	}
	after := "a rollback"
	if !rollback {
		after = "a commit"
		for _, w := range view.Writes.Entries() {
			if w.Deleted {
				m.rows.Delete(w.Key)
			} else {
				m.rows.Put(w.Key, w.Value, 0)
			}
		}
	}
	left := store.View{Rows: m.rows}
	err = c.commit(ctx, func(c txn.Ctx) error {
		for _, k := range keys {
			if wrong = same(c, &left, "Get of "+k.String(), get(k)); wrong != nil {
				return nil
			}
		}
		return nil
	})
	if wrong != nil {
		return fmt.Errorf("after %s: %w", after, wrong)
	}
	return err
}

// manyRows is the number of rows in a group that is scanned but not written. It is also the number of that group.
const manyRows = 100

// member returns the key of row i of a group.
func member(group, i byte) txn.Key {
	return txn.OrderedKey(table, uint64(group), []byte{group}, []byte{i})
}

// keys are the keys that the checks use: of rows in three groups, and of rows without a group.
var keys = func() (keys []txn.Key) {
	for g := range byte(3) {
		for i := range byte(6) {
			keys = append(keys, member(g, i))
		}
	}
	for i := range 4 {
		keys = append(keys, txn.IntKey(table, uint64(i)), txn.StringKey(table, fmt.Sprint("row ", i)))
	}
	return keys
}()

func (m *model) key() txn.Key { return keys[m.rng.IntN(len(keys))] }

// bounds returns a random range in one group: the whole group, from a key to the end, or from the start to a key.
func (m *model) bounds() txn.Range {
	k, most := m.key(), 4
	for !k.Ordered() {
		k = m.key()
	}
	if m.rng.IntN(4) == 0 {
		k, most = member(manyRows, byte(m.rng.IntN(manyRows))), manyRows+10
	}
	r := txn.Prefix(k.Unit())
	switch m.rng.IntN(3) {
	case 0:
		r.From = k
	case 1:
		r.To = k
		if r.From >= r.To {
			r.To = k.Unit().End()
		}
	}
	r.Reverse, r.Limit = m.rng.IntN(2) == 0, m.rng.IntN(most)
	return r
}

// step executes a random statement on the database and on the model.
func (m *model) step(c txn.Ctx, view *store.View) error {
	switch m.rng.IntN(6) {
	case 0:
		k := m.key()
		return same(c, view, "Get of "+k.String(), get(k))
	case 1:
		wanted := make([]txn.Key, m.rng.IntN(5))
		for i := range wanted {
			wanted[i] = m.key()
		}
		// A repeated key in GetAll is allowed, and a target may deduplicate it wrongly.
		if n := len(wanted); n > 2 && m.rng.IntN(2) == 0 {
			wanted[n-1] = wanted[0]
		}
		return same(c, view, fmt.Sprintf("GetAll of %v", wanted), func(c txn.Ctx) ([]row, error) {
			values, err := c.GetAll(wanted)
			rows := make([]row, len(values))
			for i, v := range values {
				rows[i] = row{value: v, missing: v == nil}
			}
			return rows, err
		})
	case 2:
		r := m.bounds()
		stop := m.rng.IntN(8)
		return same(c, view, fmt.Sprintf("Scan of %+v, stopped after %d rows (0: never)", r, stop), func(c txn.Ctx) (rows []row, err error) {
			err = c.Scan(r, func(k txn.Key, value []byte) bool {
				rows = append(rows, row{key: k, value: bytes.Clone(value)})
				return len(rows) != stop
			})
			return rows, err
		})
	case 3:
		k := m.key()
		c.Delete(k)
		view.Delete(k)
	default:
		k, value := m.key(), make([]byte, m.rng.IntN(4))
		for i := range value {
			value[i] = byte(m.rng.IntN(256))
		}
		c.Put(k, bytes.Clone(value))
		view.Put(k, value)
	}
	return nil
}

// row is a row in a statement's result.
type row struct {
	key     txn.Key
	value   []byte
	missing bool
}

func (r row) String() string {
	switch {
	case r.missing:
		return "nil"
	case r.key == "":
		return fmt.Sprintf("%x", r.value)
	}
	return fmt.Sprintf("%v = %x", r.key, r.value)
}

func get(k txn.Key) func(txn.Ctx) ([]row, error) {
	return func(c txn.Ctx) ([]row, error) {
		v, err := c.Get(k)
		if err != nil {
			return nil, err
		}
		return []row{{value: v}}, nil
	}
}

// same executes a statement on the database and on the model, and returns an error that describes the difference of the
// results.
func same(c txn.Ctx, view *store.View, what string, statement func(txn.Ctx) ([]row, error)) error {
	got, gotErr := statement(c)
	want, wantErr := statement(view)
	if gotErr != wantErr {
		return fmt.Errorf("%s fails with %v, not with %v", what, gotErr, wantErr)
	}
	equal := len(got) == len(want)
	for i := 0; equal && i < len(got); i++ {
		equal = got[i].key == want[i].key && got[i].missing == want[i].missing && bytes.Equal(got[i].value, want[i].value)
	}
	if !equal {
		return fmt.Errorf("%s returns %v, not %v", what, got, want)
	}
	return nil
}

// activity checks that a running transaction counts as pending. After its session is closed, no transaction may count
// as pending.
func (x *statements) activity(ctx context.Context) error {
	c, err := x.loaded(ctx)
	if err != nil {
		return err
	}
	var during target.Activity
	var asked error
	err = c.commit(ctx, func(txn.Ctx) error {
		during, asked = x.db.Activity(ctx)
		return nil
	})
	if err = errors.Join(err, asked, c.session.Close()); err != nil {
		return err
	}
	if during.Pending < 1 {
		return fmt.Errorf("inside a transaction, %d are pending; audits wait until none is", during.Pending)
	}
	return x.quiet(ctx)
}

// quiet returns an error if any transaction is pending.
func (x *statements) quiet(ctx context.Context) error {
	a, err := x.db.Activity(ctx)
	if err == nil && a.Pending != 0 {
		err = fmt.Errorf("%d transactions are pending after the last session was closed", a.Pending)
	}
	return err
}

// close checks that a session that is closed during a transaction leaves neither its writes nor its locks.
func (x *statements) close(ctx context.Context) error {
	c, err := x.loaded(ctx)
	if err != nil {
		return err
	}
	k, left := txn.IntKey(table, 1), []byte("of the closed session")
	var session context.Context
	written := make(chan struct{})
	c.began = func(ctx context.Context) { session = ctx }
	c.begin(func(c txn.Ctx) error {
		c.Put(k, bytes.Clone(left))
		close(written)
		<-session.Done()
		_, err := c.Get(k)
		if err == nil {
			err = session.Err()
		}
		return err
	})
	select {
	case <-written:
	case o := <-c.outcomes:
		return errors.Join(fmt.Errorf("a transaction that nobody competes with ended as %v, cause %v, reason %q, before it wrote", o.Status, o.Cause, o.Reason), c.session.Close())
	case <-ctx.Done():
		return fmt.Errorf("a transaction did not begin within %v", Within)
	}
	if err := c.session.Close(); err != nil {
		return err
	}
	if o := <-c.outcomes; o.Status == txn.Committed {
		return fmt.Errorf("a transaction whose session closed before COMMIT ended as %v", o.Status)
	}
	if err := x.quiet(ctx); err != nil {
		return err
	}
	if c, err = x.open(ctx); err != nil {
		return err
	}
	defer c.session.Close() //nolint:errcheck // no transaction is running
	// Run enough transactions to use each connection at least twice, because a pool may reuse the connection with the open
	// transaction last.
	for range 2*x.s.Connections + 1 {
		var found []byte
		err := c.commit(ctx, func(c txn.Ctx) error {
			v, err := c.Get(k)
			if err != nil && err != txn.ErrNotFound {
				return err
			}
			found = bytes.Clone(v)
			// If the closed session's locks remain, this write blocks or aborts.
			c.Put(k, []byte("of the next session"))
			c.Delete(k)
			return nil
		})
		switch {
		case err != nil:
			return fmt.Errorf("after a session closed in the middle of a transaction: %w", err)
		case bytes.Equal(found, left):
			return errors.New("a row that was written in a transaction whose session closed before COMMIT is there")
		}
	}
	return nil
}
