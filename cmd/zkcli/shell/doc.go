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
// Two libraries that have all of this were tried in its place, with the tests of this
// package. With github.com/reeflective/readline v1.3.0, a call that prints above the line
// from another goroutine is a data race, nothing ends ReadLine when a context does, and
// keys typed before the terminal has answered a query for the cursor can be lost.
// github.com/ergochat/readline (January 2025) takes the tabs of a paste for keys, waits
// forever for a terminal that does not answer that query, draws the line only at the next
// key after the window has changed, and leaves a goroutine.
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
