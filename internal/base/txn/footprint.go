package txn

import "fmt"

// Mode is the way in which a transaction uses a row, or the rows of a group.
type Mode uint8

// Values of Mode.
const (
	Read      Mode = 1
	Write     Mode = 2
	ReadWrite      = Read | Write
)

// Access is an entry of a transaction's read and write set: a row, or a group of rows with ordered keys.
type Access struct {
	// Key equals its Unit, because a row in a group is accessed through its group.
	Key  Key
	Mode Mode
}

// Range is a range of rows of a group: those with keys in [From, To), in key order. If To is empty, the range is the
// single row From, which need not belong to a group.
type Range struct {
	From, To Key
	// Reverse selects descending order.
	Reverse bool
	// Limit is the maximum number of rows; 0 means no limit.
	Limit int
}

// Point returns the range of a single row.
func Point(k Key) Range { return Range{From: k} }

// Prefix returns the range of all rows whose keys start with k. k must be the key of a group or longer.
func Prefix(k Key) Range { return Range{From: k, To: k.End()} }

// Point reports whether the range is a single row, which need not exist.
func (r *Range) Point() bool { return r.To == "" }

// Valid reports whether the range is a single row, or is inside a single group.
func (r *Range) Valid() bool {
	if !r.From.Valid() || r.Limit < 0 {
		return false
	}
	if r.Point() {
		return !r.Reverse && r.Limit == 0
	}
	return r.From.Ordered() && r.From < r.To && r.To <= r.From.Unit().End()
}

// CheckScan returns an error if a procedure cannot scan the range.
func (r *Range) CheckScan() error {
	if r.Point() || !r.Valid() {
		return fmt.Errorf("%v cannot be scanned: a scan begins and ends inside a group of rows with ordered keys", r)
	}
	return nil
}

// Contains reports whether row k is in the range, regardless of the limit.
func (r *Range) Contains(k Key) bool {
	if r.Point() {
		return k == r.From
	}
	return r.From <= k && k < r.To
}

// Covers reports whether the rows of r determine the rows of s.
func (r *Range) Covers(s *Range) bool {
	switch {
	case s.Point():
		// If r has a limit, r may end before this row. In that case the rows of r do not show whether the row exists.
		return r.Contains(s.From) && r.Limit == 0
	case r.Limit == 0:
		return r.From <= s.From && s.To <= r.To
	// r contains only the first rows, in its own order, up to its limit.
	case s.Limit == 0 || s.Limit > r.Limit || s.Reverse != r.Reverse:
		return false
	// In descending order, both ranges must start at the same key. Otherwise, r may reach its limit before it reaches s.
	case r.Reverse:
		return r.To == s.To && r.From <= s.From
	}
	return r.From == s.From && s.To <= r.To
}

// String formats the range for display.
func (r *Range) String() string {
	if r.Point() {
		return r.From.String()
	}
	s := fmt.Sprintf("%v to %x", r.From, string(r.To))
	if r.Reverse {
		s += " in reverse"
	}
	if r.Limit > 0 {
		s += fmt.Sprintf(", the first %d", r.Limit)
	}
	return s
}

// Footprint declares the rows that a transaction accesses, as far as its procedure can derive them from its arguments.
// Rows that every node stores are not part of it.
type Footprint struct {
	// Accesses lists the rows and groups, each once. Engines use them to place, order and lock a transaction.
	Accesses []Access
	// Ranges lists the rows that the transaction reads in groups to which it has a Read access. Nodes use this list to
	// fetch or send these rows. Rows that are only written need not be listed.
	Ranges []Range
	// Exact is set if the transaction accesses no other rows. Otherwise the footprint is a hint, with which engines choose
	// a node that stores most of the rows, and fetch rows in advance.
	Exact bool
}

// Add adds an access to a row. A row without a group must be added only once.
func (f *Footprint) Add(k Key, m Mode) {
	switch {
	case k.Everywhere():
	case !k.Ordered():
		f.Accesses = append(f.Accesses, Access{k, m})
	default:
		f.addGroup(k.Unit(), m)
		if m&Read != 0 {
			f.Ranges = append(f.Ranges, Point(k))
		}
	}
}

// AddScan adds a read of the rows of a range.
func (f *Footprint) AddScan(r Range) {
	f.addGroup(r.From.Unit(), Read)
	f.Ranges = append(f.Ranges, r)
}

// addGroup adds an access to a group, or extends the mode of an existing access.
func (f *Footprint) addGroup(group Key, m Mode) {
	for i := range f.Accesses {
		if a := &f.Accesses[i]; a.Key == group {
			a.Mode |= m
			return
		}
	}
	f.Accesses = append(f.Accesses, Access{group, m})
}

// find returns the access to row k or to its group, or nil if there is none.
func (f *Footprint) find(k Key) *Access {
	unit := k.Unit()
	for i := range f.Accesses {
		if f.Accesses[i].Key == unit {
			return &f.Accesses[i]
		}
	}
	return nil
}

// Reads reports whether the footprint declares a read of the rows of r.
func (f *Footprint) Reads(r *Range) bool {
	// Every node stores these rows, so reading them needs no declaration. They cannot be scanned.
	if r.From.Everywhere() {
		return r.Point()
	}
	a := f.find(r.From)
	if a == nil || a.Mode&Read == 0 {
		return false
	}
	if !r.From.Ordered() {
		return r.Point()
	}
	for i := range f.Ranges {
		if f.Ranges[i].Covers(r) {
			return true
		}
	}
	return false
}

// Writes reports whether the footprint declares a write of row k.
func (f *Footprint) Writes(k Key) bool {
	a := f.find(k)
	return a != nil && a.Mode&Write != 0
}

// readsIn reports whether Ranges contains a range in the group.
func (f *Footprint) readsIn(group Key) bool {
	for i := range f.Ranges {
		if f.Ranges[i].From.Unit() == group {
			return true
		}
	}
	return false
}

// check returns an error that describes an invalid entry of the footprint.
func (f *Footprint) check() error {
	if f.Exact && len(f.Accesses) == 0 {
		return errNoKeys
	}
	for i := range f.Accesses {
		a := &f.Accesses[i]
		if len(a.Key) >= 9 && a.Key[0]&keyMarks == 0 && a.Mode-1 < ReadWrite {
			continue // fast path: most accesses are to rows with integer keys, for which all further checks succeed
		}
		if !a.Key.Valid() || a.Key.Unit() != a.Key || a.Key.Everywhere() || a.Mode&^ReadWrite != 0 || a.Mode == 0 {
			return fmt.Errorf("%v is not a valid access: it must be a row or a group, which is not everywhere, with a mode", a.Key)
		}
		if a.Mode&Read != 0 && a.Key.Ordered() && !f.readsIn(a.Key) {
			return fmt.Errorf("the access to the group %v reads, but names no range of it", a.Key)
		}
	}
	for i := range f.Ranges {
		r := &f.Ranges[i]
		if !r.Valid() || !r.From.Ordered() {
			return fmt.Errorf("%v is not a range of one group: it must begin and end inside of it", r)
		}
		if a := f.find(r.From); a == nil || a.Mode&Read == 0 {
			return fmt.Errorf("%v is read, but the group %v is not among the accesses that read", r, r.From.Unit())
		}
	}
	return nil
}
