package spanner

import (
	"github.com/geobench/geobench/internal/base/txn"
)

// lockTable holds the locks of a group, at its leaseholder. A lock covers a row or a range of rows with ordered keys,
// whether the rows exist or not. A transaction that inserts into a range therefore waits for its readers, which
// prevents phantoms. Ranges stay inside a unit (txn.Key.Unit), so locks of different units never conflict, and a unit
// has few locks.
//
// Deadlocks are prevented by wound-wait (Rosenkrantz et al. 1978). A transaction that requests a lock wounds the
// younger holders of conflicting locks. It waits for older holders and for older waiting transactions. A transaction
// that was proposed to the log keeps its locks, so an older transaction may have to wait for it.
type lockTable struct {
	units map[txn.Key]*unit
	dirty []*unit // units in which a lock may have become free
	free  []*unit

	// wound is called after the locks of a holder were taken away.
	wound func(*holder)
	// contend is called if an older transaction waits for a holder that cannot be wounded.
	contend func(*holder)
	// ready is called once a holder has all requested locks.
	ready func(*holder)
}

// unit holds the locks of one row with an unordered key, or of a group of rows with ordered keys.
type unit struct {
	key     txn.Key
	granted []*lock
	waiting []*lock // the oldest first
	dirty   bool
}

// lock is a granted or requested lock.
type lock struct {
	h         *holder
	unit      *unit
	rows      txn.Range
	exclusive bool
	// limited is set for a scan with a limit. The lock is reduced once the scan has found its rows.
	limited bool
}

// meets reports whether two ranges overlap, regardless of their limits.
func meets(a, b *txn.Range) bool {
	switch {
	case a.Point():
		return b.Contains(a.From)
	case b.Point():
		return a.Contains(b.From)
	}
	return a.From < b.To && b.From < a.To
}

// conflicts reports whether two locks belong to different transactions and must not be granted together.
func (l *lock) conflicts(m *lock) bool {
	// A transaction does not conflict with itself, so it can upgrade a shared lock.
	return l.h != m.h && (l.exclusive || m.exclusive) && meets(&l.rows, &m.rows)
}

// covers reports whether a holder of l needs no further lock for rows.
func (l *lock) covers(rows *txn.Range, exclusive bool) bool {
	if exclusive && !l.exclusive {
		return false
	}
	if rows.Point() {
		return l.rows.Contains(rows.From)
	}
	// A point lock never covers a range, since the range also protects rows that do not exist.
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

// ask queues l for its holder, unless a granted lock of the holder covers it. The caller has set l.h and l.rows, and
// must call settle afterwards.
func (t *lockTable) ask(l *lock) {
	u := t.unit(l.rows.From)
	for _, m := range u.granted {
		if m.h == l.h && m.covers(&l.rows, l.exclusive) {
			return
		}
	}
	at := len(u.waiting)
	// The queue is ordered by age, so no transaction waits for a younger waiting transaction.
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

// reinstate grants a lock without checks to a prepared transaction that had it under an earlier leaseholder.
func (t *lockTable) reinstate(l *lock) {
	l.unit = t.unit(l.rows.From)
	l.unit.granted = append(l.unit.granted, l)
	l.h.locks = append(l.h.locks, l)
}

// release releases a holder's granted locks and withdraws its requests. The caller must call settle afterwards.
func (t *lockTable) release(h *holder) {
	for _, l := range h.locks {
		// A lock of a holder is either granted or waiting.
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

// narrow reduces a granted lock to a subset of its rows. The caller must call settle afterwards.
func (t *lockTable) narrow(l *lock, rows txn.Range) {
	l.rows = rows
	t.touch(l.unit)
}

// settle grants locks in all units that have changed.
func (t *lockTable) settle() {
	for i := 0; i < len(t.dirty); i++ { // the loop may append units
		u := t.dirty[i]
		t.dirty[i] = nil
		u.dirty = false
		for !t.grant(u) {
		}
		// Empty units would otherwise accumulate.
		if len(u.granted) == 0 && len(u.waiting) == 0 && !u.dirty {
			delete(t.units, u.key)
			u.key = ""
			t.free = append(t.free, u)
		}
	}
	t.dirty = t.dirty[:0]
}

// grant processes the waiting locks of a unit. It returns false if it has wounded a holder and must start again.
func (t *lockTable) grant(u *unit) (done bool) {
	for i := 0; i < len(u.waiting); {
		l := u.waiting[i]
		free := true
		// A lock must not overtake an older conflicting request, or that request could starve.
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
			// Wound-wait: an older transaction does not wait for a younger holder that it can wound, so waits form no cycle.
			if l.h.age.olderThan(&m.h.age) {
				// A transaction that was proposed may commit, so it keeps its locks.
				if m.h.stage == growing {
					wounded = m.h
					break
				}
				t.contend(m.h)
			}
		}
		if wounded != nil {
			// release changes both lists of the unit, so the loop must not continue with its indexes.
			t.release(wounded)
			wounded.stage = lost
			t.wound(wounded)
			return false
		}
		if !free {
			if !u.key.Ordered() {
				break // all locks of this unit are on one row, so all younger transactions wait, too
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
