package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/zkd-project/zkd/internal/format"
)

const (
	pageSize    = 4096
	txSize      = 2 << 20 // key and value bytes per transaction; with 8 MiB a Write needs 45 MB more memory and no less time
	lockTimeout = time.Second
	mapSize     = 64 << 20 // initial address space
	metaName    = "meta"
)

// Section is a named part of a snapshot.
type Section struct {
	// Name is not empty and not "meta".
	Name string
	// Items are the unique, non-empty keys and their values. Writing is fastest in the order of
	// the keys' bytes. The bytes need to stay valid only until the next item.
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
	s.write.Lock()
	defer s.write.Unlock()
	name := FileName(meta.Zxid, meta.Epoch)
	ref, err := s.writeFile(ctx, name, meta, sections)
	if err != nil {
		return Ref{}, fmt.Errorf("write snapshot %s: %w", name, err)
	}
	return ref, nil
}

func (s *Store) writeFile(ctx context.Context, name string, meta Meta, sections []Section) (ref Ref, err error) {
	if _, err := s.opts.FS.Stat(s.Path(name)); err == nil {
		return Ref{}, fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
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
	if err := s.build(ctx, tmp, meta, sections); err != nil {
		return Ref{}, err
	}
	size, crc, err := s.seal(ctx, tmp)
	if err != nil {
		return Ref{}, err
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

// seal makes the finished file durable and measures it by reading it back.
func (s *Store) seal(ctx context.Context, path string) (size int64, crc uint32, err error) {
	f, err := s.opts.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, 0, err
	}
	size, crc, err = measure(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	return size, crc, errors.Join(err, f.Close())
}

// build writes the bbolt file.
func (s *Store) build(ctx context.Context, path string, meta Meta, sections []Section) (err error) {
	b := builder{ctx: ctx, flusher: flusher{ctx: ctx, s: s, begin: time.Now()}}
	b.db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockTimeout,
		NoSync:          true, // the file is discarded after a crash
		NoGrowSync:      true,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: mapSize,
		PageSize:        pageSize,
		NoStatistics:    true,
		MaxSize:         s.maxSize,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag|os.O_EXCL, perm)
			b.flusher.file = f
			return f, err
		},
	})
	if err != nil {
		return err
	}
	err = b.all(meta, sections)
	return errors.Join(err, b.db.Close())
}

// builder fills a bbolt file, in transactions of bounded size.
type builder struct {
	ctx     context.Context
	db      *bbolt.DB
	flusher flusher

	tx     *bbolt.Tx
	bucket *bbolt.Bucket
	arena  []byte // values of the transaction: bbolt requires them to stay valid
	used   int    // key and value bytes of the transaction
	key    []byte // buffer for a long key
	long   uint64 // number of long keys so far
	last   []byte // key of the previous item
	sum    uint64 // of the section's items so far; see itemSum
}

// all writes the whole file. bbolt reads the file through a mapping, where a disk error
// raises a fault; all converts it to an error.
func (b *builder) all(meta Meta, sections []Section) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(memoryFault)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("read back what was written: %w", fault)
		}
		if b.tx != nil {
			err = errors.Join(err, b.tx.Rollback())
		}
	}()
	var done complete
	early := 0
	for _, sec := range sections {
		if sec.Name == metaName {
			return fmt.Errorf("section may not be called %s", metaName)
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
	if err := b.meta(meta, &done); err != nil {
		return err
	}
	return b.complete(done)
}

// memoryFault is the panic value of a fault in mapped memory.
type memoryFault interface {
	error
	Addr() uintptr
}

func (b *builder) section(sec Section) (n SectionCount, err error) {
	n.Name = sec.Name
	if err := b.beginWith(sec.Name, true); err != nil {
		return n, err
	}
	b.last, b.sum = b.last[:0], 0
	for k, v := range sec.Items {
		if err := b.put(k, v); err != nil {
			return n, err
		}
		n.Count++
		if b.used < txSize {
			continue
		}
		if err := b.commit(); err != nil {
			return n, err
		}
		if err := b.beginWith(sec.Name, false); err != nil {
			return n, err
		}
	}
	n.Sum = b.sum
	return n, b.commit()
}

// meta and complete write the bucket meta: first the description of the snapshot, then, in
// a separate transaction, the mark that it is complete.
func (b *builder) meta(meta Meta, done *complete) error {
	info, err := encode(&meta)
	if err != nil {
		return fmt.Errorf("encode meta: %w", err)
	}
	done.InfoCRC = crc32.Checksum(info, castagnoli)
	if err := b.beginWith(metaName, true); err != nil {
		return err
	}
	if err := errors.Join(b.put([]byte("format"), encodeFormat(byte(format.Snapshot.Writes()))), b.put([]byte("info"), info)); err != nil {
		return err
	}
	return b.commit()
}

func (b *builder) complete(done complete) error {
	value, err := encode(&done)
	if err != nil {
		return fmt.Errorf("encode meta: %w", err)
	}
	if err := b.beginWith(metaName, false); err != nil {
		return err
	}
	if err := b.put([]byte("complete"), value); err != nil {
		return err
	}
	if err := b.commit(); err != nil {
		return err
	}
	return b.db.Sync()
}

// beginWith begins a transaction on a bucket. It creates the bucket if isNew is set.
func (b *builder) beginWith(bucket string, isNew bool) (err error) {
	if err := context.Cause(b.ctx); err != nil {
		return err
	}
	if b.tx, err = b.db.Begin(true); err != nil {
		return err
	}
	if isNew {
		b.bucket, err = b.tx.CreateBucket([]byte(bucket))
	} else {
		b.bucket = b.tx.Bucket([]byte(bucket))
	}
	if err != nil {
		return err
	}
	b.bucket.FillPercent = 1.0
	b.arena, b.used = b.arena[:0], 0
	return nil
}

func (b *builder) commit() error {
	err := b.tx.Commit()
	b.tx, b.bucket = nil, nil // Commit has rolled back after an error
	if err != nil {
		return err
	}
	return b.flusher.step(int64(b.used))
}

func (b *builder) put(key, value []byte) error {
	key, value = b.shorten(key, value)
	if len(b.arena)+len(value) > cap(b.arena) {
		b.arena = make([]byte, 0, max(txSize+txSize/8, len(value))) // bbolt owns the old one until the commit
	}
	start := len(b.arena)
	b.arena = append(b.arena, value...)
	b.used += len(key) + len(value)
	if string(key) <= string(b.last) && b.bucket.Get(key) != nil {
		return fmt.Errorf("key %.100q comes twice", key)
	}
	b.last = append(b.last[:0], key...)
	b.sum += itemSum(key, value)
	if err := b.bucket.Put(key, b.arena[start:len(b.arena):len(b.arena)]); err != nil {
		return fmt.Errorf("key %.100q: %w", key, err)
	}
	return nil
}

// flusher sends written bytes to the disk step by step, enforces the rate limit and checks
// the free space.
type flusher struct {
	ctx      context.Context
	s        *Store
	file     *os.File
	begin    time.Time
	written  int64 // total bytes
	unsynced int64 // bytes since the last step
}

// step is called after each transaction, with the bytes that it wrote.
func (f *flusher) step(n int64) error {
	f.written += n
	f.unsynced += n
	if f.unsynced < int64(f.s.opts.FlushStep) {
		return nil
	}
	f.unsynced = 0
	if err := flushPages(f.file); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if f.s.onFlush != nil {
		f.s.onFlush(f.written)
	}
	return errors.Join(f.s.checkSpace(0), f.pace())
}

// checkSpace returns ErrNoSpace if the disk has no room for the given number of bytes.
func (s *Store) checkSpace(more int64) error {
	if s.opts.Reserve <= 0 {
		return nil
	}
	space, err := s.opts.FS.Space(s.tmp)
	if err == nil && space.Free-more < s.opts.Reserve {
		err = fmt.Errorf("%w: %d bytes are free, of which %d are needed and %d must stay free", ErrNoSpace, space.Free, more, s.opts.Reserve)
	}
	return err
}

// pace waits until the written bytes are within the rate limit.
func (f *flusher) pace() error {
	limit := f.s.opts.BytesPerSecond
	if limit <= 0 {
		return nil
	}
	due := time.Duration(float64(f.written) / float64(limit) * float64(time.Second))
	wait := time.NewTimer(due - time.Since(f.begin))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
}
