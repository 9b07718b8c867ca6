package targettest

import (
	"bytes"
	"context"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
)

// CutAtCommit cuts a client's connection during commits: either before the database receives the commit, or after the
// database has executed it. In the second case, only the answer is lost. In both cases the client must report an
// unknown outcome. The session must continue over another connection, which then reads the actual outcome. The function
// arm makes the proxy cut the next commit. The database db has one connection per region.
func CutAtCommit(t *testing.T, p *plan.Plan, db target.Database, arm func(served bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Within)
	defer cancel()
	s := db.Clients(0).(*target.Statements)
	defer s.Close() //nolint:errcheck // it has nothing to release
	c, err := (&statements{p: p, db: db, s: s}).loaded(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.session.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, served := range []bool{false, true, true, false} {
		value, k := []byte{'v', byte('0' + i)}, txn.IntKey(table, uint64(1+i))
		arm(served)
		o, err := c.transact(ctx, func(c txn.Ctx) error { c.Put(k, bytes.Clone(value)); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if o.Status != txn.Unknown || o.Cause != txn.CauseNode || o.Reason != "connection-lost" {
			t.Errorf("a commit whose connection is cut (served: %v) ended as %v, cause %v, reason %q, not unknown", served, o.Status, o.Cause, o.Reason)
		}
		var found []byte
		// The new connection shows whether the commit took effect, which the client could not know.
		err = c.commit(ctx, func(c txn.Ctx) (err error) {
			found, err = c.Get(k)
			if err == txn.ErrNotFound {
				err = nil
			}
			return err
		})
		if err != nil {
			t.Fatalf("after a connection was cut: %v", err)
		}
		if there := bytes.Equal(found, value); there != served {
			t.Errorf("a commit that was cut (served: %v) has left %q", served, found)
		}
	}
	if n := len(s.Incidents()); n > 0 {
		t.Errorf("%d incidents, though the database could be connected to", n)
	}
}
