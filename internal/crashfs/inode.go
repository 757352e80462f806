package crashfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

const (
	sectorSize = 512
	blockSize  = 4096
)

// inode is a file: what is seen, what is durable, and the changes in between.
type inode struct {
	live    []byte
	durable []byte
	pending []write
	blocks  map[int64]bool // that take up room
}

// write is a change of an inode since its last sync: bytes at an offset, or a
// new size if data is nil.
type write struct {
	off  int64
	data []byte
}

func newInode() *inode { return &inode{blocks: map[int64]bool{}} }

func (n *inode) truncate(size int64) {
	n.pending = append(n.pending, write{off: size})
	n.live = resize(n.live, size)
	maps.DeleteFunc(n.blocks, func(b int64, _ bool) bool { return b*blockSize >= size })
}

func (n *inode) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	n.pending = append(n.pending, write{off: off, data: append([]byte(nil), p...)})
	n.live = put(n.live, p, off)
}

// newBlocks counts the blocks that writing the range would add.
func (n *inode) newBlocks(off, size int64) (count int64) {
	for b := off / blockSize; b*blockSize < off+size; b++ {
		if !n.blocks[b] {
			count++
		}
	}
	return count
}

func (n *inode) addBlocks(off, size int64) {
	for b := off / blockSize; b*blockSize < off+size; b++ {
		n.blocks[b] = true
	}
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b[:len(b):len(b)], make([]byte, size-int64(len(b)))...)
}

func put(b, p []byte, off int64) []byte {
	if end := off + int64(len(p)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[off:], p)
	return b
}

// chooser decides whether a change that was not synced survives.
type chooser func() bool

func always() bool { return true }
func never() bool  { return false }

func coin(rng *rand.Rand) chooser { return func() bool { return rng.IntN(2) == 0 } }

// after returns the bytes that the disk has after some of the pending changes:
// each sector is chosen on its own.
func (n *inode) after(choose chooser) []byte {
	b := append([]byte(nil), n.durable...)
	for _, w := range n.pending {
		if w.data == nil {
			if choose() {
				b = resize(b, w.off)
			}
			continue
		}
		for i := int64(0); i < int64(len(w.data)); {
			next := min(int64(len(w.data)), (w.off+i)/sectorSize*sectorSize+sectorSize-w.off)
			if choose() {
				b = put(b, w.data[i:next], w.off+i)
			}
			i = next
		}
	}
	return b
}

// sync makes durable what the chooser picks; the rest never will be.
func (n *inode) sync(choose chooser) {
	n.durable = n.after(choose)
	n.pending = nil
}

// dir is a directory of files.
type dir struct {
	live    map[string]*inode
	durable map[string]*inode
	pending []change
}

// change is one change of a directory: from loses its name, and to becomes
// node's. Either may be empty.
type change struct {
	from, to string
	node     *inode
}

func newDir() *dir {
	return &dir{live: map[string]*inode{}, durable: map[string]*inode{}}
}

func (d *dir) change(c change) {
	c.apply(d.live)
	d.pending = append(d.pending, c)
}

func (c change) apply(names map[string]*inode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.node
	}
}

// after returns the names that the disk has after some of the pending changes.
func (d *dir) after(choose chooser) map[string]*inode {
	names := maps.Clone(d.durable)
	for _, c := range d.pending {
		if choose() {
			c.apply(names)
		}
	}
	return names
}

// sortedKeys makes walks over maps repeatable.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
