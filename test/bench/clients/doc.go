// Package clients has benchmarks of Go clients of ZooKeeper side by side: the
// bundled one and github.com/go-zookeeper/zk, each on one connection to the same
// server, which is a separate process so that its garbage does not count.
//
//	make bench PKG=./test/bench/clients BENCH=.
//
// The server is zkd, built for the purpose, or the one that the environment
// variable ZKD_TEST_SERVERS names.
package clients
