package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"

	"github.com/zkd-project/zkd/internal/vfs"
)

// Trees are written from left to right, and each page once: a leaf is complete when the next item
// does not fit into it, and a branch page when the next child does not. A page goes to the file
// with its first key entered into the page above it.

const (
	// leafSize is the size at which a leaf is complete. It has up to three overflow pages: with
	// values of some 1 KiB, less of the file is empty than with leaves of one page.
	leafSize = 4 * pageSize
	// branchSize is the same for a branch page. It has at least two children nevertheless.
	branchSize = pageSize

	noFreelist = 1<<64 - 1 // instead of a page of free pages: bbolt finds them when it needs to
)

var zeros [pageSize]byte

// node is a page under construction.
type node struct {
	elems []byte // elements, with positions counted from the begin of data
	data  []byte // keys and values
	count int
}

func (n *node) size() int { return pageHeaderSize + len(n.elems) + len(n.data) }

// tree is a B+tree under construction.
type tree struct {
	out    *output
	flags  uint32 // of each leaf element
	levels []node // the last page of each level, from the leaves up
	last   []byte // key of the previous item
}

// add adds an item, whose key comes after all others in the order of bytes.
func (t *tree) add(key, value []byte) error {
	switch {
	case len(key) == 0:
		return errors.New("a key is empty")
	case string(key) <= string(t.last):
		return fmt.Errorf("key %.100q comes after %.100q", key, t.last)
	}
	t.last = append(t.last[:0], key...)
	n := t.level(0)
	if n.count > 0 && n.size()+elementSize+len(key)+len(value) > leafSize {
		if err := t.complete(0); err != nil {
			return err
		}
		n = t.level(0) // complete may have moved it
	}
	n.elems = native.AppendUint32(n.elems, t.flags)
	n.elems = native.AppendUint32(n.elems, uint32(len(n.data)))
	n.elems = native.AppendUint32(n.elems, uint32(len(key)))
	n.elems = native.AppendUint32(n.elems, uint32(len(value)))
	n.data = append(append(n.data, key...), value...)
	n.count++
	return nil
}

// level returns the page under construction of a level.
func (t *tree) level(i int) *node {
	if i == len(t.levels) {
		t.levels = append(t.levels, node{})
	}
	return &t.levels[i]
}

// complete writes the page under construction of a level and enters it into the level above.
func (t *tree) complete(level int) error {
	key := t.firstKey(level)
	if above := t.level(level + 1); above.count >= 2 && above.size()+elementSize+len(key) > branchSize {
		if err := t.complete(level + 1); err != nil {
			return err
		}
	}
	n, above := t.level(level), t.level(level+1)
	id, err := t.out.page(n, level)
	if err != nil {
		return err
	}
	above.elems = native.AppendUint32(above.elems, uint32(len(above.data)))
	above.elems = native.AppendUint32(above.elems, uint32(len(key)))
	above.elems = native.AppendUint64(above.elems, id)
	above.data = append(above.data, key...)
	above.count++
	n.elems, n.data, n.count = n.elems[:0], n.data[:0], 0
	return nil
}

// firstKey returns the first key of the page under construction of a level.
func (t *tree) firstKey(level int) []byte {
	n, at := &t.levels[level], 4 // see the elements in pages.go
	if level == 0 {
		at = 8
	}
	return n.data[:native.Uint32(n.elems[at:])]
}

// finish writes the rest of the tree and returns its root page.
func (t *tree) finish() (root uint64, err error) {
	t.level(0) // a tree without items is an empty leaf
	for i := 0; i < len(t.levels)-1; i++ {
		if err := t.complete(i); err != nil {
			return 0, err
		}
	}
	top := len(t.levels) - 1
	return t.out.page(&t.levels[top], top)
}

// output writes pages to a file, one after the other.
type output struct {
	ctx   context.Context
	file  vfs.File
	wrote func(n int) error // called after each n bytes written
	next  uint64            // id of the next page
	buf   []byte            // the last pages, which are not in the file yet
	crc   uint32            // CRC32C of the pages in the file from firstPage on; at the end, of the whole file
}

// page writes a node of a level and returns its page.
func (o *output) page(n *node, level int) (id uint64, err error) {
	pages := (n.size() + pageSize - 1) / pageSize
	id = o.next
	o.next += uint64(pages)
	flags, pos := uint16(flagLeaf), 4
	if level > 0 {
		flags, pos = flagBranch, 0
	}
	o.header(id, flags, n.count, pages-1)
	for e := range n.count {
		at := n.elems[e*elementSize+pos:]
		native.PutUint32(at, native.Uint32(at)+uint32(len(n.elems)-e*elementSize))
	}
	o.buf = append(append(o.buf, n.elems...), n.data...)
	o.buf = append(o.buf, zeros[:pages*pageSize-n.size()]...)
	if len(o.buf) < bufferSize {
		return id, nil
	}
	return id, o.write()
}

func (o *output) header(id uint64, flags uint16, count, overflow int) {
	o.buf = native.AppendUint64(o.buf, id)
	o.buf = native.AppendUint16(o.buf, flags)
	o.buf = native.AppendUint16(o.buf, uint16(count))
	o.buf = native.AppendUint32(o.buf, uint32(overflow))
}

// write writes the buffered pages into the file.
func (o *output) write() error {
	if err := context.Cause(o.ctx); err != nil {
		return err
	}
	n := len(o.buf)
	if _, err := o.file.WriteAt(o.buf, int64(o.next)*pageSize-int64(n)); err != nil {
		return err
	}
	o.crc = crc32.Update(o.crc, castagnoli, o.buf)
	o.buf = o.buf[:0]
	return o.wrote(n)
}

// finish writes the rest of the pages and both meta pages.
func (o *output) finish(root uint64) error {
	if err := o.write(); err != nil {
		return err
	}
	for txid := range uint64(2) {
		o.header(txid, flagMeta, 0, 0)
		begin := len(o.buf)
		for _, v := range []uint32{boltMagic, boltVersion, pageSize, 0} {
			o.buf = native.AppendUint32(o.buf, v)
		}
		for _, v := range []uint64{root, 0, noFreelist, o.next, txid} {
			o.buf = native.AppendUint64(o.buf, v)
		}
		sum := fnv.New64a()
		sum.Write(o.buf[begin:])
		o.buf = native.AppendUint64(o.buf, sum.Sum64())
		o.buf = append(o.buf, zeros[:pageSize-pageHeaderSize-metaSize]...)
	}
	o.crc = concatenated(crc32.Checksum(o.buf, castagnoli), o.crc, int64(o.next-firstPage)*pageSize)
	_, err := o.file.WriteAt(o.buf, 0)
	return err
}
