package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
)

// Connect implements sqltarget.Dialect. The connections of a region share one etcd client, as in applications.
func (d *dialect) Connect(ctx context.Context, e sqltarget.Endpoint) (target.Connection, error) {
	client, err := d.shared.take(e, func() (*clientv3.Client, error) { return d.client(e) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	// etcd's client connects lazily, so only a request shows whether the endpoint works.
	if _, err := client.Get(ctx, d.keys.mark, clientv3.WithSerializable(), clientv3.WithCountOnly()); err != nil {
		return nil, errors.Join(err, d.shared.give(e))
	}
	return &connection{d: d, e: e, client: client}, nil
}

// connection implements target.Connection.
type connection struct {
	d      *dialect
	e      sqltarget.Endpoint
	client *clientv3.Client
	tx     statement
}

// Close implements target.Connection.
func (c *connection) Close() error { return c.d.shared.give(c.e) }

// Begin implements target.Connection.
func (c *connection) Begin(ctx context.Context, t *txn.Transaction) (target.Statement, error) {
	c.tx = statement{c: c, ctx: ctx, rows: map[txn.Key]row{}}
	if !c.d.options.Interactive {
		c.tx.hints = hints(t)
	}
	return &c.tx, nil
}

// hints returns the keys of the rows that a transaction declares as read. It omits rows of groups, because scans read
// them.
func hints(t *txn.Transaction) (keys []txn.Key) {
	p := catalog.Procedures().Lookup(t.Proc)
	var f txn.Footprint
	if p == nil || p.Declare(t.Args, &f) != nil {
		return nil
	}
	for _, a := range f.Accesses {
		if a.Mode&txn.Read != 0 && !a.Key.Ordered() {
			keys = append(keys, a.Key)
		}
	}
	for _, r := range f.Ranges {
		if r.Point() {
			keys = append(keys, r.From)
		}
	}
	return keys
}

// row is a row in the snapshot.
type row struct {
	value    []byte // nil if the row does not exist
	revision int64  // mod revision; 0 if the row does not exist
	used     bool   // the procedure has read it
}

// statement implements target.Statement. It is a transaction on a snapshot, which buffers its writes until Commit.
type statement struct {
	c     *connection
	ctx   context.Context
	hints []txn.Key
	// revision is the revision of the snapshot, or 0 before the first read.
	revision int64
	rows     map[txn.Key]row
	scans    []span
	writes   txn.WriteSet
}

// span is the range [from, to) of row keys that was read.
type span struct{ from, to string }

// options returns the options of a read. The first read determines the snapshot. At a given revision all members have
// the same data, so any member can answer later reads alone.
func (s *statement) options(more ...clientv3.OpOption) []clientv3.OpOption {
	if s.revision > 0 {
		return append(more, clientv3.WithRev(s.revision), clientv3.WithSerializable())
	}
	if s.c.d.options.Isolation == Serializable {
		return append(more, clientv3.WithSerializable())
	}
	return more
}

// do sends a read. If the endpoint now leads to a member that lags behind the snapshot, do repeats the read as a
// linearizable read.
func (s *statement) do(make func(more ...clientv3.OpOption) clientv3.Op) (clientv3.OpResponse, error) {
	r, err := s.c.client.Do(s.ctx, make(s.options()...))
	if errors.Is(err, rpctypes.ErrFutureRev) {
		// Without WithSerializable, the member first catches up with the leader, which has the snapshot's revision.
		r, err = s.c.client.Do(s.ctx, make(clientv3.WithRev(s.revision)))
	}
	return r, err
}

// fetch reads rows into the snapshot, in as few requests as the server's limit allows.
func (s *statement) fetch(keys []txn.Key) error {
	missing := keys[:0:0]
	wanted := map[txn.Key]bool{}
	for _, k := range append(keys[:len(keys):len(keys)], s.hints...) {
		if _, ok := s.rows[k]; !ok && !wanted[k] {
			wanted[k] = true
			missing = append(missing, k)
		}
	}
	// Only the first read fetches the hints. Later reads fetch only the rows that the procedure requests.
	s.hints = nil
	for most := s.c.d.options.MaxTxnOps; len(missing) > 0; {
		n := min(len(missing), most)
		if err := s.fetchSome(missing[:n]); err != nil {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

func (s *statement) fetchSome(keys []txn.Key) error {
	if len(keys) == 1 {
		r, err := s.do(func(o ...clientv3.OpOption) clientv3.Op { return clientv3.OpGet(s.c.d.keys.row(keys[0]), o...) })
		if err != nil {
			return err
		}
		s.begun(r.Get().Header.Revision)
		s.keep(keys[0], r.Get().Kvs)
		return nil
	}
	r, err := s.do(func(o ...clientv3.OpOption) clientv3.Op {
		ops := make([]clientv3.Op, len(keys))
		for i, k := range keys {
			ops[i] = clientv3.OpGet(s.c.d.keys.row(k), o...)
		}
		return clientv3.OpTxn(nil, ops, nil)
	})
	if err != nil {
		return err
	}
	s.begun(r.Txn().Header.Revision)
	for i, k := range keys {
		s.keep(k, r.Txn().Responses[i].GetResponseRange().Kvs)
	}
	return nil
}

// begun records the revision of the first answer as the snapshot.
func (s *statement) begun(revision int64) {
	if s.revision == 0 {
		s.revision = revision
	}
}

func (s *statement) keep(k txn.Key, found []*mvccpb.KeyValue) {
	var r row
	if len(found) > 0 {
		r = row{value: sqltarget.CopyOf(found[0].Value), revision: found[0].ModRevision}
	}
	s.rows[k] = r
}

// Get implements target.Statement.
func (s *statement) Get(k txn.Key) ([]byte, error) {
	values, err := s.GetAll([]txn.Key{k})
	if err != nil {
		return nil, err
	}
	if values[0] == nil {
		return nil, txn.ErrNotFound
	}
	return values[0], nil
}

// GetAll implements target.Statement.
func (s *statement) GetAll(keys []txn.Key) ([][]byte, error) {
	var fetch []txn.Key
	for _, k := range keys {
		// The transaction's own writes hide the rows of the snapshot. Hidden rows are neither fetched nor compared at commit.
		if _, ok := s.rows[k]; !ok && s.writes.Get(k) == nil {
			fetch = append(fetch, k)
		}
	}
	if len(fetch) > 0 {
		if err := s.fetch(fetch); err != nil {
			return nil, err
		}
	}
	values := make([][]byte, len(keys))
	for i, k := range keys {
		if w := s.writes.Get(k); w != nil {
			if !w.Deleted {
				values[i] = sqltarget.CopyOf(w.Value)
			}
			continue
		}
		r := s.rows[k]
		// The commit compares only rows that the procedure has read. A change to a row that was fetched only as a hint is no
		// conflict.
		r.used = true
		s.rows[k] = r
		values[i] = r.value
	}
	return values, nil
}

// page is the number of rows per request of a scan.
const page = 256

// Scan implements target.Statement.
func (s *statement) Scan(r txn.Range, f func(k txn.Key, value []byte) bool) error {
	return s.writes.Scan(r, s.scan, f)
}

// scan scans the snapshot and records the range that it has read.
func (s *statement) scan(r txn.Range, f func(k txn.Key, value []byte) bool) error {
	read := span{s.c.d.keys.row(r.From), s.c.d.keys.row(r.To)}
	order := clientv3.SortAscend
	if r.Reverse {
		order = clientv3.SortDescend
	}
	for from, to, left := read.from, read.to, r.Limit; ; {
		n := page
		if r.Limit > 0 {
			n = min(n, left)
		}
		answer, err := s.do(func(o ...clientv3.OpOption) clientv3.Op {
			return clientv3.OpGet(from, append(o, clientv3.WithRange(to), clientv3.WithLimit(int64(n)), clientv3.WithSort(clientv3.SortByKey, order))...)
		})
		if err != nil {
			return err
		}
		s.begun(answer.Get().Header.Revision)
		for _, kv := range answer.Get().Kvs {
			last := string(kv.Key)
			left--
			if !f(s.c.d.keys.key(kv.Key), sqltarget.CopyOf(kv.Value)) || r.Limit > 0 && left == 0 {
				// The scan stopped early, so the commit compares only the range up to the last row. Inserts beyond this row are no
				// phantoms.
				if r.Reverse {
					read.from = last
				} else {
					read.to = last + "\x00"
				}
				s.scans = append(s.scans, read)
				return nil
			}
			if r.Reverse {
				to = last
			} else {
				from = last + "\x00"
			}
		}
		if !answer.Get().More || len(answer.Get().Kvs) == 0 {
			// The whole range was read, so an insert anywhere in it would be a phantom.
			s.scans = append(s.scans, read)
			return nil
		}
	}
}

// Put implements target.Statement.
func (s *statement) Put(k txn.Key, value []byte) error {
	s.writes.Put(k, sqltarget.CopyOf(value))
	return nil
}

// Delete implements target.Statement.
func (s *statement) Delete(k txn.Key) error {
	s.writes.Delete(k)
	return nil
}

// Commit implements target.Statement.
func (s *statement) Commit(ctx context.Context) error {
	// All reads have the same revision, so a read-only transaction is serializable without comparisons.
	if s.writes.Len() == 0 {
		return nil
	}
	compares, ops, bytes := s.request()
	ops, ok := packed(ops, len(compares), s.c.d.options.MaxTxnOps)
	// The server would reject such a request. This check returns an error with the sizes.
	if !ok || bytes > maxRequestBytes {
		return fmt.Errorf("%w (%d comparisons, %d bytes)", errTooLarge, len(compares), bytes)
	}
	answer, err := s.c.client.Txn(ctx).If(compares...).Then(ops...).Commit()
	if err == nil && !answer.Succeeded {
		err = errChanged
	}
	return err
}

// request returns the comparisons and operations of the commit, and their approximate size in bytes.
func (s *statement) request() (compares []clientv3.Cmp, ops []clientv3.Op, bytes int) {
	const envelope = 32 // approximate encoding overhead of a comparison or operation
	keys := &s.c.d.keys
	for k, r := range s.rows {
		// Rows that are stored everywhere are never written, so they cannot conflict.
		if r.used && !k.Everywhere() {
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(keys.row(k)), "=", r.revision))
			bytes += len(keys.rows) + len(k) + envelope
		}
	}
	groups := map[string]bool{}
	for _, r := range s.scans {
		if r.from >= r.to {
			continue
		}
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(r.from), "<", s.revision+1).WithRange(r.to))
		bytes += len(r.from) + len(r.to) + envelope
		// The range comparison sees only existing rows. The group's mark reveals deletions after the snapshot.
		if mark := keys.deleted(keys.key([]byte(r.from)).Unit()); !groups[mark] {
			groups[mark] = true
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(mark), "<", s.revision+1))
			bytes += len(mark) + envelope
		}
	}
	marks := map[string]bool{}
	for _, w := range s.writes.Entries() {
		key := keys.row(w.Key)
		bytes += len(key) + len(w.Value) + envelope
		if !w.Deleted {
			ops = append(ops, clientv3.OpPut(key, string(w.Value)))
			continue
		}
		ops = append(ops, clientv3.OpDelete(key))
		// Rows without order are never scanned, and a comparison by key detects their deletion.
		if !w.Key.Ordered() {
			continue
		}
		if mark := keys.deleted(w.Key.Unit()); !marks[mark] {
			marks[mark] = true
			ops = append(ops, clientv3.OpPut(mark, ""))
			bytes += len(mark) + envelope
		}
	}
	return compares, ops, bytes
}

// packed nests operations into inner transactions if their number exceeds most. The server checks its limit for each
// inner transaction separately (checkTxnRequest). packed reports whether the operations fit.
func packed(ops []clientv3.Op, compares, most int) ([]clientv3.Op, bool) {
	if compares > most {
		return nil, false
	}
	if len(ops) <= most {
		return ops, true
	}
	for n := 2; n < most; n++ {
		// The server reduces the limit of inner transactions by the larger of the outer transaction's comparisons and
		// operations.
		each := most - max(compares, n)
		if each*n < len(ops) {
			continue
		}
		var inner []clientv3.Op
		for len(ops) > 0 {
			take := min(each, len(ops))
			inner = append(inner, clientv3.OpTxn(nil, ops[:take], nil))
			ops = ops[take:]
		}
		return inner, true
	}
	return nil, false
}

// Rollback implements target.Statement. It has nothing to undo: writes are sent only by Commit.
func (s *statement) Rollback(context.Context) error { return nil }
