package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/datadirs"
)

const (
	statusInterval = 500 * time.Millisecond
	statusStale    = 10 * time.Second
)

// StatusWriter writes the status of a running mirror into its file, in a separate goroutine.
type StatusWriter struct {
	file   string
	status func() any
	stop   chan struct{}
	done   sync.WaitGroup
}

// WriteStatus writes what status returns into a file now and then, until Close. That counts for nothing but
// the status.
func WriteStatus(file string, status func() any) *StatusWriter {
	w := &StatusWriter{file: file, status: status, stop: make(chan struct{})}
	w.done.Go(w.run)
	return w
}

func (w *StatusWriter) run() {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		w.write()
		select {
		case <-tick.C:
		case <-w.stop:
			w.write()
			return
		}
	}
}

func (w *StatusWriter) write() {
	b, err := json.MarshalIndent(w.status(), "", "  ")
	if err == nil {
		err = os.WriteFile(w.file+".tmp", append(b, '\n'), 0o600)
	}
	if err == nil {
		os.Rename(w.file+".tmp", w.file) // the next one may work
	}
}

// Close writes the status a last time.
func (w *StatusWriter) Close() {
	close(w.stop)
	w.done.Wait()
}

// ReadStatus reads a status from a file in the directory of a mirror, and returns whether that runs.
func ReadStatus(dir, name string, status any) (running bool, err error) {
	file := filepath.Join(dir, name)
	b, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("there is no running copy in %s: %w", dir, err)
	}
	if err := json.Unmarshal(b, status); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(dir, datadirs.LockFile))
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	lock.Close() // it was only tried
	return false, nil
}

// Unwritten says that a running copy has not written its status for long, as on a disk without any room: what it says may not be so
// any more. It returns "" otherwise.
func Unwritten(written time.Time) string {
	old := time.Since(written)
	if old < statusStale {
		return ""
	}
	return fmt.Sprintf("the status is of %s, %v ago: the copy can't write it, as on a full disk, or hangs", written.Format(time.RFC3339), old.Round(time.Second))
}
