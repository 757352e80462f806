package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/jute"
)

// Bytes of the protocol, as recorded from Apache ZooKeeper.
const (
	connectRequest = "\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x27\x10" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	connectReply = "\x00\x00\x00\x25\x00\x00\x00\x00\x00\x00\x27\x10\x01\x00\x00\xa3\x23\xe0\x01\x3e\x00\x00\x00\x10" +
		"0123456789abcdef\x00"
	existsRoot = "\x00\x00\x00\x0e\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x01/\x00"
	noNode     = "\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x79\xff\xff\xff\x9b"
	ping       = "\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b"
	pingReply  = "\x00\x00\x00\x10\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x00\x00\xf1\x00\x00\x00\x00"
	created    = "\x00\x00\x00\x1e\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x7a\x00\x00\x00\x00" +
		"\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x02/a"
	closeRequest = "\x00\x00\x00\x08\x00\x00\x00\x02\xff\xff\xff\xf5"
	closeReply   = "\x00\x00\x00\x10\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x7a\x00\x00\x00\x00"
)

// scripted returns the client's end of a connection whose other end does what
// the words of script say: "<bytes" expects them from the client, ">bytes"
// sends them, "." closes. At the end it waits until the client closes.
func scripted(t *testing.T, script ...string) net.Conn {
	client, server := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer server.Close()
		for _, step := range script {
			if step == "." {
				return
			}
			if step[0] == '>' {
				if _, err := io.WriteString(server, step[1:]); err != nil {
					t.Errorf("send %x: %v", step[1:], err)
					return
				}
				continue
			}
			got := make([]byte, len(step)-1)
			if _, err := io.ReadFull(server, got); err != nil || string(got) != step[1:] {
				t.Errorf("server got %x, %v; want %x", got, err, step[1:])
				return
			}
		}
		if _, err := io.Copy(io.Discard, server); err != nil {
			t.Errorf("wait for the client to close: %v", err)
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { client.Close() })
	return patient{client}
}

// patient is the client's end of a pipe that takes deadlines after the other end
// has closed, as TCP does.
type patient struct{ net.Conn }

func (c patient) SetDeadline(t time.Time) error      { return notClosed(c.Conn.SetDeadline(t)) }
func (c patient) SetReadDeadline(t time.Time) error  { return notClosed(c.Conn.SetReadDeadline(t)) }
func (c patient) SetWriteDeadline(t time.Time) error { return notClosed(c.Conn.SetWriteDeadline(t)) }

func notClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

func TestHandshake(t *testing.T) {
	tests := []struct {
		name  string
		reply string
		want  string // in the error; "" for none
	}{
		{"ok", connectReply, ""},
		{"without the read-only byte", "\x00\x00\x00\x24" + connectReply[4:40], "input ends inside"},
		{"refused", "", "maxClientCnxns"},
		{"expired", "\x00\x00\x00\x25" + strings.Repeat("\x00", 16) + "\x00\x00\x00\x10" + strings.Repeat("\x00", 17), "session expired"},
		{"cut off", connectReply[:20], "unexpected EOF"},
		{"too long", "\x00\x00\x00\x26" + connectReply[4:] + "\x00", "1 bytes too many"},
		{"more after it", connectReply + "\x00", "1 bytes after"},
		{"garbage", "HTTP/1.1 400 Bad Request", "frame of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := []string{"<" + connectRequest}
			if tt.reply != "" {
				script = append(script, ">"+tt.reply)
			}
			s, err := handshake(scripted(t, append(script, ".")...), "localhost", hello{timeout: 10 * time.Second, patience: 10 * time.Second})
			switch {
			case tt.want == "":
				if err != nil || s.id != 0x10000a323e0013e || s.timeout != 10*time.Second {
					t.Errorf("got session %s with %v, %v", s.id, s.timeout, err)
				}
			case err == nil || !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// startScripted returns an established connection to a scripted server.
func startScripted(t *testing.T, script ...string) *conn {
	s := session{nc: scripted(t, script...), id: 7, timeout: 3 * time.Second}
	return start(s, connOptions{window: 4, clock: newClock()})
}

var existsRootBody = []byte("\x00\x00\x00\x01/\x00")

func TestCall(t *testing.T) {
	c := startScripted(t, "<"+existsRoot, ">"+noNode, "<"+closeRequest, ">"+closeReply, ".")
	if _, err := c.call(jute.OpExists, existsRootBody); err != jute.ErrNoNode {
		t.Errorf("got %v, want %v", err, jute.ErrNoNode)
	}
	if err := c.close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestBrokenStreams(t *testing.T) {
	tests := []struct {
		name, reply string
		is          error
		want        string
	}{
		{"wrong xid", strings.Replace(noNode, "\x00\x00\x00\x01", "\x00\x00\x00\x02", 1), ErrProtocol, "xid 2, want 1"},
		{"two replies", noNode + noNode, ErrProtocol, "no request is outstanding"},
		{"negative length", "\xff\xff\xff\xff", ErrProtocol, "frame of -1 bytes"},
		{"short frame", "\x00\x00\x00\x0f" + noNode[:15], ErrProtocol, "frame of 15 bytes"},
		{"event without watch", created, ErrProtocol, "no watch was set"},
		{"end", "", ErrLost, "1 requests without reply, 0 bytes"},
		{"end inside a frame", noNode[:10], ErrLost, "1 requests without reply, 10 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := []string{"<" + existsRoot}
			if tt.reply != "" {
				script = append(script, ">"+tt.reply)
			}
			c := startScripted(t, append(script, ".")...)
			_, err := c.call(jute.OpExists, existsRootBody)
			if err == jute.ErrNoNode { // the first of two replies was fine
				<-c.done
				err = c.err
			}
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if again := c.close(); again == nil {
				t.Error("close of a broken connection returns nil")
			}
		})
	}
}

// TestFrameSizes sends replies in pieces of every length, and one that is
// larger than the read buffer.
func TestFrameSizes(t *testing.T) {
	large := jute.AppendInt32(nil, int32(16+1000))
	large = append(large, noNode[4:16]...)
	large = append(large, make([]byte, 4+1000)...)
	for size := 1; size < 40; size++ {
		script := []string{"<" + existsRoot}
		for rest := append([]byte(pingReply), large...); len(rest) > 0; {
			n := min(size, len(rest))
			script = append(script, ">"+string(rest[:n]))
			rest = rest[n:]
		}
		c := startScripted(t, script...)
		got, err := c.call(jute.OpExists, existsRootBody)
		if err != nil || !bytes.Equal(got, make([]byte, 1000)) {
			t.Errorf("pieces of %d bytes: got %d bytes, %v", size, len(got), err)
		}
		c.abandon()
	}
}

func TestPingsWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startScripted(t, "<"+ping, ">"+pingReply, "<"+ping, ">"+pingReply, "<"+ping, ">"+pingReply, "<"+existsRoot, ">"+noNode)
		began := time.Now()
		time.Sleep(3500 * time.Millisecond)
		if err := c.cause(nil); err != nil {
			t.Fatalf("connection ended after %v: %v", time.Since(began), err)
		}
		if _, err := c.call(jute.OpExists, existsRootBody); err != jute.ErrNoNode {
			t.Errorf("got %v, want %v", err, jute.ErrNoNode)
		}
		c.abandon()
	})
}

func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer server.Close()
		go io.Copy(io.Discard, server)
		c := start(session{nc: client, timeout: 3 * time.Second}, connOptions{window: 1, clock: newClock()})
		began := time.Now()
		_, err := c.call(jute.OpExists, existsRootBody)
		if took := time.Since(began); !errors.Is(err, ErrSilent) || took < c.timeout || took > 2*c.timeout {
			t.Errorf("got %v after %v, want %v after more than %v", err, took, ErrSilent, c.timeout)
		}
		c.abandon()
	})
}

// TestHotPathAllocations makes, sends, checks and records operations without a
// network.
func TestHotPathAllocations(t *testing.T) {
	for name, c := range hotPaths() {
		t.Run(name, func(t *testing.T) {
			if n := testing.AllocsPerRun(1000, c.cycle); n != 0 {
				t.Errorf("%v allocations per operation, want none", n)
			}
			if c.job.Load().outcome.wrong != 0 {
				t.Errorf("wrong reply: %v", c.job.Load().outcome.err)
			}
		})
	}
}

func BenchmarkHotPath(b *testing.B) {
	for name, c := range hotPaths() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.cycle()
			}
		})
	}
}

// hotPath is a connection without goroutines, and the reply to each request.
type hotPath struct {
	*conn
	keys  *keyed
	in    *frames.Reader
	reply []byte
}

// cycle is one operation.
func (h *hotPath) cycle() {
	h.fill(h.job.Load(), 1, h.clock.now())
	copy(h.reply[4:8], h.turn.out[4:8])
	if h.keys.pick() == jute.OpSetData {
		binary.BigEndian.PutUint32(h.reply[len(h.reply)-statSize+32:], uint32(h.keys.sent[0]))
	}
	h.turn.out = h.turn.out[:0]
	h.in.Put(h.reply)
	if err := h.handleAll(h.in); err != nil {
		panic(err)
	}
}

func hotPaths() map[string]*hotPath {
	v := newValues(1024, rand.New(rand.NewPCG(1, 1)))
	stat := make([]byte, statSize)
	stat[54] = 4 // dataLength 1024
	path := func(op jute.OpCode, body []byte) *hotPath {
		k := &keyed{
			name: inDir("/zb-00000000/00000"), values: v, rng: rand.New(rand.NewPCG(1, 2)),
			pick: func() jute.OpCode { return op }, sent: make([]int32, 1), seen: make([]int32, 1),
		}
		c := &conn{clock: newClock(), ring: make([]pending, 4), bell: make(chan struct{}, 1)}
		c.job.Store(&job{src: k, window: 1, span: newSpan()})
		reply := append(beginFrame(nil, 0), make([]byte, 8)...)
		reply = append(reply, body...)
		endFrame(reply, 0, 0)
		return &hotPath{conn: c, keys: k, in: newFrames(nil, maxReply), reply: reply}
	}
	return map[string]*hotPath{
		"get":    path(jute.OpGetData, append(v.append(nil, 0, 0), stat...)),
		"exists": path(jute.OpExists, stat),
		"set":    path(jute.OpSetData, stat),
	}
}

// fat makes requests of a size of which few fit into a batch.
type fat struct{}

func (fat) next(b []byte, p *pending) []byte {
	p.op = jute.OpSetData
	return append(b, make([]byte, batchBytes/4)...)
}

func (fat) check(*pending, jute.Code, []byte) error { return nil }

// TestABurstOfRepliesRefillsTheWindow has a server that answers only whole windows.
func TestABurstOfRepliesRefillsTheWindow(t *testing.T) {
	const window, rounds = 20, 3
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	wg.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		for range rounds {
			var replies []byte
			for range window {
				var head [8]byte // length and xid
				if _, err := io.ReadFull(nc, head[:]); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head[:]))-4); err != nil {
					t.Error(err)
					return
				}
				start := len(replies)
				replies = append(beginFrame(replies, 0), make([]byte, 8)...)
				endFrame(replies, start, 0)
				copy(replies[start+4:], head[4:])
			}
			if _, err := nc.Write(replies); err != nil {
				t.Error(err)
			}
		}
		_, _ = io.Copy(io.Discard, nc) // until the client closes
	})
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := start(session{nc: nc, timeout: time.Hour}, connOptions{window: window, clock: newClock()})
	err = c.do(&job{src: fat{}, count: window * rounds, window: window})
	c.stop(nil)
	c.wg.Wait()
	if err != nil {
		t.Error(err)
	}
}
