package backup

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
)

// Create fetches a base into an archive, and verifies it before it gets its name. With zstd, it is
// compressed.
func Create(ctx context.Context, s *source.Servers, to archive.Storage, zstd bool, now time.Time) (*archive.Base, error) {
	f, b, err := fetchBase(ctx, s, to, zstd, now)
	if err != nil {
		return nil, err
	}
	b.Name = b.FileName()
	return b, to.Put(ctx, f, b.Name)
}

// CreateFile is like Create for a file of any name, of which the end says whether to compress.
func CreateFile(ctx context.Context, s *source.Servers, path string, now time.Time) (*archive.Base, error) {
	dir := archive.Dir(filepath.Dir(path))
	f, b, err := fetchBase(ctx, s, dir, strings.HasSuffix(path, archive.ZstdSuffix), now)
	if err != nil {
		return nil, err
	}
	b.Name = filepath.Base(path)
	return b, dir.Put(ctx, f, b.Name)
}

// fetchBase fetches a base into a new file.
func fetchBase(ctx context.Context, s *source.Servers, to archive.Storage, zstd bool, now time.Time) (*os.File, *archive.Base, error) {
	return archive.NewBase(ctx, to, zstd, now, func(w io.Writer) (jute.Zxid, error) {
		fetched, err := s.Fetch(ctx, w)
		if err != nil {
			return 0, err
		}
		return fetched.Zxid, nil
	})
}
