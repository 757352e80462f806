// Package show makes what operators see of a server: the four-letter words, mntr, the metrics of
// Prometheus, and what the admin pages and zkcli why ask. All of it is rendered from a View, one
// look at a server, which the server fills in one place.
//
//	server ──fills──▶ View ─▶ Execute: a four-letter word ─▶ Whitelist ─▶ Serving? ─▶ text
//	                   │                                        │            │
//	                   │                                     refusal     not serving
//	                   ├─▶ Words: mntr, and the page monitor
//	                   ├─▶ NewCollector: Prometheus
//	                   └─▶ package admin: the other pages
//
// A new figure is a field, of View or of monitor.Metrics, and a row of the table figures. It is then
// in Prometheus and, as the row says, in mntr and on the page monitor; docs/metrics.md gets its row
// from the table by go test -run TestEveryReferenceName -rewrite. What zkcli why asks is a field
// of Troubles and a row of the table troubles.
//
// The package does no I/O: it reads no clock and makes no system calls.
//
// # The text
//
// The text of the words is that of Apache ZooKeeper 3.8 and 3.9, line for line and blank for blank,
// since scripts, exporters and client libraries parse it: kazoo reads the version from
// envi, go-zookeeper has one regular expression for all of srvr. Lines end in "\n"; ruok,
// isro, gtmk and stmk have no line end at all. The directory testdata/apache has the
// answers of real servers (captured by testdata/capture.py), with which the tests
// compare.
//
// There is one difference. If "telnet close" is not in the whitelist, Apache's server
// says so to a telnet user who interrupts a connection. Here the interrupt sequence only
// closes the connection.
//
// # Invariants
//
//   - A command that is not in the whitelist calls no method of the Source.
//   - While the server is not serving, only the commands that work then call a method
//     other than Serving: ruok, isro, gtmk, stmk, envi and conf.
//   - The order of lists is that of the View, except the metrics of mntr: the ones that
//     Apache's server has come first, in its order.
//
// # Goroutines
//
// A View belongs to the goroutine that asked for it. Several connections may call each method of a
// Source at once.
package show
