package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// History has the lines that were typed, and keeps them in a file: one per line, oldest
// first, readable only for its owner. Several goroutines may use it, and several processes
// its file: each appends.
type History struct {
	path string
	size int

	mu    sync.Mutex
	lines []string // oldest first, at most size
	err   error    // not reported yet
	said  bool     // one was reported
}

// OpenHistory reads the last lines of the file, which need not exist; its directory is made
// for the first line. Without a path the lines are kept only in memory. Err returns a
// failure.
func OpenHistory(path string, size int) *History {
	h := &History{path: path, size: size}
	if path == "" {
		return h
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.err = err
	}
	h.lines = lastLines(data, size)
	return h
}

// lastLines returns the last n lines of a file that are not empty.
func lastLines(data []byte, n int) []string {
	lines := strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
	return lines[max(0, len(lines)-n):]
}

// Add adds a line, unless it is the last one already. A secret one is kept in
// memory only.
func (h *History) Add(line string, secret bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.lines); n > 0 && h.lines[n-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(0, len(h.lines)-h.size):]
	if h.path == "" || secret {
		return
	}
	if err := h.save(line); err != nil {
		h.err = err
	}
}

// Lines returns the lines, oldest first.
func (h *History) Lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

// Err returns the first error of the file, once.
func (h *History) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil || h.said {
		return nil
	}
	h.said = true
	return h.err
}

// save appends a line to the file, and shortens the file if it is twice as long as
// it should be.
func (h *History) save(line string) error {
	f, err := openLocked(h.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	data, err := os.ReadFile(h.path)
	if err != nil || bytes.Count(data, []byte("\n")) < 2*h.size {
		return err
	}
	return replace(h.path, strings.Join(lastLines(data, h.size), "\n")+"\n")
}

// openLocked opens the file to append, and locks it until it is closed. If another shell
// replaces the file before the lock is acquired, the lock is on a file that is not read any
// more, and openLocked opens the new one.
func openLocked(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		ours, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if current, err := os.Stat(path); err == nil && os.SameFile(ours, current) {
			return f, f.Chmod(0o600)
		}
		f.Close()
	}
}

// replace replaces a file as a whole.
func replace(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".zkcli-history-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of no effect once renamed
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
