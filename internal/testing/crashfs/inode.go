package crashfs

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	sectorSize = 512
	blockSize  = 4096
)

// sector is the content of a sector of a file at some time. It never changes, so files, their
// durable state, and copies of both share it. A nil sector holds zeros.
type sector [sectorSize]byte

var zeroSector sector // never written to

// inode is a file: its visible and its durable content, and the changes in between.
type inode struct {
	live    image
	durable image
	pending []dirty
	blocks  bitset // that are allocated
	opens   int    // files of it that are not closed
}

// dirty is a change of an inode since its last sync: new sectors, after which
// the file has at least end bytes; or, with no sectors, exactly end bytes. data
// is that of one sector, or nil for zeros in all of them.
type dirty struct {
	first, count int
	data         *sector
	end          int64
}

func (n *inode) truncate(size int64, heap *heap) {
	n.pending = append(n.pending, dirty{end: size})
	n.live.resize(size, heap)
	n.blocks.clearFrom(int((size + blockSize - 1) / blockSize))
}

// write changes the visible content, and records a change for each sector.
func (n *inode) write(p []byte, off int64, heap *heap) {
	for len(p) > 0 {
		i, from := int(off/sectorSize), int(off%sectorSize)
		size := min(len(p), sectorSize-from)
		s := n.live.at(i)
		if zero := isZero(p[:size]); zero && (s == nil || size == sectorSize) {
			s = nil
		} else {
			was := s
			s = heap.next()
			if was != nil {
				*s = *was
			}
			copy(s[from:], p[:size])
		}
		off += int64(size)
		p = p[size:]
		n.note(dirty{first: i, count: 1, data: s, end: off})
	}
}

// note records a change of one sector. Zeros that follow zeros in an empty place are one
// change, so that a file of zeros is cheap.
func (n *inode) note(d dirty) {
	if last := len(n.pending) - 1; last >= 0 && d.data == nil && n.live.at(d.first) == nil {
		if p := &n.pending[last]; p.count > 0 && p.data == nil && p.first+p.count == d.first {
			p.count++
			p.end = d.end
			d.apply(&n.live, nil)
			return
		}
	}
	n.pending = append(n.pending, d)
	d.apply(&n.live, nil)
}

func isZero(p []byte) bool { return string(p) == string(zeroSector[:len(p)]) }

// apply makes the change. heap may be nil unless it is one of the size.
func (d *dirty) apply(c *image, heap *heap) {
	if d.count == 0 {
		c.resize(d.end, heap)
		return
	}
	c.own()
	if d.end > c.size {
		c.grow(d.end)
	}
	for i := d.first; i < d.first+d.count; i++ {
		c.sectors[i] = d.data
	}
}

// newBlocks returns the number of blocks that writing the range would add.
func (n *inode) newBlocks(off, size int64) (count int64) {
	for b := off / blockSize; b*blockSize < off+size; b++ {
		if !n.blocks.has(int(b)) {
			count++
		}
	}
	return count
}

func (n *inode) addBlocks(off, size int64) {
	for b := off / blockSize; b*blockSize < off+size; b++ {
		n.blocks.set(int(b))
	}
}

// chooser decides whether an unsynced change survives.
type chooser func() bool

func always() bool { return true }
func never() bool  { return false }

func coin(rng *rand.Rand) chooser { return func() bool { return rng.IntN(2) == 0 } }

// settle applies some of the pending changes to the content on the disk.
func (n *inode) settle(disk *image, choose chooser, heap *heap) {
	for i := range n.pending {
		if choose() {
			n.pending[i].apply(disk, heap)
		}
	}
}

// sync makes durable what the chooser selects; the rest is lost for good.
func (n *inode) sync(choose chooser, heap *heap) {
	n.settle(&n.durable, choose, heap)
	heap.giveBack(n.pending)
	n.pending = nil
}

// image is the bytes of a file.
type image struct {
	size    int64
	sectors []*sector // as many as size needs
	shared  bool      // another image shares the sectors: do not write
}

func (c *image) at(i int) *sector {
	if i >= len(c.sectors) {
		return nil
	}
	return c.sectors[i]
}

func sectorsFor(size int64) int { return int((size + sectorSize - 1) / sectorSize) }

// grow makes the image longer, by zeros.
func (c *image) grow(size int64) {
	want := sectorsFor(size)
	if want > cap(c.sectors) {
		c.sectors = append(make([]*sector, 0, max(want, 2*len(c.sectors))), c.sectors...)
	}
	c.sectors = c.sectors[:want]
	c.size = size
}

func (c *image) resize(size int64, heap *heap) {
	c.own()
	if size >= c.size {
		c.grow(size)
		return
	}
	n := sectorsFor(size)
	clear(c.sectors[n:])
	c.sectors, c.size = c.sectors[:n], size
	if cut := size % sectorSize; cut > 0 && c.sectors[n-1] != nil {
		s := heap.next()
		copy(s[:cut], c.sectors[n-1][:cut])
		c.sectors[n-1] = s
	}
}

func (c *image) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for n := 0; n < len(p); {
		from := int(off % sectorSize)
		rest := p[n:min(len(p), n+sectorSize-from)]
		if s := c.sectors[off/sectorSize]; s != nil {
			copy(rest, s[from:])
		} else {
			clear(rest)
		}
		n += len(rest)
		off += int64(len(rest))
	}
	return len(p)
}

func (c *image) clone() image {
	c.shared = true
	return *c
}

// own prepares for a change.
func (c *image) own() {
	if c.shared {
		c.sectors, c.shared = slices.Clone(c.sectors), false
	}
}

// heap allocates the parts of inodes, many at a time.
type heap struct {
	sectors []sector
	pending []dirty // an empty list to begin with
}

func (h *heap) next() *sector {
	if len(h.sectors) == 0 {
		h.sectors = make([]sector, 16)
	}
	s := &h.sectors[0]
	h.sectors = h.sectors[1:]
	return s
}

func (h *heap) giveBack(list []dirty) {
	if cap(list) > cap(h.pending) {
		clear(list)
		h.pending = list[:0]
	}
}

// lend gives the inode an empty list.
func (h *heap) lend(n *inode) {
	if n.pending == nil {
		n.pending, h.pending = h.pending, nil
	}
}

// bitset is a set of small numbers.
type bitset []uint64

func (b bitset) has(i int) bool { return i/64 < len(b) && b[i/64]>>(i%64)&1 == 1 }

func (b *bitset) set(i int) {
	for i/64 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// clearFrom removes i and all higher numbers.
func (b *bitset) clearFrom(i int) {
	if i/64 < len(*b) {
		(*b)[i/64] &= 1<<(i%64) - 1
		*b = (*b)[:i/64+1]
	}
}

func (b bitset) count() (n int64) {
	for _, w := range b {
		n += int64(bits.OnesCount64(w))
	}
	return n
}
