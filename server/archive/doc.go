// Package archive keeps the history of servers outside of them. An archive is a directory, or
// another [Storage], with snapshots, called bases, and segments, which have the entries between
// two zxids. A base and the segments after it give the state at each of their moments.
//
// # Files
//
//	zkd-TIME-ZXID-HISTORY-CRC.db            a base: a snapshot, see package server/snapshot
//	zkd-TIME-AFTER-LAST-HISTORY-CRC.log     a segment
//
// TIME is when the file was made, such as 20261122T140500Z. A base has the state at ZXID, a segment
// the entries after AFTER up to LAST. HISTORY is the beginning of the history's name, which a base
// may lack, and CRC the CRC32C of the file. A file has its name when it is complete and durable. It
// never changes. What has another name is left alone.
//
// Each of them may be compressed, in the format of zstd, and its name then ends in .zst. CRC is that
// of the file before. A base must be one zstd frame that says its length, as the command zstd also
// writes it: so no file takes more room than it says when it is read, and more than there is.
//
// The archives of several histories may share a directory. Segments may overlap: Merge makes one of
// several, and removes these afterwards.
//
// # Segments and streams
//
// A segment is a header and a frame for each entry. Servers send the same, without an end and with
// positions between the entries. All numbers are little-endian.
//
//	header  offset  size
//	             0     8  magic "zkdlog\r\n"
//	             8     4  format version, 1 (format.Archive)
//	            12    16  name of the history
//	            28     8  zxid before the first entry
//	            36     8  zxid of the last entry; 0 in a stream
//	            44     4  CRC32C of the 44 bytes before
//
//	frame        0     4  length n of the data
//	             4     1  0 for an entry, 1 for a position
//	             5     1  type of the entry (zab.EntryType)
//	             6     2  zero
//	             8     8  zxid; that of a position is how far the sender has got
//	            16     8  zxid of the entry before; of a position 0, or of a copy for how many
//	                      milliseconds it has not had all
//	            24     4  CRC32C, begun with the CRC of the frame before, of bytes 0 to 23 and the
//	                      data. The first is begun with the CRC of bytes 0 to 35 of the header
//	            28     n  data of the entry
//
// Each entry names the one before it, so that none can be missing between the first and the last.
package archive
