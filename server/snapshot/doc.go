// Package snapshot writes and reads snapshots: the whole state of a server at one zxid, in
// one bbolt file. It knows nothing about znodes: a snapshot consists of sections, and a
// section consists of keys and values, which are bytes.
//
// # Files
//
//	<dataDir>/tmp/snapshot-<name>           unfinished; removed by Open
//	<dataDir>/snap/<zxid>-<epoch>.db        zxid as 16 hex digits, epoch decimal
//	<dataDir>/snap/<zxid>-<epoch>-<crc>.db  from another server; CRC32C as 8 hex digits
//	<dataDir>/unreferenced/                 files that no log refers to; never removed
//
// A file is an ordinary bbolt database with 4096-byte pages, which the bbolt
// command can open. pages.go has its layout. Each section is a bucket. One more bucket, meta, has
//
//	format     the version of this layout in a byte, and a CRC32C of it (format.Snapshot)
//	info       Meta in canonical msgpack
//	complete   the sections with their numbers of keys and a checksum of their
//	           items, and the CRC32C of info, in msgpack
//
// In format 1, the format value is the single byte 1, there are no checksums, and Meta does
// not say which server took the snapshot. Format 1 can be read.
//
// Keys of up to 32000 bytes are stored as they are. bbolt allows at most 32768 bytes, but a
// path may be longer; the rest of a longer key is stored with the value:
//
//	key     first 32000 bytes of the key, then a running number (8 bytes, big
//	        endian), so that keys with the same beginning keep their order
//	value   number of bytes cut off (uvarint), those bytes, the value
//
// # Invariants
//
//   - A file in snap/ is complete and durable: it was built or received in tmp/, synced and
//     renamed. It never changes.
//   - Only the Ref that Write or Receiver.Finish returned makes a file a valid snapshot. It
//     has the size and the CRC32C of the whole file, and is kept outside the file, in the
//     log. The checksums within the file do not make it valid; they distinguish another
//     snapshot's file from a damaged one.
//   - A file that no Ref names is moved by SetAside, and never removed, unless its owner
//     knows that it is superfluous and removes it by name.
//   - Load delivers nothing before it has checked size and CRC. LoadFile computes them before
//     it delivers anything, and its caller checks them in the end. Whatever the file contains,
//     both return an error instead of crashing.
//   - After an error of Write or of a Receiver no file is left. A full disk is therefore
//     harmless.
//
// # Without bbolt
//
// Load reads the pages itself (pages.go) and checks every offset: bbolt trusts a file, and maps it. Write builds
// the trees itself (tree.go): with items in order each page is written once, at a third of the CPU time and in
// constant memory. See docs/dev/decisions/004-bbolt-snapshots.md.
//
// The tests compare both with bbolt, and Check reads a file with it.
//
// # Goroutines
//
// A Store may be used from any goroutine. At most one Write runs at a time; a second one
// waits for it. Receptions run concurrently with it and with each other. The package starts
// no goroutines.
package snapshot
