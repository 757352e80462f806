package config

import (
	"math"
	"time"
)

// The rows of the honoured keys. Each group's function binds its rows to the fields of c.

func fileKeys(c *Config) []Key {
	return []Key{
		{Name: "dataDir", value: path(&c.DataDir),
			Doc: "Directory of the snapshots and of the myid file; of the log too unless dataLogDir is set. Required."},
		{Name: "dataLogDir", value: path(&c.DataLogDir),
			Doc: "Directory of the log, best on a disk of its own. Default: dataDir."},
		{Name: "datadir.autocreate", Default: "true", value: truth(&c.DataDirAutoCreate),
			Doc: "Make missing data directories at start."},
		{Name: "db.autocreate", Default: "true", value: truth(&c.DBAutoCreate),
			Doc: "Begin with an empty tree when there is no data. If false, only when the file `initialize` is in dataDir; a member without it waits for the data of the others."},
		{Name: "preAllocSize", Default: "65536", value: kib(&c.raw.preAllocSize, 1, 4<<20),
			Doc: "Space that the log takes in one step, a segment: at least 4096 KiB and eight times jute.maxbuffer."},
		{Name: "zkd.walSegmentSizeKb", Default: "0", value: kib(&c.WALSegmentSize, 0, 4<<20),
			Doc: "Size of a segment of the log; 0 takes preAllocSize."},
		{Name: "snapCount", Clamp: true, Default: "100000", Live: true, value: count(&c.SnapCount, "transactions", 0, maxInt),
			Doc: "Transactions after which a snapshot is taken, if they take half the room of the last one. Less than 2 counts as 2."},
		{Name: "zkd.memoryLimit", Default: "0", value: bytesOf64(&c.MemoryLimit, -1, math.MaxInt64),
			Doc: "[Memory](limits.md#memory) that the process may use. 0: what `GOMEMLIMIT`, its control group or the machine allows. -1: any amount."},
		{Name: "zkd.feedHistoryKb", Default: "16384", value: kib(&c.FeedHistory, 0, 1<<30),
			Doc: "How much of the latest changes of znodes is kept in memory for feeds; 0 for none. A change takes some 150 bytes, its path and its data."},
		{Name: "zkd.archive", value: path(&c.Archive),
			Doc: "Directory of backups, such as `zkcli backup follow` fills: the API and the console look there for what is older than the log, and add backups."},
		{Name: "snapSizeLimitInKb", Default: "4194304", Live: true, value: kib(&c.SnapSizeLimit, -1, math.MaxInt64/1024),
			Doc: "Size of the log after which a snapshot is taken in any case. 0 or less: no limit."},
		{Name: "autopurge.snapRetainCount", Clamp: true, Default: "3", Live: true, value: count(&c.SnapRetainCount, "snapshots", 0, maxInt),
			Doc: "Snapshots to keep, with the log that belongs to them. Less than 3 counts as 3."},
		{Name: "zkd.historyHours", Default: "0", Live: true, value: span(&c.History, "hours", time.Hour, 0, math.MaxInt64/int64(time.Hour)),
			Doc: "Keep [the past](past.md#how-far-back) of so many hours."},
		{Name: "zkd.historyKb", Default: "1048576", Live: true, value: kib(&c.HistoryBytes, 0, math.MaxInt64/1024),
			Doc: "Room for what zkd.historyHours keeps. When the disk is getting full it goes in any case."},
		{Name: "autopurge.purgeInterval", Clamp: true, Default: "1", Live: true, value: span(&c.PurgeInterval, "hours", time.Hour, 0, math.MaxInt64/int64(time.Hour)),
			Doc: "Time between two removals of old snapshots and log segments; 0 turns them off, as Apache's default."},
		{Name: "forceSync", Default: "yes", value: yesNo(&c.ForceSync),
			Doc: "Make a write durable before it is answered. With `no` acknowledged writes are lost when the machine goes down."},
		{Name: "zkd.slowRequestThreshold", Default: "1000", Live: true, value: millis(&c.SlowRequest, 0, maxInt),
			Doc: "Log requests that take longer, the five slowest of ten seconds. 0 logs none."},
		{Name: "fsync.warningthresholdms", Clamp: true, Default: "1000", Live: true, value: millis(&c.FsyncWarningThreshold, 0, maxInt),
			Doc: "Log a warning when an fsync of the log takes longer."},
	}
}

func clientKeys(c *Config) []Key {
	t := &c.ConnectionThrottle
	return []Key{
		{Name: "clientPort", Default: "-1", value: number(&c.ClientPort, -1, 65535),
			Doc: "TCP port for clients; -1 for none, 0 for any free port. Required for a standalone server."},
		{Name: "clientPortAddress", value: host(&c.ClientPortAddress), Protects: true,
			Doc: "Host name or address that clientPort listens on. Default: all addresses."},
		{Name: "clientPortListenBacklog", Default: "-1", value: count(&c.ClientPortListenBacklog, "connections", -1, maxInt),
			Doc: "Connections that may wait to be accepted; -1 is the system's limit."},
		{Name: "clientTcpKeepAlive", Default: "false", value: truth(&c.ClientTCPKeepAlive),
			Doc: "Have the system probe idle client connections."},
		{Name: "tickTime", Default: "3000", value: millis(&c.TickTime, 1, maxInt),
			Doc: "Unit of session timeouts and of the ensemble's limits."},
		{Name: "minSessionTimeout", Default: "-1", Live: true, value: millis(&c.MinSessionTimeout, -1, maxInt),
			Doc: "Smallest session timeout that a client gets when it connects; -1 is 2 x tickTime."},
		{Name: "maxSessionTimeout", Default: "-1", Live: true, value: millis(&c.MaxSessionTimeout, -1, maxInt),
			Doc: "Largest session timeout that a client gets when it connects; -1 is 20 x tickTime."},
		{Name: "maxClientCnxns", Clamp: true, Default: "60", Live: true, value: count(&c.MaxClientCnxns, "connections", 0, maxInt),
			Doc: "Connections from one IP address, or from one IPv6 network of 64 bits; 0 is no limit."},
		{Name: "maxCnxns", Clamp: true, Default: "0", Live: true, value: count(&c.MaxCnxns, "connections", 0, maxInt),
			Doc: "Client connections in all; 0 is no limit. Of more than 16, an address has at most 16 times as many as are free."},
		{Name: "nio.sessionlessCnxnTimeout", Default: "10000", Live: true, value: millis(&c.SessionlessCnxnTimeout, 1, maxInt),
			Doc: "A connection that has not begun a session in that time is closed."},
		{Name: "connection_throttle_tokens", Aliases: []string{"connectionMaxTokens"}, Default: "0", Live: true, value: count(&t.Tokens, "connections", 0, maxInt),
			Doc: "New connections that are accepted in one go; 0 is no limit."},
		{Name: "connection_throttle_fill_time", Aliases: []string{"connectionTokenFillTime"}, Default: "1", Live: true, value: millis(&t.FillTime, 1, maxInt),
			Doc: "Time in which connection_throttle_fill_count more connections are allowed."},
		{Name: "connection_throttle_fill_count", Aliases: []string{"connectionTokenFillCount"}, Default: "1", Live: true, value: count(&t.FillCount, "connections", 1, maxInt),
			Doc: "Connections that are allowed per connection_throttle_fill_time."},
	}
}

func requestKeys(c *Config) []Key {
	t := &c.RequestThrottle
	return []Key{
		{Name: "globalOutstandingLimit", Clamp: true, Default: "1000", Live: true, value: count(&c.GlobalOutstandingLimit, "requests", 1, maxInt),
			Doc: "With more requests in work, the server does not read clients that have their share of them; with twice as many, no client that has one."},
		{Name: "request_throttle_max_requests", Clamp: true, Aliases: []string{"requestThrottleLimit"}, Default: "0", Live: true, value: count(&t.MaxRequests, "requests", 0, maxInt),
			Doc: "Requests in work beyond which further ones are stalled; 0 is no limit."},
		{Name: "request_throttler.shutdownTimeout", Default: "10000", Live: true, value: millis(&t.ShutdownTimeout, 0, maxInt),
			Doc: "How long a stop waits for the requests in work."},
		{Name: "throttled_op_wait_time", Clamp: true, Aliases: []string{"throttledOpWaitTime"}, Default: "0", Live: true, value: millis(&c.ThrottledOpWaitTime, 0, maxInt),
			Doc: "A request that waited longer is answered with ThrottledOp and not done; 0 is off."},
		{Name: "jute.maxbuffer", Clamp: true, Default: "1048575", value: bytesOf(&c.MaxBuffer, 1024, MaxRequest),
			Doc: "Size limit of a request. Clients have the same limit for replies: set it there too."},
		{Name: "zkd.maxReply", Default: "0", Live: true, value: bytesOf(&c.MaxReply, 0, maxInt),
			Doc: "Size limit of a listing and of a multiRead's reply: a longer one is MarshallingError (-5). 0 is no limit, as in Apache's server: Java's client ends the connection at a reply above its own jute.maxbuffer, other clients read it."},
		{Name: "zkd.maxFeeds", Default: "0", Live: true, value: count(&c.MaxFeeds, "feeds", 0, maxInt),
			Doc: "Change feeds of this server at a time; 0 is no limit. One more ends one of those who have most, or is refused. `zkd.feedHistoryKb=0` turns feeds off."},
		{Name: "zkd.maxFeedsPerConnection", Default: "16", Live: true, value: count(&c.MaxFeedsPerConnection, "feeds", 1, 10_000),
			Doc: "Change feeds that a client's connection may have at a time."},
		{Name: "zkd.maxViews", Default: "4", Live: true, value: count(&c.MaxViews, "views", 1, 1000),
			Doc: "[Subtrees](extensions.md#pages-and-subtrees) that clients read at one zxid each (views), at a time. A connection may have all but one. One more ends one of those who have most, or is refused."},
		{Name: "zkd.viewSeconds", Default: "60", Live: true, value: span(&c.ViewLife, "seconds", time.Second, 1, 86400),
			Doc: "How long a view is kept that its client does not ask for."},
		{Name: "largeRequestThreshold", Default: "-1", Live: true, value: bytesOf(&c.LargeRequestThreshold, -1, maxInt),
			Doc: "Size from which a request counts as large; -1 is off."},
		{Name: "largeRequestMaxBytes", Default: "104857600", Live: true, value: bytesOf(&c.LargeRequestMaxBytes, 1, maxInt),
			Doc: "Bytes that all large requests in work may have together."},
	}
}

func treeKeys(c *Config) []Key {
	return []Key{
		{Name: "extendedTypesEnabled", Default: "true", Live: true, value: truth(&c.ExtendedTypes),
			Doc: "Allow TTL nodes. zkd allows them by default, Apache's default is false."},
		{Name: "znode.container.checkIntervalMs", Default: "60000", Live: true, value: millis(&c.ContainerCheckInterval, 1, maxInt),
			Doc: "Time between two searches for empty containers and expired TTL nodes."},
		{Name: "znode.container.maxPerMinute", Default: "10000", Live: true, value: count(&c.ContainerMaxPerMinute, "nodes", 1, maxInt),
			Doc: "How many of them are deleted at most."},
		{Name: "znode.container.maxNeverUsedIntervalMs", Clamp: true, Default: "0", Live: true, value: millis(&c.ContainerMaxNeverUsed, 0, maxInt),
			Doc: "Age at which a container that never had a child is deleted too; 0 is never."},
		{Name: "enforceQuota", Default: "false", Live: true, value: truth(&c.EnforceQuota),
			Doc: "Refuse writes beyond a hard quota. One that is exceeded is logged in any case."},
	}
}

func securityKeys(c *Config) []Key {
	return []Key{
		{Name: "skipACL", Default: "no", value: yesNo(&c.SkipACL),
			Doc: "Check no ACLs: everybody may do everything."},
		{Name: "DigestAuthenticationProvider.enabled", Default: "true", value: truth(&c.DigestAuth),
			Doc: "Allow the digest scheme."},
		{Name: "DigestAuthenticationProvider.superDigest", value: hidden(&c.SuperDigest, "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
			Doc: "The [super user](security.md#acls) of the scheme `digest`, as `zkd digest super` prints it: a name, a colon, and the base64 hash of `name:password`."},
		{Name: "DigestAuthenticationProvider.digestAlg", Default: "SHA1",
			value: oneOf(&c.DigestAlg, "SHA1", "SHA-1", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA3-256", "SHA3-384", "SHA3-512", "MD5"),
			Doc:   "Hash of the digest scheme. ACLs made with another one match no more."},
		{Name: "enforce.auth.enabled", Default: "false", Live: true, value: truth(&c.EnforceAuth), Protects: true,
			Doc: "Turn away clients that have not authenticated with one of enforce.auth.schemes."},
		{Name: "enforce.auth.schemes", Live: true, value: list(&c.EnforceAuthSchemes, "digest", "ip", "digest,super"), Protects: true,
			Doc: "Schemes that satisfy enforce.auth.enabled: digest, ip, super, and x509, sasl and jwt where they are on. One that is off stops the start."},
		{Name: "zkd.ignoreSecurityKeys", Default: "false", value: truth(&c.IgnoreSecurityKeys),
			Doc: "Start, with a warning each, in spite of keys that ask for a protection which zkd does not have; they are listed below."},
	}
}

func operatingKeys(c *Config) []Key {
	return []Key{
		{Name: "4lw.commands.whitelist", Default: "srvr", Live: true, value: list(&c.FourLetterWhitelist, "*", "mntr,ruok", ""),
			Doc: "Four-letter words that are answered, `*` for all. srvr always is; isro is with read-only mode."},
		{Name: "metricsProvider.className", Default: defaultMetrics,
			value: text(&c.raw.metricsProvider, "org.apache.zookeeper.metrics.impl.NullMetricsProvider", prometheusMetrics),
			Doc:   "`" + prometheusMetrics + "` opens `/metrics`; any other opens nothing."},
		{Name: "metricsProvider.httpHost", Default: "0.0.0.0", value: host(&c.MetricsHost), Protects: true,
			Doc: "Host name or address of the metrics endpoint."},
		{Name: "metricsProvider.httpPort", Default: "7000", value: number(&c.MetricsPort, -1, 65535),
			Doc: "TCP port of the metrics endpoint without TLS; 0 is any free port, -1 none."},
		{Name: "metricsProvider.exportJvmInfo", Default: "true", value: truth(&c.MetricsRuntime),
			Doc: "Add metrics of the process and of the Go runtime (in Apache's server, of the JVM)."},
		{Name: "zkd.logFormat", Default: "console", value: oneOf(&c.LogFormat, "console", "json"),
			Doc: "Form of the log lines."},
		{Name: "zkd.logLevel", Default: "info", Live: true, value: oneOf(&c.LogLevel, "debug", "info", "warn", "error"),
			Doc: "Least severe level that is logged."},
	}
}

const (
	defaultMetrics    = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
	prometheusMetrics = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
)

func ensembleKeys(c *Config) []Key {
	m := c.Members.keyDocs()
	return append(m, []Key{
		{Name: "zkd.myid", Default: "-1", value: number(&c.raw.myID, -1, maxServerID),
			Doc: "Id of this server, the N of its server.N line; -1 takes it from the file `myid` in dataDir."},
		{Name: "standaloneEnabled", Default: "true", value: truth(&c.StandaloneEnabled),
			Doc: "With a single server.N line, run as if there were none. If false, run an ensemble of one, which can grow."},
		{Name: "initLimit", Default: "0", value: count(&c.raw.initLimit, "ticks", 0, maxInt),
			Doc: "Time that a new leader has to bring a quorum up to its state, before it gives up. Required in an ensemble."},
		{Name: "syncLimit", Default: "0", value: count(&c.raw.syncLimit, "ticks", 0, maxInt),
			Doc: "Upper bound of the default of zkd.electionTimeout. Required in an ensemble."},
		{Name: "zkd.electionTimeout", Default: "1000", value: millis(&c.ElectionTimeout, leastElectionTimeout.Milliseconds(), 600000),
			Doc: "Time without a word from the leader after which its followers look for another one; up to a half is added at random."},
		{Name: "zkd.heartbeat", Default: "100", value: millis(&c.Heartbeat, 20, 200000),
			Doc: "Time between two pings of the leader; at most a third of zkd.electionTimeout, of any server."},
		{Name: "zkd.interlude", Default: "3000", value: millis(&c.Interlude, 0, 3600000),
			Doc: "Time for which clients' [connections](guarantees.md#connections) wait for a leader. Three times zkd.electionTimeout unless it is set; 0 ends them at once."},
		{Name: "peerType", Default: "participant", value: oneOf(&c.raw.peerType, "participant", "observer"),
			Doc: "Role of this server. The role in its server.N line wins."},
		{Name: "leaderServes", Default: "yes", value: yesNo(&c.LeaderServes),
			Doc: "The leader accepts clients."},
		{Name: "quorumListenOnAllIPs", Default: "false", value: truth(&c.QuorumListenOnAllIPs),
			Doc: "Listen for other servers on all addresses, not only on that of the own server.N line."},
		{Name: "dynamicConfigFile", value: path(&c.DynamicConfigFile),
			Doc: "File that has the server, group and weight lines, and nothing else."},
		{Name: "reconfigEnabled", Default: "false", value: truth(&c.ReconfigEnabled),
			Doc: "The [members](members.md) can be changed while the ensemble runs, by `reconfig` or `zkcli member`. Set it on all servers."},
		{Name: "readonlymode.enabled", Default: "false", value: truth(&c.ReadOnlyMode),
			Doc: "Serve read-only clients when there is no quorum."},
		{Name: "zkd.linearizableReads", Default: "false", Live: true, value: truth(&c.LinearizableReads),
			Doc: "Confirm every read with a quorum, as if a sync stood before it. If false, reads may be stale."},
		{Name: "localSessionsEnabled", Default: "false", value: truth(&c.LocalSessions),
			Doc: "New sessions are known only to the client's server: they cost no write, and can't have ephemerals."},
		{Name: "localSessionsUpgradingEnabled", Default: "false", value: truth(&c.LocalSessionsUpgrading),
			Doc: "A local session becomes a global one when it creates an ephemeral. Needs localSessionsEnabled."},
		{Name: "multiAddress.enabled", Default: "false", value: truth(&c.raw.multiAddress),
			Doc: "Allow several addresses in a server.N line, with `|` between them."},
		{Name: "zkd.quorumSecretFile", HoldsSecret: true, value: path(&c.QuorumSecretFile), Protects: true,
			Doc: "File with a [secret](run.md#secret-and-tls-between-servers), the same on every server, of at least 16 bytes."},
	}...)
}
