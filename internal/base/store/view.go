package store

import "github.com/geobench/geobench/internal/base/txn"

// View is a procedure's view of the rows if all of them are stored at this node. It implements txn.Ctx, and collects
// the procedure's writes in Writes.
type View struct {
	Rows   Reader
	Writes txn.WriteSet
}

// Get implements txn.Ctx.
func (v *View) Get(k txn.Key) ([]byte, error) {
	if w := v.Writes.Get(k); w != nil {
		if w.Deleted {
			return nil, txn.ErrNotFound
		}
		return w.Value, nil
	}
	r, found := v.Rows.Get(k)
	if !found {
		return nil, txn.ErrNotFound
	}
	return r.Value, nil
}

// GetAll implements txn.Ctx.
func (v *View) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(v, keys) }

// Scan implements txn.Ctx.
func (v *View) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	if err := r.CheckScan(); err != nil {
		return err
	}
	return v.Writes.Scan(r, func(r txn.Range, f func(txn.Key, []byte) bool) error {
		v.Rows.Scan(r, func(k txn.Key, rec Record) bool { return f(k, rec.Value) })
		return nil
	}, f)
}

// Put implements txn.Ctx.
func (v *View) Put(k txn.Key, value []byte) { v.Writes.Put(k, value) }

// Delete implements txn.Ctx.
func (v *View) Delete(k txn.Key) { v.Writes.Delete(k) }
