package edge

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/internal/sockets"
	"github.com/zkd-project/zkd/jute"
)

// handing starts an edge that hands over at a path, and takes over there from one that runs.
func handing(t *testing.T, upstream, path string, change ...func(*Options)) *Edge {
	t.Helper()
	o := Options{Upstream: upstream, MaxClients: 100, Log: slog.New(slog.DiscardHandler), Client: client.Options{Logger: client.NoLog}}
	for _, f := range change {
		f(&o)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	p, err := Ask(path)
	if err != nil {
		t.Fatal(err)
	}
	l, successors := p.Listener("clients"), p.Successors(path)
	if p == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			successors, err = net.ListenUnix("unix", &net.UnixAddr{Name: path})
		}
	} else {
		err = p.Ready()
	}
	if err != nil {
		t.Fatal(err)
	}
	e.Serve("clients", l)
	if p != nil {
		e.Take(p)
	}
	e.HandOver(successors, func(int) {})
	return e
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (e *Edge) address() string { return e.portsNow()[0].l.Addr().String() }

// TestHandover replaces an edge several times under clients that write, watch, and have sent a part of a request.
func TestHandover(t *testing.T) {
	s := zktest.Start(t)
	path := filepath.Join(t.TempDir(), "handover")
	e := handing(t, s.ConnectString(), path)
	address := e.address()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := old(t, address)
	for _, path := range []string{"/n", "/w"} {
		if _, err := c.Create(ctx, path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	watch, err := c.AddWatch(ctx, "/w", client.WatchPersistent)
	if err != nil {
		t.Fatal(err)
	}
	since := c.Status().Since

	partly, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer partly.Close()
	partly.SetDeadline(time.Now().Add(patience))
	patient := jute.ConnectRequest{TimeoutMs: int32(patience.Milliseconds()), Password: make([]byte, jute.PasswordLen)}
	begin, mark := jute.BeginFrame(nil)
	partly.Write(jute.EndFrame(patient.Append(begin), mark))
	if _, err := frame(partly); err != nil {
		t.Fatal(err)
	}
	b, at := jute.BeginFrame(nil)
	q := jute.CreateRequest{Path: "/large", Data: bytes.Repeat([]byte("x"), 3<<10), ACL: client.OpenACL()}
	large := jute.EndFrame(q.Append((&jute.RequestHeader{Xid: 1, Type: jute.OpCreate}).Append(b)), at)
	partly.Write(large[:100])

	stop, stopped := context.WithCancel(ctx)
	worked := make(chan error, 1)
	sets := 0
	go func() {
		for stop.Err() == nil {
			for _, path := range []string{"/n", "/w"} {
				stat, err := c.Set(ctx, path, nil, client.AnyVersion)
				if err == nil && int(stat.Version) != sets+1 {
					err = fmt.Errorf("version %d after %d sets", stat.Version, sets)
				}
				if err != nil {
					worked <- err
					return
				}
			}
			sets++
		}
		worked <- nil
	}()
	const times = 5
	for i := range times {
		partly.Write(large[100+i*512:][:512])
		next := handing(t, s.ConnectString(), path)
		select {
		case <-e.Replaced():
		case <-ctx.Done():
			t.Fatal("the edge has not handed over all clients")
		}
		for next.figures.taken.Load() < 2 && ctx.Err() == nil {
			runtime.Gosched()
		}
		if got, gave := next.figures.taken.Load(), e.figures.handedOver.Load(); got != 2 || gave != 2 || e.figures.lost.Load()+next.figures.lost.Load() != 0 {
			t.Errorf("handover %d: %d given, %d taken", i, gave, got)
		}
		e.Close()
		e = next
	}
	stopped()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	partly.Write(large[100+times*512:])
	reply, err := frame(partly)
	if err != nil {
		t.Fatal(err)
	}
	d := jute.NewDecoder(reply)
	var h jute.ReplyHeader
	if h.Decode(&d); h.Xid != 1 || h.Err != 0 {
		t.Errorf("the answer to the request in parts: %+v", h)
	}
	for range sets {
		if ev, err := watch.Next(ctx); err != nil || ev.Type != client.EventDataChanged {
			t.Fatalf("%v, %v", ev, err)
		}
	}
	for watch.Pending() && len(watch.Events()) == 0 { // for a moment after the last event
		runtime.Gosched()
	}
	if c.Status().Since != since || watch.Pending() {
		t.Error("the client has lost its connection, or has more events than there were changes")
	}
	if _, err := old(t, address).Get(ctx, "/large"); err != nil {
		t.Error(err)
	}
	if got := say(t, address, "mntr"); !strings.Contains(got, "zk_edge_taken_total\t2\n") {
		t.Error(got)
	}
}

// TestHandoverFails has successors that go away, or refuse, at each step: the edge continues with its clients and takes others.
func TestHandoverFails(t *testing.T) {
	greets := func(t *testing.T, path string) *Predecessor {
		p, err := Ask(path)
		if err != nil || p == nil {
			t.Fatal(p, err)
		}
		return p
	}
	receives := func(t *testing.T, p *Predecessor) {
		kind, _, f, err := p.receive()
		if err != nil || kind != msgClient || f == nil {
			t.Error(kind, err)
			return
		}
		f.Close()
	}
	var served func(t *testing.T)
	for name, run := range map[string]func(t *testing.T, path string){
		"before it is ready": func(t *testing.T, path string) { greets(t, path).Close() },
		"before a client comes": func(t *testing.T, path string) {
			p := greets(t, path)
			ok(t, p.Ready())
			p.Close()
		},
		"when it has a client": func(t *testing.T, path string) {
			p := greets(t, path)
			ok(t, p.Ready())
			receives(t, p)
			p.Close()
		},
		"it refuses a client": func(t *testing.T, path string) {
			p := greets(t, path)
			ok(t, p.Ready())
			receives(t, p)
			ok(t, p.send(msgNo, jute.AppendString(nil, "no"), nil))
			ok(t, p.expect(msgDone))
			p.Close()
		},
		"its answer is late": func(t *testing.T, path string) {
			p := greets(t, path)
			ok(t, p.Ready())
			receives(t, p)
			served(t)
			ok(t, p.send(msgReady, nil, nil))
			if err := p.expect(msgYours); err == nil || !strings.Contains(err.Error(), "too late") {
				t.Error(err)
			}
			ok(t, p.expect(msgDone))
			p.Close()
		},
		"it reads other versions": func(t *testing.T, path string) {
			nc, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			p := &peer{nc: nc.(*net.UnixConn)}
			ok(t, p.send(msgHello, jute.AppendInt32(jute.AppendInt32(nil, int32(handoverVersion+1)), int32(handoverVersion+2)), nil))
			if err := p.expect(msgVersion); err == nil || !strings.Contains(err.Error(), "it hands over by version") {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := zktest.Start(t)
			path := filepath.Join(t.TempDir(), "handover")
			e := handing(t, s.ConnectString(), path)
			c := old(t, e.address())
			since := c.Status().Since
			if _, err := c.Create(t.Context(), "/n", nil, client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			served = func(t *testing.T) {
				t.Helper()
				if _, err := c.Get(t.Context(), "/n"); err != nil || c.Status().Since != since {
					t.Errorf("%v, or the client has lost its connection", err)
				}
			}
			run(t, path)
			served(t)
			if name == "it refuses a client" || name == "its answer is late" { // the listeners are its own
				return
			}
			if _, err := old(t, e.address()).Get(t.Context(), "/n"); err != nil {
				t.Error(err)
			}
			handing(t, s.ConnectString(), path)
			<-e.Replaced()
			if _, err := c.Get(t.Context(), "/n"); err != nil || c.Status().Since != since {
				t.Errorf("%v, or the client has lost its connection to the next edge", err)
			}
		})
	}
}

// FuzzState: what can be decoded is encoded as it was.
func FuzzState(f *testing.F) {
	f.Add((&state{unread: []byte("a"), out: []byte("b")}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second state
		if first.decode(b) != nil {
			return
		}
		again := first.append(nil)
		if err := second.decode(again); err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("%+v, then %+v: %v", first, second, err)
		}
	})
}

// TestNobodyHandsOver asks at paths where there is no edge.
func TestNobodyHandsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "handover")
	if p, err := Ask(path); p != nil || err != nil {
		t.Error(p, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if p, err := Ask(path); p != nil || err != nil {
		t.Error(p, err)
	}
	if p := (*Predecessor)(nil); p.Listener("clients") != nil || p.Successors(path) != nil {
		t.Error("listeners of nobody")
	}
	if _, err := Ask(strings.Repeat("x", 200)); err == nil {
		t.Error("a path that is too long")
	}
}

// TestEventsFollowWhatWaited: a client that is passed on in the middle of a frame gets the rest of it before any event.
// The relay may tell an event as soon as it has begun, before the client is served.
func TestEventsFollowWhatWaited(t *testing.T) {
	e := &Edge{sockets: sockets.NewConns(nil)}
	nc, other := net.Pipe()
	defer nc.Close()
	defer other.Close()
	rest := []byte("the rest of a frame")
	c := e.takenConn(nc, &state{out: rest})
	c.Event(7, jute.WatcherEvent{Type: jute.EventCreated, State: jute.StateSyncConnected, Path: "/a"})
	if !bytes.HasPrefix(c.out, rest) || len(c.out) == len(rest) {
		t.Errorf("waits for the client: %q, want %q and the event", c.out, rest)
	}
	if queued := e.figures.queued.Load(); queued != int64(len(c.out)) {
		t.Errorf("%d bytes are counted, and %d wait", queued, len(c.out))
	}
	if c.drop(); e.figures.queued.Load() != 0 {
		t.Errorf("%d bytes are counted for a client that is dropped", e.figures.queued.Load())
	}
}
