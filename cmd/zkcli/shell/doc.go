// Package shell is the loop of an interactive program: it reads lines with editing,
// history and completion, runs a command for each, and shows what happens meanwhile above
// the line that is being typed. It does not know the commands: its Config has functions
// for them.
//
// # The line
//
// An editor reads lines. On a terminal that is golang.org/x/term, which draws the line,
// wraps it, and moves it out of the way of other output. This package adds most keys, the
// history, the search in it and the completion (keys.go, buffer.go, search.go,
// complete.go). Without a terminal, or on one that cannot move its cursor (TERM=dumb),
// lines are read as they come.
//
// docs/dev/decisions/016-shell-on-x-term.md says why no library for the whole is used.
//
// # Invariants
//
//   - Output written to the Shell during ReadLine appears as whole lines above the
//     prompt; the line that is being typed stays as it was, below.
//   - The terminal is in raw mode only while a line is read. A command finds it as the
//     shell did: Ctrl-C is a signal, which cancels the command's context.
//   - A line for which Config.Secret returns true is never written to the history file.
//   - The history file is replaced whole or appended to, under a lock: several shells
//     share it.
//
// # Goroutines
//
// Run reads, completes and executes in the goroutine of its caller. Another, which ends
// with Run, waits for changes of the terminal's size. Write and Refresh may be called from
// any goroutine at any time.
package shell
