package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/archive"
)

// Claim is Run for a storage that no other follower works in. In a directory, and on one machine, a lock
// sees to that; in a bucket, a marker.
func (f *Follower) Claim(ctx context.Context, to archive.Storage) error {
	work := ""
	var marked *marker
	switch s := to.(type) {
	case archive.Dir:
		work = s.Path(".zkd-follow")
		f.To = stagedDir{s, work}
	case *objects:
		name := fnv.New64a()
		fmt.Fprintf(name, "%s %s", s.endpoint(), s)
		work = filepath.Join(os.TempDir(), fmt.Sprintf("zkd-follow-%d-%x", os.Getuid(), name.Sum64()))
		f.To, marked = stagedBucket{s, work}, newMarker(s)
	default:
		return fmt.Errorf("%v is neither a directory nor a bucket", to)
	}
	var lock io.Closer
	for delay := firstPause; ; delay = min(2*delay, longestPause) {
		var err error
		if lock, err = claimDir(work); err == nil {
			break
		}
		err = fmt.Errorf("follow into %v: %w", to, err)
		if !vfs.IsShortage(err) {
			return err
		}
		if err := f.failed(ctx, err, delay); err != nil {
			return err
		}
	}
	defer lock.Close() // the end of the process would do
	f.Temp = work
	if marked == nil {
		return f.Run(ctx)
	}
	if err := marked.acquire(ctx, f.Report); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := lingering(ctx)
		defer cancel()
		marked.release(ctx)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(marked.keep(ctx))
	}()
	err := f.Run(ctx)
	cancel(nil)
	<-ended
	return err
}

// claimDir makes the directory in which a follower writes files before they get their names, and locks
// it. It removes what a killed follower has left there.
func claimDir(dir string) (lock io.Closer, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !mine(info) {
		return nil, fmt.Errorf("%s is not a directory of this user: remove it", dir)
	}
	const lockName = "LOCK"
	lock, err = vfs.OS{}.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("another backup follow does so: %w", err)
	} else if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != lockName {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// stagedDir and stagedBucket are storages whose files are written in another directory first.
type stagedDir struct {
	archive.Dir
	work string
}

// Create implements archive.Storage.
func (s stagedDir) Create() (*os.File, error) { return os.CreateTemp(s.work, "") }

type stagedBucket struct {
	*objects
	work string
}

// Create implements archive.Storage.
func (s stagedBucket) Create() (*os.File, error) { return os.CreateTemp(s.work, "") }
