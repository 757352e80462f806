package backup

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/zkd-project/zkd/server/archive"
)

// Copy copies what an archive has and a directory does not have. It verifies each file, and returns what
// it has copied.
func Copy(ctx context.Context, from *archive.Archive, to archive.Dir) (copied archive.Archive, err error) {
	copied.Storage = to
	has, err := to.List(ctx)
	if err != nil {
		return copied, err
	}
	one := func(name string, size int64, verify func() error) (fresh bool, err error) {
		if n, ok := has[name]; ok && n == size {
			return false, nil
		}
		if err := copyFile(ctx, from, to, name); err != nil {
			return false, err
		}
		if err := verify(); err != nil { // another copy must find that it is missing
			return false, errors.Join(err, to.Remove(ctx, name))
		}
		return true, nil
	}
	local := &archive.Archive{Storage: to}
	for _, b := range from.Bases {
		fresh, err := one(b.Name, b.Bytes, func() error { return local.VerifyBase(ctx, &b) })
		if err != nil {
			return copied, err
		}
		if fresh {
			copied.Bases = append(copied.Bases, b)
		}
	}
	for _, s := range from.Segments {
		fresh, err := one(s.Name, s.Bytes, func() error { return local.VerifySegment(ctx, &s) })
		if err != nil {
			return copied, err
		}
		if fresh {
			copied.Segments = append(copied.Segments, s)
		}
	}
	return copied, nil
}

func copyFile(ctx context.Context, from *archive.Archive, to archive.Dir, name string) error {
	r, err := from.Open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close() // it was only read
	f, err := to.Create()
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return to.Put(ctx, f, name)
}
