//go:build !linux

package vfs

import "os"

func flush(f *os.File) error { return f.Sync() }
