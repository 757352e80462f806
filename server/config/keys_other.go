package config

import "slices"

// group makes the rows of keys that have no effect for the same reason.
func group(s Status, doc string, names ...string) []Key {
	keys := make([]Key, len(names))
	for i, name := range names {
		keys[i] = Key{Name: name, Status: s, Doc: doc}
	}
	return keys
}

// protecting makes the rows of keys that ask for a protection which zkd does not have,
// for the same reason.
func protecting(doc string, names ...string) []Key {
	keys := group(Later, doc, names...)
	for i := range keys {
		keys[i].Protects = true
	}
	return keys
}

// laterKeys returns the rows of keys for features that zkd does not have yet.
func laterKeys() []Key {
	return slices.Concat(
		protecting("zkd loads no classes: its TLS is that of the files in keyStore.location and trustStore.location",
			"ssl.context.supplier.class", "ssl.quorum.context.supplier.class"),
		protecting("zkd's settings for TLS between servers are those that it honours, which docs/configuration.md lists", "ssl.quorum.*"),
		protecting("zkd does not know this key, and by its name it is about security; docs/configuration.md lists those that it knows",
			"ssl.*", "metricsProvider.ssl.*", "sasl.*", "kerberos.*", "auth*", "quorum.auth.*", "enforce.auth.*"),
		group(Later, "zkd's AdminServer has no such setting", "admin.*"),
		group(Later, "zkd's observers follow the leader itself", "observerMasterPort", "observerMaster.sizeLimit"),
		group(Later, "zkd does not weigh new connections yet; connection_throttle_tokens counts each as one",
			"connection_throttle_freeze_time", "connection_throttle_drop_increase", "connection_throttle_drop_decrease",
			"connection_throttle_decrease_ratio", "connection_throttle_weight_enabled",
			"connection_throttle_global_session_weight", "connection_throttle_renew_session_weight",
			"connection_throttle_local_session_weight",
			"connectionFreezeTime", "connectionDropIncrease", "connectionDropDecrease", "connectionDecreaseRatio"),
		group(Later, "zkd evaluates ACLs once, on the leader", "enableEagerACLCheck"),
	)
}

// ignoredKeys returns the rows of keys that zkd accepts and does not need.
func ignoredKeys() []Key {
	return slices.Concat(
		group(Ignored, "zkd has one election algorithm", "electionAlg"),
		group(Ignored, "zkd has one implementation of TLS", "ssl.sslProvider", "ssl.quorum.sslProvider"),
		group(Ignored, "zkd takes no addresses from HTTP headers, which anybody can write", "IPAuthenticationProvider.usexforwardedfor"),
		group(Ignored, "a TLS handshake has ssl.handshakeDetectionTimeoutMillis to end, and holds up no other",
			"netty.server.outstandingHandshake.limit", "netty.server.earlyDropSecureConnectionHandshakes"),
		group(Ignored, "zkd always stops reading from a client that has too many requests in work",
			"netty.advancedFlowControl.enabled", "advancedFlowControlEnabled"),
		group(Ignored, "it is a setting of clients, which Apache's server does not use either", "sasl.client", "sasl.client.username",
			"sasl.client.canonicalize.hostname", "sasl.clientconfig", "client.secure", "clientCnxnSocket", "kinit"),
		group(Ignored, "it is for tests of Apache's server", "forceSnapshotSync", "testingonly.initialZxid", "test.allowDiscontinuousProposals", "controllerPort"),
		group(Ignored, "links between servers never wait for more bytes to send (TCP_NODELAY)", "leader.nodelay", "follower.nodelay"),
		group(Ignored, "zkd's servers log what is worth it by themselves", "leader.ackLoggingFrequency"),
		group(Ignored, "a running server does not replace its data: the command restore is refused, with the reason", "admin.restore.enabled"),
		group(Ignored, "the AdminServer speaks HTTP/1.1 and closes idle connections after a minute", "admin.httpVersion", "admin.idleTimeout"),
		group(Ignored, "elections and links between servers have times of their own (zkd.electionTimeout, zkd.heartbeat)",
			"fastleader.minNotificationInterval", "fastleader.maxNotificationInterval", "cnxTimeout",
			"quorumCnxnTimeoutMs", "electionPortBindRetry", "leader.maxTimeToWaitForEpoch", "maxTimeToWaitForEpoch",
			"leaderConnectDelayDuringRetryMs", "observer.reconnectDelayMs", "observer.election.DelayMs", "tcpKeepAlive", "connectToLearnerMasterLimit"),
		group(Ignored, "zkd tries the addresses of a server in turn",
			"multiAddress.reachabilityCheckEnabled", "multiAddress.reachabilityCheckTimeoutMs"),
		group(Ignored, "an observer always keeps a log, so that it need not start from nothing",
			"syncEnabled", "observer.syncEnabled"),
		group(Ignored, "zkd keeps the newest 32 MiB of transactions in memory for followers, however many they are", "commitLogCount"),
		group(Ignored, "sending a snapshot or the log to one server holds up no other",
			"leader.maxConcurrentSnapSyncs", "leader.maxConcurrentDiffSyncs", "maxConcurrentSnapSyncs", "maxConcurrentDiffSyncs"),
		group(Ignored, "zkd's servers do not use SASL among themselves (zkd.quorumSecretFile, sslQuorum)",
			"quorum.auth.learner.saslLoginContext", "quorum.auth.server.saslLoginContext",
			"quorum.auth.learner.loginContext", "quorum.auth.server.loginContext", "quorum.auth.kerberos.servicePrincipal"),
		group(Ignored, "zkd always reads keys and certificates again when their files change", "sslQuorumReloadCertFiles", "client.certReload"),
		group(Ignored, "with TLS, a server that dials always has to show a certificate", "ssl.quorum.clientAuth"),
		group(Ignored, "ssl.quorum.hostnameVerification is about both sides of a link", "ssl.quorum.clientHostnameVerification"),
		group(Ignored, "zkd compares certificates with the host of the server.N line, and looks up no names of addresses",
			"ssl.quorum.allowReverseDnsLookup"),
		group(Ignored, "a link that does not say in 3 s what it is, is closed", "ssl.quorum.handshakeDetectionTimeoutMillis"),
		group(Ignored, "zkd's log batches by itself: what arrives during an fsync goes with the next one",
			"flushDelay", "maxWriteQueuePollTime", "maxBatchSize"),
		group(Ignored, "zkd's log rolls when a segment is full (zkd.walSegmentSizeKb)", "txnLogSizeLimitInKb"),
		group(Ignored, "zkd sends a follower the log or a snapshot, whichever is less", "snapshotSizeFactor"),
		group(Ignored, "zkd stops reading from clients instead of stalling or dropping what it has read",
			"request_throttle_stall_time", "requestThrottleStallTime", "request_throttle_drop_stale",
			"requestThrottleDropStale", "request_stale_connection_check", "requestStaleConnectionCheck",
			"request_stale_latency_check", "requestStaleLatencyCheck"),
		group(Ignored, "zkd reads back from its log whatever it wrote", "jute.maxbuffer.extrasize", "intBufferStartingSizeBytes"),
		group(Ignored, "zkd always keeps the digest of the tree", "digest.enabled"),
		group(Ignored, "a close of a session always lists its ephemerals", "closeSessionTxn.enabled"),
		group(Ignored, "a snapshot always knows its zxid", "serializeLastProcessedZxid.enabled"),
		group(Ignored, "snapshots are files to be opened in place, uncompressed", "snapshot.compression.method"),
		group(Ignored, "zkd's log records which snapshots must exist, so it never has to guess", "snapshot.trust.empty"),
		group(Ignored, "zkd never had the TTL nodes of ZooKeeper 3.5.3", "emulate353TTLNodes"),
		group(Ignored, "replies are made from the tree at no cost that a cache would save",
			"maxResponseCacheSize", "maxGetChildrenResponseCacheSize"),
		group(Ignored, "zkd has one table of watches, compact and exact",
			"watchManagerName", "watcherCleanThreshold", "watcherCleanIntervalInSeconds", "watcherCleanThreadsNum",
			"maxInProcessingDeadWatchers", "bitHashCacheSize"),
		group(Ignored, "goroutines need no thread pools",
			"nio.numSelectorThreads", "nio.numWorkerThreads", "nio.directBufferBytes", "nio.shutdownTimeout",
			"commitProcessor.*", "quorum.cnxn.threads.size"),
		group(Ignored, "links between zkd's servers never block each other",
			"follower.skipLearnerRequestToNextProcessor", "forward_learner_requests_to_commit_processor_disabled", "learner.asyncSending", "learner.closeSocketAsync",
			"leader.closeSocketAsync"),
		group(Ignored, "zkd's own metrics and logs take its place", "pathStats.*", "messageTracker.*"),
		group(Ignored, "there is no JVM to watch",
			"jvm.pause.monitor", "jvm.pause.info-threshold.ms", "jvm.pause.warn-threshold.ms", "jvm.pause.sleep.time.ms"),
		group(Ignored, "there is no two-node oracle", "oraclePath"),
		group(Ignored, "zkd's metrics need no such setting", "metricsProvider.*"),
		group(Ignored, "a server that only accepts logins by Kerberos needs no ticket of its own, and no key distribution center",
			"jaasLoginRenew", "java.security.krb5.conf", "java.security.krb5.kdc", "requireKerberosConfig"),
		group(Ignored, "zkd's servers do not use SASL among themselves, which this is about", "kerberos.canonicalizeHostNames"),
		group(Ignored, "the version of a configuration is in the name of the dynamicConfigFile", "version"),
	)
}
