// Package command implements zkcli: its commands, how it reads their lines, and how it
// writes their results and errors.
//
// A Command describes one command: its name and flags as in Apache's zkCli.sh, the kind
// of each argument, help with examples, and the function that runs it. The parser, the
// help and the completion use this description. To add a command, write a function that
// returns a Command, and add it to commands.
//
// An App runs command lines: one (App.Run with arguments), those of a script, or those
// typed at a terminal. It connects when the first command needs a connection, and keeps
// the session until it is closed.
//
// # Files
//
//	the program      app.go command.go commands.go options.go
//	its lines        normalise.go complete.go help.go
//	sessions         lines.go interact.go history.go stdin.go
//	the connection   connection.go secure.go session.go
//	output           emit.go errors.go meter.go units.go file.go
//	watches          event.go watch.go follow.go
//	one znode        read.go stat.go create.go write.go data.go acl.go quota.go
//	many znodes      tree.go treeview.go find.go du.go export.go import.go diff.go,
//	                 with lister.go and nodes.go
//	servers          ensemble.go top.go config.go member.go bench.go console.go, with packages servers, member and console
//	backups          backup.go restore.go history.go, with package backup
//	recording        record.go
//	locks            lock.go locklist.go runlocked.go program_*.go
//
// # Output
//
// A command hands its result to Call.Emit, once or for each part of it, in the
// forms of which -o selects one. The text form goes where zkCli.sh writes it,
// because scripts parse that: data to stdout, messages such as "Created /x" to
// stderr. The other forms go to stdout alone.
//
// # Errors
//
// A command returns its error; App.Execute writes it as one line to stderr, and ExitCode
// maps it to the exit code. UsageError is for lines that make no sense.
//
// # Goroutines
//
// Commands run in the goroutine of the caller; watch events are written by the
// client's callback goroutine. Both write through one lock, a whole result or event
// at a time, and a result waits for the events that came before it. The package starts
// four kinds of goroutines: each persistent watch has one that empties its channel, and
// ends with the watch (event.go); while a lock or leadership is held, one waits for its
// loss, and ends before the command does (lock.go); servers.LookAll has one for each
// server, and waits for them; and each read of stdin, and each opening of a file that
// may be a pipe, has one, which continues after a signal until the other side does
// something (stdin.go).
package command
