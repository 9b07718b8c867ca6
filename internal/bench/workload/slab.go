package workload

// Slab gives room for many small values, cut from larger pieces, so that a value costs no allocation of its own. A
// piece lives as long as any value in it. Its zero value is ready for use.
type Slab struct{ free []byte }

// Room returns an empty slice that n bytes can be appended to in place. size is how large a new piece is, in bytes,
// where one is needed; n is at most that.
func (s *Slab) Room(n, size int) []byte {
	if cap(s.free) < n {
		s.free = make([]byte, 0, size)
	}
	room := s.free[0:0:n]
	s.free = s.free[n:n:cap(s.free)]
	return room
}
