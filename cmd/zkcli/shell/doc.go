// Package shell is the loop of somebody who types commands: it reads lines with
// editing, history and completion, has each one executed, and shows what happens
// meanwhile above the line that is being typed. What the commands are it does not
// know: its Config says so.
//
// # The line
//
// An editor reads lines. On a terminal that is golang.org/x/term, which draws the
// line, wraps it and moves it out of the way of other output; the keys, the
// history, the search in it and the completion are ours (keys.go, buffer.go,
// search.go, complete.go), as x/term has few of them. Where there is no terminal,
// or one that can't move its cursor (TERM=dumb), lines are read as they come.
//
// # Invariants
//
//   - Whatever is written to the Shell during ReadLine appears as whole lines above
//     the prompt; the line that is being typed is as it was, below.
//   - The terminal is in raw mode only while a line is read. A command finds it as
//     the shell did: Ctrl-C is a signal, which cancels the command's context.
//   - A line that Config.Secret names is never written to the history file.
//   - The history file is replaced whole or appended to, under a lock: several
//     shells share it.
//
// # Goroutines
//
// Run reads, completes and executes in the goroutine of its caller. Another, which
// ends with Run, waits for changes of the terminal's size. Write and Refresh may be
// called from any goroutine at any time.
package shell
