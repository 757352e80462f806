// Package wal is the write-ahead log: one sequence of checksummed records that is the only
// durable state of a server besides snapshots. Entries of the history, promises,
// truncations and references to snapshots are all records in it, so a crash always leaves a
// prefix of what was written. To the package, records are opaque bytes with a zxid; the
// server interprets them.
//
// # Files
//
// The log is a directory of segments, each named for the number of its first record:
// 00000000000000000001.wal. new.tmp and spare-N.tmp are unfinished files; Open
// removes them. Files whose names end in .damaged were set aside. Files with other names
// are left alone.
//
// A segment is a header of 4 KiB, records, and zeros up to the end of the file.
// All numbers are little-endian.
//
//	header  offset  size
//	             0     8  magic "zkdwal\r\n"
//	             8     4  format version, 2 (format.Segment)
//	            12     4  length n of the state
//	            16     8  number of the first record
//	            24     8  size of the file
//	            32     4  CRC of the record before the first
//	            36     4  zero
//	            40     8  number of the first record of the segment before
//	                      this one, 0 for none; not in format 1
//	            48     n  state: last zxid (8), commit hint (8), zxid (8) and
//	                      record number (8) of the newest snapshot reference,
//	                      then identity, promise, that reference's payload and
//	                      notes, each with a length (2) before it
//	                      zeros
//	          4092     4  CRC32C of the 4092 bytes before
//
//	record       0     2  magic "Zk"
//	             2     1  kind
//	             3     1  type of an entry, opaque here; zero for other kinds
//	             4     4  length n of the payload
//	             8     8  seq: the record's number, one more than the one before
//	            16     8  the highest number whose fsync had completed when this
//	                      record was written
//	            24     8  zxid
//	            32     8  zxid of the last entry before
//	            40     4  CRC of the record before
//	            44     4  CRC32C, begun with the CRC of the segment's header, of
//	                      bytes 0 to 43, the payload and the padding
//	            48     n  payload
//	                      zeros up to a multiple of 8
//
//	payload of a snapshot reference: 1 if it was installed, else 0 (1), size (8),
//	CRC (4), digest and name, each with a length (1) before it
//
// The CRC of a record starts from that of its segment's header. This binds the record to
// its place: neither data of clients nor a record of another segment can pass for it.
//
// A header ends everything that precedes it: records in earlier segments with its number or
// higher ones do not count. So a torn end is cut, and records are written again, without
// touching the old file. The header also names the previous segment, so that a missing
// segment can be told from a damaged one.
//
// Format 1 can be read. It has the state at offset 40, and no Forget records.
//
// # The history
//
// Entries, truncations and installed snapshots amount to a history: entries each of which
// names the previous one. A truncation drops the last entries; an installed snapshot, which
// comes from another server, drops all. Neither can drop what a commit hint or a snapshot
// covers. Dropped entries stay in the files and are skipped by Replay and by every
// [Reader].
//
// A reference to a snapshot holds until the log drops it: a Forget record drops the
// references before the one at its zxid, and an installed snapshot drops all. Only then may
// the files be removed.
//
// # Damage and other faults
//
// Each fault of a log has a kind (internal/fault), which decides how it may be handled:
//
//	Damaged       a checksum, the chain of records or the size of a segment
//	              proves that bytes are wrong or gone
//	Missing       a segment that a later header names is not there
//	Unreadable    the operating system does not deliver the bytes
//	Newer         a later version wrote a header, a record or, as
//	              Options.CheckEntry says, an entry
//	Foreign       a segment is sound, and another one's
//	Inconsistent  the checksums are right, and the records contradict each other
//
// Only damage may be set aside without an order, because the other faults may be temporary.
// A single server must not start with a damaged log, but a member of an ensemble can be
// repaired by the others, if it keeps what it has promised. With [Options].SetAside an
// empty log with the newest promise replaces a damaged one, and with [Options].Order it
// replaces any log:
//
//  1. aside.tmp, the first segment of the new log, is made and synced.
//  2. Each damaged segment is renamed to .damaged; the directory is synced.
//  3. aside.tmp gets the name of segment 1; the directory is synced.
//
// While aside.tmp exists, nothing else in the directory counts, and Open continues from
// there.
//
// # Invariants
//
//   - A record is reported durable only after an fsync that began after its write. A failed
//     write or fsync is final: the log is never touched again (after a failed fsync Linux
//     forgets the dirty pages, and the next fsync reports success).
//   - A segment gets its name only when its header and all records before it are durable.
//   - Each place of a segment is written once. (That is why the spare is zeroed and not
//     recycled.)
//   - Open changes nothing before two decisions. It distinguishes a torn end, which was
//     never acknowledged and is cut, from corruption, which is never cut unless the
//     operator says so (see findEnd). And its caller accepts what was found
//     (Options.CheckEntry and Check).
//   - Open makes what it found durable again before it returns. See restart.
//   - Records out of the history (after a truncation's zxid, before an installed snapshot)
//     are never replayed, and zxids are checked to chain wherever records are read or
//     written.
//
// # Preallocation
//
// Records are written over zeros that are already on disk, so fdatasync need not write
// metadata. The next segment is prepared in the background. Sizes grow fourfold from 1 MiB
// to Options.SegmentSize, so that a new server starts in milliseconds and an idle one keeps
// 5 MiB. But from 4 MiB on a segment is no larger than what 768 syncs have at the present rate:
// less would cost time, and more only room. The last 64 KiB (an eighth of a small segment) take no entries, so that a promise
// can be written on a full disk. The last quarter of that is for references to snapshots and Forget
// records, which go there even while the entries before them wait for a segment
// (Writer.SubmitAhead). For entries the log leaves room on the disk for a snapshot and a
// restart (Log.Keep). So a log that fills its disk can always be purged.
//
// # Goroutines
//
// Only the owner of a [Log] appends to it. Replay, NewReader, BytesAfter, Purge,
// PrepareSpare, Space and Stats may be called from any goroutine. A Reader belongs to one
// goroutine at a time. In a server the owner is a [Writer]: one goroutine that writes and
// syncs, one that prepares segments.
package wal
