package show

import (
	"net/netip"
	"time"
)

// KV is a line of envi.
type KV struct{ Key, Value string }

// Settings is the content of conf. Ports are -1 where there is none.
type Settings struct {
	ClientPort, SecureClientPort int
	DataDir, DataLogDir          string
	DataDirBytes, DataLogBytes   int64
	TickTimeMs                   int
	MaxClientCnxns               int // connections per client address, 0 for no limit
	MinSessionTimeoutMs          int
	MaxSessionTimeoutMs          int
	ListenBacklog                int // -1 for the system's default
	ServerID                     int64
	Quorum                       *Quorum // nil if standalone
}

// Quorum is the part of Settings that only a member of an ensemble has.
type Quorum struct {
	InitLimit, SyncLimit     int // ticks
	ElectionAlg              int // 3
	ElectionPort, QuorumPort int
	Observer                 bool
	// Membership is the text of znode /zookeeper/config, including its version line; ""
	// while read-only.
	Membership string
}

// Joiner is a server that gets a snapshot, or else the log.
type Joiner struct {
	ID         int64
	Snapshot   bool
	Sent, Size int64 // bytes of the snapshot; both 0 before it is sent
	LogLeft    int64 // bytes of the log that the server does not have yet
}

// Connection is a connection of a client. If Session is 0 only the fields up to
// Sent are shown.
type Connection struct {
	Remote   netip.AddrPort
	For      string // an edge's connection carries it: the client's address, as the edge tells it
	Reading  bool   // the server waits for input
	Writing  bool   // the server waits to write
	Secure   bool   // with TLS
	Queued   int64  // requests not answered yet
	Received int64  // packets
	Sent     int64  // packets

	// User is for whom an edge speaks on the connection, "" for nobody, and Edge the edge: "" for none.
	User, Edge string

	Session       int64
	LastOp        string // short code such as EXIS, CREA or PING; NA for none
	Established   time.Time
	TimeoutMs     int64
	LastCxid      int64 // xid of the last request; hidden if negative
	LastZxid      int64 // of the last reply; -1 for none
	LastReplyMs   int64 // on the server's monotonic clock; 0 for none
	LastLatencyMs int64
	MinLatencyMs  int64
	AvgLatencyMs  int64
	MaxLatencyMs  int64
}

// Metric is a line of mntr. Name has no zk_ prefix.
type Metric struct{ Name, Value string }

// Digest is the digest of the tree after a transaction.
type Digest struct{ Zxid, Value int64 }

// Sessions is the first part of dump. A leader (or standalone server) knows when sessions
// expire, a learner only their timeouts.
type Sessions struct {
	Learner  bool
	Buckets  []SessionBucket  // global sessions; empty for a learner
	Timeouts []SessionTimeout // global sessions; only for a learner
	// LocalEnabled reports whether there can be local sessions; Local then has them.
	LocalEnabled bool
	Local        []SessionBucket
}

// SessionBucket is a set of sessions that expire at the same time.
type SessionBucket struct {
	Expires  time.Time // shown in the zone that it has
	Sessions []int64
}

// SessionTimeout is a session and its timeout, which is all that a learner knows.
type SessionTimeout struct{ Session, TimeoutMs int64 }

// ConnectionBucket is a set of connections that are closed at the same time
// unless they send something.
type ConnectionBucket struct {
	Expires     time.Time // shown in the zone that it has
	Connections []ConnectionID
}

// ConnectionID identifies a connection; Session is 0 before it has one.
type ConnectionID struct {
	Remote  netip.AddrPort
	Session int64
}

// SessionPaths is a list of nodes that belong to a session.
type SessionPaths struct {
	Session int64
	Paths   []string
}

// PathSessions is a list of sessions that belong to a node.
type PathSessions struct {
	Path     string
	Sessions []int64
}

// WatchCount counts watches, and the connections and paths that have any.
type WatchCount struct{ Connections, Paths, Watches int }
