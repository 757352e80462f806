// Package fourletter answers the four-letter words, such as ruok, stat and mntr: text
// commands on the client port that operators type and monitoring tools read.
//
// A command is the first four bytes of a connection, where a client sends the length of
// its first frame. All commands are letters (except telnet's interrupt sequence), which
// no frame length can be. The server reads these four bytes, calls [Lookup], reads
// [Command.ArgLen] bytes more, calls [Execute] and closes the connection. It never reads
// the bytes after a command, such as the CR LF of telnet.
//
//	first 4 bytes ─▶ Lookup ─▶ Execute ─▶ Whitelist ─▶ Serving? ─▶ render ─▶ text
//	                                         │             │
//	                                         ▼             ▼
//	                                      refusal     not serving
//
// The package does not depend on the server. It declares the data that it renders
// ([Source] and the types of its results), and the server provides it. It reads no clock
// and makes no system calls: times and sizes are part of that data.
//
// # The text
//
// The text is that of Apache ZooKeeper 3.8 and 3.9, line for line and blank for blank,
// since scripts, exporters and client libraries parse it: kazoo reads the version from
// envi, go-zookeeper has one regular expression for all of srvr. Lines end in "\n"; ruok,
// isro, gtmk and stmk have no line end at all. The directory testdata/apache has the
// answers of real servers (captured by testdata/capture.py), with which the tests
// compare.
//
// Numbers look as in Java: ids and zxids as 0x and hex without leading zeros,
// averages as doubles ("0.0", "1.5294", four decimals at most), addresses as
// "/127.0.0.1:42318", dates as "Fri Nov 20 21:42:14 UTC 2026".
//
// There is one difference. If "telnet close" is not in the whitelist, Apache's server
// says so to a telnet user who interrupts a connection. Here the interrupt sequence only
// closes the connection.
//
// # Invariants
//
//   - A command that is not in the whitelist calls no method of the Source.
//   - While the server is not serving, only the commands that work then call a method
//     other than Serving: ruok, isro, gtmk, stmk and envi.
//   - The order of lists is that of the Source, except the metrics of mntr: the ones that
//     Apache's server has come first, in its order.
//
// # Goroutines
//
// The package has no state, and its functions may be called from any goroutine. Several
// connections may call each method of a Source at once.
package fourletter
