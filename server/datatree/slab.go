package datatree

import "math/bits"

const (
	chunkBits = 10
	chunkSize = 1 << chunkBits
)

// slab stores values addressed by numbers from 1 up, in chunks that do not move. If there is any
// value, number 0 has zeros. Chunks with no value in use, except one, are returned to the garbage
// collector, so a mass delete releases memory.
type slab[T any] struct {
	chunks []*[chunkSize]T
	use    []chunkUse
	// partial has the number of each chunk with room, once. A chunk that was returned is
	// nil, has room, and so is listed too.
	partial []uint32
	// empty is the number of a chunk that may be kept although it has no value in use,
	// so that alternating creates and deletes do not allocate each time.
	empty uint32
	held  int // chunks that are allocated
}

// chunkUse says which values of a chunk are free.
type chunkUse struct {
	live int32 // values in use
	free [chunkSize / 64]uint64
}

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i>>chunkBits][i&(chunkSize-1)] }

// alloc returns the number of a zero value, the least one that is free in its chunk.
func (s *slab[T]) alloc() uint32 {
	if len(s.partial) == 0 {
		s.chunks = append(s.chunks, nil)
		s.use = append(s.use, chunkUse{})
		s.partial = append(s.partial, uint32(len(s.chunks)-1))
	}
	c := s.partial[len(s.partial)-1]
	if s.chunks[c] == nil {
		s.fill(c)
	}
	u := &s.use[c]
	w := 0
	for u.free[w] == 0 {
		w++
	}
	bit := bits.TrailingZeros64(u.free[w])
	u.free[w] &^= 1 << bit
	u.live++
	if u.live == chunkSize {
		s.partial = s.partial[:len(s.partial)-1]
	}
	return c<<chunkBits + uint32(64*w+bit)
}

// fill allocates chunk number c.
func (s *slab[T]) fill(c uint32) {
	s.chunks[c] = new([chunkSize]T)
	s.held++
	u := &s.use[c]
	*u = chunkUse{}
	for w := range u.free {
		u.free[w] = ^uint64(0)
	}
	if c == 0 { // number 0 stays zero
		u.live, u.free[0] = 1, u.free[0]&^1
	}
}

// release frees the value number i.
func (s *slab[T]) release(i uint32) {
	c := i >> chunkBits
	u := &s.use[c]
	if u.live == chunkSize {
		s.partial = append(s.partial, c)
	}
	var zero T
	*s.at(i) = zero
	u.free[i%chunkSize/64] |= 1 << (i % 64)
	u.live--
	if u.live == 0 {
		s.drop(c)
	}
}

// drop returns chunk number c, which has no value in use, to the garbage collector,
// unless it is the only such chunk.
func (s *slab[T]) drop(c uint32) {
	if e := s.empty; e == c || s.chunks[e] == nil || s.use[e].live > 0 {
		s.empty = c
		return
	}
	s.chunks[c] = nil
	s.held--
}
