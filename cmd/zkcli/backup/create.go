package backup

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkd-project/zkd/server/archive"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Create fetches a base into an archive, and verifies it before it gets its name. With zstd, it is
// compressed.
func Create(ctx context.Context, s *Source, to archive.Storage, zstd bool, now time.Time) (*archive.Base, error) {
	f, b, err := s.fetchBase(ctx, to, zstd, now)
	if err != nil {
		return nil, err
	}
	b.Name = b.FileName()
	return b, to.Put(ctx, f, b.Name)
}

// CreateFile is like Create for a file of any name, of which the end says whether to compress.
func CreateFile(ctx context.Context, s *Source, path string, now time.Time) (*archive.Base, error) {
	dir := archive.Dir(filepath.Dir(path))
	f, b, err := s.fetchBase(ctx, dir, strings.HasSuffix(path, archive.ZstdSuffix), now)
	if err != nil {
		return nil, err
	}
	b.Name = filepath.Base(path)
	return b, dir.Put(ctx, f, b.Name)
}

// fetchBase fetches a base into a new file, and verifies it. Then it compresses it, if that is wanted.
func (s *Source) fetchBase(ctx context.Context, to archive.Storage, zstd bool, now time.Time) (*os.File, *archive.Base, error) {
	f, b, err := s.fetchPlain(ctx, to, now)
	if err != nil || !zstd {
		return f, b, err
	}
	if f, err = archive.Compress(ctx, to, f); err != nil {
		return nil, nil, err
	}
	b.Zstd = true
	b.Bytes, err = f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, b, nil
}

// fetchPlain fetches a base into a new file, and verifies it.
func (s *Source) fetchPlain(ctx context.Context, to archive.Storage, now time.Time) (f *os.File, b *archive.Base, err error) {
	if f, err = to.Create(); err != nil {
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
	b = &archive.Base{Time: now.Truncate(time.Second), Zxid: fetched.Zxid, Bytes: fetched.Bytes, CRC: sum.Sum32()}
	if err := b.VerifyFile(ctx, f.Name()); err != nil {
		return f, nil, err
	}
	if id, err := archive.HistoryIn(ctx, f.Name()); err == nil { // an early version's snapshot does not name it
		b.History = id.String()
	}
	return f, b, nil
}
