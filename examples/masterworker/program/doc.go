// Package program is the shell around a master-worker system: arguments, signals, and
// what to do when a session ends. The system itself is in ../sync and ../async, each
// of which gives it a System.
package program
