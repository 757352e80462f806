package mirror

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/datatree/treetest"
	"github.com/zkd-project/zkd/server/session"
)

// readMirror opens a mirror that clients may read, and returns the address of its port.
func readMirror(t *testing.T, p data.Place, lines ...string) (*Mirror, string) {
	t.Helper()
	m, err := Open(t.Context(), p, datadirs.OfApache, nil)
	check(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	cfg := parseConfig(t, p.DataDir, append(lines, "maxClientCnxns=0")...)
	check(t, m.ServeReaders(Options{Config: cfg, Listen: func(string, string) (net.Listener, error) { return l, nil }}))
	return m, l.Addr().String()
}

// client is a raw client: the test controls its frames.
type client struct {
	t       *testing.T
	nc      net.Conn
	in      *bufio.Reader
	xid     int32
	session jute.SessionID
	pass    []byte
	events  []jute.WatcherEvent // seen by call
	zxid    jute.Zxid
}

type record interface{ Append([]byte) []byte }

func dial(t *testing.T, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	check(t, err)
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc, in: bufio.NewReader(nc)}
}

func (c *client) sendFrame(payload []byte) {
	c.t.Helper()
	_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...))
	check(c.t, err)
}

func (c *client) send(op jute.OpCode, body record) {
	c.t.Helper()
	c.xid++
	b := (&jute.RequestHeader{Xid: c.xid, Type: op}).Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	c.sendFrame(b)
}

// frame reads a frame.
func (c *client) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// establish connects.
func (c *client) establish(r *jute.ConnectRequest) (resp jute.ConnectResponse) {
	c.t.Helper()
	c.sendFrame(r.Append(nil))
	b, err := c.frame()
	check(c.t, err)
	d := jute.NewDecoder(b)
	resp.Decode(&d)
	check(c.t, d.Err())
	c.session, c.pass = resp.SessionID, resp.Password
	return resp
}

// next reads a reply or an event, and returns the rest of it.
func (c *client) next() (h jute.ReplyHeader, rest []byte, err error) {
	b, err := c.frame()
	if err != nil {
		return h, nil, err
	}
	d := jute.NewDecoder(b)
	h.Decode(&d)
	if h.Zxid > 0 {
		c.zxid = max(c.zxid, h.Zxid)
	}
	return h, b[16:], d.Err()
}

// event reads an event.
func (c *client) event() jute.WatcherEvent {
	c.t.Helper()
	h, rest, err := c.next()
	check(c.t, err)
	if h.Xid != jute.XidNotification {
		c.t.Fatalf("reply %+v, want an event", h)
	}
	return eventOf(c.t, rest)
}

func eventOf(t *testing.T, b []byte) (e jute.WatcherEvent) {
	t.Helper()
	d := jute.NewDecoder(b)
	e.Decode(&d)
	check(t, d.Err())
	return e
}

// call sends a request and reads up to its reply.
func (c *client) call(op jute.OpCode, body record) (jute.Code, []byte) {
	c.t.Helper()
	c.send(op, body)
	for {
		h, rest, err := c.next()
		check(c.t, err)
		if h.Xid == c.xid {
			return h.Err, rest
		}
		c.events = append(c.events, eventOf(c.t, rest))
	}
}

// get returns a node's data.
func (c *client) get(path string) string {
	c.t.Helper()
	code, rest := c.call(jute.OpGetData, get(path, false))
	var r jute.GetDataResponse
	d := jute.NewDecoder(rest)
	r.Decode(&d)
	if code != 0 || d.Err() != nil {
		c.t.Fatalf("read %s: %v, %v", path, code, d.Err())
	}
	return string(r.Data)
}

// ended checks that the server ends the connection.
func (c *client) ended(why string) {
	c.t.Helper()
	if b, err := c.frame(); err == nil {
		c.t.Errorf("%s: got a frame of %d bytes", why, len(b))
	}
}

// ask sends a four-letter word.
func ask(t *testing.T, addr, word string) string {
	t.Helper()
	c := dial(t, addr)
	_, err := io.WriteString(c.nc, word)
	check(t, err)
	b, err := io.ReadAll(c.in)
	check(t, err)
	return strings.TrimSuffix(string(b), "\n")
}

func get(path string, watch bool) record { return &jute.PathWatchRequest{Path: path, Watch: watch} }

func set(path, data string) record {
	return &jute.SetDataRequest{Path: path, Data: []byte(data), Version: -1}
}

func create(path string, mode jute.CreateMode) record {
	return &jute.CreateRequest{Path: path, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}, Mode: mode}
}

func del(path string) record { return &jute.DeleteRequest{Path: path, Version: -1} }

func readOnlyRequest() *jute.ConnectRequest {
	return &jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true, ReadOnly: true}
}

// reader connects a read-only client.
func reader(t *testing.T, addr string) *client {
	t.Helper()
	c := dial(t, addr)
	if r := c.establish(readOnlyRequest()); !r.ReadOnly || r.SessionID == 0 {
		t.Fatalf("connect response %+v", r)
	}
	return c
}

// refused checks that a connect request gets no answer.
func refused(t *testing.T, addr string, r *jute.ConnectRequest, why string) {
	t.Helper()
	c := dial(t, addr)
	c.sendFrame(r.Append(nil))
	c.ended(why)
}

// TestMirrorIsRead reads a mirror while it follows.
func TestMirrorIsRead(t *testing.T) {
	places := newMirrors(t)
	m, addr := readMirror(t, places[0])
	refused(t, addr, readOnlyRequest(), "a mirror without a copy")
	if word := ask(t, addr, "isro"); word != "null" {
		t.Errorf("isro without a copy: %q", word)
	}
	check(t, m.Install(t.Context(), treetest.Imported(t)))

	c := reader(t, addr)
	if v := c.get("/a"); v != "/a" {
		t.Errorf("read %q", v)
	}
	for _, w := range []struct {
		op   jute.OpCode
		body record
	}{
		{jute.OpSetData, set("/a", "2")}, {jute.OpCreate, create("/c", 0)}, {jute.OpCreate, create("/c", jute.ModeEphemeral)}, {jute.OpDelete, del("/a-b")},
		{jute.OpSync, &jute.SyncRequest{Path: "/"}}, {jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpDelete, Path: "/a-b", Version: -1}}}},
	} {
		if code, _ := c.call(w.op, w.body); code != jute.ErrNotReadOnly {
			t.Errorf("%v: %v, want %v", w.op, code, jute.ErrNotReadOnly)
		}
	}
	if word := ask(t, addr, "isro"); word != "ro" {
		t.Errorf("isro: %q", word)
	}
	if word := ask(t, addr, "srvr"); !strings.Contains(word, "Mode: read-only\n") || !strings.Contains(word, "Zxid: 0x300000005\n") {
		t.Errorf("srvr: %q", word)
	}
	refused(t, addr, &jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}, "a client that wants to write")

	apaches := readOnlyRequest()
	apaches.SessionID = 0x100002d57e4000d
	password := session.ApachePassword(apaches.SessionID)
	apaches.Password = password[:]
	refused(t, addr, apaches, "a session of Apache's, which only a member can continue")

	c.call(jute.OpGetData, get("/a", true))
	follow(t, m, 0x500000001)
	if ev := c.event(); ev.Type != jute.EventDataChanged || ev.Path != "/a" {
		t.Errorf("event %+v", ev)
	}
	follow(t, m, endOfHistory)
	if v := c.get("/a"); v != strings.Repeat("x", 100) {
		t.Errorf("read %q", v)
	}
	c.call(jute.OpCloseSession, nil)
	c.ended("a closed session")
	check(t, m.Close())

	again := openMirrors(t, places[:2]) // with the second one, which had no readers
	check(t, again[1].Install(t.Context(), treetest.Imported(t)))
	follow(t, again[1], endOfHistory)
	if a, b := again[0], again[1]; a.Last() != b.Last() || a.Tree().Digest() != b.Tree().Digest() || a.ident.IDs != b.ident.IDs {
		t.Errorf("the copy that was read is at %v with digest %v, the other at %v with %v", a.Last(), a.Tree().Digest(), b.Last(), b.Tree().Digest())
	}
	closeMirrors(t, again)
}

// TestReadersSeeExactCopies ends the connections when a transaction does not fit, and lets clients in
// when there is another copy. They continue with their sessions when a copy replaces a sound one.
func TestReadersSeeExactCopies(t *testing.T) {
	m, addr := readMirror(t, newMirrors(t)[0])
	check(t, m.Install(t.Context(), treetest.Imported(t)))
	c := reader(t, addr)
	c.call(jute.OpGetData, get("/a", true))

	follow(t, m, 0x500000001)
	if ev := c.event(); ev.Path != "/a" {
		t.Errorf("event %+v", ev)
	}
	later := treetest.Imported(t)
	var out datatree.Applied
	later.Apply(&datatree.Txn{Zxid: 0x500000009, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: []byte("later"), Version: 1}}}, &out)
	c.call(jute.OpExists, get("/a", true))
	check(t, m.Install(t.Context(), later))
	c.ended("the state was replaced")
	n := dial(t, addr)
	r := readOnlyRequest()
	r.SessionID, r.Password, r.LastZxidSeen = c.session, c.pass, c.zxid
	if resp := n.establish(r); resp.SessionID != c.session {
		t.Fatalf("connect response %+v", resp)
	}
	n.call(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 0x500000001, Data: []string{"/a"}})
	if len(n.events) != 1 || n.events[0].Path != "/a" {
		t.Errorf("events %v", n.events)
	}

	wrong := errors.New("wrong")
	err := m.Append(&datatree.Txn{Zxid: 0x50000000a}, func() ([]datatree.Event, error) {
		m.Tree().Apply(&datatree.Txn{Zxid: 0x50000000a, Ops: []datatree.Op{{Kind: datatree.OpDelete, Path: "/a-b"}}}, &out)
		return out.Events, wrong
	})
	if !errors.Is(err, wrong) {
		t.Error(err)
	}
	n.ended("the copy is wrong")
	refused(t, addr, readOnlyRequest(), "a wrong copy")
	exact := treetest.Imported(t)
	exact.Apply(&datatree.Txn{Zxid: 0x500000010, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: []byte("exact"), Version: 1}}}, &out)
	check(t, m.Install(t.Context(), exact))
	if v := reader(t, addr).get("/a"); v != "exact" {
		t.Errorf("read %q", v)
	}
	check(t, m.Close())
}

// TestReadersCanSendNothing sends each operation with each kind of body. No request gets out of a connection.
func TestReadersCanSendNothing(t *testing.T) {
	m, addr := readMirror(t, newMirrors(t)[0], "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true", "readonlymode.enabled=true",
		"zkd.linearizableReads=true", "reconfigEnabled=true")
	check(t, m.Install(t.Context(), treetest.Imported(t)))
	before := m.Tree().Digest()
	rng := rand.New(rand.NewPCG(seeds.First(t), 1))
	bodies := []record{nil, get("/a", true), set("/a", "x"), create("/e", jute.ModeEphemeral), del("/a-b"), &jute.AuthRequest{Scheme: "digest", Auth: []byte("u:p")}}
	for op := jute.OpCode(-20); op < 200; op++ {
		for _, body := range append(bodies, garbage(rng)) {
			c := reader(t, addr)
			c.send(op, body)
			c.next() // some operations end the connection
			c.nc.Close()
		}
	}
	if err := m.Failure(); err != nil {
		t.Error(err)
	}
	if m.Tree().Digest() != before || m.Last() != 0x300000005 {
		t.Errorf("the copy has changed: it is at %v", m.Last())
	}
	check(t, m.Close())
}

// garbage is a record of random bytes.
type noise []byte

func (n noise) Append(b []byte) []byte { return append(b, n...) }

func garbage(rng *rand.Rand) record {
	b := make(noise, rng.IntN(60))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
