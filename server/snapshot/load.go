package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/internal/vfs"
)

const readSize = 1 << 20 // bytes per read of the whole file

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Visitor receives an item of a section. The bytes are valid only until it
// returns. An error ends the load and counts as damage of the snapshot.
type Visitor func(section string, key, value []byte) error

// Load reads the snapshot that ref names: size and CRC first, then every item,
// in the order in which the sections were written, early ones first, and, within
// one, of the keys' bytes. It returns what the snapshot says of itself. The
// caller compares the digest of what it has built with Meta.Digest.
//
// An *InvalidError says that the file is not what ref says; what visit was given
// must then be thrown away. The cause of ctx is returned when that ends, and
// other errors, such as fs.ErrNotExist, as they are.
func (s *Store) Load(ctx context.Context, ref Ref, visit Visitor) (Meta, error) {
	f, err := s.opts.FS.Open(s.Path(ref.Name))
	if err != nil {
		return Meta{}, fmt.Errorf("load snapshot: %w", err)
	}
	defer f.Close() // it was only read
	if err := check(ctx, f, ref); err != nil {
		return Meta{}, invalid(ctx, s.Path(ref.Name), err)
	}
	meta, err := read(ctx, f, ref.Size, visit)
	if err == nil {
		err = meta.fits(&ref)
	}
	if err != nil {
		return Meta{}, invalid(ctx, s.Path(ref.Name), err)
	}
	return meta, nil
}

// Verify reads the whole snapshot as Load does and tells whether it is valid.
// The digest of the content remains for the caller to check.
func (s *Store) Verify(ctx context.Context, ref Ref) (Meta, error) {
	return s.Load(ctx, ref, func(string, []byte, []byte) error { return nil })
}

// invalid makes err an *InvalidError, unless it is that ctx has ended.
func invalid(ctx context.Context, path string, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return fmt.Errorf("read snapshot %s: %w", filepath.Base(path), cause)
	}
	return &InvalidError{File: path, Cause: err}
}

// check compares size and CRC of the file with those of ref.
func check(ctx context.Context, f vfs.File, ref Ref) error {
	info, err := f.Stat()
	if err != nil {
		return err
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

// measure returns size and CRC32C of a file.
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
			return 0, 0, fmt.Errorf("read at offset %d: %w", size, err)
		}
	}
}

// read walks through the whole file.
func read(ctx context.Context, f io.ReaderAt, size int64, visit Visitor) (Meta, error) {
	p, err := newPages(ctx, f, size)
	if err != nil {
		return Meta{}, err
	}
	c, err := p.contents()
	if err != nil {
		return Meta{}, err
	}
	for _, sec := range c.sections {
		n, err := p.walkNamed(c.buckets, sec.Name, func(k, v []byte) error {
			k, v, err := lengthen(k, v)
			if err != nil {
				return err
			}
			return visit(sec.Name, k, v)
		})
		if err == nil && n != sec.Count {
			err = fmt.Errorf("section %s has %d keys, not %d", sec.Name, n, sec.Count)
		}
		if err != nil {
			return Meta{}, err
		}
	}
	return c.meta, nil
}

// contents is what a file has, by its own account.
type contents struct {
	meta     Meta
	buckets  []bucket
	sections []SectionCount
}

// contents reads all but the sections.
func (p *pages) contents() (c contents, err error) {
	if c.buckets, err = p.buckets(); err != nil {
		return c, err
	}
	entries := make(metaBucket)
	if _, err := p.walkNamed(c.buckets, metaName, func(k, v []byte) error {
		entries[string(k)] = slices.Clone(v)
		return nil
	}); err != nil {
		return c, err
	}
	meta, done, err := entries.read()
	if err == nil && len(c.buckets) != 1+len(done.Sections) {
		err = fmt.Errorf("it has %d buckets, not %d", len(c.buckets), 1+len(done.Sections))
	}
	c.meta, c.sections = meta, done.Sections
	return c, err
}
