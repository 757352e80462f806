// Package data keeps the data of a server at rest: the directories dataDir and dataLogDir, with
// the log and the snapshots in them. A server recovers its state with it. Tools use it without a
// server: they write and read data, verify it, and print it.
//
// What a start may do with the directories, which snapshot it loads and how far it applies the
// log are rules of package datadirs, which the simulator runs, too. This package does the I/O.
//
//   - [Dirs.Recover] locks the directories and builds the state, as a start does.
//   - [Write], [Read], [ReadAt] and [ReadSnapshot] move [Contents] to and from the directories of
//     servers that do not run, which [Place] names.
//   - [CreateMirror], [OpenMirror] and [EndMirror] are for data that becomes a member's later.
//   - [Verify], [DumpLog], [LogHistory], [Formats] and [Check] change nothing, and may be called
//     while a server runs.
//   - [WriteSnapshot] writes a snapshot of a tree while others read and change it.
//
// # Invariants
//
//   - Two processes never work with the same directories: whatever may write locks both first.
//   - A place is complete, or marked as unfinished: no server starts with a part of the data.
//   - Nothing that was acknowledged is given up without an order or a proof that it is damaged.
//     What the log does not refer to is moved away, and removed only if the log covers it.
//   - A server never starts with data of a later version, even if older data would do.
//
// # Goroutines
//
// A [Dirs] belongs to one goroutine. While Recover reads the log, another goroutine loads the
// newest snapshot; it ends before Recover returns.
package data
