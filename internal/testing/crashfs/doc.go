// Package crashfs is a file system in memory for tests of durability. It keeps
// apart what a program sees and what a power cut would leave, and it fails on
// request.
//
// # What a crash leaves
//
// [FS.Crash] returns the file system that a machine would find after losing
// power now. Bytes and sizes that were synced, and names whose directory was
// synced, are there. Of everything later, any part may be: each 512-byte sector
// is what it was after any one of the writes since, or before them, and each
// change of a file's size and each change of a directory makes it or not on its
// own, as the random source says. A rename is one change: both names or neither.
// (Only for a file that is filled with zeros for the first time, the sectors of
// a write go together.)
//
// A failed Sync behaves as on Linux: what it should have written stays visible,
// some of it may have reached the disk, and no later Sync will write the rest.
//
// # Faults
//
// [FS.SetHook] installs a function that sees each operation before it is carried
// out and may make it fail; a failed write may have written some of its sectors.
// With a capacity set, writing a new 4 KiB block on a full disk returns ENOSPC;
// overwriting one does not, nor does extending a file by Truncate (a sparse
// file).
//
// # Cost
//
// A simulator crashes such a disk millions of times, so what a file holds is
// shared, sector by sector, with what is durable of it and with the copies that
// Crash and Kill make. A sync costs what was written since the last one; so does
// a crash, and a word for each sector of the files that change.
//
// # Goroutines
//
// An FS is safe for concurrent use. The hook runs with no lock held.
package crashfs
