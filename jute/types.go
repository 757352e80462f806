package jute

import (
	"fmt"
	"strconv"
)

// Zxid is a transaction id: the epoch of the leader that made the transaction
// in the high 32 bits, a counter within that epoch in the low 32.
type Zxid int64

// MakeZxid composes a zxid.
func MakeZxid(epoch, counter uint32) Zxid { return Zxid(int64(epoch)<<32 | int64(counter)) }

// Epoch returns the high half of z.
func (z Zxid) Epoch() uint32 { return uint32(uint64(z) >> 32) }

// Counter returns the low half of z.
func (z Zxid) Counter() uint32 { return uint32(z) }

// String formats z like ZooKeeper: 0x and lower-case hex.
func (z Zxid) String() string { return "0x" + strconv.FormatUint(uint64(z), 16) }

// DrainPath is the node by which an operator has a server keep clients away from anywhere in the ensemble: as long as the node is there. Those may create it
// who may create children of /zookeeper/config.
func DrainPath(server int64) string {
	return "/zookeeper/config/drain-" + strconv.FormatInt(server, 10)
}

// RetiredPath is the node by which an operator retires an ensemble, because another one takes its place: as long as the node is there,
// nothing is written but its removal, no session expires, and no client is served. Those may create it who may create children of /zookeeper/config.
const RetiredPath = "/zookeeper/config/retired"

// SessionID identifies a session. The top byte is the id of the server that made it.
type SessionID int64

// String formats the id like ZooKeeper: 0x and hex, without leading zeros.
func (s SessionID) String() string { return "0x" + strconv.FormatUint(uint64(s), 16) }

// Perms is a set of permission bits of an ACL entry.
type Perms int32

// The permission bits. The server stores and returns other bits unchanged.
const (
	PermRead   Perms = 1
	PermWrite  Perms = 2
	PermCreate Perms = 4
	PermDelete Perms = 8
	PermAdmin  Perms = 16
	PermAll    Perms = 31
)

// ID is an identity: a scheme such as "digest", and a name within it.
type ID struct {
	Scheme string
	ID     string
}

// ACL grants permissions to an identity.
type ACL struct {
	Perms Perms
	ID    ID
}

// WorldAnyone is the identity that everybody has.
var WorldAnyone = ID{Scheme: "world", ID: "anyone"}

// CreateMode is the flags field of the create operations. It is an
// enumeration, not a set of bits.
type CreateMode int32

// The create modes.
const (
	ModePersistent              CreateMode = 0
	ModeEphemeral               CreateMode = 1
	ModePersistentSequential    CreateMode = 2
	ModeEphemeralSequential     CreateMode = 3
	ModeContainer               CreateMode = 4
	ModePersistentTTL           CreateMode = 5
	ModePersistentSequentialTTL CreateMode = 6
)

// Valid reports whether m is one of the seven modes.
func (m CreateMode) Valid() bool { return m >= ModePersistent && m <= ModePersistentSequentialTTL }

// Ephemeral reports whether the node is deleted with its session.
func (m CreateMode) Ephemeral() bool { return m == ModeEphemeral || m == ModeEphemeralSequential }

// Sequential reports whether the server appends a sequence number to the name.
func (m CreateMode) Sequential() bool {
	return m == ModePersistentSequential || m == ModeEphemeralSequential || m == ModePersistentSequentialTTL
}

// TTL reports whether the mode needs a time to live.
func (m CreateMode) TTL() bool { return m == ModePersistentTTL || m == ModePersistentSequentialTTL }

// MaxTTL is the largest time to live, in milliseconds: 40 bits.
const MaxTTL int64 = 1<<40 - 1

// Owner is the ephemeralOwner of a node as stored: it distinguishes ephemerals,
// containers and TTL nodes (wire.md section 9). Clients see the result of Session.
type Owner int64

const (
	// OwnerNone marks a persistent node.
	OwnerNone Owner = 0
	// OwnerContainer marks a container node.
	OwnerContainer Owner = -1 << 63

	ownerTTLPrefix = uint64(0xFF) << 56
	ownerTTLMask   = uint64(0xFFFFFF) << 40
)

// OwnerTTL returns the owner that marks a node with a time to live of ms
// milliseconds, 1 to MaxTTL.
func OwnerTTL(ms int64) Owner { return Owner(ownerTTLPrefix | uint64(ms)) }

// OwnerSession returns the owner of an ephemeral of session s.
func OwnerSession(s SessionID) Owner { return Owner(s) }

// TTL returns the time to live in milliseconds, and whether o marks a TTL node.
func (o Owner) TTL() (ms int64, ok bool) {
	if uint64(o)&ownerTTLMask != ownerTTLPrefix {
		return 0, false
	}
	return int64(uint64(o) & uint64(MaxTTL)), true
}

// Container reports whether o marks a container.
func (o Owner) Container() bool { return o == OwnerContainer }

// Session returns the session that owns an ephemeral, or 0 for any other node. A Stat
// shows this value.
func (o Owner) Session() SessionID {
	if _, ttl := o.TTL(); ttl || o.Container() {
		return 0
	}
	return SessionID(o)
}

// Ephemeral reports whether o is a session.
func (o Owner) Ephemeral() bool { return o.Session() != 0 }

// Stat is the state of a node, without its data, as clients see it. On the wire it has 68
// bytes, in the order of these fields.
type Stat struct {
	Czxid          Zxid      // zxid of the create
	Mzxid          Zxid      // zxid of the last change of the data
	Ctime          int64     // time of the create, ms since the Unix epoch
	Mtime          int64     // time of the last change of the data, ms since the Unix epoch
	Version        int32     // number of changes of the data
	Cversion       int32     // creates plus deletes of children
	Aversion       int32     // number of changes of the ACL
	EphemeralOwner SessionID // 0 unless the node is an ephemeral
	DataLength     int32     // bytes
	NumChildren    int32     // direct children
	Pzxid          Zxid      // zxid of the last create or delete of a child
}

// EventType is the kind of change that fired a watch.
type EventType int32

// The event types that a server sends.
const (
	EventCreated         EventType = 1
	EventDeleted         EventType = 2
	EventDataChanged     EventType = 3
	EventChildrenChanged EventType = 4
)

func (t EventType) String() string {
	switch t {
	case EventCreated:
		return "NodeCreated"
	case EventDeleted:
		return "NodeDeleted"
	case EventDataChanged:
		return "NodeDataChanged"
	case EventChildrenChanged:
		return "NodeChildrenChanged"
	}
	return fmt.Sprintf("EventType(%d)", int32(t))
}

// KeeperState is the connection state that an event carries.
type KeeperState int32

// StateSyncConnected is the only state that a server sends.
const StateSyncConnected KeeperState = 3

// WatchType selects watches in checkWatches and removeWatches.
type WatchType int32

// The watch types of checkWatches and removeWatches.
const (
	WatchChildren            WatchType = 1
	WatchData                WatchType = 2
	WatchAny                 WatchType = 3
	WatchPersistent          WatchType = 4
	WatchPersistentRecursive WatchType = 5
)

// AddWatchMode is the mode of an addWatch request.
type AddWatchMode int32

// The modes of addWatch.
const (
	AddPersistent          AddWatchMode = 0
	AddPersistentRecursive AddWatchMode = 1
)

// Reserved xids of requests and replies (wire.md section 5).
const (
	XidNotification int32 = -1
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
	XidFeed         int32 = -16 // an event of a feed: zkd's own
)

// SchemeEdge is the scheme of the auth packet by which an edge says for whom a connection is, as scheme:name, or that it is for nobody that is known: a scheme of zkd's own.
const SchemeEdge = "edge"
