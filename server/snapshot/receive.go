package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

// Reader reads the bytes of a snapshot's file, to send them to another server.
type Reader struct {
	*io.SectionReader
	f vfs.File
}

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Open opens the file of the snapshot that ref names. It stays readable if the snapshot is
// removed meanwhile. Open checks only the size, and returns a *fault.Error for a wrong one:
// the receiver checks all bytes.
func (s *Store) Open(ref Ref) (*Reader, error) {
	f, err := s.opts.FS.Open(s.Path(ref.Name))
	if err != nil {
		return nil, fault.IO(s.Path(ref.Name), err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() != ref.Size {
		err = fault.New(fault.Damaged, s.Path(ref.Name), fmt.Errorf("the file has %d bytes, not %d", info.Size(), ref.Size))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Reader{io.NewSectionReader(f, 0, ref.Size), f}, nil
}

// Receiver receives the file of a snapshot from another server. It belongs to one
// goroutine. The file does not count until Finish; a crash leaves only a file that the next
// Open removes.
type Receiver struct {
	s        *Store
	ref      Ref // with the name of the file on this server
	tmp      string
	f        vfs.File // nil after the reception has ended
	size     int64
	crc      uint32
	unsynced int
}

// Receive begins to receive the snapshot that ref, from its sender, describes. It returns
// ErrNoSpace if there is not enough room.
//
// The name of the file is not the sender's. It is derived from the content, so that this
// server's own snapshot at the same zxid, which its log may refer to, is not overwritten.
func (s *Store) Receive(ref Ref) (*Receiver, error) {
	zxid, epoch, ok := parseName(ref.Name)
	if !ok || zxid != ref.Zxid || ref.Size <= 0 {
		return nil, fmt.Errorf("receive snapshot: %.100q at %v with %d bytes is no snapshot", ref.Name, ref.Zxid, ref.Size)
	}
	ref.Name = receivedName(ref.Zxid, epoch, ref.CRC)
	ref.Digest = slices.Clone(ref.Digest)
	r := &Receiver{s: s, ref: ref}
	r.tmp = filepath.Join(s.tmp, fmt.Sprintf("%s%s.%d", tmpPrefix, ref.Name, s.received.Add(1)))
	err := s.checkSpace(ref.Size, s.opts.Reserve)
	if err == nil {
		r.f, err = s.opts.FS.Create(r.tmp)
	}
	if err != nil {
		return nil, fmt.Errorf("receive snapshot: %w", err)
	}
	return r, nil
}

// Write writes the next bytes. After an error, such as a full disk, the reception has ended
// and left no file.
func (r *Receiver) Write(p []byte) (int, error) {
	if r.f == nil {
		return 0, fs.ErrClosed
	}
	if err := r.write(p); err != nil {
		return 0, r.giveUp(err)
	}
	return len(p), nil
}

func (r *Receiver) write(p []byte) error {
	if int64(len(p)) > r.ref.Size-r.size {
		return r.invalid(fmt.Errorf("more than %d bytes come", r.ref.Size))
	}
	if _, err := r.f.WriteAt(p, r.size); err != nil {
		return err
	}
	r.size += int64(len(p))
	r.crc = crc32.Update(r.crc, castagnoli, p)
	if r.unsynced += len(p); r.unsynced < r.s.opts.SyncStep {
		return nil
	}
	r.unsynced = 0
	if err := r.f.SyncData(); err != nil {
		return err
	}
	return r.s.checkSpace(r.ref.Size-r.size, r.s.opts.Reserve)
}

// Finish checks the size and CRC32C of the received bytes, and that they are a complete
// snapshot with the right zxid and digest. It makes the file durable under its name and
// returns the reference for this server's log. After an error no file is left; a
// *fault.Error means that the bytes are wrong.
//
// Finish does not check the items: Load reads them, and the caller compares the digest of
// the state that it has built before it makes the reference durable. It must remove a
// snapshot that fails there.
func (r *Receiver) Finish(ctx context.Context) (Ref, error) {
	if r.f == nil {
		return Ref{}, fs.ErrClosed
	}
	err := r.check(ctx)
	if err == nil {
		err = r.f.Sync()
	}
	if err != nil {
		return Ref{}, r.giveUp(err)
	}
	err = r.f.Close()
	r.f = nil
	if err == nil {
		err = r.publish(ctx)
	}
	if err != nil {
		return Ref{}, r.giveUp(err)
	}
	return r.ref, nil
}

// check compares the received bytes with the reference.
func (r *Receiver) check(ctx context.Context) error {
	if r.size != r.ref.Size {
		return r.invalid(fmt.Errorf("%d bytes came, not %d", r.size, r.ref.Size))
	}
	if r.crc != r.ref.CRC {
		return r.invalid(fmt.Errorf("the CRC32C is %08x, not %08x", r.crc, r.ref.CRC))
	}
	p, err := newPages(ctx, r.f, r.size)
	if err == nil {
		var c contents
		if c, err = p.contents(); err == nil {
			err = c.meta.fits(&r.ref)
		}
	}
	if err != nil {
		return faultOf(ctx, fault.Inconsistent, r.tmp, err)
	}
	return nil
}

func (r *Receiver) invalid(cause error) error { return fault.New(fault.Damaged, r.tmp, cause) }

// publish gives the finished file its name. An existing file of that name with the same
// content, from an earlier reception, is used instead. An existing file with another
// content is moved away.
func (r *Receiver) publish(ctx context.Context) error {
	fsys := r.s.opts.FS
	if err := r.s.reuse(ctx, r.ref); err == nil {
		return errors.Join(fsys.Remove(r.tmp), fsys.SyncDir(r.s.snap))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if _, err := fsys.Stat(r.s.Path(r.ref.Name)); err == nil {
		if _, err := r.s.SetAside(r.ref.Name); err != nil {
			return err
		}
	}
	if err := fsys.Rename(r.tmp, r.s.Path(r.ref.Name)); err != nil {
		return err
	}
	if err := fsys.SyncDir(r.s.snap); err != nil {
		return errors.Join(err, r.s.remove(r.ref.Name)) // as in writeFile
	}
	return nil
}

// reuse makes the bytes of an existing file durable again. It returns an error if the file
// is not the one that ref names.
func (s *Store) reuse(ctx context.Context, ref Ref) error {
	f, err := s.opts.FS.OpenFile(s.Path(ref.Name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err = check(ctx, f, ref); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Abort ends the reception and removes its file. After Finish or an error it does nothing.
func (r *Receiver) Abort() error {
	if r.f == nil {
		return nil
	}
	if err := r.cleanUp(); err != nil {
		return fmt.Errorf("abort reception of snapshot: %w", err)
	}
	return nil
}

// giveUp ends the reception because of err.
func (r *Receiver) giveUp(err error) error {
	return fmt.Errorf("receive snapshot %s: %w", r.ref.Name, errors.Join(err, r.cleanUp()))
}

func (r *Receiver) cleanUp() error {
	if r.f != nil {
		_ = r.f.Close() // the file is discarded
		r.f = nil
	}
	if err := r.s.opts.FS.Remove(r.tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
