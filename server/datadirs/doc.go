// Package datadirs decides whether a server may start with what it finds in dataDir and
// dataLogDir, what it starts as, and which snapshots a start uses and a purge keeps. It does no
// I/O: package data fills a [Found], and acts on the decision; the simulator does the same with its
// own disks.
//
// The log is in dataLogDir, the snapshots are in dataDir. [Identity] is in the log, and
// [Owner] is the file IDENTITY in dataDir. Both name an incarnation: this copy of the data.
// An ensemble admits an incarnation, and only an admitted one counts.
//
//	log       IDENTITY    the server
//	there     its own     starts
//	there     another's   is refused: the directories do not belong together
//	there     missing     is refused, unless the operator makes the file initialize
//	missing   there       is refused
//	missing   missing     starts without data, under a new incarnation
//
// Where they are two directories, a log in dataDir, or the content of a dataDir in dataLogDir,
// shows that they have been exchanged, or that one of them is the wrong one. Such a start is
// refused, whatever else is there.
//
// An operator who knows that data is lost orders it to be set aside. The server then starts
// without data, and its new log says that there was some: it does not count before a leader
// has given it everything, however often it starts before that.
//
// # Invariants
//
//   - Nothing is given up without an order or a proof that it is damaged: what is missing may
//     come back.
//   - A log that takes the place of another one has another incarnation, and says so.
//   - IDENTITY names the log, or the one that it replaced.
//   - A refused start changes nothing, except that it may bring IDENTITY up to date.
package datadirs
