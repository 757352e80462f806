// Package local runs an ensemble on this machine: each server is a process of the program
// zkd, on ports of the loopback interface, with its files in one directory. The commands
// demo and test-server are made of it.
//
// A server stays down after its process has ended, until Start. The servers end with this
// process, in whatever way it ends (on Linux; elsewhere unless it is killed).
//
// An Ensemble may be used from any goroutine.
package local
