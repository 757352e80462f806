// Package snapshot writes and reads snapshots: the whole state of a server at
// one zxid, in one bbolt file. It knows nothing of znodes: a snapshot consists
// of sections, and a section of keys and values, which are bytes.
//
// # Files
//
//	<dataDir>/tmp/snapshot-<name>           unfinished; removed by Open
//	<dataDir>/snap/<zxid>-<epoch>.db        zxid as 16 hex digits, epoch decimal
//	<dataDir>/snap/<zxid>-<epoch>-<crc>.db  from another server; CRC32C as 8 hex digits
//	<dataDir>/unreferenced/                 files that no log refers to; never removed
//
// A file is an ordinary bbolt database with 4096-byte pages, which the bbolt
// command can open. Each section is a bucket. One more bucket, meta, has
//
//	format     the version of this layout in a byte, and a CRC32C of it (format.Snapshot)
//	info       Meta in canonical msgpack
//	complete   the sections with their numbers of keys and a checksum of their
//	           items, and the CRC32C of info, in msgpack; written last, in a
//	           separate transaction
//
// In format 1, format is the byte 1 alone, there are no checksums, and Meta does
// not say which server took the snapshot. Format 1 is read.
//
// Keys of up to 32000 bytes are stored as they are. bbolt allows no more than
// 32768, but a path may be longer; what is beyond is kept with the value:
//
//	key     first 32000 bytes of the key, then a running number (8 bytes, big
//	        endian), so that keys with the same beginning keep their order
//	value   number of bytes cut off (uvarint), those bytes, the value
//
// # Invariants
//
//   - A file in snap/ is complete and durable: it was built or received in tmp/,
//     synced and renamed. It never changes.
//   - Only the Ref that Write or Receiver.Finish returned makes a file a valid
//     snapshot: it has the size and the CRC32C of the whole file, and is kept
//     outside, in the log. The checksums within the file do not make it valid.
//     They tell a file that is another one from a file that is damaged.
//   - A file that no Ref names is moved by SetAside, and never removed, unless
//     its owner knows that it is superfluous and removes it by its name.
//   - Load delivers nothing before size and CRC have been found right, and
//     whatever the file contains, it returns an error instead of failing.
//   - An error of Write or of a Receiver leaves no file, whatever its reason. A
//     full disk is therefore harmless.
//
// # Reading without bbolt
//
// bbolt maps a file into memory and trusts what it finds there: a read error
// arrives as SIGBUS, a wrong page as a panic, and a page that is its own
// descendant as a stack overflow, which nothing can recover. So Load reads the
// pages itself (pages.go), in about a hundred lines that check every offset. As
// it asks for pages through vfs.FS into one buffer, no mapping stays resident.
// The tests compare it with bbolt's own cursor.
//
// Writing is bbolt's, on a file of the operating system, because bbolt accepts
// no other: FS then serves for everything around it, and must be vfs.OS or a
// wrapper that shows the same files.
//
// # Goroutines
//
// A Store may be used from any goroutine. At most one Write runs at a time; a
// second one waits for it. Receptions run beside it and each other. The package
// starts no goroutines.
package snapshot
