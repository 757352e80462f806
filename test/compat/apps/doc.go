// Package apps holds tests of Go programs that keep their state in ZooKeeper: each runs the
// suite that the program has for its stores, on the servers in ZKD_TEST_SERVERS.
//
// It is a separate module, because these programs bring some eighty others with them. So
// they are not among what the project's module depends on, and `make apps` runs them.
package apps
