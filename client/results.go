package client

import "time"

// The results of the operations, in both forms.
type (
	// None is the result of operations that return only an error.
	None struct{}
	// Created is the result of Create.
	Created struct {
		// Path is the new node's path, including the number of a sequential node.
		Path string
		// Stat is the new node's Stat. It is zero unless CreateOptions.Stat is set, or the
		// node is a container or has a time to live.
		Stat Stat
	}
	// Node is the result of Get and GetW.
	Node struct {
		Data  []byte // nil if the node's data is null
		Stat  Stat
		Watch *Watch // only of GetW
	}
	// Presence is the result of Exists and ExistsW.
	Presence struct {
		Exists bool
		Stat   Stat   // zero if the node does not exist
		Watch  *Watch // only of ExistsW
	}
	// Listing is the result of Children and ChildrenW. The names are in no particular order.
	Listing struct {
		Names []string
		Stat  Stat   // of the parent
		Watch *Watch // only of ChildrenW
	}
	// Page is the result of ChildrenPage. Its Zxid says which state it shows: the pages of one
	// listing can show different ones.
	Page struct {
		Children []Child // in the byte order of their names
		More     bool    // there are children after these
		Stat     Stat    // of the parent
		Zxid     Zxid
	}
	// SubtreePage is the result of Client.SubtreePage.
	SubtreePage struct {
		// Nodes are the next ones, parents before their children, and these in the byte order
		// of their names. Name is the path below the root of the subtree, which has "".
		Nodes []Child
		View  int64 // for the next page; 0 if this is the last one
		Zxid  Zxid  // of the state
	}
	// PastPage is the result of Client.Past.
	PastPage struct {
		Nodes   []Child      // of a former state, as in a SubtreePage
		Changes []PastChange // the oldest first; Name is as in Nodes
		Look    int64        // to ask for more; 0 if there is no more
		Zxid    Zxid         // of the state; or all changes after it are told
		Time    time.Time    // of the last transaction before the moment, zero for none
		From    string       // what the state was made of
		More    bool         // there may be older changes than those of this look
		Err     error        // an *Error that says why there is nothing, and the end of the look; or nil
	}
	// Child is a child in a Page, or a node in a SubtreePage.
	Child struct {
		Name string
		Stat Stat
		Data []byte
		ACL  []ACL // with SubtreePageOptions.ACLs
		// Err is ErrNoAuth if the child may not be read: Stat is zero and Data nil. It is
		// ErrMarshalling if its data is too long for a page: Get returns it. It is nil if only
		// names were asked for.
		Err error
	}
	// Access is the result of GetACL.
	Access struct {
		ACL  []ACL
		Stat Stat
	}
)

// CreateOptions determine what kind of node Create makes. The zero value means a persistent
// node that everybody may read and change.
type CreateOptions struct {
	// Mode is the kind of node. The zero value is Persistent.
	Mode CreateMode
	// ACL is the node's access control list. Nil means OpenACL.
	ACL []ACL
	// TTL is the node's time to live, 1 ms to 2^40-1 ms, for the modes PersistentTTL and
	// PersistentSequentialTTL. The servers delete the node when it has had no children and no
	// change for that time. The error is ErrUnimplemented if TTL nodes are disabled on the
	// servers, as is Apache's default.
	TTL time.Duration
	// Stat requests the new node's Stat.
	Stat bool
}

// PageOptions determine which children ChildrenPage returns, and what of them. The zero value
// means the names of the first ones.
type PageOptions struct {
	// After is the name after which the page begins. It need not exist.
	After string
	// Limit is the largest number of children. 0 leaves it to the server, which may return less
	// in any case.
	Limit int
	// Stats requests the children's Stats. Data requests their data and Stats.
	Stats, Data bool
}

// SubtreePageOptions determine what SubtreePage returns.
type SubtreePageOptions struct {
	View int64 // that of the page before; 0 begins
	Data bool  // with the nodes' data
	ACLs bool  // with their data and ACLs
	End  bool  // ends the view: there are no nodes in the page
}

// Moment is a point of the past. One of the fields is set.
type Moment struct {
	Zxid Zxid          // after this transaction
	Time time.Time     // by the clock of the leader
	Ago  time.Duration // by the clock of the server that is asked
}

// PastOptions determine what Past returns.
type PastOptions struct {
	Look    int64  // that of the page before; 0 begins
	At      Moment // of a state; of changes, those before its Zxid, or all
	Below   bool   // all nodes below the path, too; without it the node and, of a state, its children
	Data    bool   // with data and ACLs; of changes, with the data before and after
	Changes bool   // changes, not a state
	Limit   int    // the largest number of changes, the newest; 0 leaves it to the server
	End     bool   // ends the look
}

// Members describe a change of the ensemble's members: either Joining and Leaving, or All.
// Commas separate the entries.
type Members struct {
	Joining string // servers to add or to change: "server.4=host:2888:3888;2181"
	Leaving string // ids of servers to remove
	All     string // the whole new list of servers
}
