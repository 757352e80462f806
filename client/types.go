package client

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// The protocol's own types, so that users need not import jute, except for the names of
// operations in a Trace.
type (
	// Stat has the metadata of a node.
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
	// CreateMode is the kind of node to create.
	CreateMode = jute.CreateMode
	// WatchMode is the mode of AddWatch.
	WatchMode = jute.AddWatchMode
	// Identity is one of the identities that WhoAmI returns.
	Identity = jute.ClientInfo
	// PastChange is what a transaction did to a node.
	PastChange = jute.PastChange
	// OpCode names an operation in errors, logs and traces.
	OpCode = jute.OpCode
	// Features are extensions of the protocol: see docs/extensions.md.
	Features = jute.Features
)

// The modes of a create. A sequential mode appends ten digits to the name. An ephemeral node
// is deleted with its session, a container some time after its last child, and a TTL node if
// it has not changed and has had no children for its time to live (CreateOptions.TTL).
const (
	Persistent              = jute.ModePersistent
	Ephemeral               = jute.ModeEphemeral
	PersistentSequential    = jute.ModePersistentSequential
	EphemeralSequential     = jute.ModeEphemeralSequential
	Container               = jute.ModeContainer
	PersistentTTL           = jute.ModePersistentTTL
	PersistentSequentialTTL = jute.ModePersistentSequentialTTL
)

// The modes of AddWatch. A persistent watch reports changes of its node and of the list of
// its children. A recursive watch reports creations, deletions and data changes of its node
// and of all nodes below it.
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

// AnyVersion as the version of a change means any version.
const AnyVersion int32 = -1

// ConfigPath is the node that holds the ensemble's configuration: lines "server.1=…" and
// "version=…", the latter in hex. Read it as c.Unrooted().Get(ctx, ConfigPath).
const ConfigPath = "/zookeeper/config"

// RetiredPath is the node by which an operator retires an ensemble of zkd's servers, because standbys take its place.
const RetiredPath = jute.RetiredPath

// OpenACL lets everybody do everything: Apache's OPEN_ACL_UNSAFE. Create uses it if the ACL
// is nil.
func OpenACL() []ACL { return []ACL{{Perms: PermAll, ID: jute.WorldAnyone}} }

// ReadACL lets everybody read: Apache's READ_ACL_UNSAFE.
func ReadACL() []ACL { return []ACL{{Perms: PermRead, ID: jute.WorldAnyone}} }

// CreatorACL gives all permissions to the identities that the client has authenticated with,
// and none to others: Apache's CREATOR_ALL_ACL.
func CreatorACL() []ACL { return []ACL{{Perms: PermAll, ID: ID{Scheme: "auth"}}} }

// EventType is the type of an event.
type EventType int

// The types of events. EventRearmed is not part of the protocol: a persistent watch gets it
// when the client has set the watch again after the connection was lost. The client does not
// know of changes in between, so read again.
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
	// State is the state of the session at the time.
	State State
	// Path is the node's path in the view that set the watch.
	Path string
	// Zxid is the zxid of the change, or -1 if the server does not send it: Apache before
	// 3.9, and changes that happened while the client was disconnected.
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

// State is the state of a session.
type State int32

// The states. A session begins in StateConnecting. StateExpired,
// StateAuthFailed and StateClosed are final, except that StateExpired is
// followed by StateConnecting if Options.RenewSession is set.
const (
	// StateConnecting means that there is no session yet; the client tries servers.
	StateConnecting State = iota
	// StateConnected means that operations are served.
	StateConnected
	// StateReadOnly means that the client is connected to a server without a quorum. Writes
	// fail with ErrNotReadOnly. See Options.AllowReadOnly.
	StateReadOnly
	// StateSuspended means that the connection is lost. The session still lives, and the
	// client tries servers.
	StateSuspended
	// StateExpired means that the session has ended, and its ephemeral nodes are deleted.
	StateExpired
	// StateAuthFailed means that a server refused the credentials.
	StateAuthFailed
	// StateClosed means that Close was called.
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

// Final reports whether the session has ended.
func (s State) Final() bool { return s >= StateExpired }

// keeper returns the name of ZooKeeper's KeeperState.
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
	// Err is the reason, if a failure led to the state.
	Err error
}
