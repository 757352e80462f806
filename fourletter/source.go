package fourletter

import (
	"net/netip"
	"time"
)

// Source provides the data that the commands show. A command calls only the methods that
// it needs. Slices that a Source returns belong to the caller.
type Source interface {
	// Serving reports whether the server serves clients: it is standalone, belongs to a
	// quorum, or is read-only.
	Serving() bool
	// ReadOnly reports whether the server has no quorum and serves read-only.
	ReadOnly() bool
	// Version returns release and build date, in a form that clients parse:
	// "3.9.5-1a2b3c4, built on 2026-01-31 12:00 UTC".
	Version() string
	// Environment returns the lines of envi, with Version as "zookeeper.version" first.
	Environment() []KV
	// Settings returns the effective configuration.
	Settings() Settings

	// Server returns the figures of srvr.
	Server() Server
	// Connections returns all connections, including that of the command.
	Connections() []Connection
	// Clients returns what each connection did, without that of the command, and what those
	// did that have ended, most requests first.
	Clients() []ClientUse
	// Metrics returns the metrics that mntr shows after version and state: see Int, Float
	// and Metric.
	Metrics() []Metric
	// Digests returns the digests of the tree that are kept, oldest first.
	Digests() []Digest
	// DirSizes returns the bytes on disk of snapshots and of the log.
	DirSizes() (data, log int64)

	// Sessions returns the sessions and their deadlines.
	Sessions() Sessions
	// ConnectionDeadlines returns the times when idle connections are closed, soonest
	// first.
	ConnectionDeadlines() []ConnectionBucket
	// Ephemerals returns the ephemeral nodes of each session that has any.
	Ephemerals() []SessionPaths

	// WatchCount returns the number of watches. This and the next two methods cover only
	// data watches, as in Apache's server.
	WatchCount() WatchCount
	// WatchesBySession returns the watched paths of each connection that has a watch, by
	// its session.
	WatchesBySession() []SessionPaths
	// WatchesByPath returns the sessions that watch each watched path.
	WatchesByPath() []PathSessions

	// TraceMask returns the mask set by SetTraceMask, initially 306. It has no other
	// effect.
	TraceMask() int64
	SetTraceMask(mask int64)
	// ResetServerStats zeroes the latencies and packet counts of the server.
	ResetServerStats()
	// ResetConnectionStats zeroes the statistics of each connection.
	ResetConnectionStats()
}

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

// Server is the content of srvr.
type Server struct {
	Mode string // standalone, leader, follower, observer or read-only
	// PeerState is its activity in the ensemble: "leading - broadcast", "following -
	// broadcast" or "observing - broadcast", since it serves only then; "" if standalone
	// or read-only.
	PeerState string
	// ObserverMaster is the id of the server that an observer follows, shown by
	// mntr; 0 for all others.
	ObserverMaster int64
	MinLatencyMs   int64
	AvgLatencyMs   float64
	MaxLatencyMs   int64
	Received       int64 // packets
	Sent           int64 // packets
	Connections    int
	Outstanding    int64 // requests not answered yet
	Zxid           int64 // last one applied
	Nodes          int64
	ProposalSizes  *ProposalSizes // of a leader; nil for others
	// Disk describes a problem with the disk of the log, such as "full: ...". It is shown
	// only if it is not empty, and only where Apache's server shows nothing.
	Disk string
	// Drain describes how the server moves its clients to others, likewise.
	Drain string
	// Joiners are the servers that a leader brings up to date. They are shown under the same
	// condition.
	Joiners []Joiner
}

// Joiner is a server that gets a snapshot, or else the log.
type Joiner struct {
	ID         int64
	Snapshot   bool
	Sent, Size int64 // bytes of the snapshot; both 0 before it is sent
	LogLeft    int64 // bytes of the log that the server does not have yet
}

// ProposalSizes has sizes in bytes, -1 before the first proposal.
type ProposalSizes struct{ Last, Min, Max int64 }

// Connection is a connection of a client. If Session is 0 only the fields up to
// Sent are shown.
type Connection struct {
	Remote   netip.AddrPort
	Reading  bool  // the server waits for input
	Writing  bool  // the server waits to write
	Secure   bool  // with TLS
	Queued   int64 // requests not answered yet
	Received int64 // packets
	Sent     int64 // packets

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
