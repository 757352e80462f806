package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

const (
	snapDir   = "snap" // in dataDir
	suffix    = ".db"
	tmpPrefix = "snapshot-"

	defaultSyncStep = 512 << 10
)

// Options are the settings of a Store.
type Options struct {
	// FS is the file system. nil means the operating system's.
	FS vfs.FS
	// SyncStep is how many bytes are written before they are made durable. It bounds what an
	// fsync of the log may have to wait for. Default 512 KiB.
	SyncStep int
	// Reserve is the free space that Write leaves on the disk, in bytes; 0 means none.
	Reserve int64
}

// Ref names a snapshot and identifies the content of its file. It makes the snapshot valid,
// so it belongs in the log.
type Ref struct {
	Name   string // of the file, without directory
	Zxid   jute.Zxid
	Size   int64  // of the file, in bytes
	CRC    uint32 // CRC32C of the file
	Digest []byte // Meta.Digest
}

// Equal reports whether r and s name the same snapshot with the same content.
func (r *Ref) Equal(s *Ref) bool {
	return r.Name == s.Name && r.Zxid == s.Zxid && r.Size == s.Size && r.CRC == s.CRC && slices.Equal(r.Digest, s.Digest)
}

// Info describes a file in the directory of snapshots. The file need not be valid.
type Info struct {
	Name  string
	Zxid  jute.Zxid
	Epoch uint32
	Size  int64 // bytes
}

// Store manages the snapshots of one data directory.
type Store struct {
	opts      Options
	snap, tmp string
	aside     string

	received atomic.Uint64 // number of receptions begun, for the names of their files

	write sync.Mutex // held while Write runs
}

// Open returns the store of dataDir. It makes missing directories, and removes files that
// an unfinished Write left in tmp.
func Open(dataDir string, opts Options) (*Store, error) {
	if opts.FS == nil {
		opts.FS = vfs.OS{}
	}
	if opts.SyncStep <= 0 {
		opts.SyncStep = defaultSyncStep
	}
	s := &Store{opts: opts, snap: filepath.Join(dataDir, snapDir), tmp: filepath.Join(dataDir, "tmp"),
		aside: filepath.Join(dataDir, asideDir)}
	for _, dir := range []string{s.snap, s.tmp} {
		if err := opts.FS.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("make directory of snapshots: %w", err)
		}
	}
	entries, err := opts.FS.ReadDir(s.tmp)
	if err != nil {
		return nil, fmt.Errorf("clean up unfinished snapshots: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix) {
			if err := opts.FS.Remove(filepath.Join(s.tmp, e.Name())); err != nil {
				return nil, fmt.Errorf("clean up unfinished snapshots: %w", err)
			}
		}
	}
	return s, nil
}

// Reading returns the store of dataDir for Load, Verify, Describe, RefOf and List. It makes and
// removes nothing.
func Reading(fsys vfs.FS, dataDir string) *Store {
	return ReadingFrom(fsys, filepath.Join(dataDir, snapDir))
}

// ReadingFrom is like Reading for snapshots that are in dir itself, under any name.
func ReadingFrom(fsys vfs.FS, dir string) *Store {
	return &Store{opts: Options{FS: fsys}, snap: dir}
}

// Path returns the path of the file with the given name.
func (s *Store) Path(name string) string { return filepath.Join(s.snap, name) }

// FileName returns the name of the snapshot of zxid, taken in epoch.
func FileName(zxid jute.Zxid, epoch uint32) string {
	return fmt.Sprintf("%016x-%d%s", uint64(zxid), epoch, suffix)
}

// receivedName returns the name of a snapshot that another server has taken, or that WriteAnother has written beside another one.
func receivedName(zxid jute.Zxid, epoch, crc uint32) string {
	return fmt.Sprintf("%016x-%d-%08x%s", uint64(zxid), epoch, crc, suffix)
}

// parseName is the inverse of FileName and of receivedName.
func parseName(name string) (zxid jute.Zxid, epoch uint32, ok bool) {
	z, rest, _ := strings.Cut(strings.TrimSuffix(name, suffix), "-")
	e, c, received := strings.Cut(rest, "-")
	zn, err1 := strconv.ParseUint(z, 16, 64)
	en, err2 := strconv.ParseUint(e, 10, 32)
	zxid, epoch = jute.Zxid(zn), uint32(en)
	want := FileName(zxid, epoch)
	var err3 error
	if received {
		var cn uint64
		cn, err3 = strconv.ParseUint(c, 16, 32)
		want = receivedName(zxid, epoch, uint32(cn))
	}
	if errors.Join(err1, err2, err3) != nil || name != want {
		return 0, 0, false
	}
	return zxid, epoch, true
}

// List returns the files in the directory of snapshots, newest first. Files with other
// names are ignored.
//
// The error matches fs.ErrNotExist if there is no such directory.
func (s *Store) List() ([]Info, error) {
	entries, err := s.opts.FS.ReadDir(s.snap)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var infos []Info
	for _, e := range entries {
		zxid, epoch, ok := parseName(e.Name())
		if !ok {
			continue
		}
		stat, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		infos = append(infos, Info{Name: e.Name(), Zxid: zxid, Epoch: epoch, Size: stat.Size()})
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(cmp.Compare(uint64(b.Zxid), uint64(a.Zxid)), cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(a.Name, b.Name))
	})
	return infos, nil
}

// Remove removes the file with the given name, durably. It is no error if the file does not
// exist.
func (s *Store) Remove(name string) error {
	if err := s.remove(name); err != nil {
		return err
	}
	if err := s.opts.FS.SyncDir(s.snap); err != nil {
		return fmt.Errorf("remove snapshot %s: %w", name, err)
	}
	return nil
}

// RemoveInSteps is like Remove, and keeps others waiting less for the disk: see
// [vfs.RemoveInSteps].
func (s *Store) RemoveInSteps(ctx context.Context, name string) error {
	if err := vfs.RemoveInSteps(ctx, s.opts.FS, s.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove snapshot %s: %w", name, err)
	}
	return nil
}

func (s *Store) remove(name string) error {
	if err := s.opts.FS.Remove(s.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove snapshot %s: %w", name, err)
	}
	return nil
}

// asideDir is the directory in dataDir for files that no log refers to.
const asideDir = "unreferenced"

// SetAside moves the file with the given name out of the directory of snapshots into the
// directory "unreferenced" next to it, and returns its new path. Only Reclaim touches files
// there.
func (s *Store) SetAside(name string) (path string, err error) {
	if err := s.opts.FS.MkdirAll(s.aside); err != nil {
		return "", fmt.Errorf("set snapshot %s aside: %w", name, err)
	}
	path = filepath.Join(s.aside, name)
	for n := 2; ; n++ {
		if _, err := s.opts.FS.Stat(path); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", fmt.Errorf("set snapshot %s aside: %w", name, err)
		}
		path = filepath.Join(s.aside, fmt.Sprintf("%s.%d", name, n))
	}
	if err := s.move(s.Path(name), path); err != nil {
		return "", fmt.Errorf("set snapshot %s aside: %w", name, err)
	}
	return path, nil
}

// Reclaim moves a file back that SetAside moved, if it is missing from its place and is the
// one that ref names. It reports whether it did.
func (s *Store) Reclaim(ctx context.Context, ref Ref) (bool, error) {
	if _, err := s.opts.FS.Stat(s.Path(ref.Name)); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	path := filepath.Join(s.aside, ref.Name)
	f, err := s.opts.FS.Open(path)
	if err != nil {
		return false, nil
	}
	err = check(ctx, f, ref)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, nil
	}
	if err := s.move(path, s.Path(ref.Name)); err != nil {
		return false, fmt.Errorf("take snapshot %s back: %w", ref.Name, err)
	}
	return true, nil
}

// move renames a file from one directory to another, durably.
func (s *Store) move(from, to string) error {
	if err := s.opts.FS.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(s.opts.FS.SyncDir(filepath.Dir(to)), s.opts.FS.SyncDir(filepath.Dir(from)))
}
