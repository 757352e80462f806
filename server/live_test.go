package server

import (
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// liveServer is a server whose configuration a test changes.
type liveServer struct {
	*testServer
	t   *testing.T
	dir string
	c   *client
}

// change reloads the configuration with these lines beyond those of parseConfig.
func (s *liveServer) change(lines ...string) {
	s.t.Helper()
	_, err := s.Reload(parseConfig(s.t, s.dir, lines...))
	check(s.t, err)
}

// want fails the test unless something is so.
func (s *liveServer) want(what string, is bool) {
	s.t.Helper()
	if !is {
		s.t.Errorf("%s: no", what)
	}
}

// admits reports whether a client of an address may connect, within a second.
func (s *liveServer) admits(ip string) bool {
	s.t.Helper()
	nc, err := s.net.dial(ip, 1<<20)
	check(s.t, err)
	s.t.Cleanup(func() { nc.Close() })
	synctest.Wait()
	nc.SetReadDeadline(time.Now().Add(time.Second))
	_, err = nc.Read(make([]byte, 1))
	netErr, ok := err.(net.Error)
	return ok && netErr.Timeout()
}

// rejects checks that a configuration with these lines is not taken over.
func (s *liveServer) rejects(why string, lines ...string) {
	s.t.Helper()
	cfg := parseConfig(s.t, s.dir, lines...)
	if _, err := s.Reload(cfg); err == nil || !strings.Contains(err.Error(), why) {
		s.t.Errorf("%v: %v, want %q", lines, err, why)
	}
}

// timeoutOf returns the timeout in ms of a new session whose client asks for the given one.
func (s *liveServer) timeoutOf(asked int32) int32 {
	s.t.Helper()
	return s.dial(s.t, dialOptions{}).establish(&jute.ConnectRequest{TimeoutMs: asked, Password: make([]byte, 16)}).TimeoutMs
}

// opens returns how many of five clients may open a session.
func (s *liveServer) opens() (n int) {
	s.t.Helper()
	for range 5 {
		if _, ok := s.tryConnect(s.t, "10.0.0.9"); ok {
			n++
		}
	}
	return n
}

// lines returns how many log lines have a message.
func (s *liveServer) lines(message string) int { return s.logged.FilterMessageSnippet(message).Len() }

// manyNodes makes more nodes than fit into one page of their subtree, and returns a client with the
// request for the first page.
func (s *liveServer) manyNodes() (*client, jute.SubtreePageRequest) {
	s.t.Helper()
	for i := range 30 {
		s.c.create("/n"+strconv.Itoa(i), strings.Repeat("x", 200))
	}
	return s.paging(s.t), jute.SubtreePageRequest{Path: "/", Show: jute.ShowData}
}

// metric returns a value of mntr.
func (s *liveServer) metric(name string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.mntr(s.t)[name])
	check(s.t, err)
	return n
}

// snapshots returns how many snapshots are written during 100 writes.
func (s *liveServer) snapshotsOf100(data string) int64 {
	s.t.Helper()
	before := s.metrics.Snapshot.Count()
	for range 100 {
		s.c.set("/", data)
		synctest.Wait()
	}
	return s.metrics.Snapshot.Count() - before
}

func (s *liveServer) snapshotsKept() int {
	s.snapshots.mu.Lock()
	defer s.snapshots.mu.Unlock()
	return len(s.snapshots.mu.refs)
}

// sends sends n writes at once, and waits for the answers.
func (s *liveServer) sends(n int) {
	s.t.Helper()
	var frames []byte
	for range n {
		s.c.xid++
		frames = append(frames, frameOf(requestFrame(s.c.xid, jute.OpSetData, set("/", "")))...)
	}
	s.c.nc.Write(frames)
	for i := range n {
		s.c.await(s.c.xid - int32(n-1-i))
	}
}

// liveTest changes a live key while a server runs, and looks for its effect.
type liveTest struct {
	lines  []string // at the start
	onDisk bool     // snapshots need real files
	slow   bool     // the disk takes 50 ms for an fsync
	unreal bool     // not in a bubble: the test holds locks
	run    func(*liveServer)
}

// liveTests has a test for each live key.
var liveTests = map[string]liveTest{
	"snapCount": {onDisk: true, run: func(s *liveServer) {
		s.change("snapCount=2")
		s.want("20 snapshots of 100 writes", s.snapshotsOf100(strings.Repeat("x", 10_000)) >= 20)
	}},
	"snapSizeLimitInKb": {onDisk: true, run: func(s *liveServer) {
		s.change("snapSizeLimitInKb=20")
		s.want("20 snapshots of 100 writes", s.snapshotsOf100(strings.Repeat("x", 10_000)) >= 20)
	}},
	"autopurge.snapRetainCount": {onDisk: true, lines: []string{"snapCount=2"}, run: func(s *liveServer) {
		s.change("snapCount=2", "autopurge.snapRetainCount=5")
		s.snapshotsOf100(strings.Repeat("x", 10_000))
		s.want("5 snapshots are kept", s.snapshotsKept() == 5)
	}},
	"zkd.historyHours": {onDisk: true, lines: []string{"snapCount=2"}, run: func(s *liveServer) {
		s.change("snapCount=2", "zkd.historyHours=1")
		s.snapshotsOf100(strings.Repeat("x", 10_000))
		s.want("all snapshots are kept", s.snapshotsKept() >= 20)
	}},
	"zkd.historyKb": {onDisk: true, lines: []string{"snapCount=2", "zkd.historyHours=1"}, run: func(s *liveServer) {
		s.change("snapCount=2", "zkd.historyHours=1", "zkd.historyKb=1")
		s.snapshotsOf100(strings.Repeat("x", 10_000))
		s.want("3 snapshots are kept", s.snapshotsKept() == 3)
	}},
	"autopurge.purgeInterval": {onDisk: true, lines: []string{"snapCount=2", "autopurge.purgeInterval=0"}, run: func(s *liveServer) {
		s.snapshotsOf100(strings.Repeat("x", 10_000))
		time.Sleep(3 * time.Hour)
		s.want("all snapshots are kept", s.snapshotsKept() >= 20)
		s.change("snapCount=2", "autopurge.purgeInterval=1")
		time.Sleep(time.Hour)
		synctest.Wait()
		s.want("3 snapshots are kept", s.snapshotsKept() == 3)
		s.change("snapCount=2", "autopurge.purgeInterval=0")
		s.c = s.connect(s.t)
		s.snapshotsOf100(strings.Repeat("x", 10_000))
		s.want("all snapshots are kept again", s.snapshotsKept() >= 20)
	}},
	"zkd.traces.ratio": {run: func(s *liveServer) {
		exporter := tracetest.NewInMemoryExporter()
		traced := startWith(s.t, Options{Config: parseConfig(s.t, "/traced", "zkd.traces.ratio=0"), FS: crashfs.New(2), TraceExporter: exporter})
		c := traced.connect(s.t)
		c.set("/", "")
		s.want("no request is traced", len(spansOf(exporter, c, c.xid).children) == 0)
		_, err := traced.Reload(parseConfig(s.t, "/traced", "zkd.traces.ratio=1"))
		check(s.t, err)
		c.set("/", "")
		s.want("each request is traced", len(spansOf(exporter, c, c.xid).children) > 0)
	}},
	"zkd.slowRequestThreshold": {slow: true, run: func(s *liveServer) {
		s.change("zkd.slowRequestThreshold=10")
		s.c.set("/", "")
		time.Sleep(time.Second)
		s.want("a slow request is logged", s.lines("slow request") == 1)
		s.change("zkd.slowRequestThreshold=0")
		s.c.set("/", "")
		time.Sleep(20 * time.Second)
		s.want("no other is", s.lines("slow request") == 1)
	}},
	"fsync.warningthresholdms": {slow: true, run: func(s *liveServer) {
		s.want("no slow fsync is logged", s.lines("fsync-ing") == 0)
		s.change("fsync.warningthresholdms=10")
		s.c.set("/", "")
		s.want("a slow fsync is logged", s.lines("fsync-ing") == 1)
	}},
	"nio.sessionlessCnxnTimeout": {run: func(s *liveServer) {
		s.change("nio.sessionlessCnxnTimeout=3000")
		c, begin := s.dial(s.t, dialOptions{}), time.Now()
		c.eof("no connect request")
		s.want("it ends after 3 s", time.Since(begin) == 3*time.Second)
	}},
	"maxClientCnxns": {run: func(s *liveServer) {
		s.change("maxClientCnxns=1")
		s.want("one address has one connection", !s.admits("10.0.0.2") && s.admits("10.0.0.3"))
		s.change("maxClientCnxns=7")
		s.want("one address has more", s.admits("10.0.0.2"))
		s.want("conf says so", strings.Contains(s.ask(s.t, "conf", false), "maxClientCnxns=7\n"))
	}},
	"minSessionTimeout": {run: func(s *liveServer) {
		s.change("minSessionTimeout=9000")
		s.want("a client gets it", s.timeoutOf(1) == 9000)
		s.want("conf says so", strings.Contains(s.ask(s.t, "conf", false), "minSessionTimeout=9000\n"))
	}},
	"maxSessionTimeout": {run: func(s *liveServer) {
		s.change("maxSessionTimeout=9000")
		s.want("a client gets it", s.timeoutOf(1<<30) == 9000)
		s.change("maxSessionTimeout=90000")
		s.want("a client gets more", s.timeoutOf(1<<30) == 90000)
	}},
	"enforce.auth.enabled": {lines: []string{"enforce.auth.schemes=digest"}, run: func(s *liveServer) {
		other := s.connect(s.t)
		other.auth("a:b")
		s.change("enforce.auth.schemes=digest", "enforce.auth.enabled=true")
		other.create("/mine", "")
		s.c.sendFrame(requestFrame(5, jute.OpGetData, get("/", false)))
		s.want("a client without credentials is turned away", s.c.must().Err == jute.ErrSessionClosedRequireSASL)
		s.change("enforce.auth.schemes=digest")
		s.connect(s.t).create("/anybody", "")
	}},
	"enforce.auth.schemes": {lines: []string{"enforce.auth.schemes=ip", "enforce.auth.enabled=true"}, run: func(s *liveServer) {
		s.c.create("/anybody", "")
		s.change("enforce.auth.schemes=digest", "enforce.auth.enabled=true")
		s.c.sendFrame(requestFrame(5, jute.OpGetData, get("/", false)))
		s.want("a client without credentials is turned away", s.c.must().Err == jute.ErrSessionClosedRequireSASL)
		provider := "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider"
		s.rejects("no scheme x509 before it is restarted", "enforce.auth.schemes=x509", "enforce.auth.enabled=true", provider)
	}},
	"maxCnxns": {run: func(s *liveServer) {
		s.change("maxCnxns=1")
		s.want("a second client is refused", !s.admits("10.0.0.4"))
		s.change()
		s.want("a second client is admitted", s.admits("10.0.0.4"))
	}},
	"connection_throttle_tokens": {run: func(s *liveServer) {
		s.change("connection_throttle_tokens=2", "connection_throttle_fill_time=1000")
		s.want("two clients are let in", s.opens() == 2)
		s.change()
		s.want("all clients are let in", s.opens() == 5)
	}},
	"connection_throttle_fill_time": {lines: []string{"connection_throttle_tokens=5", "connection_throttle_fill_time=100000"}, run: func(s *liveServer) {
		s.opens()
		s.change("connection_throttle_tokens=5", "connection_throttle_fill_time=1000")
		time.Sleep(3 * time.Second)
		s.want("three clients are let in after 3 s", s.opens() == 3)
	}},
	"connection_throttle_fill_count": {lines: []string{"connection_throttle_tokens=5", "connection_throttle_fill_time=1000"}, run: func(s *liveServer) {
		s.opens()
		s.change("connection_throttle_tokens=5", "connection_throttle_fill_time=1000", "connection_throttle_fill_count=3")
		time.Sleep(time.Second)
		s.want("three clients are let in after 1 s", s.opens() == 3)
	}},
	"globalOutstandingLimit": {run: func(s *liveServer) {
		s.sends(5)
		s.want("no request has to wait", s.metric("request_throttle_wait_count") == 0)
		s.change("globalOutstandingLimit=1")
		s.sends(5)
		s.want("requests have to wait", s.metric("request_throttle_wait_count") > 0)
	}},
	"request_throttle_max_requests": {run: func(s *liveServer) {
		s.sends(5)
		s.change("request_throttle_max_requests=1")
		s.sends(5)
		s.want("requests have to wait", s.metric("request_throttle_wait_count") > 0)
	}},
	"request_throttler.shutdownTimeout": {run: func(s *liveServer) {
		s.change("request_throttler.shutdownTimeout=3000")
		s.disk(func() { time.Sleep(time.Minute) })
		s.c.send(jute.OpSetData, set("/", ""))
		synctest.Wait()
		begin, closed := time.Now(), make(chan error)
		go func() { closed <- s.Close() }()
		s.c.eof("a server that stops")
		s.want("it ends after 3 s", time.Since(begin) == 3*time.Second)
		check(s.t, <-closed)
	}},
	"throttled_op_wait_time": {unreal: true, run: func(s *liveServer) {
		s.change("throttled_op_wait_time=10")
		for s.events.Len() > 0 { // until the loop has the new value
			runtime.Gosched()
		}
		s.throttlesOps(s.t, 10*time.Millisecond)
	}},
	"zkd.maxReply": {run: func(s *liveServer) {
		s.c.ok(jute.OpGetChildren, get("/", false))
		s.change("zkd.maxReply=50")
		s.want("a listing is too long", s.c.call(jute.OpGetChildren, get("/", false)).Err == jute.ErrMarshalling)
		s.change()
		s.c.ok(jute.OpGetChildren, get("/", false))
	}},
	"zkd.maxFeeds": {run: func(s *liveServer) {
		c := s.subscriber(s.t, nil)
		c.subscribe(all(1, jute.FromNow))
		s.change("zkd.maxFeeds=1")
		status, problem := s.feed(s.t, "")
		s.want("another client's feed is refused", s.subscriber(s.t, nil).call(jute.OpSubscribe, new(all(1, jute.FromNow))).Err == jute.ErrQuotaExceeded)
		s.want("one of HTTP is, too", status == http.StatusTooManyRequests && strings.Contains(problem, "zkd.maxFeeds"))
		s.change("zkd.maxFeeds=2")
		c.subscribe(all(2, jute.FromNow))
	}},
	"zkd.maxFeedsPerConnection": {lines: []string{"zkd.maxFeedsPerConnection=1"}, run: func(s *liveServer) {
		c := s.subscriber(s.t, nil)
		c.subscribe(all(1, jute.FromNow))
		s.want("a second feed is refused", c.call(jute.OpSubscribe, new(all(2, jute.FromNow))).Err == jute.ErrQuotaExceeded)
		s.change("zkd.maxFeedsPerConnection=17")
		for id := range int32(16) {
			c.subscribe(all(2+id, jute.FromNow))
		}
		s.change("zkd.maxFeedsPerConnection=5")
		s.want("one more than there were is refused", c.call(jute.OpSubscribe, new(all(0, jute.FromNow))).Err == jute.ErrQuotaExceeded)
		c.create("/a", "")
		for id := range int32(17) {
			for len(c.got[1+id]) == 0 { // those that were there continue
				c.pinged()
			}
		}
	}},
	"zkd.maxViews": {lines: []string{"jute.maxbuffer=4096"}, run: func(s *liveServer) {
		c, r := s.manyNodes()
		for range 3 {
			c.subtree(r)
		}
		s.want("a fourth view of a connection is refused", c.call(jute.OpSubtreePage, &r).Err == jute.ErrThrottledOp)
		s.change("jute.maxbuffer=4096", "zkd.maxViews=6")
		c.subtree(r)
		s.change("jute.maxbuffer=4096", "zkd.maxViews=1")
		s.want("no other client may have one", s.paging(s.t).call(jute.OpSubtreePage, &r).Err == jute.ErrThrottledOp)
	}},
	"zkd.viewSeconds": {lines: []string{"jute.maxbuffer=4096"}, run: func(s *liveServer) {
		c, r := s.manyNodes()
		again := r
		again.View = c.subtree(r).View
		s.change("jute.maxbuffer=4096", "zkd.viewSeconds=3")
		time.Sleep(3 * time.Second)
		s.want("a view ends after 3 s", c.call(jute.OpSubtreePage, &again).Err == jute.ErrOperationTimeout)
	}},
	"largeRequestThreshold": {lines: []string{"largeRequestMaxBytes=1000"}, run: func(s *liveServer) {
		s.c.set("/", strings.Repeat("x", 2000))
		s.change("largeRequestMaxBytes=1000", "largeRequestThreshold=1500")
		s.c.send(jute.OpSetData, set("/", strings.Repeat("x", 2000)))
		s.c.eof("a large request")
	}},
	"largeRequestMaxBytes": {lines: []string{"largeRequestThreshold=1500"}, run: func(s *liveServer) {
		s.c.set("/", strings.Repeat("x", 2000))
		s.change("largeRequestMaxBytes=1000", "largeRequestThreshold=1500")
		s.c.send(jute.OpSetData, set("/", strings.Repeat("x", 2000)))
		s.c.eof("a large request")
	}},
	"extendedTypesEnabled": {run: func(s *liveServer) {
		s.c.ttl("/a", time.Hour)
		s.change("extendedTypesEnabled=false")
		r := s.c.call(jute.OpCreateTTL, &jute.CreateTTLRequest{CreateRequest: *create("/b", "", jute.ModePersistentTTL), TTL: 1000})
		s.want("TTL nodes are refused", r.Err == jute.ErrUnimplemented)
	}},
	"enforceQuota": {run: func(s *liveServer) {
		s.c.create("/a", "")
		s.c.create("/zookeeper/quota/a", "")
		s.c.create("/zookeeper/quota/a/zookeeper_limits", "count=-1,bytes=-1;byteHardLimit=-1;countHardLimit=2")
		s.c.create("/zookeeper/quota/a/zookeeper_stats", "count=1,bytes=0")
		s.c.create("/a/1", "")
		s.c.create("/a/2", "")
		s.change("enforceQuota=true")
		s.want("a write is refused", s.c.call(jute.OpCreate, create("/a/3", "", 0)).Err == jute.ErrQuotaExceeded)
	}},
	"znode.container.checkIntervalMs": {run: func(s *liveServer) {
		s.change("znode.container.checkIntervalMs=1000")
		s.emptyContainer("/a")
		time.Sleep(3 * time.Second)
		s.want("the container is gone", !s.c.exists("/a"))
	}},
	"znode.container.maxPerMinute": {lines: []string{"znode.container.checkIntervalMs=1000", "znode.container.maxPerMinute=1"}, run: func(s *liveServer) {
		s.change("znode.container.checkIntervalMs=1000", "znode.container.maxPerMinute=6000")
		s.emptyContainer("/a")
		s.emptyContainer("/b")
		time.Sleep(4 * time.Second)
		s.want("both containers are gone", !s.c.exists("/a") && !s.c.exists("/b"))
	}},
	"znode.container.maxNeverUsedIntervalMs": {lines: []string{"znode.container.checkIntervalMs=1000"}, run: func(s *liveServer) {
		s.c.container("/a")
		time.Sleep(4 * time.Second)
		s.want("the container is there", s.c.exists("/a"))
		s.change("znode.container.checkIntervalMs=1000", "znode.container.maxNeverUsedIntervalMs=1000")
		time.Sleep(4 * time.Second)
		s.want("the container is gone", !s.c.exists("/a"))
	}},
	"zkd.linearizableReads": {run: func(s *liveServer) {
		before := s.metrics.EvaluationQueued.Load()
		s.c.exists("/")
		s.want("a read does not ask the leader", s.metrics.EvaluationQueued.Load() == before)
		s.change("zkd.linearizableReads=true")
		s.c.exists("/")
		s.want("a read asks the leader", s.metrics.EvaluationQueued.Load() == before+1)
	}},
	"zkd.authFailuresPerSecond": {lines: []string{superIs, "zkd.authFailuresPerSecond=0"}, run: func(s *liveServer) {
		guess := func() {
			for range 20 {
				s.c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("super:x")}))
				s.c.must()
			}
		}
		guess()
		s.want("nothing is delayed", s.metrics.AuthDelayed.Load() == 0)
		s.change(superIs, "zkd.authFailuresPerSecond=1")
		guess()
		s.want("10 attempts are delayed", s.metrics.AuthDelayed.Load() == 10)
	}},
	"audit.enable": {lines: []string{"zkd.audit.file=" + auditFile}, run: func(s *liveServer) {
		s.c.create("/before", "")
		s.change("zkd.audit.file="+auditFile, "audit.enable=true")
		s.c.create("/during", "")
		s.change("zkd.audit.file=" + auditFile)
		s.c.create("/between", "")
		s.change("zkd.audit.file="+auditFile, "audit.enable=true")
		s.c.create("/again", "")
		text, err := vfs.ReadFile(s.opts.FS, auditFile)
		check(s.t, err)
		for path, is := range map[string]bool{"/before": false, "/during": true, "/between": false, "/again": true} {
			s.want(path+" is in the audit log or not", strings.Contains(string(text), "znode="+path+"\t") == is)
		}
	}},
	"zkd.audit.reads": {lines: []string{"audit.enable=true", "zkd.audit.file=" + auditFile}, run: func(s *liveServer) {
		s.c.exists("/before")
		s.change("audit.enable=true", "zkd.audit.file="+auditFile, "zkd.audit.reads=all")
		s.c.exists("/during")
		text, err := vfs.ReadFile(s.opts.FS, auditFile)
		check(s.t, err)
		s.want("only the second read is in the audit log", strings.Contains(string(text), "/during") && !strings.Contains(string(text), "/before"))
	}},
	"4lw.commands.whitelist": {run: func(s *liveServer) {
		s.change("4lw.commands.whitelist=conf")
		s.want("conf is answered", strings.Contains(s.ask(s.t, "conf", false), "clientPort=2181\n"))
		s.want("mntr is not", strings.Contains(s.ask(s.t, "mntr", false), "not in the whitelist"))
	}},
	"admin.snapshot.enabled": {onDisk: true, run: func(s *liveServer) {
		s.change("admin.snapshot.enabled=false")
		s.want("snapshot is refused", s.pageStatus("/commands/snapshot") == http.StatusServiceUnavailable)
	}},
	"admin.rateLimiterIntervalInMS": {onDisk: true, run: func(s *liveServer) {
		pages := s.AdminPages("/commands", "")
		status := func() int { return request(pages, "GET", "/commands/snapshot", "digest a:b", "").Code }
		s.change("admin.rateLimiterIntervalInMS=7200000")
		s.want("a snapshot is sent", status() == http.StatusOK)
		time.Sleep(7 * time.Second)
		s.want("another is refused after 7 s", status() == http.StatusTooManyRequests)
		s.change("admin.rateLimiterIntervalInMS=1000")
		s.want("another is sent", status() == http.StatusOK)
	}},
	"zkd.limit.*": {run: func(s *liveServer) {
		watch := func(c *client) jute.Code { return c.call(jute.OpGetData, get("/", true)).Err }
		s.change("zkd.limit.a=address * watches=1")
		s.want("one address has one watch", watch(s.c) == 0 && watch(s.connect(s.t)) == jute.ErrNoAuth)
		s.change("zkd.limit.a=address * watches=2")
		s.c.ping() // from here on the new rule counts its watch
		s.want("one address has two watches", watch(s.connect(s.t)) == 0 && watch(s.connect(s.t)) == jute.ErrNoAuth)
		s.change("zkd.limit.a=identity digest:bob requests/s=1")
		s.c.auth("bob:pw")
		begin := time.Now()
		for range 12 {
			s.c.ok(jute.OpExists, get("/", false))
		}
		s.want("bob has one request per second", time.Since(begin) >= 10*time.Second)
		s.change()
		begin = time.Now()
		for range 12 {
			s.want("a watch is allowed", watch(s.connect(s.t)) == 0)
			s.c.ok(jute.OpExists, get("/", false))
		}
		s.want("there are no limits", time.Since(begin) == 0)
	}},
	"zkd.edge.*": {run: func(s *liveServer) {
		edge, user := s.digestID(s.t, "edge:pw"), s.digestID(s.t, "ann:pw")
		speaks := func() bool {
			c := s.connect(s.t)
			c.auth("edge:pw")
			return c.addAuth(jute.SchemeEdge, "digest:"+user.ID) == 0
		}
		s.want("an edge without a rule is refused", !speaks())
		s.change("zkd.edge.a=digest:" + edge.ID + " digest:" + user.ID)
		s.want("an edge with one is not", speaks())
		s.change("zkd.edge.b=digest:" + user.ID)
		s.want("the rule of another one is none", !speaks())
		s.rejects("on this server before it is restarted: x509:CN=a: this server has no scheme x509", "authProvider.1="+apacheAuth+"X509AuthenticationProvider", "zkd.edge.a=x509:CN=a")
	}},
	"zkd.limitCodes": {lines: []string{"zkd.limit.a=address * ephemerals=1"}, run: func(s *liveServer) {
		s.c.ephemeral("/a")
		s.change("zkd.limit.a=address * ephemerals=1", "zkd.limitCodes=exact")
		s.want("the reason is told", s.c.call(jute.OpCreate, create("/b", "", jute.ModeEphemeral)).Err == jute.ErrQuotaExceeded)
	}},
	"zkd.limitsInQuota": {run: func(s *liveServer) {
		s.c.create("/a", "")
		s.c.create("/zookeeper/quota/a", "")
		s.c.create("/zookeeper/quota/a/zkd_limits", "requests/s=1")
		took := func() time.Duration {
			begin := time.Now()
			for range 5 {
				s.c.ok(jute.OpExists, get("/a", false))
			}
			return time.Since(begin)
		}
		s.change("zkd.limitsInQuota=true")
		time.Sleep(time.Second) // a tick follows the znodes
		s.want("requests have to wait", took() >= 3*time.Second)
		s.change()
		s.want("they no longer have to", took() == 0)
	}},
}

// liveKeysOf has the live keys that parts outside of this package take over, and their tests.
var liveKeysOf = map[string]string{"zkd.logLevel": "TestSignals in cmd/zkd"}

// disk makes an fsync call a function.
func (s *liveServer) disk(before func()) {
	s.opts.FS.(*crashfs.FS).SetHook(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			before()
		}
		return nil
	})
}

// emptyContainer makes a container that is due to be removed.
func (s *liveServer) emptyContainer(path string) {
	s.t.Helper()
	s.c.container(path)
	s.c.create(path+"/child", "")
	s.c.ok(jute.OpDelete, &jute.DeleteRequest{Path: path + "/child", Version: -1})
}

func (s *liveServer) pageStatus(path string) int {
	status, _ := s.page(path, "digest a:b")
	return status
}

// TestLiveKeys changes each live key while a server runs, and looks for its effect.
func TestLiveKeys(t *testing.T) {
	for _, k := range config.Keys() {
		test, tested := liveTests[k.Name]
		_, elsewhere := liveKeysOf[k.Name]
		switch {
		case k.Live != (tested || elsewhere):
			t.Errorf("%s: live is %v, and a test of that is %v", k.Name, k.Live, tested || elsewhere)
		case !tested:
			continue
		}
		t.Run(strings.TrimSuffix(k.Name, "*"), func(t *testing.T) {
			dir := "/data"
			var fs vfs.FS = crashfs.New(1)
			if test.onDisk {
				dir, fs = t.TempDir(), fastFS{}
			}
			run := func(t *testing.T) {
				s := &liveServer{testServer: startOn(t, fs, dir, test.lines...), t: t, dir: dir}
				if test.slow {
					s.disk(func() { time.Sleep(50 * time.Millisecond) })
				}
				s.c = s.connectFor(t, 20_000)
				test.run(s)
				s.noErrors(t)
			}
			if test.unreal {
				run(t)
				return
			}
			synctest.Test(t, run)
		})
	}
}

// What is not live keeps the value of the start, whatever a later configuration says.
func TestReloadKeepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "jute.maxbuffer=5000")
		_, err := s.Reload(parseConfig(t, "/elsewhere", "jute.maxbuffer=9000", "maxCnxns=5", "skipACL=yes"))
		check(t, err)
		now := s.settings.Live()
		if now.MaxBuffer != 5000 || now.DataDir != "/data" || now.SkipACL || now.MaxCnxns != 5 {
			t.Errorf("maxbuffer %d, dataDir %s, skipACL %v, maxCnxns %d", now.MaxBuffer, now.DataDir, now.SkipACL, now.MaxCnxns)
		}
		if s.cfg.MaxCnxns != 0 {
			t.Error("the configuration of the start has changed")
		}
	})
}

// An audit log that can't be opened leaves everything as it was.
func TestReloadWithoutAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "zkd.audit.file=/no/such/directory/audit.log")
		s.opts.FS.(*crashfs.FS).SetHook(func(op crashfs.Op) error {
			if strings.HasPrefix(op.Name, "/no/") {
				return crashfs.ErrInjected
			}
			return nil
		})
		_, err := s.Reload(parseConfig(t, "/data", "audit.enable=true", "maxCnxns=5"))
		if err == nil || s.settings.Live().MaxCnxns != 0 {
			t.Errorf("%v, and maxCnxns=%d", err, s.settings.Live().MaxCnxns)
		}
		s.connect(t).create("/a", "")
	})
}
