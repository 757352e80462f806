package sasl

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// file is a file that is read again when it has changed. It may be used from any goroutine.
type file[T any] struct {
	path  string
	parse func([]byte) (T, error)
	log   func(error)
	read  func(path string) ([]byte, error)

	mu      sync.Mutex
	value   T
	checked time.Time
	seen    os.FileInfo
}

// checkInterval is how often the file is looked at, at most.
const checkInterval = time.Second

// open reads the file for the first time.
func (f *file[T]) open(read func(string) ([]byte, error)) error {
	f.read = read
	text, err := read(f.path)
	if err != nil {
		return err
	}
	if f.value, err = f.parse(text); err != nil {
		return err
	}
	f.seen, _ = os.Stat(f.path) // without it, the file is read again soon
	return nil
}

// OnError sets what is called with the error if a changed file can't be used. What it said
// before counts then.
func (f *file[T]) OnError(log func(error)) { f.log = log }

// current returns what the file says.
func (f *file[T]) current(now time.Time) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.checked) < checkInterval {
		return f.value
	}
	f.checked = now
	info, err := os.Stat(f.path)
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() {
		return f.value
	}
	value := f.value
	if err == nil {
		var text []byte
		if text, err = f.read(f.path); err == nil {
			value, err = f.parse(text)
		}
	}
	if err == nil {
		f.value, f.seen = value, info
	} else if f.log != nil {
		f.log(fmt.Errorf("%s: %w", f.path, err))
	}
	return f.value
}
