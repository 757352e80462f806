// Package ptytest runs a program on a terminal and returns what the terminal shows. It is for
// tests, and for the pictures in the documentation.
//
// A Screen is a terminal without a window. It handles the control sequences that line editors
// use like xterm, and panics on unknown ones. A Terminal runs a program on a Screen, types,
// and waits until the screen shows something: tests wait for what they expect, not for time.
//
// # Goroutines
//
// A Terminal has one goroutine, which reads the program's output; it ends with the program. A
// Screen must be used by one goroutine.
package ptytest
