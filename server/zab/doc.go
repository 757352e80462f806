// Package zab is the core of zkd's atomic broadcast: a pure, deterministic
// state machine that decides in which order entries are logged and when they
// are committed. Inputs go in through methods, and everything that follows from
// them comes out through Take: records to persist and how far entries may be
// applied. The server's peer loop carries both to the log writer and to the
// applier.
//
// A core without an ensemble is its own quorum: it begins in epoch 0, its first
// entry is zxid 0x1, and what is durable is committed. Elections and peers are
// more inputs and outputs of this same machine.
//
// # Invariants
//
//   - applied <= committed <= durable <= appended.
//   - Each entry names its predecessor: the zxids handed out are a chain
//     without holes within an epoch.
//   - An entry is committed only when a PersistDone that covers it has come
//     back: nothing is promised to a client before it is on the disk.
//
// # Goroutines
//
// A Core belongs to one goroutine, the peer loop. It starts none, reads no
// clock and does no I/O.
package zab
