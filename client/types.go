package client

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// The protocol's own types, so that users need not import jute, but for the names
// of operations in a Trace.
type (
	// Stat is what the servers keep of a node besides its data.
	Stat = jute.Stat
	// ACL grants permissions to an identity.
	ACL = jute.ACL
	// ID is an identity: a scheme such as "digest" and a name within it.
	ID = jute.ID
	// Perms is a set of permission bits.
	Perms = jute.Perms
	// Zxid is the position of a change in the order of all changes.
	Zxid = jute.Zxid
	// SessionID names a session.
	SessionID = jute.SessionID
	// CreateMode says what kind of node a create makes.
	CreateMode = jute.CreateMode
	// WatchMode is the mode of AddWatch.
	WatchMode = jute.AddWatchMode
	// Identity is one of the identities that WhoAmI shows.
	Identity = jute.ClientInfo
	// OpCode names an operation in errors, logs and traces.
	OpCode = jute.OpCode
)

// The modes of a create. Sequential ones get ten digits appended to the name;
// ephemeral nodes go with the session; a container goes some time after its last
// child; TTL nodes go if they are not changed and have no children for as long
// as their time to live says (CreateOptions.TTL).
const (
	Persistent              = jute.ModePersistent
	Ephemeral               = jute.ModeEphemeral
	PersistentSequential    = jute.ModePersistentSequential
	EphemeralSequential     = jute.ModeEphemeralSequential
	Container               = jute.ModeContainer
	PersistentTTL           = jute.ModePersistentTTL
	PersistentSequentialTTL = jute.ModePersistentSequentialTTL
)

// The modes of AddWatch. A persistent watch is told what happens to its node and
// to the list of its children. A recursive one is told of creations, deletions
// and data changes of its node and of all below it.
const (
	WatchPersistent = jute.AddPersistent
	WatchRecursive  = jute.AddPersistentRecursive
)

// The permissions.
const (
	PermRead   = jute.PermRead
	PermWrite  = jute.PermWrite
	PermCreate = jute.PermCreate
	PermDelete = jute.PermDelete
	PermAdmin  = jute.PermAdmin
	PermAll    = jute.PermAll
)

// AnyVersion as the version of a change takes the node as it is.
const AnyVersion int32 = -1

// OpenACL lets everybody do everything: Apache's OPEN_ACL_UNSAFE. It is what a
// nil ACL means to Create.
func OpenACL() []ACL { return []ACL{{Perms: PermAll, ID: jute.WorldAnyone}} }

// ReadACL lets everybody read: Apache's READ_ACL_UNSAFE.
func ReadACL() []ACL { return []ACL{{Perms: PermRead, ID: jute.WorldAnyone}} }

// CreatorACL gives the identities that the client has authenticated with all
// permissions, and others none: Apache's CREATOR_ALL_ACL.
func CreatorACL() []ACL { return []ACL{{Perms: PermAll, ID: ID{Scheme: "auth"}}} }

// EventType tells what happened.
type EventType int

// The types of events. EventRearmed is not one of the protocol: a persistent watch gets
// it when the client has set the watch again after the connection was lost. Changes in
// between were not seen, so read again.
const (
	EventSession         EventType = -1 // the session changed its state
	EventCreated                   = EventType(jute.EventCreated)
	EventDeleted                   = EventType(jute.EventDeleted)
	EventDataChanged               = EventType(jute.EventDataChanged)
	EventChildrenChanged           = EventType(jute.EventChildrenChanged)
	EventRearmed         EventType = 100
)

// String returns the name that ZooKeeper gives the type.
func (t EventType) String() string {
	switch t {
	case EventSession:
		return "None"
	case EventCreated:
		return "NodeCreated"
	case EventDeleted:
		return "NodeDeleted"
	case EventDataChanged:
		return "NodeDataChanged"
	case EventChildrenChanged:
		return "NodeChildrenChanged"
	case EventRearmed:
		return "WatchRearmed"
	}
	return fmt.Sprintf("EventType(%d)", int(t))
}

// Event is one event of a watch.
type Event struct {
	Type EventType
	// State is that of the session at the time.
	State State
	// Path is the node's, as the client that set the watch names it.
	Path string
	// Zxid is that of the change, or -1 where the server doesn't say: Apache
	// before 3.9, and changes that happened while the client was cut off.
	Zxid Zxid
}

// String renders the event as ZooKeeper does:
// "WatchedEvent state:SyncConnected type:NodeCreated path:/a".
func (e Event) String() string {
	path := e.Path
	if e.Type == EventSession {
		path = "null"
	}
	s := "WatchedEvent state:" + e.State.keeper() + " type:" + e.Type.String() + " path:" + path
	if e.Zxid > 0 {
		s += fmt.Sprintf(" zxid: %d", int64(e.Zxid))
	}
	return s
}

// State is that of a session.
type State int32

// The states. A session begins in StateConnecting. StateExpired,
// StateAuthFailed and StateClosed are final, except that StateExpired is
// followed by StateConnecting if Options.RenewSession is set.
const (
	// StateConnecting: there is no session yet; servers are being tried.
	StateConnecting State = iota
	// StateConnected: operations are served.
	StateConnected
	// StateReadOnly: as connected, but to a server without a quorum. Writes fail
	// with ErrNotReadOnly. See Options.AllowReadOnly.
	StateReadOnly
	// StateSuspended: the connection is lost. The session lives for now, and
	// servers are being tried.
	StateSuspended
	// StateExpired: the session is gone, and with it its ephemeral nodes.
	StateExpired
	// StateAuthFailed: a server refused the credentials.
	StateAuthFailed
	// StateClosed: Close was called.
	StateClosed
)

var stateNames = [...]string{"connecting", "connected", "read-only", "suspended", "expired", "auth failed", "closed"}

// String returns the name in lower case.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int32(s))
	}
	return stateNames[s]
}

// Connected reports whether operations are served.
func (s State) Connected() bool { return s == StateConnected || s == StateReadOnly }

// Final reports whether the session is over.
func (s State) Final() bool { return s >= StateExpired }

// keeper is the name of ZooKeeper's KeeperState.
func (s State) keeper() string {
	switch s {
	case StateConnected:
		return "SyncConnected"
	case StateReadOnly:
		return "ConnectedReadOnly"
	case StateExpired:
		return "Expired"
	case StateAuthFailed:
		return "AuthFailed"
	case StateClosed:
		return "Closed"
	}
	return "Disconnected"
}

// StateChange is one step of the session's state.
type StateChange struct {
	From, To State
	// Session is the session's id, or 0 if there is none yet.
	Session SessionID
	// Server is the address of the server that the client is or was connected to.
	Server string
	// Err is why, for the states that a failure leads to.
	Err error
}
