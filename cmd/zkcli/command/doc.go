// Package command is zkcli: its commands, how their lines are read, and how
// their results and errors are written.
//
// A Command says all about one command: its name and flags as Apache's zkCli.sh
// has them, what kind of thing each argument is, help with examples, and what it
// does. The parser, the help and the completion come from it. To add a command,
// write a function that returns a Command and list it in commands.
//
// An App runs command lines: one (App.Run with arguments), those of a script, or
// those that somebody types. It connects when the first command needs it, and
// keeps the session until it is closed.
//
// # Output
//
// A command hands its result to Call.Emit, once or for each part of it, in the
// forms of which -o selects one. The text form goes where zkCli.sh writes it,
// because that is what scripts parse: data to stdout, messages such as
// "Created /x" to stderr. The other forms go to stdout alone.
//
// # Errors
//
// A command returns its error; App.Execute writes it, one line on stderr, and
// ExitCode makes it the exit code. UsageError is for lines that can't be meant.
//
// # Goroutines
//
// Commands run in the goroutine of the caller; watch events are written by the
// client's callback goroutine. Both write through one lock, a whole result or event
// at a time, and a result waits for the events that came before it. Four kinds of
// goroutines are the package's own: each persistent watch has one that empties its
// channel, and ends with the watch (event.go); while a lock or leadership is held
// one looks out for its loss, and ends before the command does (lock.go); servers
// that are asked by four-letter words are asked at once, by one each, which are
// waited for (fourwords.go); and each read of stdin, and each opening of a file that
// may be a pipe, has one, which a signal leaves behind until the other side does
// something (stdin.go).
package command
