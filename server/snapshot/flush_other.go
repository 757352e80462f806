//go:build !linux

package snapshot

import "os"

// flushPages sends the dirty pages of f to the disk.
func flushPages(f *os.File) error { return f.Sync() }
