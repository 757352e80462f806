// Package fourletter has the four-letter words, such as ruok, stat and mntr: text commands on the
// client port that operators type and monitoring tools read. Package server/show answers them.
//
// A command is the first four bytes of a connection, where a client sends the length of
// its first frame. All commands are letters (except telnet's interrupt sequence), which
// no frame length can be. The server reads these four bytes, calls [Lookup], reads
// [Command.ArgLen] bytes more, answers if the [Whitelist] allows it, and closes the connection. It
// never reads the bytes after a command, such as the CR LF of telnet.
//
// Values look as in Java: see [ID], [Double], [Date] and [Address].
//
// The package has no state, and its functions may be called from any goroutine.
package fourletter
