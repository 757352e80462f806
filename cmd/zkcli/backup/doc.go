// Package backup fetches snapshots from running servers, and keeps them in directories.
//
// A backup is a snapshot of one zxid, in one file: a bbolt database, whose format package
// server/snapshot has, and package server/archive/source gets from a server. In a directory, [Create] names it
//
//	zkd-20261122T140500Z-0x20000007c-8f14e45f-1f2e3d4c.db
//
// for the time when it was fetched, its zxid, its history and the CRC32C of the file; package
// server/archive says more. A file has its name when it is complete, durable and verified. What has
// another name is left alone, but for the work directory of a [Follower]: see [Follower.Claim].
package backup
