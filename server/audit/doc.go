// Package audit writes down who did what: a line for each operation that was carried out
// or refused, in the format of Apache's audit log or as JSON.
//
//	clients ── Put ──▶ queue of formatted lines ──▶ writer ──▶ Sink: a File, or the server's log
//	   └────── Wait ◀───────────── written up to here ──┘
//
// An [Entry] describes an operation; [AppendText] and [AppendJSON] make a line of it. They
// are pure. What clients send stands in it escaped, so that nobody can forge a line or a
// field, and without passwords: see AppendText.
//
// A [Trail] is the log that a server's configuration asks for: it opens the log, switches it on and
// off, and makes the entries of a start and a stop.
//
// # Invariants
//
//   - Lines are written in the order of Put.
//   - After Wait, the entry is with the operating system. The server answers an operation
//     only then: so the log has each operation of which a client knows the outcome, even if
//     the process is killed.
//   - No line is dropped. While the Sink is short of room, inodes or descriptors, the Log waits, and so does Wait. If
//     it fails in another way, the Log gives what it did not take, and all
//     later lines, to Options.Lost, fails all calls of Wait, and calls Options.Failed.
//
// # Goroutines
//
// A Log has one goroutine, the writer, from Open to Close. Put does not block on the disk;
// it formats a line before it takes the Log's own lock. All methods may be called
// from any goroutine. The queue is not bounded by itself: those who make entries call
// WaitRoom between two operations.
package audit
