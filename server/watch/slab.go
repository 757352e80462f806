package watch

// slab holds records by number, in chunks that never move, so that growing copies
// nothing. Number 0 is never allocated: it means none. P is *T.
type slab[T any, P record[T]] struct {
	chunks []*[chunkLen]T
	free   uint32 // head of the list of free numbers
	used   uint32 // numbers ever allocated, and 0
	live   int    // records in use
}

// record is an element of a slab: it has a field for a number that is unused while the
// record is free.
type record[T any] interface {
	*T
	nextFree() *uint32
}

// chunkLen makes chunks of a whole number of pages, which the heap stores without waste.
const chunkLen = 4096

// at returns the record with this number.
func (s *slab[T, P]) at(id uint32) *T { return &s.chunks[id/chunkLen][id%chunkLen] }

// alloc returns the number of a zero record.
func (s *slab[T, P]) alloc() uint32 {
	s.live++
	if id := s.free; id != 0 {
		next := P(s.at(id)).nextFree()
		s.free, *next = *next, 0
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

// release zeroes the record and frees its number. It allocates nothing.
func (s *slab[T, P]) release(id uint32) {
	var zero T
	*s.at(id) = zero
	*P(s.at(id)).nextFree() = s.free
	s.free = id
	s.live--
}
