// Package apachefiles reads and writes the data directories of Apache ZooKeeper 3.4 to 3.9.
//
// # Files
//
//	<dataDir>/version-2/snapshot.<zxid>[.gz|.snappy]
//	<dataDir>/version-2/currentEpoch, acceptedEpoch     of a member of an ensemble
//	<dataLogDir>/version-2/log.<zxid>                   often in the same directory
//
//	snapshot   header   magic ZKSN (4), version 2 (4), -1 (8)
//	           body     sessions, ACL lists, znodes: see readBody
//	           seal     Adler-32 of all bytes before it (8), the string "/"
//	           3.6+     zxid (8), version 2 (4), digest of the tree (8), seal
//	           3.9+     last zxid (8), seal
//	log        header   magic ZKLG (4), version 2 (4), 0 (8)
//	           record   Adler-32 of the payload (8), its length n (4), n bytes, 0x42
//	           zeros up to a multiple of 64 MiB
//	payload    session (8), cxid (4), zxid (8), time (8), type (4), body; 3.6+: version 2 (4),
//	           digest of the tree after the transaction (8)
//
// All numbers are big-endian. Strings and vectors are those of package jute.
//
// # Replay
//
// Apache's server writes a snapshot while it applies transactions, so the file has each znode
// at some time after the zxid in its name. Only the log makes a state of it: replay.go
// makes each transaction so, whatever the tree has, and after the newest change that the
// snapshot has seen, the tree is exact. From there on the digest in each transaction has to
// match. This differs from the transactions of zkd, which are applied to exact states only.
//
// # Invariants
//
//   - Nothing is ever written into a directory that is read.
//   - A snapshot counts only if all of it can be read and each of its checksums is right. An
//     older one with more of the log gives the same state.
//   - Whatever a file contains, reading it gives an error or a state, and takes memory in
//     proportion to what was read.
package apachefiles
