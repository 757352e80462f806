package backup

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/snapshot"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Create fetches a base into an archive, and verifies it before it gets its name.
func Create(ctx context.Context, s *Source, to archive.Storage, now time.Time) (*archive.Base, error) {
	f, b, err := s.fetchBase(ctx, to.Create, now)
	if err != nil {
		return nil, err
	}
	b.Name = b.FileName()
	return b, to.Put(ctx, f, b.Name)
}

// CreateFile is like Create for a file of any name.
func CreateFile(ctx context.Context, s *Source, path string, now time.Time) (*archive.Base, error) {
	dir := archive.Dir(filepath.Dir(path))
	f, b, err := s.fetchBase(ctx, dir.Create, now)
	if err != nil {
		return nil, err
	}
	b.Name = filepath.Base(path)
	return b, dir.Put(ctx, f, b.Name)
}

// fetchBase fetches a base into a new file, and verifies it.
func (s *Source) fetchBase(ctx context.Context, create func() (*os.File, error), now time.Time) (f *os.File, b *archive.Base, err error) {
	if f, err = create(); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	sum := crc32.New(castagnoli)
	fetched, err := s.Fetch(ctx, io.MultiWriter(f, sum))
	if err != nil {
		return f, nil, err
	}
	b = &archive.Base{Name: filepath.Base(f.Name()), Time: now.Truncate(time.Second), Zxid: fetched.Zxid, Bytes: fetched.Bytes, CRC: sum.Sum32()}
	return f, b, b.Verify(ctx, filepath.Dir(f.Name()))
}

// Open returns the base in a file of any name. If it is not one that an archive gives, its time is
// that of the snapshot.
func Open(ctx context.Context, path string) (*archive.Base, error) {
	dir, name := filepath.Split(path)
	if b, ok := archive.ParseBase(name); ok {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		b.Bytes = info.Size()
		return &b, nil
	}
	store := snapshot.ReadingFrom(vfs.OS{}, filepath.Clean(dir))
	meta, err := store.Describe(ctx, name)
	if err != nil {
		return nil, err
	}
	ref, err := store.RefOf(ctx, name)
	return &archive.Base{Name: name, Time: time.UnixMilli(meta.Time), Zxid: ref.Zxid, Bytes: ref.Size, CRC: ref.CRC}, err
}
