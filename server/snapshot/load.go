package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

const readSize = 1 << 20 // bytes per read of the whole file

// Visitor receives an item of a section. The bytes are valid only until it
// returns. An error ends the load and means that the snapshot can't be used.
type Visitor func(section string, key, value []byte) error

// Load reads the snapshot that ref names: first it checks size and CRC, then it delivers
// every item. Sections come in the order in which they were written, early ones first;
// items of a section in the order of the keys' bytes. Load returns the Meta of the
// snapshot. The caller compares the digest of the state that it has built with Meta.Digest.
//
// A *fault.Error says why the file can't be used; the caller must then discard all items. A
// file that is not the one that ref names is Damaged, unless its contents are sound by
// their own checksums: then it is Foreign, or Newer. If the file is the right one and can't
// be loaded, the kind is Newer or Inconsistent: no byte is damaged. When ctx ends, Load
// returns its cause.
func (s *Store) Load(ctx context.Context, ref Ref, visit Visitor) (Meta, error) {
	path := s.Path(ref.Name)
	f, err := s.opts.FS.Open(path)
	if err != nil {
		return Meta{}, fault.IO(path, err)
	}
	defer f.Close() // it was only read
	if err := check(ctx, f, ref); err != nil {
		return Meta{}, explain(ctx, f, &ref, faultOf(ctx, fault.Damaged, path, err))
	}
	c, err := read(ctx, f, ref.Size, visit)
	if err == nil {
		err = c.meta.fits(&ref)
	}
	if err != nil {
		return Meta{}, faultOf(ctx, fault.Inconsistent, path, err)
	}
	return c.meta, nil
}

// LoadFile is like Load for the caller that does not know yet which file the log refers to. It
// returns the Ref that fits the file called name. If the log has another Ref, the caller must
// discard all items. If there is an error, only Load can say what it means.
func (s *Store) LoadFile(ctx context.Context, name string, visit Visitor) (Ref, Meta, error) {
	path := s.Path(name)
	f, err := s.opts.FS.Open(path)
	if err != nil {
		return Ref{}, Meta{}, fault.IO(path, err)
	}
	defer f.Close() // it was only read
	ref := Ref{Name: name}
	if ref.Size, ref.CRC, err = measure(ctx, f); err != nil {
		return Ref{}, Meta{}, faultOf(ctx, fault.Unreadable, path, err)
	}
	c, err := read(ctx, f, ref.Size, visit)
	if err != nil {
		return Ref{}, Meta{}, faultOf(ctx, fault.Inconsistent, path, err)
	}
	ref.Zxid, ref.Digest = c.meta.Zxid, c.meta.Digest
	return ref, c.meta, nil
}

// explain returns why a file does not have the size or the CRC in ref: damage, unless the
// file is another snapshot that is sound by its own checksums, or one of a later version.
func explain(ctx context.Context, f vfs.File, ref *Ref, damage error) error {
	info, err := f.Stat()
	if err != nil || fault.KindOf(damage) != fault.Damaged {
		return damage
	}
	c, err := read(ctx, f, info.Size(), func(string, []byte, []byte) error { return nil })
	switch {
	case err == nil && c.meta.fits(ref) != nil:
		return fault.New(fault.Foreign, f.Name(), fmt.Errorf("it is the snapshot of zxid %v by %s, not the one of %v that the log refers to",
			c.meta.Zxid, c.meta.writer(), ref.Zxid))
	case err != nil && fault.KindOf(faultOf(ctx, fault.Damaged, f.Name(), err)) != fault.Damaged:
		return faultOf(ctx, fault.Damaged, f.Name(), err)
	}
	return damage
}

// Verify reads the whole snapshot like Load and reports whether it is valid. The caller
// still has to check the digest of the content.
func (s *Store) Verify(ctx context.Context, ref Ref) (Meta, error) {
	return s.Load(ctx, ref, func(string, []byte, []byte) error { return nil })
}

// Describe returns the Meta in the file with the given name, unverified: it reads nothing
// else of the file. A *fault.Error says why the Meta can't be read.
func (s *Store) Describe(ctx context.Context, name string) (Meta, error) {
	c, err := s.contents(ctx, name)
	return c.meta, err
}

// Format returns the version of format.Snapshot that a file has. It is like Describe otherwise.
func (s *Store) Format(ctx context.Context, name string) (uint32, error) {
	c, err := s.contents(ctx, name)
	return c.version, err
}

func (s *Store) contents(ctx context.Context, name string) (contents, error) {
	path := s.Path(name)
	f, err := s.opts.FS.Open(path)
	if err != nil {
		return contents{}, fault.IO(path, err)
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return contents{}, fault.IO(path, err)
	}
	p, err := newPages(ctx, f, info.Size())
	if err != nil {
		return contents{}, faultOf(ctx, fault.Damaged, path, err)
	}
	c, err := p.contents()
	if err != nil {
		return contents{}, faultOf(ctx, fault.Damaged, path, err)
	}
	return c, nil
}

// RefOf returns the Ref that fits a file as it is now. It says nothing about what the file
// was: see Load for the checks that remain.
func (s *Store) RefOf(ctx context.Context, name string) (Ref, error) {
	meta, err := s.Describe(ctx, name)
	if err != nil {
		return Ref{}, err
	}
	f, err := s.opts.FS.Open(s.Path(name))
	if err != nil {
		return Ref{}, fault.IO(s.Path(name), err)
	}
	defer f.Close() // it was only read
	ref := Ref{Name: name, Zxid: meta.Zxid, Digest: meta.Digest}
	if ref.Size, ref.CRC, err = measure(ctx, f); err != nil {
		return Ref{}, faultOf(ctx, fault.Damaged, s.Path(name), err)
	}
	return ref, nil
}

// check compares size and CRC of the file with those of ref.
func check(ctx context.Context, f vfs.File, ref Ref) error {
	info, err := f.Stat()
	if err != nil {
		return readError{err}
	}
	if info.IsDir() {
		return readError{errors.New("it is a directory")}
	}
	if info.Size() != ref.Size {
		return fmt.Errorf("the file has %d bytes, not %d", info.Size(), ref.Size)
	}
	_, crc, err := measure(ctx, f)
	if err == nil && crc != ref.CRC {
		err = fmt.Errorf("the file has the CRC32C %08x, not %08x", crc, ref.CRC)
	}
	return err
}

// measure returns the size and CRC32C of a file.
func measure(ctx context.Context, f io.ReaderAt) (size int64, crc uint32, err error) {
	buf := make([]byte, readSize)
	for {
		if err := context.Cause(ctx); err != nil {
			return 0, 0, err
		}
		n, err := f.ReadAt(buf, size)
		crc = crc32.Update(crc, castagnoli, buf[:n])
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return size, crc, nil
		}
		if err != nil {
			return 0, 0, readFailed(size, err)
		}
	}
}

// read reads the whole file.
func read(ctx context.Context, f io.ReaderAt, size int64, visit Visitor) (contents, error) {
	p, err := newPages(ctx, f, size)
	if err != nil {
		return contents{}, err
	}
	c, err := p.contents()
	if err != nil {
		return c, err
	}
	for _, sec := range c.sections {
		var sum uint64
		n, err := p.walkNamed(c.buckets, sec.Name, func(k, v []byte) error {
			sum += itemSum(k, v)
			k, v, err := lengthen(k, v)
			if err != nil {
				return err
			}
			return visit(sec.Name, k, v)
		})
		switch {
		case err != nil:
		case n != sec.Count:
			err = fmt.Errorf("section %s has %d keys, not %d", sec.Name, n, sec.Count)
		case c.version > 1 && sum != sec.Sum:
			err = fmt.Errorf("section %s has the checksum %x, not %x", sec.Name, sum, sec.Sum)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// contents is what a file says about itself.
type contents struct {
	version  uint32
	meta     Meta
	buckets  []bucket
	sections []SectionCount
}

// contents reads everything except the sections.
func (p *pages) contents() (contents, error) {
	buckets, err := p.buckets()
	if err != nil {
		return contents{}, err
	}
	entries := make(metaBucket)
	if _, err := p.walkNamed(buckets, metaName, func(k, v []byte) error {
		entries[string(k)] = slices.Clone(v)
		return nil
	}); err != nil {
		return contents{}, err
	}
	c, err := entries.read()
	c.buckets = buckets
	if err == nil && len(c.buckets) != 1+len(c.sections) {
		err = fmt.Errorf("it has %d buckets, not %d", len(c.buckets), 1+len(c.sections))
	}
	return c, err
}
