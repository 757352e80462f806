// Package coordination recognises what the recipes of client libraries build out of nodes: locks, read-write locks,
// semaphores, elections, queues, barriers and groups. It knows the names that the recipes of this project have,
// Curator 5's, kazoo's and those of Apache's recipes.
//
//	/locks/backup/_c_5f1d3c7a-…-lock-0000000004    Curator's, go-zookeeper's and our locks; LeaderSelector
//	/locks/backup/0d6a…4857__lock__0000000005      kazoo's Lock, WriteLock and Election
//	/locks/backup/x-72057594037927936-0000000006   Apache's WriteLock
//	/locks/c/_c_5f1d3c7a-…-__READ__0000000004      read-write locks
//	/leader/_c_5f1d3c7a-…-latch-0000000004         elections: LeaderLatch
//	/leader/n_0000000004                           LeaderElectionSupport, and the page of recipes
//	/tasks/qn-0000000007                           queues
//
// A node says which session created it and when, and its number says in which order it stands. From this follow the holders, those that wait, and for
// whom each waits. What a program does with its lock, the nodes do not tell: a holder is one that the others have to let
// go first.
//
// All functions are pure.
package coordination
