// Package process has what tests of the zkd program from outside share: a [Process] that
// is started, stopped and killed, a [Conn] that speaks the protocol without a library's help,
// and a way to fill a disk. test/crash runs one server with it, test/cluster ensembles.
package process
