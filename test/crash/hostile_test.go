package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// open is for tests with many connections.
var open = []string{"maxClientCnxns=0", "tickTime=100", "maxSessionTimeout=60000"}

// raw connects and sends bytes, without a session.
func raw(t testing.TB, addr string, b []byte) net.Conn {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write(b); err != nil && !isClosed(err) {
		t.Fatal(err)
	}
	return nc
}

// isClosed reports whether an error says that the server closed the connection.
func isClosed(err error) bool {
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// awaitClosed returns what a connection still brings, up to its end.
func awaitClosed(t testing.TB, nc net.Conn) []byte {
	t.Helper()
	defer nc.Close()
	b, err := io.ReadAll(nc)
	if err != nil && !isClosed(err) {
		t.Errorf("the server keeps the connection: %v", err)
	}
	return b
}

func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// TestFirstBytes sends what is no connect request: the server must close, at the
// latest when its patience with clients without a session ends.
func TestFirstBytes(t *testing.T) {
	s := newServer(t, append(open, "nio.sessionlessCnxnTimeout=500")...)
	s.start()
	end := watchOver(t, s)
	defer end()
	hello := (&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}).Append(nil)
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	tests := map[string][]byte{
		"nothing":                    nil,
		"one byte":                   {0},
		"three bytes":                {0, 0, 0},
		"length 0":                   length(0),
		"length -1":                  length(math.MaxUint32),
		"smallest length":            length(1 << 31),
		"largest length":             length(math.MaxInt32),
		"length of 1 MiB":            length(1 << 20),
		"length within, no bytes":    length(1<<20 - 1),
		"length within, some bytes":  append(length(1<<20-1), make([]byte, 5000)...),
		"HTTP":                       []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":                        {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
		"unknown word":               []byte("quux\n"),
		"zeros":                      make([]byte, 100_000),
		"huge password":              frameOf(append(hello[:24:24], 0x7f, 0xff, 0xff, 0xff)),
		"negative password":          frameOf(append(hello[:24:24], 0x80, 0, 0, 0)),
		"session without a password": frameOf((&jute.ConnectRequest{TimeoutMs: 1, SessionID: 77}).Append(nil)),
		"session, wrong password":    frameOf((&jute.ConnectRequest{SessionID: -1, Password: make([]byte, 16), TimeoutMs: math.MinInt32}).Append(nil)),
		"client from the future":     frameOf((&jute.ConnectRequest{LastZxidSeen: math.MaxInt64, Password: make([]byte, 16)}).Append(nil)),
	}
	for n := range len(hello) - 1 {
		tests[fmt.Sprintf("connect request of %d bytes", n)] = frameOf(hello[:n])
	}
	var wg sync.WaitGroup
	for name, b := range tests {
		wg.Go(func() {
			if got := awaitClosed(t, raw(t, s.addr, b)); len(got) > 0 && !strings.HasPrefix(name, "session") && !strings.HasPrefix(name, "connect") {
				t.Errorf("%s: answered with %q", name, got)
			}
		})
	}
	wg.Wait()
}

// samples returns a well-formed body for each operation that has one.
func samples() map[jute.OpCode][]byte {
	multi := &jute.MultiRequest{Ops: []jute.MultiOp{
		{Type: jute.OpCheck, Path: "/s", Version: -1},
		{Type: jute.OpCreate, Path: "/s/m", Data: []byte("x"), ACL: openACL},
		{Type: jute.OpSetData, Path: "/s", Data: []byte("y"), Version: -1},
		{Type: jute.OpDelete, Path: "/s/m", Version: -1},
	}}
	create := &jute.CreateRequest{Path: "/s/c", Data: []byte("data"), ACL: openACL}
	path := &jute.PathRequest{Path: "/s"}
	watch := &jute.PathWatchRequest{Path: "/s", Watch: true}
	list := &jute.SetWatchesRequest{RelativeZxid: 1, Data: []string{"/s", "/t"}, Exist: []string{"/u"}, Child: []string{"/"}, Persistent: []string{"/s"}, PersistentRecursive: []string{"/"}}
	return map[jute.OpCode][]byte{
		jute.OpCreate: create.Append(nil), jute.OpCreate2: create.Append(nil), jute.OpCreateContainer: create.Append(nil),
		jute.OpCreateTTL: (&jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: "/s/t", ACL: openACL, Mode: jute.ModePersistentTTL}, TTL: 5}).Append(nil),
		jute.OpDelete:    (&jute.DeleteRequest{Path: "/s/none", Version: -1}).Append(nil),
		jute.OpExists:    watch.Append(nil), jute.OpGetData: watch.Append(nil), jute.OpGetChildren: watch.Append(nil), jute.OpGetChildren2: watch.Append(nil),
		jute.OpSetData: (&jute.SetDataRequest{Path: "/s", Data: []byte("z"), Version: -1}).Append(nil),
		jute.OpGetACL:  path.Append(nil), jute.OpSync: path.Append(nil), jute.OpGetAllChildrenNumber: path.Append(nil), jute.OpGetEphemerals: path.Append(nil),
		jute.OpSetACL: (&jute.SetACLRequest{Path: "/s", ACL: openACL, Version: -1}).Append(nil),
		jute.OpCheck:  (&jute.CheckVersionRequest{Path: "/s", Version: -1}).Append(nil),
		jute.OpMulti:  multi.Append(nil),
		jute.OpMultiRead: (&jute.MultiRequest{Ops: []jute.MultiOp{
			{Type: jute.OpGetData, Path: "/s"}, {Type: jute.OpGetChildren, Path: "/"}}}).Append(nil),
		jute.OpReconfig:      (&jute.ReconfigRequest{}).Append(nil),
		jute.OpAuth:          (&jute.AuthRequest{Scheme: "digest", Auth: []byte("a:b")}).Append(nil),
		jute.OpSASL:          (&jute.SASLToken{Token: []byte("token")}).Append(nil),
		jute.OpSetWatches:    list.Append(nil),
		jute.OpSetWatches2:   list.Append2(nil),
		jute.OpAddWatch:      (&jute.AddWatchRequest{Path: "/s", Mode: jute.AddPersistentRecursive}).Append(nil),
		jute.OpCheckWatches:  (&jute.RemoveWatchesRequest{Path: "/s", Type: jute.WatchAny}).Append(nil),
		jute.OpRemoveWatches: (&jute.RemoveWatchesRequest{Path: "/s", Type: jute.WatchAny}).Append(nil),
		jute.OpPing:          nil, jute.OpWhoAmI: nil, jute.OpCloseSession: nil,
		// What no client may send.
		jute.OpCreateSession: {0, 0, 0x27, 0x10}, jute.OpDeleteContainer: path.Append(nil), jute.OpError: {0xff, 0xff, 0xff, 0xff}, jute.OpNotification: nil,
		10: nil, 23: nil, 99: nil, 108: nil, 1000: nil, math.MaxInt32: nil, math.MinInt32: nil,
	}
}

// prober sends one request at a time, each followed by a ping, and connects again
// when the server has closed the connection.
type prober struct {
	s *server
	c *client
}

// probe sends a frame and reports whether the server answered or closed: one of
// them must happen.
func (p *prober) probe(frame []byte) error {
	if p.c == nil {
		p.c = p.s.connect()
	}
	c := p.c
	c.PutFrame(frame)
	c.PutXid(jute.XidPing, jute.OpPing, nil)
	if err := c.Flush(); err != nil {
		return p.closed(err)
	}
	for {
		r, err := c.next()
		if err != nil {
			return p.closed(err)
		}
		if r.Xid == jute.XidPing {
			return nil
		}
	}
}

func (p *prober) closed(err error) error {
	p.c.Close()
	p.c = nil
	if !isClosed(err) {
		return err
	}
	return nil
}

func requestFrame(xid int32, op jute.OpCode, body []byte) []byte {
	h := jute.RequestHeader{Xid: xid, Type: op}
	return frameOf(append(h.Append(nil), body...))
}

// TestDamagedRequests sends each operation cut off at each length, with bytes
// behind its end, and with lengths in it that can't be.
func TestDamagedRequests(t *testing.T) {
	s := newServer(t, open...)
	s.start()
	if _, err := s.connect().create("/s", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	end := watchOver(t, s)
	defer end()
	p := prober{s: s}
	n := 0
	probe := func(what string, op jute.OpCode, body []byte) {
		n++
		if err := p.probe(requestFrame(int32(n), op, body)); err != nil {
			t.Fatalf("%v, %s: %v", op, what, err)
		}
	}
	for op, body := range samples() {
		for cut := range len(body) + 1 {
			probe(fmt.Sprintf("cut to %d bytes", cut), op, body[:cut])
		}
		probe("with a byte too many", op, append(body[:len(body):len(body)], 0))
		probe("with 100 kB too many", op, append(body[:len(body):len(body)], make([]byte, 100_000)...))
		for at := 0; at+4 <= len(body); at++ {
			for _, v := range []uint32{math.MaxUint32, 1 << 31, math.MaxInt32, 1 << 20, uint32(len(body))} {
				b := append([]byte(nil), body...)
				binary.BigEndian.PutUint32(b[at:], v)
				probe(fmt.Sprintf("with %#x at %d", v, at), op, b)
			}
		}
	}
	for size := range 8 { // shorter than a header
		n++
		if err := p.probe(frameOf(make([]byte, size))); err != nil {
			t.Fatalf("frame of %d bytes: %v", size, err)
		}
	}
	t.Logf("%d damaged requests", n)
}

// TestLargestRequest goes to the limit of a request's length, and beyond.
func TestLargestRequest(t *testing.T) {
	s := newServer(t, open...)
	s.start()
	end := watchOver(t, s)
	c := s.connect()
	if _, err := c.create("/a", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	const overhead = 8 + 4 + 2 + 4 + 4 // header, path, length, version
	largest := make([]byte, 0xFFFFF-overhead)
	if err := c.set("/a", largest); err != nil {
		t.Errorf("a request of 0xFFFFF bytes: %v", err)
	}
	if got, err := c.get("/a"); err != nil || len(got) != len(largest) {
		t.Errorf("read it back: %d bytes, %v", len(got), err)
	}
	if err := c.set("/a", make([]byte, len(largest)+1)); err == nil || errors.As(err, new(jute.Code)) {
		t.Errorf("a request of 0x100000 bytes: %v, want a closed connection", err)
	}
	end()
	s.Kill()
	s.start()
	if got, err := s.connect().get("/a"); err != nil || len(got) != len(largest) {
		t.Errorf("after a restart: %d bytes, %v", len(got), err)
	}
}

// TestLongPaths makes a deep tree and asks for paths that are long in all ways.
func TestLongPaths(t *testing.T) {
	s := newServer(t, append(open, "snapCount=500")...)
	s.start()
	end := watchOver(t, s)
	c := s.connect()
	const depth = 1500
	path := ""
	for range depth {
		path += "/d"
		if _, err := c.create(path, nil, jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{
		strings.Repeat("/d", 500_000), "/" + strings.Repeat("x", 1_000_000), strings.Repeat("/", 1_000_000), "/" + strings.Repeat("\x00", 1000), "/\xff\xfe", "",
	} {
		for _, op := range []jute.OpCode{jute.OpExists, jute.OpGetChildren, jute.OpGetData} {
			if _, err := c.call(op, &jute.PathWatchRequest{Path: p, Watch: true}); err != nil {
				t.Fatalf("%v %s: %v", op, short(p), err)
			}
		}
		r, err := c.call(jute.OpCreate, &jute.CreateRequest{Path: p, ACL: openACL})
		if err != nil {
			t.Fatalf("create %s: %v", short(p), err)
		}
		t.Logf("create %.20q: %v", p, r.err())
	}
	end()
	// The names must get through a snapshot and a restart, too.
	const written = "snapshot written"
	before := strings.Count(s.LogNow(), written)
	if !s.Poll(func() bool {
		check(t, c.set(path, nil))
		return strings.Count(s.LogNow(), written) > before+1
	}) {
		t.Error("no snapshot is written")
	}
	s.Kill()
	s.start()
	c = s.connect()
	if _, err := c.get(path); err != nil {
		t.Error(err)
	}
	if _, err := c.get("/" + strings.Repeat("x", 1_000_000)); err != nil {
		t.Error(short(err.Error()))
	}
}

// TestOddSessions asks for timeouts that can't be had, and resumes sessions that
// are not one's own.
func TestOddSessions(t *testing.T) {
	s := newServer(t, open...)
	s.start()
	end := watchOver(t, s)
	defer end()
	for _, timeout := range []int32{0, -1, 1, math.MinInt32, math.MaxInt32} {
		c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: timeout})
		if err != nil {
			t.Fatalf("timeout %d: %v", timeout, err)
		}
		if c.Timeout < 200*time.Millisecond || c.Timeout > time.Minute {
			t.Errorf("timeout %d: got %v", timeout, c.Timeout)
		}
		c.Close()
	}
	c := s.connect()
	for i := range c.Password {
		wrong := append([]byte(nil), c.Password...)
		wrong[i] ^= 1
		for _, password := range [][]byte{wrong, c.Password[:i], append(wrong, wrong...)} {
			_, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000, SessionID: c.Session, Password: append([]byte{}, password...)})
			if err != process.ErrExpired {
				t.Errorf("resumed with a wrong password: %v, want %v", err, process.ErrExpired)
			}
		}
	}
	if err := c.ping(); err != nil {
		t.Errorf("the owner is disturbed: %v", err)
	}
	// Two connections of one session: the later one wins, again and again.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				k, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000, SessionID: c.Session, Password: append([]byte{}, c.Password...)})
				if err != nil {
					if err == process.ErrExpired {
						t.Error(err)
					}
					continue // another one was faster
				}
				k.set("/zookeeper/quota", nil)
				k.Close()
			}
		})
	}
	wg.Wait()
	if _, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000, SessionID: c.Session, Password: c.Password}); err != nil {
		t.Errorf("the session does not survive: %v", err)
	}
}

// TestQuotaGarbage writes nonsense where quotas are kept, and takes away what the
// server made itself.
func TestQuotaGarbage(t *testing.T) {
	s := newServer(t, append(open, "enforceQuota=true")...)
	s.start()
	end := watchOver(t, s)
	c := s.connect()
	rng := newRand(t)
	create := func(path, data string) {
		t.Helper()
		if _, err := c.call(jute.OpCreate, &jute.CreateRequest{Path: path, Data: []byte(data), ACL: openACL}); err != nil {
			t.Fatalf("create %s: %v", path, err)
		}
	}
	limits := []string{"", "count", "count=", "count=-1,bytes=-1", "count=99999999999999999999", "=,=;=", "count=1,bytes=1;byteHardLimit=0;countHardLimit=-9",
		"count=1\x00", strings.Repeat("count=1,", 10_000), "bytes=9223372036854775808"}
	for i, text := range limits {
		node := fmt.Sprintf("/q%d", i)
		create(node, "")
		create("/zookeeper/quota"+node, "")
		create("/zookeeper/quota"+node+"/zookeeper_limits", text)
		create("/zookeeper/quota"+node+"/zookeeper_stats", limits[rng.IntN(len(limits))])
		for range 3 {
			create(node+"/c", "data")
			if _, err := c.call(jute.OpSetData, &jute.SetDataRequest{Path: node, Data: []byte("more"), Version: -1}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.call(jute.OpDelete, &jute.DeleteRequest{Path: node + "/c", Version: -1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, path := range []string{"/zookeeper/config", "/zookeeper/quota", "/zookeeper", "/"} {
		for _, op := range []jute.OpCode{jute.OpDelete, jute.OpSetData} {
			if _, err := c.call(op, &jute.DeleteRequest{Path: path, Version: -1}); err != nil {
				t.Fatalf("%v %s: %v", op, path, err)
			}
		}
	}
	create("/zookeeper/quota/zookeeper_limits", "count=1")
	create("/after", "")
	end()
	s.Kill()
	s.start()
	if _, err := s.world(); err != nil {
		t.Error(err)
	}
}

// TestSilentConnections opens many connections that say nothing.
func TestSilentConnections(t *testing.T) {
	const n = 2000
	s := newServer(t, append(open, "nio.sessionlessCnxnTimeout=1000")...)
	s.start()
	end := watchOver(t, s)
	before := s.rss()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = raw(t, s.addr, nil)
	}
	t.Logf("%d silent connections cost %d KiB", n, (s.rss()-before)/1024)
	for _, nc := range conns {
		awaitClosed(t, nc)
	}
	s.connect()
	end()
	if grown := s.rss() - before; grown > 200<<20 {
		t.Errorf("resident memory has grown by %d MiB", grown>>20)
	}
}

// TestMaxClientConnections opens more connections than one address may have.
func TestMaxClientConnections(t *testing.T) {
	const limit = 10
	s := newServer(t, "tickTime=100", "maxSessionTimeout=60000", fmt.Sprint("maxClientCnxns=", limit))
	s.start()
	var clients []*client
	if !s.Poll(func() bool { // until the connection that asked whether it runs is gone
		c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000})
		if err == nil {
			clients = append(clients, c)
		}
		return len(clients) == limit
	}) {
		t.Fatalf("%d connections, want %d", len(clients), limit)
	}
	for range 20 {
		if c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000}); err == nil {
			t.Error("one connection too many was taken")
			c.Close()
		}
	}
	for _, c := range clients {
		if err := c.ping(); err != nil {
			t.Errorf("a connection within the limit: %v", err)
		}
	}
	clients[0].Close()
	if !s.Poll(func() bool {
		c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 60_000})
		if err == nil {
			c.Close()
		}
		return err == nil
	}) {
		t.Error("no connection is taken although there is room")
	}
}

// TestRandomBytes changes bytes of requests at random, on many connections, while
// an innocent client works.
func TestRandomBytes(t *testing.T) {
	s := newServer(t, open...)
	s.start()
	if _, err := s.connect().create("/s", nil, jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	end := watchOver(t, s)
	defer end()
	rng := newRand(t)
	var bodies [][]byte
	var ops []jute.OpCode
	for op, body := range samples() {
		ops, bodies = append(ops, op), append(bodies, body)
	}
	until := time.Now().Add(3 * time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	frames, conns := 0, 0
	for range 4 {
		r := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			for time.Now().Before(until) {
				n := hostileStream(t, s, r, ops, bodies)
				mu.Lock()
				frames += n
				conns++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d frames on %d connections", frames, conns)
}

// hostileStream sends damaged requests until the server closes the connection,
// and returns how many.
func hostileStream(t *testing.T, s *server, r *rand.Rand, ops []jute.OpCode, bodies [][]byte) (n int) {
	c, err := dial(s.addr, jute.ConnectRequest{TimeoutMs: 5000})
	if err != nil {
		t.Errorf("connect: %v", err)
		return 0
	}
	defer c.Close()
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(io.Discard, c.Net) })
	defer wg.Wait()
	defer c.Close()
	for n = range 200 {
		i := r.IntN(len(ops))
		if ops[i] == jute.OpCloseSession && r.IntN(10) > 0 {
			continue
		}
		frame := requestFrame(int32(r.Uint32()), ops[i], bodies[i])
		for range r.IntN(4) {
			at := 4 + r.IntN(len(frame)-4)
			if r.IntN(30) == 0 {
				at = r.IntN(len(frame))
			}
			frame[at] = byte(r.Uint32())
		}
		if c.Write(frame) != nil {
			return n
		}
	}
	return n
}
