package workload

// Slab provides room for many small values, cut from larger pieces, so that a value needs no separate allocation. A
// piece lives as long as any value in it. The zero value is ready for use.
type Slab struct{ free []byte }

// Room returns an empty slice that n bytes can be appended to in place. size is the length of a new piece, in bytes, if
// one is needed; n is at most size.
func (s *Slab) Room(n, size int) []byte {
	if cap(s.free) < n {
		s.free = make([]byte, 0, size)
	}
	room := s.free[0:0:n]
	s.free = s.free[n:n:cap(s.free)]
	return room
}
