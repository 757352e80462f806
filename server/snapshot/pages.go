package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// The layout of a bbolt file (version 2), numbers in the byte order of the
// machine. A page begins with a header:
//
//	id 8, flags 2, count 2, overflow 4      overflow: further pages that it takes
//
// Pages 0 and 1 are meta pages; the valid one with the higher txid counts:
//
//	magic 4, version 4, page size 4, flags 4, root bucket 16, freelist 8,
//	number of pages 8, txid 8, FNV-1a of the 56 bytes before 8
//
// The other pages in use form B+trees, one for each bucket. A page has count elements after
// its header; pos is counted from the start of the element:
//
//	branch:  pos 4, key size 4, page id 8
//	leaf:    flags 4, pos 4, key size 4, value size 4, then key and value at pos
//
// The root bucket is a tree whose keys are the names of buckets. A bucket is a
// value of 16 bytes (root page 8, sequence 8) in a leaf element with flag 1. A
// small bucket has root page 0 and its only page, without id, follows in the
// value.
const (
	pageSize       = 4096
	firstPage      = 2 // after the meta pages
	pageHeaderSize = 16
	elementSize    = 16
	bucketSize     = 16
	metaSize       = 64

	flagBranch = 0x01
	flagLeaf   = 0x02
	flagMeta   = 0x04

	flagBucket = 0x01 // of a leaf element

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	maxDepth   = 32        // a tree with two keys per page is never this high
	bufferSize = 256 << 10 // pages are mostly adjacent
)

var native = binary.NativeEndian

// pages reads the trees of a bbolt file. It trusts nothing in it: each page belongs to one
// tree and is read once, so a walk ends, and each slice is within its page.
type pages struct {
	ctx   context.Context
	file  io.ReaderAt
	size  int64
	count uint64   // pages in the file
	root  uint64   // page of the root bucket
	seen  []uint64 // a bit for each page that was read

	buf   []byte // file content
	begin int64  // offset of buf
}

func newPages(ctx context.Context, f io.ReaderAt, size int64) (*pages, error) {
	p := &pages{ctx: ctx, file: f, size: size, count: uint64(size / pageSize)}
	if size%pageSize != 0 || p.count < 4 {
		return nil, fmt.Errorf("%d bytes are no bbolt file", size)
	}
	p.seen = make([]uint64, p.count/64+1)
	m, err := p.newestMeta()
	if err != nil {
		return nil, err
	}
	p.root = m.root
	return p, nil
}

type boltMeta struct{ root, txid uint64 }

// newestMeta returns the valid meta page with the higher txid.
func (p *pages) newestMeta() (newest boltMeta, err error) {
	found := false
	for id := range uint64(2) {
		b, err := p.bytes(int64(id)*pageSize, pageSize)
		if err != nil {
			return boltMeta{}, err
		}
		if m, ok := parseMeta(b); ok && (!found || m.txid > newest.txid) {
			newest, found = m, true
		}
		p.seen[0] |= 1 << id // a meta page belongs to no tree
	}
	if !found {
		return boltMeta{}, errors.New("both meta pages are bad")
	}
	return newest, nil
}

// parseMeta reads a meta page. ok is false if it is not valid.
func parseMeta(page []byte) (m boltMeta, ok bool) {
	b := page[pageHeaderSize:][:metaSize]
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	m = boltMeta{root: native.Uint64(b[16:]), txid: native.Uint64(b[48:])}
	return m, native.Uint16(page[8:]) == flagMeta &&
		native.Uint32(b) == boltMagic && native.Uint32(b[4:]) == boltVersion &&
		native.Uint32(b[8:]) == pageSize && native.Uint64(b[56:]) == sum.Sum64()
}

// bucket is the place of a bucket: a root page, or an inline page.
type bucket struct {
	name   string
	root   uint64
	inline []byte
}

// buckets lists the buckets of the file.
func (p *pages) buckets() ([]bucket, error) {
	w := walk{pages: p, flags: flagBucket}
	var list []bucket
	w.visit = func(name, value []byte) error {
		if len(value) < bucketSize {
			return fmt.Errorf("bucket of %d bytes", len(value))
		}
		b := bucket{name: string(name), root: native.Uint64(value)}
		if b.root == 0 {
			b.inline = slices.Clone(value[bucketSize:])
		}
		list = append(list, b)
		return nil
	}
	if err := w.tree(p.root, 0); err != nil {
		return nil, fmt.Errorf("list of buckets: %w", err)
	}
	return list, nil
}

// walkNamed visits the items of the bucket called name in the order of their keys, and
// returns their number. The key and value are valid until visit returns.
func (p *pages) walkNamed(list []bucket, name string, visit func(key, value []byte) error) (n int64, err error) {
	i := slices.IndexFunc(list, func(b bucket) bool { return b.name == name })
	if i < 0 {
		return 0, fmt.Errorf("bucket %q is missing", name)
	}
	w := walk{pages: p, visit: visit}
	if b := list[i]; b.root == 0 {
		err = w.leaf(b.inline)
	} else {
		err = w.tree(b.root, 0)
	}
	if err != nil {
		err = fmt.Errorf("bucket %q: %w", name, err)
	}
	return w.n, err
}

// walk is one pass through a tree.
type walk struct {
	pages *pages
	flags uint32 // required of each leaf element
	visit func(key, value []byte) error
	last  []byte // key of the previous item
	n     int64  // items so far
}

// tree visits the tree at page id.
func (w *walk) tree(id uint64, depth int) error {
	if depth == maxDepth {
		return errors.New("the tree is too deep")
	}
	page, err := w.pages.page(id)
	if err != nil {
		return err
	}
	switch flags := native.Uint16(page[8:]); flags {
	case flagLeaf:
		if err := context.Cause(w.pages.ctx); err != nil {
			return err
		}
		if err := w.leaf(page); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		return nil
	case flagBranch:
		children, err := branch(page) // a copy: reading the next page overwrites this one
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		for _, child := range children {
			if err := w.tree(child, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("page %d has type %#x, which does not belong in a tree", id, flags)
	}
}

// branch returns the pages that a branch page refers to.
func branch(page []byte) ([]uint64, error) {
	elems, err := elements(page)
	if err != nil {
		return nil, err
	}
	if len(elems) == 0 {
		return nil, errors.New("branch page without children")
	}
	children := make([]uint64, 0, len(elems)/elementSize)
	for ; len(elems) > 0; elems = elems[elementSize:] {
		children = append(children, native.Uint64(elems[8:]))
	}
	return children, nil
}

// leaf visits the items of a leaf page.
func (w *walk) leaf(page []byte) error {
	if len(page) < pageHeaderSize || native.Uint16(page[8:]) != flagLeaf {
		return errors.New("not a leaf page")
	}
	elems, err := elements(page)
	if err != nil {
		return err
	}
	for at := pageHeaderSize; len(elems) > 0; at, elems = at+elementSize, elems[elementSize:] {
		flags, pos := native.Uint32(elems), uint64(native.Uint32(elems[4:]))
		ksize, vsize := uint64(native.Uint32(elems[8:])), uint64(native.Uint32(elems[12:]))
		data := page[at:]
		if flags != w.flags || ksize == 0 || pos+ksize+vsize > uint64(len(data)) {
			return fmt.Errorf("item at byte %d has flags %#x and takes bytes %d to %d of %d",
				at, flags, pos, pos+ksize+vsize, len(data))
		}
		key, value := data[pos:pos+ksize:pos+ksize], data[pos+ksize:pos+ksize+vsize:pos+ksize+vsize]
		if bytes.Compare(key, w.last) <= 0 {
			return fmt.Errorf("key %.100q comes after %.100q", key, w.last)
		}
		if err := w.visit(key, value); err != nil {
			return err
		}
		w.last = append(w.last[:0], key...)
		w.n++
	}
	return nil
}

// elements returns the part of a page after its header.
func elements(page []byte) ([]byte, error) {
	n := int(native.Uint16(page[10:])) * elementSize
	if n > len(page)-pageHeaderSize {
		return nil, fmt.Errorf("%d elements do not fit in a page of %d bytes", n/elementSize, len(page))
	}
	return page[pageHeaderSize:][:n], nil
}

// page returns the page with the given id and its overflow pages, valid until
// the next call. Every page is returned only once.
func (p *pages) page(id uint64) ([]byte, error) {
	if id >= p.count {
		return nil, fmt.Errorf("page %d is beyond the end of the file", id)
	}
	head, err := p.bytes(int64(id)*pageSize, pageSize)
	if err != nil {
		return nil, err
	}
	if own := native.Uint64(head); own != id {
		return nil, fmt.Errorf("page %d calls itself %d", id, own)
	}
	n := 1 + uint64(native.Uint32(head[12:]))
	if n > p.count-id {
		return nil, fmt.Errorf("page %d has %d pages, beyond the end of the file", id, n)
	}
	for i := id; i < id+n; i++ {
		if p.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	if n == 1 {
		return head, nil
	}
	return p.bytes(int64(id)*pageSize, int64(n)*pageSize)
}

// bytes returns n bytes of the file at off, valid until the next call.
func (p *pages) bytes(off, n int64) ([]byte, error) {
	if off < p.begin || off+n > p.begin+int64(len(p.buf)) {
		want := min(max(n, bufferSize), p.size-off)
		p.buf = slices.Grow(p.buf[:0], int(want))[:want]
		if n, err := p.file.ReadAt(p.buf, off); n < len(p.buf) {
			p.buf = p.buf[:0]
			return nil, readFailed(off, err)
		}
		p.begin = off
	}
	return p.buf[off-p.begin:][:n:n], nil
}
