package edge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/testing/mempipe"
	"github.com/zkd-project/zkd/jute"
)

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Addr() net.Addr { return new(net.TCPAddr) }

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) dial() net.Conn {
	near, far := mempipe.New(p.Addr(), p.Addr(), 1<<20)
	p.conns <- far
	return near
}

// graceServer is the server of an edge with fake time. It has one session, and answers nothing but connect requests and closeSession.
type graceServer struct {
	began  time.Time
	grants jute.Features

	mu      sync.Mutex
	conn    net.Conn // the last one
	refuses bool     // the session has moved
	said    []string
}

func (s *graceServer) says(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf("%v: ", time.Since(s.began))+fmt.Sprintf(format, args...))
}

// frame reads a frame.
func frame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

func (s *graceServer) serve(nc net.Conn) {
	defer nc.Close()
	s.mu.Lock()
	s.conn = nc
	refuses := s.refuses
	s.mu.Unlock()
	if _, err := frame(nc); err != nil {
		return
	}
	hello := jute.ConnectResponse{TimeoutMs: 10_000, SessionID: 7, Password: make([]byte, jute.PasswordLen), HasReadOnly: true}
	ext := jute.ExtensionResponse{Features: s.grants}
	if refuses {
		s.says("refused")
		hello.TimeoutMs, hello.SessionID, ext.Features = 0, 0, jute.FeatureMoved
	}
	b, mark := jute.BeginFrame(nil)
	nc.Write(jute.EndFrame(ext.Append(hello.Append(b)), mark))
	for {
		b, err := frame(nc)
		if err != nil {
			s.says("gone")
			return
		}
		var h jute.RequestHeader
		d := jute.NewDecoder(b)
		if h.Decode(&d); h.Type == jute.OpCloseSession {
			s.says("closeSession")
			b, mark := jute.BeginFrame(nil)
			nc.Write(jute.EndFrame((&jute.ReplyHeader{Xid: h.Xid, Zxid: 5}).Append(b), mark))
			return
		}
	}
}

// TestGraceAfterClose: the session of a client that has gone is closed after a time, unless the client has it elsewhere.
func TestGraceAfterClose(t *testing.T) {
	const all = jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeatureMoved
	for name, tt := range map[string]struct {
		grace  time.Duration
		grants jute.Features
		after  func(e *Edge, s *graceServer, nc net.Conn) // a second after the session has begun
		want   string
	}{
		"it dies":            {2 * time.Second, all, func(_ *Edge, _ *graceServer, nc net.Conn) { nc.Close() }, "3s: closeSession"},
		"no grace is set":    {0, all, func(_ *Edge, _ *graceServer, nc net.Conn) { nc.Close() }, "1s: gone"},
		"a server of others": {2 * time.Second, 0, func(_ *Edge, _ *graceServer, nc net.Conn) { nc.Close() }, "3s: gone"},
		"it says so": {2 * time.Second, all, func(_ *Edge, _ *graceServer, nc net.Conn) {
			b, mark := jute.BeginFrame(nil)
			nc.Write(jute.EndFrame((&jute.RequestHeader{Xid: 1, Type: jute.OpCloseSession}).Append(b), mark))
			io.ReadAll(nc)
			nc.Close()
		}, "1s: closeSession"},
		"its session moves": {2 * time.Second, all, func(_ *Edge, s *graceServer, nc net.Conn) {
			nc.Close()
			time.Sleep(time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refuses = true
			s.conn.Close()
		}, "2s: gone, 2s: gone, 2s: refused"},
		"the edge ends": {2 * time.Second, all, func(e *Edge, _ *graceServer, nc net.Conn) {
			nc.Close()
			time.Sleep(time.Second)
			e.Close()
		}, "2s: gone"},
		"it is there": {2 * time.Second, all, func(*Edge, *graceServer, net.Conn) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &graceServer{began: time.Now(), grants: tt.grants}
				o := Options{Upstream: "one:2181", MaxClients: 10, Grace: tt.grace, Log: slog.New(slog.DiscardHandler)}
				o.Client = client.Options{Logger: client.NoLog, Dial: func(context.Context, string, string) (net.Conn, error) {
					near, far := mempipe.New(new(net.TCPAddr), new(net.TCPAddr), 1<<20)
					go s.serve(far)
					return near, nil
				}}
				e, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				l := newPipes()
				e.Serve("", l)
				t.Cleanup(e.Close)
				nc := l.dial()
				nc.Write(hello())
				if _, err := frame(nc); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				tt.after(e, s, nc)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				slices.Sort(s.said)
				if got := strings.Join(s.said, ", "); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if closed := name == "it dies"; (e.figures.closed.Load() == 1) != closed {
					t.Errorf("%d sessions closed", e.figures.closed.Load())
				}
				nc.Close()
			})
		})
	}
}

// TestGraceOnAServer has a client that dies with an ephemeral.
func TestGraceOnAServer(t *testing.T) {
	s := zktest.Start(t)
	_, address := start(t, s.ConnectString(), func(o *Options) { o.Grace = time.Millisecond })
	other := old(t, address)
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	b, mark := jute.BeginFrame(hello())
	h := jute.RequestHeader{Xid: 1, Type: jute.OpCreate}
	q := jute.CreateRequest{Path: "/mine", ACL: client.OpenACL(), Mode: jute.ModeEphemeral}
	nc.Write(jute.EndFrame(q.Append(h.Append(b)), mark))
	for range 2 {
		if _, err := frame(nc); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Get(t.Context(), "/mine"); err != nil {
		t.Error(err)
	}
	nc.Close()
	for err == nil {
		_, err = other.Get(t.Context(), "/mine")
	}
	if !errors.Is(err, client.ErrNoNode) {
		t.Error(err)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(say(t, address, "mntr"), "zk_edge_closed_total\t1\n"); {
		if time.Now().After(deadline) {
			t.Fatal("the session has ended, and the edge has not closed it")
		}
	}
}
