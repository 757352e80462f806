// Package cluster tests ensembles of real zkd processes: while clients write,
// read and watch, servers are killed, paused and wiped, links are cut, held up
// and slowed down, and disks fill up or hang. Everything that a client sent and
// heard is in a history, and checkers look for what can't be.
//
// What must hold, whatever happens to a minority:
//
//   - All writes have one order, that of their zxids, which agrees with real
//     time; each zxid is used once. (ledger_test.go, order_test.go)
//   - A reply is what the state at the zxid in its header gives: ordinary reads
//     may be late, never wrong; those behind a sync are not late either.
//   - In a session zxids never go back, not even over a change of the server.
//   - An event comes before anything that shows the change. (watched_test.go)
//   - What was acknowledged is on every server when the ensemble has healed,
//     and all servers have the same tree. (world_test.go)
//   - A session lives for its timeout from the last sign of life that a server
//     has acknowledged, and its ephemerals as long as the session.
//
// Porcupine gives a second opinion on the first two (porcupine_test.go), and
// planted_test.go checks that each checker finds what it is there to find.
//
// # Parts
//
// An ensemble has servers, and a network of relays between them, one for each
// pair and dialler (relay_test.go). A campaign has an ensemble and clients; each
// of its rounds is a load on fresh paths under one fault (fault_test.go), then
// the healing, then the checks. Timings are printed and never asserted.
//
// # Running
//
//	go test ./test/cluster                          three servers, the main faults once
//	make cluster ROUNDS=100                         kill -9 over and over
//	make soak TIME=8h                               a random fault after the other
//	make exhaust TIME=1h                            memory, disks, inodes and descriptors used up
//	make roll                                       from the last release to this version, and back
//	make upgrade                                    from the last version before each change of a format
//	go test ./test/cluster -run 'TestReconfig$' -v -args -rounds 40     some 600 changes of the members
//	ZKD_SEED=7 go test ./test/cluster -v -run TestFaults/hang
//
// ZKD_SEED repeats the random choices, if not the moments. Flags after -args:
// -target apache runs Apache's servers, as Debian installs them, in place of
// zkd; -zkd names the program under test instead of building it; -previous names
// that of an earlier version, for every third server; -keep leaves
// the directories of the servers for a look. Faults of disks need root, and say
// so where they can't be had.
package cluster
