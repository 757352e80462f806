// Package ptytest runs a program on a terminal and says what somebody in front of
// it would see. It is for tests, and for the pictures in the documentation.
//
// A Screen is a terminal without a window: it does what xterm does with the control
// sequences that line editors use, and panics with those that it doesn't know. A
// Terminal runs a program on one, types, and waits until the screen shows
// something: tests wait for what they expect, not for time.
//
// # Goroutines
//
// A Terminal has one, which reads what the program writes; it ends with the
// program. A Screen may be used from one goroutine.
package ptytest
