// Package shadow compares two ZooKeeper ensembles on the conversations of real clients. The
// first, Apache's, answers the clients. The second, zkd's, is the shadow: it gets the same
// requests a moment later, and its answers go nowhere but into the comparison.
//
// An [Engine] reads the bytes of the clients and of both ensembles, decides what the shadow
// is sent and when, and reports what differs. It does no I/O: package migrate/shadow/proxy
// does that around it.
//
// # Order
//
// Requests of different sessions meet in some order, on which answers depend. Each answer of
// Apache's has the zxid of the last transaction that it reflects, so the order in which
// Apache carried the requests out is known: that of the zxids. The shadow carries them out in
// the same order, as far as it matters. A request is sent when
//
//   - Apache has answered it, and all requests that other clients had sent by then: no answer
//     with a lower zxid can come any more;
//   - all requests before it on its connection have been sent;
//   - all requests of other connections that come before it and conflict with it have been
//     answered. Two requests conflict if one changes a znode and the other reads or changes
//     the same znode. A create or a delete changes the parent, too.
//
// So requests on different znodes run side by side, and each answer must still be equal: the
// data, every field of the stat, the number in the name of a sequential znode.
//
// # What must be equal
//
// Ids and times can't be: those of one side stand for those of the other. A zxid or a session
// id matches the one in the same place of the first answer that has it, and from then on
// for no other. Answers that are sets (children, ACLs, identities) are compared as sets.
// Events must be the same for each path, in order. The events and answers of one connection
// never go back in zxids on the shadow.
//
// # What is open
//
// Sessions expire, containers and znodes with a time to live go, at a time that the protocol
// leaves open. An answer that is late in the order, and one about a znode whose state the
// shadow can't know, because the outcome of a write was lost with a connection, may differ. Such
// differences are of class [Order]. A walk over both trees shows later whether they stayed.
//
// # Goroutines
//
// The package is pure. An Engine belongs to one goroutine.
package shadow
