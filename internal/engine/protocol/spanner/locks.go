package spanner

import (
	"github.com/geobench/geobench/internal/base/txn"
)

// lockTable holds the locks of a group, at its leaseholder. A lock covers a row or a range of rows with ordered keys,
// whether the rows exist or not. So a transaction that inserts into a range that was read waits for its reader: there
// are no phantoms. Ranges stay inside a unit (txn.Key.Unit), so locks of different units never conflict, and a unit has
// few locks.
//
// Deadlocks are prevented by wound-wait (Rosenkrantz et al. 1978). A transaction that asks for a lock wounds the
// younger holders of conflicting locks. It waits for older holders, and for older transactions that wait. The locks of
// a transaction that is in the log can't be taken away. So an older transaction may have to wait for it.
type lockTable struct {
	units map[txn.Key]*unit
	dirty []*unit // those in which a lock may have become free
	free  []*unit

	// wound reports that the locks of a holder were taken from it.
	wound func(*holder)
	// contend reports that an older transaction waits for a transaction that can't be wounded.
	contend func(*holder)
	// ready reports that a holder has all requested locks.
	ready func(*holder)
}

// unit is the locks of a row without a group, or of the rows of a group.
type unit struct {
	key     txn.Key
	granted []*lock
	waiting []*lock // the oldest first
	dirty   bool
}

// lock is a lock that is held or asked for.
type lock struct {
	h         *holder
	unit      *unit
	rows      txn.Range
	exclusive bool
	// limited says that a scan wants no more than some of the first rows, and may do with fewer locks once it knows
	// which.
	limited bool
}

// meets reports whether two ranges have a row in common, whatever their limits.
func meets(a, b *txn.Range) bool {
	switch {
	case a.Point():
		return b.Contains(a.From)
	case b.Point():
		return a.Contains(b.From)
	}
	return a.From < b.To && b.From < a.To
}

// conflicts reports whether two transactions cannot have both locks.
func (l *lock) conflicts(m *lock) bool {
	return l.h != m.h && (l.exclusive || m.exclusive) && meets(&l.rows, &m.rows)
}

// covers reports whether the holder of l needs no lock on the rows.
func (l *lock) covers(rows *txn.Range, exclusive bool) bool {
	if exclusive && !l.exclusive {
		return false
	}
	if rows.Point() {
		return l.rows.Contains(rows.From)
	}
	return !l.rows.Point() && l.rows.From <= rows.From && rows.To <= l.rows.To
}

func (t *lockTable) unit(k txn.Key) *unit {
	k = k.Unit()
	u := t.units[k]
	if u == nil {
		if n := len(t.free); n > 0 {
			u, t.free = t.free[n-1], t.free[:n-1]
		} else {
			u = &unit{}
		}
		u.key = k
		t.units[k] = u
	}
	return u
}

func (t *lockTable) touch(u *unit) {
	if !u.dirty {
		u.dirty = true
		t.dirty = append(t.dirty, u)
	}
}

// ask adds l to the locks that its holder waits for, unless the holder has it. l.h and l.rows are set. settle must
// follow.
func (t *lockTable) ask(l *lock) {
	u := t.unit(l.rows.From)
	for _, m := range u.granted {
		if m.h == l.h && m.covers(&l.rows, l.exclusive) {
			return
		}
	}
	at := len(u.waiting)
	for at > 0 && l.h.age.olderThan(&u.waiting[at-1].h.age) {
		at--
	}
	u.waiting = append(u.waiting, nil)
	copy(u.waiting[at+1:], u.waiting[at:])
	u.waiting[at] = l
	l.unit = u
	l.h.locks = append(l.h.locks, l)
	l.h.missing++
	t.touch(u)
}

// reinstate gives a lock to a holder that had it under another leaseholder.
func (t *lockTable) reinstate(l *lock) {
	l.unit = t.unit(l.rows.From)
	l.unit.granted = append(l.unit.granted, l)
	l.h.locks = append(l.h.locks, l)
}

// release takes all locks from a holder, and all that it waits for. settle must follow.
func (t *lockTable) release(h *holder) {
	for _, l := range h.locks {
		if !drop(&l.unit.granted, l) {
			drop(&l.unit.waiting, l)
		}
		t.touch(l.unit)
	}
	h.locks, h.missing = nil, 0
}

func drop(locks *[]*lock, l *lock) bool {
	s := *locks
	for i, m := range s {
		if m == l {
			copy(s[i:], s[i+1:])
			s[len(s)-1] = nil
			*locks = s[:len(s)-1]
			return true
		}
	}
	return false
}

// narrow reduces a held lock to fewer rows. settle must follow.
func (t *lockTable) narrow(l *lock, rows txn.Range) {
	l.rows = rows
	t.touch(l.unit)
}

// settle grants the locks that have become free.
func (t *lockTable) settle() {
	for i := 0; i < len(t.dirty); i++ { // which grows meanwhile
		u := t.dirty[i]
		t.dirty[i] = nil
		u.dirty = false
		for !t.grant(u) {
		}
		if len(u.granted) == 0 && len(u.waiting) == 0 && !u.dirty {
			delete(t.units, u.key)
			u.key = ""
			t.free = append(t.free, u)
		}
	}
	t.dirty = t.dirty[:0]
}

// grant processes the waiting locks of a unit. It returns false if it must start again, since it has taken locks from a
// holder.
func (t *lockTable) grant(u *unit) (done bool) {
	for i := 0; i < len(u.waiting); {
		l := u.waiting[i]
		free := true
		for _, m := range u.waiting[:i] {
			if m.conflicts(l) {
				free = false
				break
			}
		}
		var wounded *holder
		for _, m := range u.granted {
			if !m.conflicts(l) {
				continue
			}
			free = false
			if l.h.age.olderThan(&m.h.age) {
				if m.h.stage == growing {
					wounded = m.h
					break
				}
				t.contend(m.h)
			}
		}
		if wounded != nil {
			t.release(wounded)
			wounded.stage = lost
			t.wound(wounded)
			return false
		}
		if !free {
			if !u.key.Ordered() {
				break // all locks here are on one row: every younger transaction waits, too
			}
			i++
			continue
		}
		copy(u.waiting[i:], u.waiting[i+1:])
		u.waiting[len(u.waiting)-1] = nil
		u.waiting = u.waiting[:len(u.waiting)-1]
		u.granted = append(u.granted, l)
		if l.h.missing--; l.h.missing == 0 {
			t.ready(l.h)
		}
	}
	return true
}
