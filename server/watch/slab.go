package watch

// slab holds records by number, in chunks that never move, so that growing
// copies nothing. Number 0 is never given out: it means none.
type slab[T any] struct {
	chunks []*[chunkLen]T
	free   []uint32 // numbers to use again
	used   uint32   // numbers ever given out, and 0
	live   int      // records in use
}

const chunkLen = 1024

// at returns the record with this number.
func (s *slab[T]) at(id uint32) *T { return &s.chunks[id/chunkLen][id%chunkLen] }

// alloc returns the number of a zero record.
func (s *slab[T]) alloc() uint32 {
	s.live++
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	s.used = max(s.used, 1)
	id := s.used
	if int(id/chunkLen) == len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkLen]T))
	}
	s.used++
	return id
}

// release makes the record zero, and its number free.
func (s *slab[T]) release(id uint32) {
	var zero T
	*s.at(id) = zero
	s.free = append(s.free, id)
	s.live--
}
