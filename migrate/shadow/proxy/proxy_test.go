package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/shadow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a shadow in front of a server that stands for Apache's.
type stage struct {
	addr    string
	shadow  *Shadow
	reports chan shadow.Report
	end     func() // ends the relay: the shadow has got all that there was
}

func newStage(t *testing.T, apache, zkd string, tune func(*shadow.Config)) *stage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{addr: l.Addr().String(), reports: make(chan shadow.Report, 1000)}
	if tune == nil { // nothing is to be missing, however late it comes
		tune = func(c *shadow.Config) { c.Grace, c.Patience = 5*time.Minute, 5*time.Minute }
	}
	s.shadow = NewShadow([]string{zkd}, tune, func(r shadow.Report) {
		select {
		case s.reports <- r:
		default:
		}
	})
	relay := Relay{Servers: []string{apache}, Tap: s.shadow}
	relaying, end := context.WithCancel(context.Background())
	comparing, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { s.shadow.Run(comparing) })
	wg.Go(func() {
		defer close(served)
		if err := relay.Serve(relaying, l); err != nil {
			t.Error(err)
		}
	})
	s.end = func() {
		end()
		<-served
	}
	t.Cleanup(func() {
		s.end()
		stop()
		wg.Wait()
	})
	return s
}

func (s *stage) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Connect(t.Context(), s.addr, client.Options{Logger: client.NoLog, Timeout: 40 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) }) // it may be closed already
	return c
}

// clean ends the clients' connections and checks that nothing differs.
func (s *stage) clean(t *testing.T) shadow.Summary {
	t.Helper()
	s.end()
	if err := s.shadow.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	sum, err := s.shadow.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !sum.Clean() || sum.Waiting != 0 || sum.Held != 0 {
		t.Errorf("not clean, or something is left:\n%s", sum.Text())
		for len(s.reports) > 0 {
			t.Logf("%+v", <-s.reports)
		}
	}
	return sum
}

// play is a short life of a client, with each kind of answer.
func play(ctx context.Context, c *client.Client) error {
	var errs []error
	must := func(err error) { errs = append(errs, err) }
	_, err := c.Create(ctx, "/a", []byte("v"), client.CreateOptions{})
	must(err)
	node, err := c.GetW(ctx, "/a")
	must(err)
	_, err = c.ChildrenW(ctx, "/a")
	must(err)
	_, err = c.Create(ctx, "/a/n-", nil, client.CreateOptions{Mode: client.EphemeralSequential})
	must(err)
	_, err = c.Set(ctx, "/a", []byte("w"), node.Stat.Version)
	must(err)
	_, err = c.Get(ctx, "/a")
	must(err)
	_, err = c.Children(ctx, "/a")
	must(err)
	_, err = c.GetACL(ctx, "/a")
	must(err)
	if err := c.Delete(ctx, "/missing", -1); !errors.Is(err, client.ErrNoNode) {
		must(fmt.Errorf("delete of a missing node: %w", err))
	}
	_, err = c.Multi(ctx, client.CreateOp("/m", nil, client.CreateOptions{}), client.SetOp("/a", []byte("x"), -1))
	must(err)
	_, err = c.MultiRead(ctx, client.GetOp("/a"))
	must(err)
	_, err = c.Session().WhoAmI(ctx)
	must(err)
	must(c.Sync(ctx, "/"))
	must(c.Close(ctx))
	return errors.Join(errs...)
}

// Two servers of the same kind give the same answers.
func TestTheSameIsClean(t *testing.T) {
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	if err := play(t.Context(), s.client(t)); err != nil {
		t.Fatal(err)
	}
	if sum := s.clean(t); sum.Compared < 13 || sum.Events < 2 || len(sum.Known) > 0 || sum.Order > 0 {
		t.Errorf("summary:\n%s", sum.Text())
	}
}

// Clients that fight for the same znodes get the same on both sides, sequence numbers, versions
// and stats included.
func TestContentionIsClean(t *testing.T) {
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	var wg sync.WaitGroup
	if _, err := s.client(t).Create(t.Context(), "/q", []byte("0"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		c := s.client(t)
		wg.Go(func() {
			for range 20 {
				_, err1 := c.Create(t.Context(), "/q/n-", nil, client.CreateOptions{Mode: client.EphemeralSequential})
				node, err2 := c.GetW(t.Context(), "/q")
				_, err3 := c.ChildrenW(t.Context(), "/q")
				if err := errors.Join(err1, err2, err3); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Set(t.Context(), "/q", []byte("1"), node.Stat.Version); err != nil && !errors.Is(err, client.ErrBadVersion) {
					t.Error(err)
				}
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if sum := s.clean(t); sum.Compared < 8*20*4 || sum.Events == 0 {
		t.Errorf("summary:\n%s", sum.Text())
	}
}

// A walk finds what differs in the end, also what was written past the shadow, and nothing else.
func TestWalk(t *testing.T) {
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	c := s.client(t)
	for _, path := range []string{"/a", "/a/b", "/a/b/c", "/d", "/e"} {
		if _, err := c.Create(t.Context(), path, []byte(path), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.clean(t)
	walk := func() (paths []string) {
		if err := s.shadow.Walk(t.Context(), []string{a.Addr()}, "/", nil); err != nil {
			t.Fatal(err)
		}
		for len(s.reports) > 0 {
			r := <-s.reports
			paths = append(paths, fmt.Sprintf("%s %s", r.Class, r.Path))
		}
		slices.Sort(paths)
		return paths
	}
	if got := walk(); len(got) > 0 {
		t.Errorf("differences: %q", got)
	}
	direct := z.Client(t)
	_, err1 := direct.Set(t.Context(), "/a/b/c", []byte("x"), -1)
	_, err2 := direct.Create(t.Context(), "/d/more", nil, client.CreateOptions{})
	_, err3 := direct.SetACL(t.Context(), "/e", []client.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}, -1)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if got, want := walk(), []string{"difference /a/b/c", "difference /d", "difference /e"}; !slices.Equal(got, want) {
		t.Errorf("differences: %q, want %q", got, want)
	}
	if sum, err := s.shadow.Summary(t.Context()); err != nil || sum.WalkDiffers != 3 || sum.Walked < 16 {
		t.Errorf("summary %+v, %v", sum, err)
	}
}

// fault changes frames that zkd sends: it returns those that are sent instead.
type fault func(frame []byte) [][]byte

// spoil is a server in front of zkd that makes a fault.
func spoil(t *testing.T, zkd string, f fault) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // one fault for all connections
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				z, err := net.Dial("tcp", zkd)
				if err != nil {
					t.Error(err)
					return
				}
				defer z.Close()
				wg.Go(func() {
					io.Copy(z, c) // the shadow has closed it
					z.Close()
				})
				var split shadow.Splitter
				buf := make([]byte, 1<<16)
				for {
					n, err := z.Read(buf)
					if err != nil {
						return
					}
					split.Write(bytes.Clone(buf[:n]))
					for {
						frame, ok, err := split.Next()
						if err != nil || !ok {
							break
						}
						mu.Lock()
						frames := f(frame)
						mu.Unlock()
						if frames == nil {
							return
						}
						for _, frame := range frames {
							c.Write(jute.AppendBuffer(nil, frame)) // the shadow has closed it
						}
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// once makes a fault in the first frame that is matched.
func once(match func(frame []byte) bool, f fault) fault {
	done := false
	return func(frame []byte) [][]byte {
		if done || !match(frame) {
			return [][]byte{frame}
		}
		done = true
		return f(bytes.Clone(frame))
	}
}

// answerTo matches the n-th answer, the connect's not counted.
func answerTo(n int) func([]byte) bool {
	return func(frame []byte) bool {
		if len(frame) < 16 || int32(binary.BigEndian.Uint32(frame)) < 0 || len(frame) == 37 {
			return false
		}
		n--
		return n == 0
	}
}

func isEvent(frame []byte) bool {
	return len(frame) > 16 && int32(binary.BigEndian.Uint32(frame)) == jute.XidNotification
}

// flip changes the byte at an offset; a negative one counts from the end.
func flip(at int) fault {
	return func(frame []byte) [][]byte {
		if at < 0 {
			at += len(frame)
		}
		frame[at] ^= 1
		return [][]byte{frame}
	}
}

// Each fault of a server is reported. The numbers of the answers are those of play.
func TestFaults(t *testing.T) {
	const header = 16
	const dropped = "nothing"
	tests := []struct {
		name  string
		fault fault
		want  string // a part of the report
	}{
		{"wrong version in a stat", once(answerTo(5), flip(header+35)), "setData [stat.version"},
		{"wrong mzxid in a stat", once(answerTo(5), flip(header+15)), "setData [stat.mzxid"},
		{"wrong owner", once(answerTo(2), flip(header+4+1+44)), "getData [stat.ephemeralOwner"},
		{"wrong number of children", once(answerTo(6), flip(-9)), "getData [stat.numChildren"},
		{"wrong pzxid", once(answerTo(6), flip(-1)), "getData [stat.pzxid"},
		{"wrong data", once(answerTo(6), flip(header+4)), "getData [data"},
		{"wrong child", once(answerTo(7), flip(header+4+4+5)), "getChildren2 [set"},
		{"wrong ACL", once(answerTo(8), flip(header+4+3)), "getACL [ACL"},
		{"wrong sequence number", once(answerTo(4), flip(-1)), "create [path"},
		{"wrong code", once(answerTo(9), flip(header-1)), "delete [error"},
		{"wrong result in a multi", once(answerTo(10), flip(header+3)), "multi "},
		{"wrong xid", once(answerTo(6), flip(3)), "order [xid"},
		{"an answer is missing", once(answerTo(6), func([]byte) [][]byte { return [][]byte{} }), dropped},
		{"zxids go back", once(answerTo(6), func(frame []byte) [][]byte {
			binary.BigEndian.PutUint64(frame[4:], 1)
			return [][]byte{frame}
		}), "order [zxid"},
		{"an event is forgotten", once(isEvent, func([]byte) [][]byte { return [][]byte{} }), "event [event: sent, zkd none"},
		{"an event comes twice", once(isEvent, func(frame []byte) [][]byte { return [][]byte{frame, frame} }), "event [event: none, zkd sent"},
		{"wrong event", once(isEvent, flip(header+3)), "event [type"},
		{"wrong path in an event", once(isEvent, flip(-1)), "event [event: sent, zkd none"},
		{"events are swapped", swapEvents(), "order [zxid"},
		{"the connection is closed", once(answerTo(6), func([]byte) [][]byte { return nil }), "close [connection"},
		{"wrong timeout", once(func(frame []byte) bool { return len(frame) == 37 }, flip(7)), "connect [timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, z := zktest.Start(t), zktest.Start(t)
			s := newStage(t, a.Addr(), spoil(t, z.Addr(), tt.fault), func(c *shadow.Config) {
				c.Grace = 3 * time.Second // an event is missing for so long
				if tt.want == dropped {
					c.Patience = 6 * time.Second // and an answer
				}
			})
			c := s.client(t)
			if err := play(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if tt.want == dropped {
				s.awaitStop(t)
				return
			}
			var got []string
			for {
				select {
				case r := <-s.reports:
					text := fmt.Sprintf("%s %v", r.Op, r.What)
					if r.Class == shadow.Difference && strings.HasPrefix(text, tt.want) {
						return
					}
					got = append(got, string(r.Class)+" "+text)
				case <-t.Context().Done():
					t.Fatalf("no report %q; got %q", tt.want, got)
				}
			}
		})
	}
}

// swapEvents holds one event back until after the next one.
func swapEvents() fault {
	var held []byte
	return func(frame []byte) [][]byte {
		switch {
		case !isEvent(frame):
			return [][]byte{frame}
		case held == nil:
			held = frame
			return [][]byte{}
		default:
			frames := [][]byte{frame, held}
			held = nil
			return frames
		}
	}
}

// awaitStop waits until a connection is compared no longer.
func (s *stage) awaitStop(t *testing.T) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		sum, err := s.shadow.Summary(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(sum.Stopped) > 0 && !sum.Clean() {
			return
		}
		<-poll.C
	}
}

// zkd is away, or goes away: clients don't notice, and the summary says it.
func TestZkdIsAway(t *testing.T) {
	for _, when := range []string{"from the start", "in the middle"} {
		t.Run(when, func(t *testing.T) {
			a, z := zktest.Start(t), zktest.Start(t)
			s := newStage(t, a.Addr(), z.Addr(), nil)
			if when == "from the start" {
				z.Stop()
			}
			c := s.client(t)
			if _, err := c.Create(t.Context(), "/x", nil, client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if when == "in the middle" {
				z.Stop()
			}
			if err := play(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			s.awaitStop(t)
		})
	}
}

// Apache's server goes away and comes back: the client resumes its session, on both sides.
func TestApacheIsAway(t *testing.T) {
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	c := s.client(t)
	if _, err := c.Create(t.Context(), "/x", nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	id := c.Session().ID()
	for i := range 3 {
		a.Stop()
		a.Restart()
		_, err := c.Set(t.Context(), "/x", []byte{byte(i)}, client.AnyVersion)
		for errors.Is(err, client.ErrConnectionLoss) {
			_, err = c.Set(t.Context(), "/x", []byte{byte(i)}, client.AnyVersion)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if now := c.Session().ID(); now != id {
		t.Fatalf("another session: %v, it was %v", now, id)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum := s.clean(t); sum.Connections < 4 {
		t.Errorf("summary:\n%s", sum.Text())
	}
}

// What is no ZooKeeper client is passed on: the client gets what the server says.
func TestWordsAndGarbage(t *testing.T) {
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	for _, text := range []string{"srvr", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x05hello", "\xff\xff\xff\xff", "\x00\x00\x00\x00"} {
		got, want := exchange(t, s.addr, text), exchange(t, a.Addr(), text)
		if first, _, _ := strings.Cut(got, "\n"); !strings.HasPrefix(want, first) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if err := play(t.Context(), s.client(t)); err != nil {
		t.Fatal(err)
	}
	s.clean(t)
}

// TestNoExtensions has a client ask for extensions, in two parts and in one: the server does not hear of it.
func TestNoExtensions(t *testing.T) {
	connect := jute.ConnectRequest{TimeoutMs: 10000, Password: make([]byte, jute.PasswordLen), HasReadOnly: true}
	plain := connect.Append(nil)
	asked := jute.ExtensionRequest{Features: jute.FeatureFeed}
	ping := jute.AppendBuffer(nil, []byte{0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11})
	sent := append(jute.AppendBuffer(nil, asked.Append(plain)), ping...)
	want := append(jute.AppendBuffer(nil, plain), ping...)
	for cut := range len(sent) {
		var got []byte
		pass := withoutExtensions(func(p []byte) error {
			got = append(got, p...)
			return nil
		})
		for _, part := range [][]byte{sent[:cut], sent[cut:]} {
			if err := pass(part); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("cut at %d: %x, want %x", cut, got, want)
		}
	}
	server := zktest.Start(t)
	if c := newStage(t, server.Addr(), server.Addr(), nil).client(t); c.Status().Features != 0 {
		t.Errorf("through a relay the server offers %v", c.Status().Features)
	}
}

// exchange sends text, closes the sending side, and returns what comes.
func exchange(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, text) // the answer tells
	closeWrite(c)
	answer, _ := io.ReadAll(c) // some servers reset
	return string(answer)
}

// A thousand connections at once, or two hundred in short runs.
func TestManyConnections(t *testing.T) {
	a, z := zktest.Start(t), zktest.Start(t)
	s := newStage(t, a.Addr(), z.Addr(), nil)
	n := 1000
	if testing.Short() {
		n = 200
	}
	var wg sync.WaitGroup
	all := make([]*client.Client, n)
	for at := range 20 {
		wg.Go(func() {
			for i := at; i < n; i += 20 {
				c, err := client.Connect(t.Context(), s.addr, client.Options{Logger: client.NoLog, Timeout: 40 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = c
				if _, err := c.Create(t.Context(), fmt.Sprintf("/n%d", i), nil, client.CreateOptions{Mode: client.Ephemeral}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for at := range 20 {
		wg.Go(func() {
			for i := at; i < n; i += 20 {
				if all[i] == nil {
					continue
				}
				if err := all[i].Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if sum := s.clean(t); sum.Connections != n || sum.Compared < 2*n { // and pings
		t.Errorf("summary:\n%s", sum.Text())
	}
}

// crowded is a listener that first fails as if there were too many open files.
type crowded struct {
	net.Listener
	failures int
}

func (c *crowded) Accept() (net.Conn, error) {
	if c.failures > 0 {
		c.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return c.Listener.Accept()
}

// TestTooManyOpenFiles has no room for a client for a moment. Clients depend on the relay: it serves the
// next ones.
func TestTooManyOpenFiles(t *testing.T) {
	server := zktest.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	relay := Relay{Servers: []string{server.Addr()}, Tap: silent{}}
	ctx, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := relay.Serve(ctx, &crowded{l, 2}); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer end()
	c, err := client.Connect(t.Context(), l.Addr().String(), client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// silent is a Tap that does nothing.
type silent struct{}

func (silent) Open(shadow.ConnID)               {}
func (silent) FromClient(shadow.ConnID, []byte) {}
func (silent) FromServer(shadow.ConnID, []byte) {}
func (silent) Closed(shadow.ConnID)             {}
