package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
)

// TestDerivedFields checks the fields that follow from others.
func TestDerivedFields(t *testing.T) {
	c := mustParse(t, "dataDir=/d\nclientPort=2181\ntickTime=2000\ninitLimit=10\nsyncLimit=5\njute.maxbuffer=4194304\n")
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"DataLogDir", c.DataLogDir, "/d"},
		{"MinSessionTimeout", c.MinSessionTimeout, 4 * time.Second},
		{"MaxSessionTimeout", c.MaxSessionTimeout, 40 * time.Second},
		{"InitLimit", c.InitLimit, 20 * time.Second},
		{"SyncLimit", c.SyncLimit, 10 * time.Second},
		{"MaxBuffer", c.MaxBuffer, 4 << 20},
		{"WALSegmentSize", c.WALSegmentSize, int64(64 << 20)},
		{"SnapSizeLimit", c.SnapSizeLimit, int64(4 << 30)},
		{"PurgeInterval", c.PurgeInterval, time.Hour},
		{"ExtendedTypes", c.ExtendedTypes, true},
		{"ForceSync", c.ForceSync, true},
		{"Metrics", c.Metrics, false},
		{"MyID", c.MyID, int64(-1)},
		{"Replicated", c.Replicated(), false},
		{"FourLetterWhitelist", strings.Join(c.FourLetterWhitelist, ","), "srvr"},
	} {
		if f.got != f.want {
			t.Errorf("%s is %v, want %v", f.name, f.got, f.want)
		}
	}
	if c := mustParse(t, "dataDir=/d\nclientPort=2181\njute.maxbuffer=67108864\n"); c.WALSegmentSize < 4*(64<<20+64<<20) {
		t.Errorf("a segment of %d bytes is too small for four records of 128 MiB", c.WALSegmentSize)
	}
}

// TestLongTicks checks that times given in ticks do not overflow, and that session
// timeouts can be encoded in the protocol.
func TestLongTicks(t *testing.T) {
	c := mustParse(t, "dataDir=/d\nclientPort=2181\ntickTime=2147483647\ninitLimit=2147483647\nsyncLimit=2147483647\n"+
		"server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nzkd.myid=1\n")
	const most = math.MaxInt32 * time.Millisecond
	if c.MinSessionTimeout != most || c.MaxSessionTimeout != most || c.InitLimit != math.MaxInt64 || c.SyncLimit != math.MaxInt64 || c.ElectionTimeout != time.Second {
		t.Errorf("sessions from %v to %v, initLimit %v, syncLimit %v, elections %v", c.MinSessionTimeout, c.MaxSessionTimeout, c.InitLimit, c.SyncLimit, c.ElectionTimeout)
	}
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, _, err := Parse(strings.NewReader(text), "zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDefault checks the embedded default, whose data directory depends on the
// environment.
func TestDefault(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		want string // "" is an error
	}{
		{"state home", map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/zkd"},
		{"home", map[string]string{"HOME": "/h"}, "/h/.local/state/zkd"},
		{"a relative state home is ignored", map[string]string{"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/zkd"},
		{"neither", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, warnings, err := Default(func(key string) string { return test.env[key] })
			if test.want == "" {
				if err == nil || !strings.Contains(err.Error(), "dataDir") {
					t.Errorf("got %v, want an error about dataDir", err)
				}
				return
			}
			if err != nil || c.DataDir != test.want || c.ClientPort != 2181 || len(warnings) != 0 {
				t.Errorf("got %+v %v %v, want dataDir %s", c, warnings, err, test.want)
			}
		})
	}
	c, _, err := Default(func(string) string { return "" }, Override("dataDir", "/x"), Override("clientPort", "0"))
	if err != nil || c.DataDir != "/x" || c.ClientPort != 0 {
		t.Errorf("with overrides: %+v, %v", c, err)
	}
}

// TestDefaultLimits has the values that docs/limits.md names.
func TestDefaultLimits(t *testing.T) {
	c, _, err := Default(func(string) string { return "/x" })
	if err != nil {
		t.Fatal(err)
	}
	type limits struct {
		maxBuffer, clientCnxns, cnxns, outstanding int
		shortest, longest, sessionless             time.Duration
	}
	got := limits{c.MaxBuffer, c.MaxClientCnxns, c.MaxCnxns, c.GlobalOutstandingLimit, c.MinSessionTimeout, c.MaxSessionTimeout, c.SessionlessCnxnTimeout}
	if want := (limits{1<<20 - 1, 60, 0, 1000, 2 * c.TickTime, 20 * c.TickTime, 10 * time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, size := range []int{MaxRequest, MaxRequest + 1} {
		c, _, err := Parse(strings.NewReader(fmt.Sprintf("dataDir=/x\nclientPort=1\njute.maxbuffer=%d\n", size)), "zoo.cfg")
		if err != nil || c.MaxBuffer != MaxRequest || MaxRequest != 64<<20 {
			t.Errorf("jute.maxbuffer=%d is %d, %v; want 64 MiB", size, c.MaxBuffer, err)
		}
	}
}

// TestLoad reads real files: zoo.cfg, myid, and one that is not there.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("zoo.cfg", "clientPort=2181\nmaxCnxns=x\ndataDir="+dir)
	_, _, err := Load(cfg)
	if one, ok := errors.AsType[*Error](err); !ok || one.File != cfg || one.Line != 2 || one.Key != "maxCnxns" || one.Value != "x" {
		t.Errorf("got %v, want an Error about line 2 of %s", err, cfg)
	}
	write("myid", "7\n")
	c, warnings, err := Load(cfg, Override("maxCnxns", "5"))
	if err != nil || c.MyID != 7 || c.MaxCnxns != 5 || len(warnings) != 0 {
		t.Errorf("got %+v, %v, %v", c, warnings, err)
	}
	if _, _, err := Load(filepath.Join(dir, "nosuch")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for a file that does not exist", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(filepath.Join(dir, "pipe")); err == nil || !strings.Contains(err.Error(), "it is a pipe, and only regular files are read") {
		t.Errorf("got %v for a pipe", err)
	}
	write("large", strings.Repeat("# \n", maxFileSize))
	if _, _, err := Load(filepath.Join(dir, "large")); err == nil {
		t.Error("a file larger than the limit was read")
	}
}

// TestUTF8 checks that a file with UTF-8 text gets a warning, since its characters are
// read as others.
func TestUTF8(t *testing.T) {
	c, warnings, err := Parse(strings.NewReader("clientPort=2181\ndataDir=/é\n"), "zoo.cfg")
	if err != nil || c.DataDir != "/Ã©" || len(warnings) != 1 || warnings[0].Line != 2 {
		t.Errorf("got %+v %v %v", c, warnings, err)
	}
}

// TestExamples checks that the files of conf/ load without a remark, and match their
// comments.
func TestExamples(t *testing.T) {
	for _, test := range []struct {
		file              string
		id                string
		voters, observers int
		port              int
	}{
		{"zoo_sample.cfg", "-1", 0, 0, 2181},
		{"zoo_ensemble.cfg", "6", 5, 1, 2181},
	} {
		c, warnings, err := Load("../../conf/"+test.file, Override("zkd.myid", test.id), Override("dataDir", t.TempDir())) // without what a machine may have in /tmp
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", test.file, warnings, err)
			continue
		}
		voters := c.Members.Voters()
		if voters != test.voters || len(c.Members.Servers)-voters != test.observers || c.ClientPort != test.port || c.TickTime != 2*time.Second {
			t.Errorf("%s: got %+v", test.file, c)
		}
	}
	if c, warnings, err := Load("../../conf/edge.cfg"); err != nil || len(warnings) > 0 || !c.Edge.On {
		t.Errorf("edge.cfg: %+v %v %v", c, warnings, err)
	}
}

// TestKeyTable checks the table itself.
func TestKeyTable(t *testing.T) {
	names := make(map[string]bool)
	for _, k := range Keys() {
		for _, name := range append([]string{k.Name}, k.Aliases...) {
			if names[name] {
				t.Errorf("%s is in the table twice", name)
			}
			names[name] = true
		}
		if k.Doc == "" {
			t.Errorf("%s has no documentation", k.Name)
		}
		_, _, member := memberKey(k.Name)
		rule := k.Name == limitPrefix+"*" || k.Name == edgesPrefix+"*" // its keys have names of their own, as those of members: resolveLimits, resolveEdges
		if k.Status == Honoured && !member && !rule && k.value.set == nil {
			t.Errorf("%s is honoured, and its value is not read", k.Name)
		}
	}
}

// TestGetReturnsWhatSetReads sets each key to its default and to the result of get:
// nothing may change.
func TestGetReturnsWhatSetReads(t *testing.T) {
	for _, k := range Keys() {
		if k.Default == "" || k.value.set == nil {
			continue
		}
		if !k.value.set(k.Default) {
			t.Errorf("%s refuses its default %q", k.Name, k.Default)
		}
		shown := k.value.get()
		if shown != k.Default || !k.value.set(shown) || k.value.get() != shown {
			t.Errorf("%s: default %q is shown as %q, then as %q", k.Name, k.Default, shown, k.value.get())
		}
	}
}

// documented are the keys of ZooKeeper's documentation and source, except the rows of the
// table that stand for several keys.
const documented = `
dataDir dataLogDir clientPort clientPortAddress secureClientPort secureClientPortAddress observerMasterPort
clientPortListenBacklog tickTime minSessionTimeout maxSessionTimeout maxClientCnxns initLimit syncLimit
connectToLearnerMasterLimit electionAlg quorumListenOnAllIPs peerType syncEnabled dynamicConfigFile
autopurge.snapRetainCount autopurge.purgeInterval standaloneEnabled reconfigEnabled localSessionsEnabled
localSessionsUpgradingEnabled sslQuorum portUnification sslQuorumReloadCertFiles multiAddress.enabled
multiAddress.reachabilityCheckEnabled multiAddress.reachabilityCheckTimeoutMs quorum.auth.enableSasl
quorum.auth.learnerRequireSasl quorum.auth.serverRequireSasl quorum.auth.learner.loginContext
quorum.auth.server.loginContext quorum.auth.kerberos.servicePrincipal quorum.cnxn.threads.size
metricsProvider.className metricsProvider.httpHost metricsProvider.httpPort metricsProvider.exportJvmInfo
jvm.pause.monitor jvm.pause.info-threshold.ms jvm.pause.warn-threshold.ms jvm.pause.sleep.time.ms oraclePath
server.1 group.1 weight.1 version globalOutstandingLimit preAllocSize snapCount snapSizeLimitInKb
txnLogSizeLimitInKb commitLogCount snapshotSizeFactor forceSync fsync.warningthresholdms maxCnxns
nio.sessionlessCnxnTimeout clientTcpKeepAlive tcpKeepAlive leaderServes skipACL enforceQuota enableEagerACLCheck
4lw.commands.whitelist extendedTypesEnabled emulate353TTLNodes digest.enabled closeSessionTxn.enabled
serializeLastProcessedZxid.enabled snapshot.compression.method snapshot.trust.empty db.autocreate
datadir.autocreate request_throttle_max_requests requestThrottleLimit request_throttle_stall_time
request_throttle_drop_stale request_stale_connection_check request_stale_latency_check
request_throttler.shutdownTimeout throttled_op_wait_time throttledOpWaitTime largeRequestThreshold
largeRequestMaxBytes connection_throttle_tokens connectionMaxTokens connection_throttle_fill_time
connection_throttle_fill_count connection_throttle_freeze_time connection_throttle_drop_increase
connection_throttle_drop_decrease connection_throttle_decrease_ratio connection_throttle_weight_enabled
connection_throttle_global_session_weight connection_throttle_renew_session_weight
connection_throttle_local_session_weight flushDelay maxWriteQueuePollTime maxBatchSize maxResponseCacheSize
maxGetChildrenResponseCacheSize cnxTimeout quorumCnxnTimeoutMs electionPortBindRetry
fastleader.minNotificationInterval fastleader.maxNotificationInterval leader.maxTimeToWaitForEpoch
leader.maxConcurrentSnapSyncs leader.maxConcurrentDiffSyncs leaderConnectDelayDuringRetryMs
observer.reconnectDelayMs observer.election.DelayMs observer.syncEnabled DigestAuthenticationProvider.enabled
DigestAuthenticationProvider.superDigest DigestAuthenticationProvider.digestAlg X509AuthenticationProvider.superUser
superUser superUser.1 authProvider.1 enforce.auth.enabled enforce.auth.schemes sessionRequireClientSASLAuth
allowSaslFailedClients sasl.serverconfig kerberos.removeHostFromPrincipal kerberos.removeRealmFromPrincipal
kerberos.canonicalizeHostNames ensembleAuthName letAnySaslUserDoX serverCnxnFactory client.portUnification
client.certReload ssl.keyStore.location ssl.keyStore.password ssl.keyStore.passwordPath ssl.keyStore.type
ssl.trustStore.location ssl.trustStore.password ssl.trustStore.passwordPath ssl.trustStore.type ssl.protocol
ssl.enabledProtocols ssl.ciphersuites ssl.clientAuth ssl.hostnameVerification ssl.clientHostnameVerification
ssl.allowReverseDnsLookup ssl.crl ssl.ocsp ssl.authProvider ssl.handshakeDetectionTimeoutMillis
ssl.quorum.keyStore.location fips-mode admin.enableServer admin.serverAddress admin.serverPort admin.commandURL
admin.idleTimeout admin.httpVersion admin.portUnification admin.forceHttps admin.needClientAuth
admin.snapshot.enabled admin.restore.enabled admin.rateLimiterIntervalInMS audit.enable watchManagerName
watcherCleanThreshold watcherCleanIntervalInSeconds watcherCleanThreadsNum bitHashCacheSize
maxInProcessingDeadWatchers nio.numSelectorThreads nio.numWorkerThreads nio.directBufferBytes nio.shutdownTimeout
commitProcessor.numWorkerThreads follower.skipLearnerRequestToNextProcessor learner.asyncSending
learner.closeSocketAsync leader.closeSocketAsync pathStats.slotCapacity messageTracker.BufferSize jute.maxbuffer
jute.maxbuffer.extrasize readonlymode.enabled znode.container.checkIntervalMs znode.container.maxPerMinute
znode.container.maxNeverUsedIntervalMs java.security.auth.login.config`

// TestEveryDocumentedKeyIsKnown checks that no key of Apache's server gets the
// warning for unknown ones, with the prefix or without.
func TestEveryDocumentedKeyIsKnown(t *testing.T) {
	d := unbound()
	for name := range strings.FieldsSeq(documented) {
		for _, written := range []string{name, "zookeeper." + name} {
			if _, known := d.find(written); !known {
				t.Errorf("%s is not known", written)
			}
		}
	}
}

// FuzzLoad checks for any text that nothing panics, that warnings and errors have
// existing lines, and that the output of Describe loads to the same configuration.
func FuzzLoad(f *testing.F) {
	f.Add("dataDir=/d\nclientPort=2181\n")
	f.Add("dataDir=/d\nclientPort=2181\nserver.1=a:1:2;3\nserver.2=[::1]:1:2:observer;[::1]:3\ngroup.1=1:2\nweight.1=3")
	f.Add("tickTime : 3s\n\\u0061=\\\n b\n!c\n zookeeper.snapCount\t=0x10")
	f.Add("dynamicConfigFile=/dyn\nautopurge.purgeInterval=1d\nmaxClientCnxnx=4\n")
	f.Fuzz(func(t *testing.T, text string) {
		load := func(text string) (*Config, []Warning, error) {
			read := func(name string) ([]byte, error) {
				if name == "/dyn" {
					return []byte("server.1=a:1:2\nserver.2=b:1:2"), nil
				}
				return nil, fs.ErrNotExist
			}
			return newLoader(read).load([]byte(text), "f", nil)
		}
		c, warnings, err := load(text)
		lines := 1 + strings.Count(text, "\n") + strings.Count(text, "\r")
		for _, w := range warnings {
			if w.Line < 0 || w.Line > lines {
				t.Errorf("warning beyond the file: %v", w)
			}
		}
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok || c != nil {
				t.Errorf("error without an Error: %v", err)
			}
			return
		}
		again, _, err := load(asFile(c))
		if err != nil {
			t.Fatalf("what was loaded does not load again: %v\n%s", err, asFile(c))
		}
		if asFile(c) != asFile(again) {
			t.Errorf("loaded\n%sthen\n%s", asFile(c), asFile(again))
		}
	})
}

// asFile writes c as a file.
func asFile(c *Config) string {
	var b strings.Builder
	line := func(key, value string) {
		for _, r := range utf16.Encode([]rune(value)) {
			if r > ' ' && r < 0x7f && r != '\\' {
				key += string(rune(r))
			} else {
				key += fmt.Sprintf(`\u%04x`, r)
			}
		}
		b.WriteString(key + "\n")
	}
	for _, k := range keyTable(c) {
		if k.value.get != nil && k.value.get() != "" && k.Name != "dynamicConfigFile" {
			line(k.Name+"=", k.value.get())
		}
	}
	for _, s := range c.Members.Servers {
		line(fmt.Sprintf("server.%d=", s.ID), s.String())
		if c.Members.Hierarchical {
			line(fmt.Sprintf("weight.%d=", s.ID), fmt.Sprint(s.Weight))
		}
	}
	for _, g := range c.Members.Groups {
		line(fmt.Sprintf("group.%d=", g.ID), strings.ReplaceAll(strings.Trim(fmt.Sprint(g.Members), "[]"), " ", ":"))
	}
	return b.String()
}
