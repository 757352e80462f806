package config

import (
	"math"
	"time"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/secure"
)

// Config is the configuration of a server. Load, Parse and Default make one; its fields
// must not be changed afterwards. Times that the file gives in ticks, and values that
// follow from others, are computed. docs/configuration.md has the keys.
type Config struct {
	// File is the path given to Load, "" if the configuration is from no file.
	File string

	// DataDir is the directory of snapshots and of the myid file. Required.
	DataDir string
	// DataLogDir is the directory of the write-ahead log, DataDir if not set.
	DataLogDir string
	// DataDirAutoCreate creates missing data directories at start. Default true.
	DataDirAutoCreate bool

	// ClientPort is the TCP port of the listener for clients; -1 means none, and 0 any
	// free port. Default -1.
	ClientPort int
	// ClientPortAddress is the host name or address to listen on, without brackets; "",
	// the default, means all addresses.
	ClientPortAddress string
	// ClientTLS configures TLS for clients.
	ClientTLS ClientTLS
	// FIPS means that fips-mode=true asks for the FIPS 140-3 mode of the process. Default false.
	FIPS bool
	// ClientPortListenBacklog is the backlog of listen(2); -1, the default, means the
	// system's.
	ClientPortListenBacklog int
	// ClientTCPKeepAlive sets SO_KEEPALIVE on client connections. Default false.
	ClientTCPKeepAlive bool

	// TickTime is the basic unit of time. Default 3 s.
	TickTime time.Duration
	// MinSessionTimeout and MaxSessionTimeout bound the timeout that a client can
	// request. Defaults 2 and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration

	// MaxClientCnxns limits the connections from one IP address; 0 means no limit.
	// Default 60.
	MaxClientCnxns int
	// MaxCnxns limits all client connections; 0, the default, means no limit.
	MaxCnxns int
	// SessionlessCnxnTimeout is the time after which a connection without a session is
	// closed. Default 10 s.
	SessionlessCnxnTimeout time.Duration
	// ConnectionThrottle limits the rate at which connections are accepted.
	ConnectionThrottle ConnectionThrottle

	// GlobalOutstandingLimit is the number of pending requests above which the server
	// stops reading from clients. Default 1000.
	GlobalOutstandingLimit int
	// RequestThrottle sets further limits on pending requests.
	RequestThrottle RequestThrottle
	// ThrottledOpWaitTime is the time in the queue after which a request is answered with
	// ThrottledOp and not done. 0, the default, turns it off.
	ThrottledOpWaitTime time.Duration
	// MaxBuffer is the size limit of a request, in bytes: at most MaxRequest.
	// Default 1048575.
	MaxBuffer int
	// MaxReply is the size limit of replies that list children or ephemerals, and of those to
	// multiRead, in bytes: see ReplyLimit. 0, the default, means no limit.
	MaxReply int
	// LargeRequestThreshold is the size in bytes from which a request counts as large;
	// -1, the default, turns it off.
	LargeRequestThreshold int
	// LargeRequestMaxBytes limits the bytes of all pending large requests. Default 100
	// MiB.
	LargeRequestMaxBytes int

	// WALSegmentSize is the size of a segment of the log in bytes, at least four times
	// the largest record. Default 64 MiB.
	WALSegmentSize int64
	// ForceSync makes a write durable before it is answered. Default true; false loses
	// acknowledged writes when the machine crashes.
	ForceSync bool
	// FsyncWarningThreshold is the duration of an fsync above which a warning is logged.
	// Default 1 s.
	FsyncWarningThreshold time.Duration
	// SnapCount is the number of transactions after which a snapshot is taken, if they take half
	// the room of the last one. Default 100000, at least 2.
	SnapCount int
	// SnapSizeLimit is the number of log bytes after which a snapshot is taken, however large
	// the last one was. Zero or a negative number means no such limit. Default 4 GiB.
	SnapSizeLimit int64
	// SnapRetainCount is the number of snapshots kept. Default 3, at least 3.
	SnapRetainCount int
	// History is for how long more snapshots are kept, with the log that belongs to them, so that the state at each
	// moment can be found; 0 for no time. HistoryBytes is how many bytes all of them may take. Default 1 GiB.
	History      time.Duration
	HistoryBytes int64
	// PurgeInterval is the interval between removals of old snapshots and log segments; 0
	// turns removal off. Default 1 h (Apache: off).
	PurgeInterval time.Duration
	// DBAutoCreate lets a server without data start with an empty tree. If false, the
	// file "initialize" in DataDir is required. Default true.
	DBAutoCreate bool

	// ExtendedTypes allows TTL nodes. Default true (Apache: false).
	ExtendedTypes bool
	// ContainerCheckInterval is the interval between searches for empty containers and
	// expired TTL nodes. Default 1 min.
	ContainerCheckInterval time.Duration
	// ContainerMaxPerMinute limits the number of them deleted per minute. Default 10000.
	ContainerMaxPerMinute int
	// ContainerMaxNeverUsed is the age at which a container that never had a child is
	// deleted too; 0, the default, means never.
	ContainerMaxNeverUsed time.Duration

	// SkipACL turns all ACL checks off. Default false.
	SkipACL bool
	// EnforceQuota rejects writes beyond a hard quota. Default false.
	EnforceQuota bool
	// DigestAuth allows the digest scheme. Default true.
	DigestAuth bool
	// SuperDigest is "super:" and the base64 hash of the super user's name and password;
	// empty means no super user.
	SuperDigest secret.Text
	// DigestAlg is the hash of the digest scheme, by its Java name. Default SHA1.
	DigestAlg string
	// SlowRequest is the time from which a request is logged as slow; 0 means never. Default 1 s.
	SlowRequest time.Duration
	// AuthFailuresPerSecond is how often clients of one address may fail to authenticate; 0
	// means no limit. Default 2.
	AuthFailuresPerSecond int
	// EnforceAuth rejects clients that have not authenticated with one of
	// EnforceAuthSchemes. Default false.
	EnforceAuth bool
	// EnforceAuthSchemes are the schemes that satisfy EnforceAuth. Not empty if
	// EnforceAuth is set.
	EnforceAuthSchemes []string
	// Identities configures further schemes.
	Identities Identities
	// SASL configures logins by SASL.
	SASL SASL
	// IgnoreSecurityKeys turns the error for each setting that asks for a protection
	// which zkd does not have into a warning. Default false.
	IgnoreSecurityKeys bool

	// Limits are the rules that limit what clients may use, in the order of the file.
	Limits []limits.Rule
	// Edges are the rules that say for whom edges may speak.
	Edges []auth.EdgeRule
	// LimitsInQuota adds the limits of rates in znodes below /zookeeper/quota. Default false.
	LimitsInQuota bool
	// LimitCodes says with which codes they refuse requests: "common" with those that all
	// clients know, "exact" with those that say why. Default common.
	LimitCodes string

	// FourLetterWhitelist are the enabled four-letter words, or "*" for all.
	// srvr is always enabled. Default srvr, and isro if ReadOnlyMode is set.
	FourLetterWhitelist []string
	// Metrics turns the Prometheus endpoint on. Default false.
	Metrics bool
	// MetricsHost is the host name or address of the endpoint. Default 0.0.0.0.
	MetricsHost string
	// Admin configures the AdminServer.
	Admin struct {
		Enabled bool
		Host    string
		Port    int    // 0 means any free port
		URL     string // path of the commands
		API     bool   // zkd.api: the HTTP API is there, too
		Console bool   // zkd.console: pages for people that use the API
		// TLS is that of the pages, if Accept is set.
		TLS         secure.Settings
		Accept      bool // connections with TLS: portUnification or forceHttps
		AcceptPlain bool // connections without: not forceHttps
		// Snapshots allows the command snapshot. Default true.
		Snapshots bool
		// SnapshotInterval limits how often that may be. Default 5 min.
		SnapshotInterval time.Duration
	}
	// MetricsTLS configures the endpoint with TLS.
	MetricsTLS MetricsTLS
	// MetricsPort is the endpoint's TCP port without TLS; 0 means any free port, and -1 none. Default
	// 7000, or -1 if there is one with TLS.
	MetricsPort int
	// MetricsRuntime adds the metrics of the Go runtime and of the process.
	// Default true.
	MetricsRuntime bool
	// LogFormat is "console" or "json". Default console.
	LogFormat string
	// LogLevel is the lowest level that is logged: "debug", "info", "warn" or "error".
	// Default info.
	LogLevel string

	// Members are the servers of the ensemble; empty if there is none.
	Members Members
	// MyID is the id of this server: that of zkd.myid, or else of the myid file in
	// DataDir, or -1 if there is none. In an ensemble it is one of Members.
	MyID int64
	// StandaloneEnabled ignores the server.N line if there is only one. Default true.
	StandaloneEnabled bool
	// InitLimit bounds how long a new leader may take to bring a quorum up to its
	// state.
	InitLimit time.Duration
	// SyncLimit bounds the default of ElectionTimeout.
	SyncLimit time.Duration
	// ElectionTimeout is the time without a message from the leader after which its
	// followers look for another one. Default 1 s, or SyncLimit if that is less.
	ElectionTimeout time.Duration
	// Interlude is how long connections of clients wait for a leader. Default 3 times
	// ElectionTimeout.
	Interlude time.Duration
	// MemoryLimit is how much memory the process may use, in bytes; 0: it finds out, -1: it has no bound.
	MemoryLimit int64
	// Archive is a directory of backups; "" for none.
	Archive string
	// FeedHistory is how many bytes of the latest changes are kept for feeds; 0 for none.
	FeedHistory int64
	// MaxFeeds is how many feeds there may be at a time; 0, the default, means no limit.
	MaxFeeds int
	// MaxFeedsPerConnection is how many of them a client's connection may have. Default 16.
	MaxFeedsPerConnection int
	// MaxViews is how many subtrees clients may read at one zxid each, at a time. Default 4.
	MaxViews int
	// ViewLife is how long such a subtree is kept while it is not read. Default 60 s.
	ViewLife time.Duration
	// Heartbeat is the interval between the leader's pings, at most a third of
	// ElectionTimeout. Default 100 ms.
	Heartbeat time.Duration
	// Observer means that this server does not vote.
	Observer bool
	// QuorumListenOnAllIPs accepts links of other servers on all addresses, not only on
	// that of this server's own line. Default false.
	QuorumListenOnAllIPs bool
	// LeaderServes lets a leader accept clients. Default true.
	LeaderServes bool
	// ReconfigEnabled allows clients to change the members, and other servers that are no
	// members to learn. Default false.
	ReconfigEnabled bool
	// Autopilot is the time after which the leader makes an observer of a voter that is gone; 0,
	// the default, turns that off.
	Autopilot time.Duration
	// ReadOnlyMode serves read-only clients without a quorum. Default false.
	ReadOnlyMode bool
	// LinearizableReads confirms each read with a quorum. Default false.
	LinearizableReads bool
	// LocalSessions makes new sessions local to the server of their connection: they need
	// no write, and can't own ephemerals. Default false.
	LocalSessions bool
	// LocalSessionsUpgrading makes a local session a global one when it creates an
	// ephemeral. Default false.
	LocalSessionsUpgrading bool
	// QuorumSecretFile is the file with QuorumSecret, "" if there is none.
	QuorumSecretFile string
	// QuorumSecret is the secret by which the servers of the ensemble authenticate to
	// each other, empty if there is none.
	QuorumSecret secret.Text
	// QuorumTLS configures TLS on the links between servers.
	QuorumTLS QuorumTLS
	// DynamicConfigFile is the file with the members, "" if they are in the main file.
	DynamicConfigFile string

	// Audit configures the audit log.
	Audit Audit
	// Traces configures the spans that are sent to a collector.
	Traces Traces
	// Edge is the configuration of zkd edge, if this is one.
	Edge Edge
	// Secure means that the configuration has been checked for TLS on all public ports, and
	// that what it leaves open is set to the safe value. Default false.
	Secure bool

	raw      rawKeys
	settings map[string]property // the properties that were set, by the key's name in the table
	warnings []Warning
	fileText string // with masked secrets
}

// ReplyLimit returns MaxReply, or the largest int if that is not set.
func (c *Config) ReplyLimit() int {
	if c.MaxReply > 0 {
		return c.MaxReply
	}
	return math.MaxInt
}

// javaMaxBuffer is jute.maxbuffer of Java's clients, unless they set it: jute.JavaMaxBuffer.
const javaMaxBuffer = 0xfffff

// LongReply returns the size in bytes that Java's clients accept of a reply, unless they set
// jute.maxbuffer to another value than the server.
func (c *Config) LongReply() int { return max(c.MaxBuffer, javaMaxBuffer) }

// MaxRequest is the largest MaxBuffer, in bytes. The layers after the client's connection
// (the transaction, the log, the frames between servers) accept the size that such a
// request can become, and not more: see server/limits.go.
const MaxRequest = 64 << 20

// ConnectionThrottle is a token bucket for new connections.
type ConnectionThrottle struct {
	Tokens    int           // size of the bucket; 0, the default, turns it off
	FillTime  time.Duration // time between two refills, default 1 ms
	FillCount int           // tokens per refill, default 1
}

// RequestThrottle bounds the pending requests.
type RequestThrottle struct {
	MaxRequests     int           // pending requests; 0, the default, means no limit
	ShutdownTimeout time.Duration // how long a stop waits for the queue, default 10 s
}

// SASL configures logins by SASL.
type SASL struct {
	sasl.Config
	// On accepts logins. If it is not set, a client that tries is told that there is no
	// SASL.
	On bool
	// AllowFailed serves clients whose login failed. Default false.
	AllowFailed bool
	// EverybodyAs is an id. What ACLs allow to it is allowed to all clients that have logged
	// in. "" means none.
	EverybodyAs string
}

// rawKeys holds values that are only used to compute other fields.
type rawKeys struct {
	preAllocSize              int64
	initLimit, syncLimit      int
	myID                      int
	metricsProvider, peerType string
	multiAddress              bool
	identities                rawIdentities
	sasl                      rawSASL
	unifiedQuorum             bool // portUnification
	cnxnFactory               string
	quorumTLS, clientTLS      rawTLS
	metricsTLS                rawTLS
	metricsNeed, metricsWant  bool
	admin                     struct{ unified, forceHTTPS, needClientAuth bool }
}

// Replicated reports whether the server is a member of an ensemble. A single
// participant counts only with standaloneEnabled=false.
func (c *Config) Replicated() bool {
	n := c.Members.Voters()
	return n > 1 || n > 0 && !c.StandaloneEnabled
}

// Self returns this server's member, the zero Server if it is none.
func (c *Config) Self() Server {
	s, _ := c.Members.Server(c.MyID)
	return s
}

// Warnings returns the remarks on the configuration, in the order of lines.
func (c *Config) Warnings() []Warning { return c.warnings }
