package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

const metaName = "meta"

// Section is a named part of a snapshot.
type Section struct {
	// Name is not empty and not "meta".
	Name string
	// Items are the unique, non-empty keys and their values, in the order of the keys' bytes. The
	// bytes need to stay valid only until the next item.
	Items iter.Seq2[[]byte, []byte]
	// Early makes Load deliver the section before those that are not early, although it is
	// written in its turn: its content may be known only when other sections have been written.
	Early bool
}

// Write writes the snapshot of sections and meta, and returns its reference when the file
// is durable under its name. It blocks until then. It iterates over the items on the
// calling goroutine.
//
// It fails with the cause of ctx when that ends, with an error that matches fs.ErrExist
// when the snapshot already exists, and with ErrNoSpace or ENOSPC when the disk is full.
// After any error the unfinished file is gone.
func (s *Store) Write(ctx context.Context, meta Meta, sections ...Section) (Ref, error) {
	return s.writeLeaving(ctx, s.opts.Reserve, false, meta, sections)
}

// WriteAnother is like Write, also if there is a snapshot of the same zxid and epoch. They may differ, as when the copy of an ensemble
// becomes another one, or one of them is what a crash has left.
func (s *Store) WriteAnother(ctx context.Context, meta Meta, sections ...Section) (Ref, error) {
	return s.writeLeaving(ctx, s.opts.Reserve, true, meta, sections)
}

// WriteForRoom is like Write, and may use the last of the disk: what the snapshot supersedes is removed after it.
func (s *Store) WriteForRoom(ctx context.Context, meta Meta, sections ...Section) (Ref, error) {
	return s.writeLeaving(ctx, 0, false, meta, sections)
}

func (s *Store) writeLeaving(ctx context.Context, reserve int64, another bool, meta Meta, sections []Section) (Ref, error) {
	s.write.Lock()
	defer s.write.Unlock()
	name := FileName(meta.Zxid, meta.Epoch)
	ref, err := s.writeFile(ctx, reserve, another, name, meta, sections)
	if err != nil {
		return Ref{}, fmt.Errorf("write snapshot %s: %w", name, err)
	}
	return ref, nil
}

func (s *Store) writeFile(ctx context.Context, reserve int64, another bool, name string, meta Meta, sections []Section) (ref Ref, err error) {
	_, err = s.opts.FS.Stat(s.Path(name))
	taken := err == nil
	switch {
	case taken && !another:
		return Ref{}, fs.ErrExist
	case !taken && !errors.Is(err, fs.ErrNotExist):
		return Ref{}, err
	}
	tmp := filepath.Join(s.tmp, tmpPrefix+name)
	defer func() {
		if err == nil {
			return
		}
		if rerr := s.opts.FS.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	if err := s.opts.FS.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Ref{}, err
	}
	size, crc, err := s.build(ctx, reserve, tmp, meta, sections)
	if err != nil {
		return Ref{}, err
	}
	if taken {
		name = receivedName(meta.Zxid, meta.Epoch, crc)
	}
	if err := s.opts.FS.Rename(tmp, s.Path(name)); err != nil {
		return Ref{}, err
	}
	if err := s.opts.FS.SyncDir(s.snap); err != nil {
		// It is unknown whether the name is durable. Without a Ref the file does not count, so it
		// may be removed or stay; removing it is better.
		return Ref{}, errors.Join(err, s.remove(name))
	}
	return Ref{Name: name, Zxid: meta.Zxid, Size: size, CRC: crc, Digest: meta.Digest}, nil
}

// build writes the file and makes it durable.
func (s *Store) build(ctx context.Context, reserve int64, path string, meta Meta, sections []Section) (size int64, crc uint32, err error) {
	f, err := s.opts.FS.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, 0, err
	}
	y := syncer{ctx: ctx, s: s, file: f, reserve: reserve}
	b := builder{out: &output{ctx: ctx, file: f, wrote: y.wrote, next: firstPage}}
	if err = b.all(meta, sections); err == nil {
		size, crc, err = int64(b.out.next)*pageSize, b.out.crc, f.Sync()
	}
	return size, crc, errors.Join(err, f.Close())
}

// builder writes the sections of a snapshot, each as a tree.
type builder struct {
	out   *output
	roots map[string]uint64 // root pages, by section
	key   []byte            // buffer for a long key
	long  uint64            // number of long keys so far
}

// all writes the whole file.
func (b *builder) all(meta Meta, sections []Section) error {
	b.roots = make(map[string]uint64)
	var done complete
	early := 0
	for _, sec := range sections {
		if sec.Name == metaName || sec.Name == "" {
			return fmt.Errorf("section may not be called %q", sec.Name)
		}
		count, err := b.section(sec)
		if err != nil {
			return fmt.Errorf("section %s: %w", sec.Name, err)
		}
		at := len(done.Sections)
		if sec.Early {
			at = early
			early++
		}
		done.Sections = slices.Insert(done.Sections, at, count)
	}
	entries, err := metaItems(meta, &done)
	if err != nil {
		return fmt.Errorf("encode meta: %w", err)
	}
	if _, err := b.section(Section{Name: metaName, Items: entries}); err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	root, err := b.rootBucket()
	if err != nil {
		return err
	}
	return b.out.finish(root)
}

func (b *builder) section(sec Section) (n SectionCount, err error) {
	if b.roots[sec.Name] != 0 {
		return n, errors.New("it comes twice")
	}
	n.Name = sec.Name
	t := tree{out: b.out}
	for k, v := range sec.Items {
		k, v = b.shorten(k, v)
		if err := t.add(k, v); err != nil {
			return n, err
		}
		n.Count++
		n.Sum += itemSum(k, v)
	}
	b.roots[sec.Name], err = t.finish()
	return n, err
}

// rootBucket writes the tree of the buckets, and returns its root page.
func (b *builder) rootBucket() (uint64, error) {
	t := tree{out: b.out, flags: flagBucket}
	for _, name := range slices.Sorted(maps.Keys(b.roots)) {
		bucket := native.AppendUint64(nil, b.roots[name])
		if err := t.add([]byte(name), native.AppendUint64(bucket, 0)); err != nil {
			return 0, err
		}
	}
	return t.finish()
}

// syncer makes the written bytes durable step by step, leaves half of the disk's time to others,
// and checks the free space.
//
// Each fsync of the log waits for everything that its disk has in its cache. Without the steps
// that would be a large part of the snapshot, and without the rests the disk would always be busy.
type syncer struct {
	ctx      context.Context
	s        *Store
	file     vfs.File
	reserve  int64     // bytes of the disk to be left free
	unsynced int       // bytes since the last step
	next     time.Time // when the disk may be used again
}

// wrote is called after each write, with the bytes that it wrote.
func (y *syncer) wrote(n int) error {
	y.unsynced += n
	if y.unsynced < y.s.opts.SyncStep {
		return nil
	}
	y.unsynced = 0
	if err := y.rest(); err != nil {
		return err
	}
	begin := time.Now()
	if err := y.file.SyncData(); err != nil {
		return err
	}
	end := time.Now()
	y.next = end.Add(end.Sub(begin))
	return y.s.checkSpace(0, y.reserve)
}

// checkSpace returns ErrNoSpace if the disk has no room for the given number of bytes beside a reserve.
func (s *Store) checkSpace(more, reserve int64) error {
	if reserve <= 0 {
		return nil
	}
	space, err := s.Space()
	if err == nil && space.Free-more < reserve {
		err = fmt.Errorf("%w: %d bytes are free, of which %d are needed and %d must stay free", ErrNoSpace, space.Free, more, reserve)
	}
	return err
}

// Space returns the room on the disk of the snapshots.
func (s *Store) Space() (vfs.Space, error) { return s.opts.FS.Space(s.tmp) }

// rest waits until the disk may be used again.
func (y *syncer) rest() error {
	wait := time.NewTimer(time.Until(y.next))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-y.ctx.Done():
		return context.Cause(y.ctx)
	}
}
