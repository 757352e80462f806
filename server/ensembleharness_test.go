package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// peerNet is the in-memory network between the servers of an ensemble. A link can be cut,
// can delay its bytes, or can drop them.
type peerNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by address
	conns     []*peerConn
	cut       map[[2]int]bool // directed: from, to
	lossy     map[[2]int]bool
	held      map[[2]int]chan struct{} // closed when the link continues

	// Taken last, also while a half's lock is held.
	ways sync.Mutex
	rate int // bytes per second, in each direction between two servers; 0 means no limit
	slow int // the server to and from which rate is; 0: all
	free map[[2]int]time.Time
}

// arrival returns when n bytes written now arrive. All connections from one server to
// another share the rate, in the order of the writes.
func (n *peerNet) arrival(from, to, bytes int) time.Time {
	n.ways.Lock()
	defer n.ways.Unlock()
	if n.rate == 0 || n.slow != 0 && n.slow != from && n.slow != to {
		return time.Time{}
	}
	at := n.free[[2]int{from, to}]
	if now := time.Now(); at.Before(now) {
		at = now
	}
	at = at.Add(time.Duration(bytes) * time.Second / time.Duration(n.rate))
	n.free[[2]int{from, to}] = at
	return at
}

// setRate limits the rate between any two servers.
func (n *peerNet) setRate(bytesPerSecond int) {
	n.ways.Lock()
	defer n.ways.Unlock()
	n.rate, n.slow = bytesPerSecond, 0
}

// setRateOf limits the rate between one server and each other.
func (n *peerNet) setRateOf(id, bytesPerSecond int) {
	n.ways.Lock()
	defer n.ways.Unlock()
	n.rate, n.slow = bytesPerSecond, id
}

func newPeerNet() *peerNet {
	return &peerNet{listeners: map[string]*memListener{}, cut: map[[2]int]bool{}, lossy: map[[2]int]bool{}, held: map[[2]int]chan struct{}{},
		free: map[[2]int]time.Time{}}
}

// peerConn is one end of a link; bytes written on a lossy link are dropped.
type peerConn struct {
	*memConn
	net      *peerNet
	from, to int
}

func (c *peerConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	lossy, held := c.net.lossy[[2]int{c.from, c.to}], c.net.held[[2]int{c.from, c.to}]
	c.net.mu.Unlock()
	if held != nil {
		<-held
	}
	if lossy {
		return len(p), nil
	}
	return c.memConn.Write(p)
}

func peerAddr(id int) string { return fmt.Sprintf("10.0.0.%d:2888", id) }

func (n *peerNet) listen(id int) func(network, addr string) (net.Listener, error) {
	return func(_, addr string) (net.Listener, error) {
		_, port, err := net.SplitHostPort(addr)
		n.mu.Lock()
		defer n.mu.Unlock()
		l := newMemListener()
		n.listeners[fmt.Sprintf("10.0.0.%d:%s", id, port)] = l
		return l, err
	}
}

func (n *peerNet) dial(from int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(_ context.Context, _, addr string) (net.Conn, error) {
		var to int
		fmt.Sscanf(addr, "10.0.0.%d:2888", &to)
		n.mu.Lock()
		defer n.mu.Unlock()
		l := n.listeners[addr]
		if l == nil || n.cut[[2]int{from, to}] || n.cut[[2]int{to, from}] {
			return nil, syscall.ECONNREFUSED
		}
		near, far := l.pair(fmt.Sprintf("10.0.0.%d", from), 16<<20)
		near.Out.Slow = func(bytes int) time.Time { return n.arrival(from, to, bytes) }
		near.In.Slow = func(bytes int) time.Time { return n.arrival(to, from, bytes) }
		here, there := &peerConn{near, n, from, to}, &peerConn{far, n, to, from}
		if err := l.accept(there); err != nil {
			return nil, err
		}
		n.conns = append(n.conns, here, there)
		return here, nil
	}
}

// sever cuts the links between a and b, or heals them.
func (n *peerNet) sever(a, b int, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]int{a, b}], n.cut[[2]int{b, a}] = cut, cut
	n.conns = slices.DeleteFunc(n.conns, func(c *peerConn) bool {
		if c.from == a && c.to == b || c.from == b && c.to == a {
			c.Close()
			return true
		}
		return false
	})
}

// swallow drops the bytes that a sends to b.
func (n *peerNet) swallow(a, b int, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lossy[[2]int{a, b}] = on
}

// hold delays the bytes that a sends to b.
func (n *peerNet) hold(a, b int) (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := make(chan struct{})
	n.held[[2]int{a, b}] = held
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.held, [2]int{a, b})
		close(held)
	}
}

// testEnsemble is an ensemble of whole servers in memory.
type testEnsemble struct {
	t       testing.TB
	mu      sync.Mutex // of servers, where clients look for one
	net     *peerNet
	disks   []*crashfs.FS // by id; nil for the operating system's files, whose syncs are left out
	dir     string        // of data, in each disk
	servers []*testServer // by id; nil while down
	size    int
	lines   []string
	files   map[int]string // by id: the members of its configuration file; all for none
	zero    bool           // the third server has the id 0
	vouched bool           // start with Options.AcceptOldData
	tune    func(*Server)  // before a start; may be nil
}

// startEnsemble starts n servers, with the given lines of configuration. It works
// in a synctest bubble.
func startEnsemble(t testing.TB, n int, lines ...string) *testEnsemble {
	t.Helper()
	e := newEnsemble(t, n, lines...)
	for id := 1; id <= n; id++ {
		e.disks[id] = crashfs.New(uint64(id))
	}
	e.startAll()
	return e
}

// startAll starts all servers of an ensemble that is new.
func (e *testEnsemble) startAll() {
	for id := 1; id <= e.size; id++ {
		e.start(id)
	}
}

func newEnsemble(t testing.TB, n int, lines ...string) *testEnsemble {
	e := &testEnsemble{t: t, net: newPeerNet(), disks: make([]*crashfs.FS, n+1), dir: "/data", servers: make([]*testServer, n+1)}
	e.lines = append(e.lines, "initLimit=10", "syncLimit=5")
	e.size = n
	e.lines = append(e.lines, lines...)
	e.files = make(map[int]string)
	t.Cleanup(e.close)
	return e
}

// serverLines are the lines of members in the configuration file of a server: for
// the file "1 2 3o" those of two participants and an observer.
func (e *testEnsemble) serverLines(id int) (lines []string) {
	file := e.files[id]
	for i := 1; i <= e.size && e.files[id] == ""; i++ {
		file += fmt.Sprint(i, " ")
	}
	for _, word := range strings.Fields(file) {
		line := fmt.Sprintf("server.%[1]s=10.0.0.%[1]s:2888:3888", strings.TrimSuffix(word, "o"))
		if e.zero {
			line = strings.Replace(line, "server.3=", "server.0=", 1)
		}
		if strings.HasSuffix(word, "o") {
			line += ":observer"
		}
		lines = append(lines, line)
	}
	return lines
}

func (e *testEnsemble) start(id int) *testServer {
	e.t.Helper()
	s, err := e.tryStart(id)
	if err != nil {
		e.t.Fatalf("start server %d: %v", id, err)
	}
	return s
}

// tryStart starts a server that may refuse to. change may change its options.
func (e *testEnsemble) tryStart(id int, change ...func(o *Options)) (*testServer, error) {
	e.t.Helper()
	dir := e.dir
	var fs vfs.FS = fastFS{}
	if e.disks[id] != nil {
		fs = e.disks[id]
	} else {
		dir = fmt.Sprintf("%s/%d", dir, id)
	}
	number := id
	if e.zero {
		number %= 3
	}
	cfg := parseConfig(e.t, dir, slices.Concat(e.lines, e.serverLines(id), []string{fmt.Sprintf("zkd.myid=%d", number)})...)
	o := Options{
		FS:            fs,
		Config:        cfg,
		AcceptOldData: e.vouched,
		ListenPeers:   e.net.listen(id),
		DialPeer:      e.net.dial(id),
	}
	for _, c := range change {
		c(&o)
	}
	s := newTestServer(e.t, o)
	if e.tune != nil {
		e.tune(s.Server)
	}
	if testing.Verbose() {
		s.Server.log = zaptest.NewLogger(e.t, zaptest.WrapOptions(zap.Fields(zap.Int("on", id)))).
			WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, s.Server.log.Core()) }))
	}
	if err := s.Start(context.Background()); err != nil {
		return nil, err
	}
	e.set(id, s)
	return s, nil
}

func (e *testEnsemble) set(id int, s *testServer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.servers[id] = s
}

func (e *testEnsemble) close() {
	for _, s := range e.servers {
		if s != nil {
			s.Close()
		}
	}
}

// stop stops a server gracefully.
func (e *testEnsemble) stop(id int) {
	s := e.servers[id]
	e.set(id, nil)
	if err := s.Close(); err != nil {
		e.t.Errorf("close server %d: %v", id, err)
	}
}

// kill ends a server like a power cut: everything that was not synced is lost. Syncs fail
// from before the remaining data is chosen, so that no client gets an answer for more
// than that.
func (e *testEnsemble) kill(id int) {
	s := e.servers[id]
	e.set(id, nil)
	e.disks[id].SetHook(func(op crashfs.Op) error { return crashfs.ErrInjected })
	left := e.disks[id].Crash(nil)
	for other := range e.servers {
		e.net.sever(id, other, true)
	}
	s.Close()
	e.disks[id] = left
	for other := range e.servers {
		e.net.sever(id, other, false)
	}
}

// place returns the place of a server in testEnsemble.servers.
func place(id zab.SID) int {
	if id == zab.Zero {
		return 3
	}
	return int(id)
}

// leader waits until a leader is in service and a quorum follows it.
func (e *testEnsemble) leader() int {
	e.t.Helper()
	for range 6000 {
		for id, s := range e.servers {
			if s == nil || !s.standing.leads() || !s.service.serving.Load() && s.cfg.LeaderServes {
				continue
			}
			if !s.ensemble() || s.standing.lists.Load().settled.Quorum(func(other zab.SID) bool {
				if place(other) == id {
					return true
				}
				f := e.servers[place(other)]
				if f == nil {
					return false
				}
				st := f.standing.role.Load()
				return st.Role == zab.Following && place(st.Leader) == id
			}) {
				return id
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatalf("no leader within a minute: %s", e.roles())
	return 0
}

// epoch returns that of the current leader. The first one need not be 1: a candidate may
// lose its election after others promised it an epoch.
func (e *testEnsemble) epoch() uint32 {
	e.t.Helper()
	return e.servers[e.leader()].standing.role.Load().Epoch
}

func (e *testEnsemble) roles() string {
	var b strings.Builder
	for id, s := range e.servers {
		if s != nil {
			st := s.standing.role.Load()
			fmt.Fprintf(&b, "%d: %s of epoch %d, leader %d (%s), applied %v; ", id, show.DescribeRole(st), st.Epoch, st.Leader, st.Reason, s.state.Applied())
		}
	}
	return b.String()
}

// settled waits until all running servers serve, have applied the same entries, and have
// equal trees.
func (e *testEnsemble) settled() {
	e.t.Helper()
	for range 6000 {
		if e.agree() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatalf("servers do not come to agree within a minute: %s", e.roles())
}

func (e *testEnsemble) agree() bool {
	var first *testServer
	for _, s := range e.servers {
		switch {
		case s == nil:
		case !s.service.serving.Load() && (s.cfg.LeaderServes || !s.standing.leads()):
			return false
		case first == nil:
			first = s
		default:
			if s.state.Applied() != first.state.Applied() || s.digest() != first.digest() {
				return false
			}
		}
	}
	return first != nil
}

func (e *testEnsemble) follower() int {
	e.t.Helper()
	leader := e.leader()
	for id, s := range e.servers {
		if s != nil && id != leader {
			if st := s.standing.role.Load(); st.Role == zab.Following {
				return id
			}
		}
	}
	e.t.Fatal("no follower")
	return 0
}

// resumeAt continues c's session at another server.
func (c *client) resumeAt(t testing.TB, s *testServer) *client {
	t.Helper()
	n := s.dial(t, dialOptions{})
	n.establish(&jute.ConnectRequest{TimeoutMs: c.timeout, LastZxidSeen: c.zxid, SessionID: c.session, Password: c.pass, HasReadOnly: true})
	return n
}

// inBubble runs a test of an ensemble in fake time.
func inBubble(t *testing.T, n int, lines []string, test func(t *testing.T, e *testEnsemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, n, lines...)
		e.leader()
		time.Sleep(2 * time.Second) // all are admitted
		e.settled()
		test(t, e)
	})
}

// inTunedBubble is inBubble for servers that are modified before they start.
func inTunedBubble(t *testing.T, n int, tune func(*Server), lines []string, test func(t *testing.T, e *testEnsemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, n, lines...)
		e.tune = tune
		for id := 1; id <= n; id++ {
			e.disks[id] = crashfs.New(uint64(id))
			e.start(id)
		}
		e.leader()
		time.Sleep(2 * time.Second) // all are admitted
		e.settled()
		test(t, e)
	})
}

// stallDisks makes the fsyncs of all servers wait until they are released.
func (e *testEnsemble) stallDisks() (release func()) {
	well := make(chan struct{})
	for _, disk := range e.disks[1:] {
		disk.SetHook(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync {
				<-well
			}
			return nil
		})
	}
	return func() {
		for _, disk := range e.disks[1:] {
			disk.SetHook(nil)
		}
		close(well)
	}
}

// inBubble2 is inBubble for an ensemble in which some servers do not serve.
func inBubble2(t *testing.T, n int, lines []string, test func(t *testing.T, e *testEnsemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, n, lines...)
		e.leader()
		time.Sleep(2 * time.Second)
		test(t, e)
	})
}
