// Package fourletter answers the four-letter words: the text commands such as
// ruok, stat and mntr that operators type and monitoring reads on the client
// port.
//
// A command is the first four bytes of a connection, where a client sends the
// length of its first frame. All commands are letters (telnet's interrupt
// sequence apart), so they are no length that a frame can have. The server
// reads these four bytes, calls [Lookup], reads [Command.ArgLen] bytes more,
// calls [Execute] and closes the connection. What follows a command, such as
// the CR LF of telnet, is never read.
//
//	first 4 bytes ─▶ Lookup ─▶ Execute ─▶ Whitelist ─▶ Serving? ─▶ render ─▶ text
//	                                         │             │
//	                                         ▼             ▼
//	                                      refusal     not serving
//
// The package knows nothing of the server. It declares the facts that it
// renders ([Source] and the types of its results), the server fills them in.
// It reads no clock and looks at no system: times and sizes are facts, too.
//
// # The text
//
// It is what Apache ZooKeeper 3.8 and 3.9 write, line for line and blank for
// blank, since scripts, exporters and client libraries take it apart: kazoo
// reads the version from envi, go-zookeeper has one regular expression for all
// of srvr. Lines end in "\n"; ruok, isro, gtmk and stmk have no line end at
// all. The directory testdata/apache holds what real servers answered
// (captured by testdata/capture.py), and the tests compare with that.
//
// Numbers look as in Java: ids and zxids as 0x and hex without leading zeros,
// averages as doubles ("0.0", "1.5294", four decimals at most), addresses as
// "/127.0.0.1:42318", dates as "Fri Nov 20 21:42:14 UTC 2026".
//
// One thing differs. Apache's server tells a telnet user who interrupts a
// connection that "telnet close" is not in the whitelist, if it is not. Here
// the interrupt sequence just closes.
//
// # Invariants
//
//   - A command that the whitelist does not have asks nothing of the Source.
//   - While the server is not serving, only the commands that make sense then
//     ask anything of it but Serving: ruok, isro, gtmk, stmk and envi.
//   - The order of lists is that of the Source, except the metrics of mntr:
//     those that monitoring knows come first, in Apache's order.
//
// # Goroutines
//
// The package has no state, and its functions may be called from anywhere. Each
// method of a Source may be called by several connections at once.
package fourletter
