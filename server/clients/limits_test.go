package clients

import (
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
)

// ticking is a standin with a clock, for several connections.
type ticking struct {
	standin
	start time.Time
	mu    sync.Mutex // guards standin
}

func (b *ticking) Submit(subs ...replica.Submission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.standin.Submit(subs...)
}

func (b *ticking) Now() time.Duration { return time.Since(b.start) }

// newLimitedClients returns Clients that have local sessions and rules.
func newLimitedClients(t *testing.T, lines ...string) *Clients {
	t.Helper()
	text := "dataDir=/data\nclientPort=2181\ntickTime=2000\nlocalSessionsEnabled=true\n" + strings.Join(lines, "\n") + "\n"
	cfg, _, err := config.Parse(strings.NewReader(text), "zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	schemes, err := auth.New(auth.Config{DigestEnabled: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := session.NewIDs(1, 1, 0)
	ids.Reserved(ids.Ahead())
	s := New(Options{
		Config:   cfg,
		Logger:   zap.NewNop(),
		Metrics:  monitor.NewMetrics(),
		Limits:   Limits{Requests: 1 << 20, Replies: 1 << 20},
		Backend:  &ticking{start: time.Now()},
		State:    &state.State{Tree: datatree.New(), Watches: watch.New()},
		Schemes:  schemes,
		IDs:      ids,
		Sessions: session.NewTracker(1000),
	})
	s.state.Begin([32]byte{1})
	return s
}

// limitedClient is a client of a connection in memory.
type limitedClient struct {
	t  *testing.T
	nc net.Conn
}

// connect opens a connection.
func connect(t *testing.T, s *Clients) *limitedClient {
	t.Helper()
	nc, peer := net.Pipe()
	s.admit(nc, plainPort)
	t.Cleanup(func() { peer.Close() })
	return &limitedClient{t, peer}
}

// begin requests a session, and reports whether there is one.
func (c *limitedClient) begin() bool {
	r := jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, jute.PasswordLen)}
	c.write(r.Append(nil))
	_, err := c.read()
	return err == nil
}

func (c *limitedClient) write(frames ...[]byte) {
	var b []byte
	for _, frame := range frames {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(frame))), frame...)
	}
	c.nc.Write(b) // an error shows in the next read
}

func (c *limitedClient) read() ([]byte, error) {
	return jute.ReadFrame(c.nc, 64<<20)
}

// reply returns the next reply's xid and code.
func (c *limitedClient) reply() (int32, jute.Code) {
	c.t.Helper()
	b, err := c.read()
	if err != nil {
		c.t.Fatalf("read a reply: %v", err)
	}
	var h jute.ReplyHeader
	d := jute.NewDecoder(b)
	h.Decode(&d)
	return h.Xid, h.Err
}

// pathFrame is a read of a path.
func pathFrame(xid int32, op jute.OpCode, path string, watch bool) []byte {
	h := jute.RequestHeader{Xid: xid, Type: op}
	r := jute.PathWatchRequest{Path: path, Watch: watch}
	return r.Append(h.Append(nil))
}

func numbered(n int, path string) (frames [][]byte) {
	for i := range n {
		frames = append(frames, pathFrame(int32(i+1), jute.OpExists, path, false))
	}
	return frames
}

func end(s *Clients) {
	s.Refuse()
	s.Close(time.Minute)
}

// TestRateSlowsDown checks when the replies to pipelined requests come, that another
// client is not slowed down, and that a ping is answered in between.
func TestRateSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t, "zkd.limit.slow=subtree /slow requests/s=2")
		defer end(s)
		noisy, calm := connect(t, s), connect(t, s)
		noisy.begin()
		calm.begin()
		start := time.Now()
		noisy.write(numbered(7, "/slow/node")...)
		for i := range 7 {
			xid, code := noisy.reply()
			want := time.Duration(max(0, i-2)) * 500 * time.Millisecond
			if took := time.Since(start); int(xid) != i+1 || code != jute.ErrNoNode || took != want {
				t.Errorf("reply %d is to %d after %v with %v, want it after %v", i+1, xid, took, code, want)
			}
			before := time.Now()
			calm.write(pathFrame(1, jute.OpExists, "/quick", false))
			if calm.reply(); time.Since(before) != 0 {
				t.Errorf("the other client waits for %v", time.Since(before))
			}
		}
		h := jute.RequestHeader{Xid: jute.XidPing, Type: jute.OpPing}
		before := time.Now()
		noisy.write(h.Append(nil))
		if xid, _ := noisy.reply(); xid != jute.XidPing || time.Since(before) != 0 {
			t.Errorf("a ping is answered by %d after %v", xid, time.Since(before))
		}
	})
}

// TestSubtreeHoldsUpItsConnection has a request that waits for the turn of a subtree: one after it, to a node elsewhere, is
// answered after it.
func TestSubtreeHoldsUpItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t, "zkd.limit.slow=subtree /slow requests/s=2")
		defer end(s)
		c := connect(t, s)
		c.begin()
		start := time.Now()
		c.write(append(numbered(5, "/slow/node"), pathFrame(6, jute.OpExists, "/quick", false))...)
		for i := int32(1); i <= 6; i++ {
			if xid, _ := c.reply(); xid != i {
				t.Errorf("reply %d is to %d", i, xid)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("the last is answered after %v, want 1 s", took)
		}
	})
}

// TestRateRefuses checks the codes of requests that would have to wait for too long, and
// that the session lives.
func TestRateRefuses(t *testing.T) {
	for codes, want := range map[string]jute.Code{"common": jute.ErrOperationTimeout, "exact": jute.ErrThrottledOp} {
		t.Run(codes, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLimitedClients(t, "zkd.limit.bytes=address * bytes/s=1", "zkd.limitCodes="+codes)
				defer end(s)
				c := connect(t, s)
				c.begin()
				c.write(numbered(20, "/node")...)
				start := time.Now()
				if _, code := c.reply(); code != jute.ErrNoNode {
					t.Fatalf("the first request is answered %v", code)
				}
				for i := range 19 {
					_, code := c.reply()
					if took := time.Since(start); code != want || took != time.Duration(i+1)*patience {
						t.Fatalf("request %d is answered %v after %v, want %v after %v", i+2, code, took, want, time.Duration(i+1)*patience)
					}
					s.Tick(s.now())
				}
				if f := s.rules.table.Load().Figures(); len(f) != 1 || f[0].Refused != 19 {
					t.Errorf("figures %v, want 19 refused", f)
				}
			})
		})
	}
}

// paused returns a client whose connection is paused for a second, and that connection.
func paused(t *testing.T, s *Clients) (*limitedClient, *conn) {
	t.Helper()
	c := connect(t, s)
	c.begin()
	c.write(numbered(4, "/node")...)
	for range 3 {
		c.reply()
	}
	synctest.Wait()
	list := s.all()
	list[0].line.Lock()
	defer list[0].line.Unlock()
	if len(list) != 1 || list[0].limits.present.Load().wake == nil {
		t.Fatal("the connection is not paused")
	}
	return c, list[0]
}

const slow = "zkd.limit.slow=address * requests/s=2"

// TestPausedConnectionEnds checks that a connection ends at once that is closed while it
// is paused, and that one whose client leaves ends after the pause.
func TestPausedConnectionEnds(t *testing.T) {
	for name, test := range map[string]struct {
		leave func(*Clients, *limitedClient, *conn)
		after time.Duration
	}{
		"killed":         {func(_ *Clients, _ *limitedClient, c *conn) { c.kill() }, 0},
		"session closed": {func(_ *Clients, _ *limitedClient, c *conn) { c.endSession() }, 0},
		"stopped":        {func(s *Clients, _ *limitedClient, _ *conn) { end(s) }, 0},
		"client leaves":  {func(_ *Clients, c *limitedClient, _ *conn) { c.nc.Close() }, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLimitedClients(t, slow)
				client, c := paused(t, s)
				start := time.Now()
				test.leave(s, client, c)
				s.running.Wait()
				if took := time.Since(start); took != test.after {
					t.Errorf("the connection ends after %v, want %v", took, test.after)
				}
				if s.register.Len() != 0 {
					t.Error("the connection is still registered")
				}
				s.rules.table.Load().Tick(s.now()+time.Hour, s.sessions.exists)
				if f := s.rules.table.Load().Figures(); f[0].Subjects != 0 {
					t.Errorf("meters are left: %v", f)
				}
			})
		})
	}
}

// TestConnectionsAndSessionsRefused checks that a client that is refused is told nothing.
func TestConnectionsAndSessionsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t, "zkd.limit.some=address * connections=3 sessions=2", "zkd.limit.each=identity * connections=1")
		defer end(s)
		a, b, c, d := connect(t, s), connect(t, s), connect(t, s), connect(t, s)
		if !a.begin() || !b.begin() || c.begin() || d.begin() {
			t.Error("want two sessions, none on the third connection, and no fourth connection")
		}
		login := func(c *limitedClient) (jute.Code, error) {
			h := jute.RequestHeader{Xid: jute.XidAuth, Type: jute.OpAuth}
			r := jute.AuthRequest{Scheme: "digest", Auth: []byte("bob:pw")}
			c.write(r.Append(h.Append(nil)))
			c.reply()
			c.write(pathFrame(1, jute.OpExists, "/", false))
			_, err := c.read()
			return 0, err
		}
		if _, err := login(a); err != nil {
			t.Errorf("the first connection of an identity: %v", err)
		}
		if _, err := login(b); err == nil {
			t.Error("an identity has two connections")
		}
		synctest.Wait()
		if !connect(t, s).begin() {
			t.Log("the session of the refused connection still counts") // it has not expired
		}
		time.Sleep(12 * time.Second)
		s.Tick(s.now())
		if !connect(t, s).begin() {
			t.Error("a session that has expired counts")
		}
	})
}

// TestOpeningsSlowDown opens connections at once: some wait for their turns before anything is read from them, and others end.
func TestOpeningsSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t, "zkd.limit.some=address * connections/s=2")
		defer end(s)
		start := time.Now()
		var work sync.WaitGroup
		for i := range 7 {
			c := connect(t, s)
			synctest.Wait() // it has its turn after those before
			work.Go(func() {
				opened := c.begin()
				wantOpened, want := i < 5, min(time.Second, time.Duration(max(0, i-2))*500*time.Millisecond)
				if took := time.Since(start); opened != wantOpened || took != want {
					t.Errorf("connection %d: opened %v after %v, want %v after %v", i+1, opened, took, wantOpened, want)
				}
			})
		}
		work.Wait()
		if f := s.rules.table.Load().Figures(); len(f) != 1 || f[0].Resource != limits.Openings || f[0].Slowed != 2 || f[0].Refused != 2 {
			t.Errorf("figures %v", f)
		}
	})
}

// TestWatchesRefused checks the code, that the reply keeps its place behind a write, and
// that watches that are restored are not refused.
func TestWatchesRefused(t *testing.T) {
	s := newLimitedClients(t, "zkd.limit.some=address * watches=2 ephemerals=1")
	c := newTestConn(t, s)
	c.limits.admit()
	establish(t, c, 1)
	s.register.Add(&c.line.Line, c.identity.ip(), register.Direct, register.Most{})
	handle := func(frame []byte) {
		t.Helper()
		if err := c.handle(frame); err != nil {
			t.Fatal(err)
		}
	}
	create := func(xid int32, mode jute.CreateMode) {
		h := jute.RequestHeader{Xid: xid, Type: jute.OpCreate}
		r := jute.CreateRequest{Path: "/e", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}, Mode: mode}
		handle(r.Append(h.Append(nil)))
	}
	handle(pathFrame(1, jute.OpExists, "/a", true))
	handle(pathFrame(2, jute.OpGetChildren, "/", true))
	create(3, jute.ModeEphemeral)
	handle(pathFrame(4, jute.OpExists, "/c", true))  // refused
	handle(pathFrame(5, jute.OpExists, "/c", false)) // sets no watch
	create(6, jute.ModeEphemeral)                    // refused
	create(7, jute.ModePersistent)
	c.batch.submit()
	b := s.backend.(*ticking)
	if len(b.submitted) != 2 {
		t.Fatalf("%d writes were handed over, want 2", len(b.submitted))
	}
	s.state.Lock()
	a := s.NewAnswers(func() {}, func(int) {}, func(*datatree.Event, int) {})
	a.Begin(s.now())
	for _, sub := range b.submitted {
		txn := &datatree.Txn{Zxid: 9, Cxid: sub.Request.Cxid, Origin: c.line.Origin(), Ops: []datatree.Op{{Kind: datatree.OpCreate, Result: jute.OpCreate}}}
		a.Applied(&replica.Order{}, txn, &datatree.Applied{Results: []datatree.Result{{Path: "/e"}}}, true)
	}
	s.state.Unlock()
	h := jute.RequestHeader{Xid: jute.XidSetWatches, Type: jute.OpSetWatches}
	r := jute.SetWatchesRequest{}
	r.Exist = []string{"/x", "/y", "/z"}
	handle(r.Append(h.Append(nil)))
	want := []struct {
		xid  int32
		code jute.Code
	}{{1, jute.ErrNoNode}, {2, 0}, {3, 0}, {4, jute.ErrNoAuth}, {5, jute.ErrNoNode}, {6, jute.ErrNoAuth}, {7, 0}}
	for rest := c.line.Outbox.Unsent().Last(); len(want) > 0; want = want[1:] {
		n := binary.BigEndian.Uint32(rest)
		var reply jute.ReplyHeader
		d := jute.NewDecoder(rest[4 : 4+n])
		reply.Decode(&d)
		if reply.Xid != want[0].xid || reply.Err != want[0].code {
			t.Errorf("a reply to %d with %v, want %v", reply.Xid, reply.Err, want[0])
		}
		rest = rest[4+n:]
	}
	if n := c.limits.uses(0xff); n < 5 {
		t.Errorf("the client has %d watches, want those restored, too", n)
	}
}

// TestLimitsInQuota checks that limits of znodes take effect, also on connections that were
// there before, and that they go with their znodes.
func TestLimitsInQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t, "zkd.limitsInQuota=true")
		defer end(s)
		c := connect(t, s)
		c.begin()
		replies := func() time.Duration {
			start := time.Now()
			c.write(numbered(4, "/a/b")...)
			for range 4 {
				c.reply()
			}
			return time.Since(start)
		}
		zxid := jute.Zxid(0)
		apply := func(kind datatree.OpKind, path, data string) {
			zxid++
			var out datatree.Applied
			s.state.Lock()
			s.state.Tree.Apply(&datatree.Txn{Zxid: zxid, Ops: []datatree.Op{{Kind: kind, Path: path, Data: []byte(data), Version: int32(zxid)}}}, &out)
			s.state.Unlock()
			s.Tick(s.now())
		}
		const node = "/zookeeper/quota/a/zkd_limits"
		if took := replies(); took != 0 {
			t.Errorf("without limits: %v", took)
		}
		apply(datatree.OpCreate, "/zookeeper/quota/a", "")
		apply(datatree.OpCreate, node, "requests/s=1")
		if took := replies(); took != 2*time.Second { // the first two need not wait
			t.Errorf("with a limit: %v", took)
		}
		apply(datatree.OpSetData, node, "requests/s=1000")
		if took := replies(); took != 0 {
			t.Errorf("with another limit: %v", took)
		}
		apply(datatree.OpSetData, node, "no limit")
		if f := s.rules.table.Load().Figures(); len(f) != 2 || f[0].Rule != limits.Followed || f[0].Slowed != 2 {
			t.Errorf("figures %v, want 2 slowed down", f)
		}
		if took := replies(); took != 0 {
			t.Errorf("with nonsense: %v", took)
		}
		apply(datatree.OpSetData, node, "requests/s=1")
		replies()
		apply(datatree.OpDelete, node, "")
		if took := replies(); took != 0 {
			t.Errorf("without the node: %v", took)
		}
	})
}

// TestLimitedReadsAllocateNothing, where a rule counts them.
func TestLimitedReadsAllocateNothing(t *testing.T) {
	s := newLimitedClients(t, "zkd.limit.a=address * requests/s=1000000000 bytes/s=1000000000000 watches=5", "zkd.limit.p=subtree /n requests/s=1000000000")
	c := newTestConn(t, s)
	c.limits.admit()
	establish(t, c, 1)
	frame := pathFrame(1, jute.OpExists, "/n/m", false)
	n := testing.AllocsPerRun(200, func() {
		if wait, err := c.limits.charge(frame); wait != 0 || err != nil {
			t.Fatal(wait, err)
		}
		if err := c.handle(frame); err != nil {
			t.Fatal(err)
		}
		c.line.Lock()
		c.line.Outbox.Unsent().Written(len(c.line.Outbox.Unsent().Last()))
		c.line.Unlock()
	})
	if n != 0 {
		t.Errorf("a read allocates %v times, want none", n)
	}
}
