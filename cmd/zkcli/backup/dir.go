package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/snapshot"
)

// Backup is a file in a directory of backups.
type Backup struct {
	Path  string
	Time  time.Time // when it was fetched, in seconds
	Zxid  jute.Zxid
	Bytes int64
	crc   uint32
}

const (
	prefix     = "zkd-"
	suffix     = ".db"
	timeLayout = "20060102T150405Z"
	unfinished = ".zkd-backup-" // begins the names of files that are not complete
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b *Backup) name() string {
	return fmt.Sprintf("%s%s-%v-%08x%s", prefix, b.Time.UTC().Format(timeLayout), b.Zxid, b.crc, suffix)
}

// parse is the inverse of name.
func parse(name string) (b Backup, ok bool) {
	inner, ok1 := strings.CutPrefix(name, prefix)
	inner, ok2 := strings.CutSuffix(inner, suffix)
	parts := strings.Split(inner, "-")
	if !ok1 || !ok2 || len(parts) != 3 {
		return b, false
	}
	at, err1 := time.Parse(timeLayout, parts[0])
	zxid, err2 := strconv.ParseUint(strings.TrimPrefix(parts[1], "0x"), 16, 64)
	crc, err3 := strconv.ParseUint(parts[2], 16, 32)
	b = Backup{Time: at, Zxid: jute.Zxid(zxid), crc: uint32(crc)}
	return b, errors.Join(err1, err2, err3) == nil && b.name() == name
}

// Create fetches a backup into dir, which it makes if necessary, and verifies it.
func Create(ctx context.Context, s *Source, dir string, now time.Time) (*Backup, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	b := &Backup{Time: now.Truncate(time.Second)}
	err := write(ctx, s, dir, b, func() string { return filepath.Join(dir, b.name()) })
	return b, err
}

// CreateFile is like Create for a file of any name.
func CreateFile(ctx context.Context, s *Source, path string, now time.Time) (*Backup, error) {
	b := &Backup{Time: now.Truncate(time.Second)}
	err := write(ctx, s, filepath.Dir(path), b, func() string { return path })
	return b, err
}

// write fetches and verifies a backup, and then gives it its name.
func write(ctx context.Context, s *Source, dir string, b *Backup, path func() string) (err error) {
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum := crc32.New(castagnoli)
	fetched, err := s.Fetch(ctx, io.MultiWriter(f, sum))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	b.Path, b.Zxid, b.Bytes, b.crc = f.Name(), fetched.Zxid, fetched.Bytes, sum.Sum32()
	if err := b.Verify(ctx); err != nil {
		return err
	}
	b.Path = path()
	if err := os.Rename(f.Name(), b.Path); err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(dir)
}

// Verify reads the whole backup, and compares all checksums. The content may still be wrong
// in a way that only a server's tree shows: zkd verify looks at that, too.
func (b *Backup) Verify(ctx context.Context) error {
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(b.Path))
	ref, err := store.RefOf(ctx, filepath.Base(b.Path))
	if err != nil {
		return err
	}
	if ref.Zxid != b.Zxid || ref.CRC != b.crc {
		return fmt.Errorf("%s is damaged: it has zxid %v and CRC32C %08x, and should have %v and %08x", b.Path, ref.Zxid, ref.CRC, b.Zxid, b.crc)
	}
	_, err = store.Verify(ctx, ref)
	return err
}

// Open returns the backup in a file of any name. If it is not one that Create has named, its
// time is that of the snapshot.
func Open(ctx context.Context, path string) (*Backup, error) {
	if b, ok := parse(filepath.Base(path)); ok {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		b.Path, b.Bytes = path, info.Size()
		return &b, nil
	}
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Dir(path))
	meta, err := store.Describe(ctx, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	ref, err := store.RefOf(ctx, filepath.Base(path))
	return &Backup{Path: path, Time: time.UnixMilli(meta.Time), Zxid: ref.Zxid, Bytes: ref.Size, crc: ref.CRC}, err
}

// List returns the backups in dir, the oldest first.
func List(dir string) ([]Backup, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []Backup
	for _, e := range entries {
		b, ok := parse(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		b.Path, b.Bytes = filepath.Join(dir, e.Name()), info.Size()
		list = append(list, b)
	}
	slices.SortStableFunc(list, func(a, b Backup) int { return a.Time.Compare(b.Time) })
	return list, nil
}

// Retention says which backups stay.
type Retention struct {
	Keep int           // the newest ones that stay in any case; at least 1
	Age  time.Duration // those that are younger stay, too
}

// Prune removes the backups of dir that need not stay, and returns them. Before it removes
// one, it verifies the newest: so a sound one remains.
func Prune(ctx context.Context, dir string, r Retention, now time.Time) ([]Backup, error) {
	list, err := List(dir)
	if err != nil {
		return nil, err
	}
	old := list[:max(0, len(list)-max(r.Keep, 1))]
	old = slices.DeleteFunc(slices.Clone(old), func(b Backup) bool { return now.Sub(b.Time) < r.Age })
	if len(old) == 0 {
		return nil, nil
	}
	if err := list[len(list)-1].Verify(ctx); err != nil {
		return nil, fmt.Errorf("nothing is removed, since the newest backup is not sound: %w", err)
	}
	for i := range old {
		if err := os.Remove(old[i].Path); err != nil {
			return old[:i], err
		}
	}
	return old, nil
}
