package client

import "time"

// The results of the operations, in both forms.
type (
	// None is the result of operations that return only an error.
	None struct{}
	// Created is the result of a create.
	Created struct {
		// Path is the new node's path. For a sequential mode it ends in the number.
		Path string
		// Stat is that of the new node. It is zero unless CreateOptions.Stat is set, or
		// the node is a container or has a time to live.
		Stat Stat
	}
	// Node is the result of a get.
	Node struct {
		Data  []byte // nil if the node's data is null
		Stat  Stat
		Watch *Watch // only of GetW
	}
	// Presence is the result of an exists.
	Presence struct {
		Exists bool
		Stat   Stat   // zero if the node does not exist
		Watch  *Watch // only of ExistsW
	}
	// Listing is the result of a children: names in no particular order.
	Listing struct {
		Names []string
		Stat  Stat   // of the parent
		Watch *Watch // only of ChildrenW
	}
	// Access is the result of a get of an ACL.
	Access struct {
		ACL  []ACL
		Stat Stat
	}
)

// CreateOptions say what kind of node a create makes. The zero value makes a
// persistent node that everybody may read and change.
type CreateOptions struct {
	// Mode is the kind of node. The zero value is Persistent.
	Mode CreateMode
	// ACL says who may do what with the node. Nil means OpenACL.
	ACL []ACL
	// TTL is the node's time to live, 1 ms to 2^40-1 ms, for the modes PersistentTTL
	// and PersistentSequentialTTL: the servers delete the node when it has had no
	// children and no change for so long. The error is ErrUnimplemented if the servers
	// have TTL nodes switched off, as Apache's have by default.
	TTL time.Duration
	// Stat asks for the new node's Stat as well.
	Stat bool
}

// Members describe a change of the ensemble's members: either Joining and Leaving, or
// All. Entries are separated by commas.
type Members struct {
	Joining string // servers to add or to change: "server.4=host:2888:3888;2181"
	Leaving string // ids of servers to remove
	All     string // the whole new list of servers
}
