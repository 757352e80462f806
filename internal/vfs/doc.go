// Package vfs is the small part of a file system that durable state needs. The
// write-ahead log, the snapshots and the readers of configuration reach files
// through [FS] only, so that tests can put a file system beneath them that
// loses what was not synced and that fails on purpose (internal/testing/crashfs).
//
// # What a caller may rely on
//
// What survives a power cut is what was made durable, and no more:
//
//   - The bytes of a file, and its size, after [File.Sync] or [File.SyncData].
//   - The name of a file (its creation, rename or removal) after [FS.SyncDir]
//     of the directory that holds it. Rename alone is atomic, not durable.
//
// After a failed Sync, SyncData or SyncDir nobody knows what is on disk, and a
// second call may report success although the data is gone (Linux marks the
// pages clean when write-back fails). Callers must not go on using that file.
//
// # Errors
//
// Errors are those of package os: errors.Is finds fs.ErrNotExist, fs.ErrExist,
// syscall.ENOSPC and so on, and they name the operation and the path.
//
// # Goroutines
//
// An FS is safe for concurrent use. A File is, as far as its ReadAt and WriteAt
// calls touch different ranges.
package vfs
