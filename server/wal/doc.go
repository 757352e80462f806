// Package wal is the write-ahead log: one sequence of checksummed records that
// is the only durable truth of a server. Entries of the history, promises,
// truncations and references to snapshots are all records of it, so that what a
// crash leaves is always a prefix of what was written. The package knows
// records as opaque bytes with a zxid; what they mean is the server's business.
//
// # Files
//
// The log is a directory of segments, each named for the number of its first
// record: 00000000000000000001.wal. new.tmp, spare-N.tmp and aside.tmp are
// unfinished, and Open removes them; names that end in .damaged were set aside.
// Files with other names are left alone.
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
//	CRC (4), digest with a length (1) before it, name likewise
//
// Starting the CRC of a record from that of its segment's header binds it to
// its place: what clients store can't pass for a record, nor can a record of
// another segment.
//
// A header names the end of all that precedes it: records in earlier segments
// with its number or higher ones do not count. So a torn end is cut, and records
// are written again, without touching the old file. It also names the segment
// before it, so that a missing segment is told from a damaged one.
//
// Format 1 is read. It has the state at offset 40, and no Forget records.
//
// # The history
//
// Entries, truncations and installed snapshots amount to a history: entries of
// which each names the one before it. A truncation drops the last ones, an
// installed snapshot, one of another server's, all. Neither can take back what a
// commit hint or a snapshot covers. What was dropped stays in the files and is
// passed over, by Replay and by every [Reader].
//
// A reference to a snapshot holds until the log drops it: a Forget record drops
// those before the one at its zxid, and an installed snapshot drops all. Only then
// may the files go.
//
// # Damage, and what is not damage
//
// What is wrong with a log has a kind (internal/fault), which decides what may be
// done:
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
// Only damage may be set aside without an order, because all else may come back.
// Where a single server must not start, a member of an ensemble can be repaired
// by the others, if it keeps what it has promised. With [Options].SetAside an
// empty log with the newest promise takes the place of the damaged one, and with
// [Options].Order the place of any log:
//
//  1. aside.tmp, the first segment of the new log, is made and synced.
//  2. Each damaged segment is renamed to .damaged; the directory is synced.
//  3. aside.tmp gets the name of segment 1; the directory is synced.
//
// While there is an aside.tmp, nothing else in the directory counts, and Open
// continues from there.
//
// # Invariants
//
//   - A record is reported durable only after an fsync that began behind its
//     write. A failed write or fsync is final: the log is never touched again
//     (after a failed fsync Linux forgets what was dirty, and the next one
//     reports success).
//   - A segment gets its name only when its header and all records before it
//     are durable.
//   - Each place of a segment is written once. (That is why the spare is zeroed
//     and not recycled.)
//   - Open changes nothing before it has decided between a torn end, which was
//     never acknowledged and is cut, and corruption, which is never cut unless
//     the operator says so (see findEnd), and before its caller has accepted
//     what was found (Options.CheckEntry and Check).
//   - Open makes what it found durable again before it returns. See restart.
//   - Records out of the history (behind a truncation, before an installed
//     snapshot) are never replayed, and zxids are checked to chain wherever
//     records are read or written.
//
// # Preallocation
//
// Records are written over zeros that are on disk already, so fdatasync need not
// write metadata. The next segment is prepared in the background; sizes grow
// fourfold from 1 MiB to Options.SegmentSize, so that a new server starts in
// milliseconds and an idle one keeps 5 MiB. The last 64 KiB (an eighth of a
// small segment) take no entries: a promise must get through on a full disk.
//
// # Goroutines
//
// A [Log] has one owner, who alone appends; Replay, NewReader, BytesBehind, Purge,
// PrepareSpare, Space and Stats may be called from anywhere. A Reader belongs to
// one goroutine at a time. [Writer] is the owner in a server:
// one goroutine that writes and syncs, one that prepares segments.
package wal
