package workload

// Slab allocates memory for many small values from larger pieces, so that a value needs no separate allocation. A piece
// stays reachable as long as any value in it. The zero value is ready for use.
type Slab struct{ free []byte }

// Room returns an empty slice with capacity n. If the current piece is too small, Room allocates a new piece of size
// bytes; n must be at most size.
func (s *Slab) Room(n, size int) []byte {
	if cap(s.free) < n {
		s.free = make([]byte, 0, size)
	}
	// The capacity stops at n: an append beyond it copies instead of overwriting the next value.
	room := s.free[0:0:n]
	s.free = s.free[n:n:cap(s.free)]
	return room
}
