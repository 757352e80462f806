package archive

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// NewBase makes a base of the snapshot that fetch writes, and verifies it. With zstd it is compressed then. The file has no name in the storage yet.
func NewBase(ctx context.Context, to Storage, zstd bool, now time.Time, fetch func(io.Writer) (jute.Zxid, error)) (*os.File, *Base, error) {
	f, b, err := plainBase(ctx, to, now, fetch)
	if err != nil || !zstd {
		return f, b, err
	}
	if f, err = Compress(ctx, to, f); err != nil {
		return nil, nil, err
	}
	b.Zstd = true
	b.Bytes, err = f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, b, nil
}

func plainBase(ctx context.Context, to Storage, now time.Time, fetch func(io.Writer) (jute.Zxid, error)) (f *os.File, b *Base, err error) {
	if f, err = to.Create(); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	sum := crc32.New(castagnoli)
	b = &Base{Time: now.Truncate(time.Second)}
	if b.Zxid, err = fetch(io.MultiWriter(f, sum)); err != nil {
		return f, nil, err
	}
	if b.Bytes, err = f.Seek(0, io.SeekEnd); err != nil {
		return f, nil, err
	}
	b.CRC = sum.Sum32()
	if err := b.VerifyFile(ctx, f.Name()); err != nil {
		return f, nil, err
	}
	switch id, err := HistoryIn(ctx, f.Name()); {
	case err == nil:
		b.History = id.String()
	case vfs.IsShortage(err): // else an early version's snapshot does not name it
		return f, nil, err
	}
	return f, b, nil
}
