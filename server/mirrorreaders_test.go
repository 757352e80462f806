package server

import (
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
)

// readMirror opens a mirror that clients may read.
func readMirror(t *testing.T, p data.Place, lines ...string) (*Mirror, *testServer) {
	t.Helper()
	m, err := OpenMirror(t.Context(), p, nil)
	check(t, err)
	l := newMemListener()
	check(t, m.ServeReaders(Options{Config: parseConfig(t, p.DataDir, lines...), Listen: func(string, string) (net.Listener, error) { return l, nil }}))
	return m, &testServer{t: t, net: l}
}

func readOnlyRequest() *jute.ConnectRequest {
	return &jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true, ReadOnly: true}
}

// reader connects a read-only client.
func reader(t *testing.T, s *testServer) *client {
	t.Helper()
	c := s.dial(t, dialOptions{})
	if r := c.establish(readOnlyRequest()); !r.ReadOnly || r.SessionID == 0 {
		t.Fatalf("connect response %+v", r)
	}
	return c
}

// refused checks that a connect request gets no answer.
func refused(t *testing.T, s *testServer, r *jute.ConnectRequest, why string) {
	t.Helper()
	c := s.dial(t, dialOptions{})
	c.sendFrame(r.Append(nil))
	c.eof(why)
}

// TestMirrorIsRead reads a mirror while it follows.
func TestMirrorIsRead(t *testing.T) {
	places := newMirrors(t)
	m, s := readMirror(t, places[0])
	refused(t, s, readOnlyRequest(), "a mirror without a copy")
	if word := s.ask(t, "isro", false); word != "null" {
		t.Errorf("isro without a copy: %q", word)
	}
	check(t, m.Install(t.Context(), importedTree(t)))

	c := reader(t, s)
	if v, _ := c.get("/a"); v != "/a" {
		t.Errorf("read %q", v)
	}
	for _, w := range []struct {
		op   jute.OpCode
		body record
	}{
		{jute.OpSetData, set("/a", "2")}, {jute.OpCreate, create("/c", "", 0)}, {jute.OpCreate, create("/c", "", jute.ModeEphemeral)}, {jute.OpDelete, del("/a-b")},
		{jute.OpSync, &jute.SyncRequest{Path: "/"}}, {jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpDelete, Path: "/a-b", Version: -1}}}},
	} {
		if r := c.call(w.op, w.body); r.Err != jute.ErrNotReadOnly {
			t.Errorf("%v: %v, want %v", w.op, r.Err, jute.ErrNotReadOnly)
		}
	}
	if word := s.ask(t, "isro", false); word != "ro" {
		t.Errorf("isro: %q", word)
	}
	if word := s.ask(t, "srvr", false); !strings.Contains(word, "Mode: read-only\n") || !strings.Contains(word, "Zxid: 0x300000005\n") {
		t.Errorf("srvr: %q", word)
	}
	refused(t, s, &jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}, "a client that wants to write")

	apaches := readOnlyRequest()
	apaches.SessionID = 0x100002d57e4000d
	password := session.ApachePassword(apaches.SessionID)
	apaches.Password = password[:]
	refused(t, s, apaches, "a session of Apache's, which only a member can continue")

	c.call(jute.OpGetData, get("/a", true))
	follow(t, m, 0x500000001)
	if ev := c.must().event(); ev.Type != jute.EventDataChanged || ev.Path != "/a" {
		t.Errorf("event %+v", ev)
	}
	follow(t, m, endOfHistory)
	if v, _ := c.get("/a"); v != strings.Repeat("x", 100) {
		t.Errorf("read %q", v)
	}
	c.ok(jute.OpCloseSession, nil)
	c.eof("a closed session")
	check(t, m.Close())

	again := openMirrors(t, places[:2]) // with the second one, which had no readers
	check(t, again[1].Install(t.Context(), importedTree(t)))
	follow(t, again[1], endOfHistory)
	if a, b := again[0], again[1]; a.Last() != b.Last() || a.Tree().Digest() != b.Tree().Digest() || a.ident.IDs != b.ident.IDs {
		t.Errorf("the copy that was read is at %v with digest %v, the other at %v with %v", a.Last(), a.Tree().Digest(), b.Last(), b.Tree().Digest())
	}
	closeMirrors(t, again)
}

// TestReadersSeeExactCopies ends the connections when a transaction does not fit, and lets clients in
// when there is another copy. They continue with their sessions when a copy replaces a sound one.
func TestReadersSeeExactCopies(t *testing.T) {
	m, s := readMirror(t, newMirrors(t)[0])
	check(t, m.Install(t.Context(), importedTree(t)))
	c := reader(t, s)
	c.call(jute.OpGetData, get("/a", true))

	follow(t, m, 0x500000001)
	if ev := c.must().event(); ev.Path != "/a" {
		t.Errorf("event %+v", ev)
	}
	later := importedTree(t)
	var out datatree.Applied
	later.Apply(&datatree.Txn{Zxid: 0x500000009, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: []byte("later"), Version: 1}}}, &out)
	c.call(jute.OpExists, get("/a", true))
	check(t, m.Install(t.Context(), later))
	c.eof("the state was replaced")
	n := s.dial(t, dialOptions{})
	r := readOnlyRequest()
	r.SessionID, r.Password, r.LastZxidSeen = c.session, c.pass, c.zxid
	if resp := n.establish(r); resp.SessionID != c.session {
		t.Fatalf("connect response %+v", resp)
	}
	n.call(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 0x500000001, Data: []string{"/a"}})
	if len(n.events) != 1 || n.events[0].event().Path != "/a" {
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
	n.eof("the copy is wrong")
	refused(t, s, readOnlyRequest(), "a wrong copy")
	exact := importedTree(t)
	exact.Apply(&datatree.Txn{Zxid: 0x500000010, Ops: []datatree.Op{{Kind: datatree.OpSetData, Path: "/a", Data: []byte("exact"), Version: 1}}}, &out)
	check(t, m.Install(t.Context(), exact))
	if v, _ := reader(t, s).get("/a"); v != "exact" {
		t.Errorf("read %q", v)
	}
	check(t, m.Close())
}

// TestReadersCanSendNothing sends each operation with each kind of body. A request that got out of a
// connection would end the process.
func TestReadersCanSendNothing(t *testing.T) {
	m, s := readMirror(t, newMirrors(t)[0], "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true", "readonlymode.enabled=true",
		"zkd.linearizableReads=true", "reconfigEnabled=true")
	check(t, m.Install(t.Context(), importedTree(t)))
	before := m.Tree().Digest()
	rng := rand.New(rand.NewPCG(seeds.First(t), 1))
	bodies := []record{nil, get("/a", true), set("/a", "x"), create("/e", "", jute.ModeEphemeral), del("/a-b"), &jute.AuthRequest{Scheme: "digest", Auth: []byte("u:p")}}
	for op := jute.OpCode(-20); op < 200; op++ {
		for _, body := range append(bodies, garbage(rng)) {
			c := reader(t, s)
			c.send(op, body)
			c.nc.Write(frameOf(requestFrame(1, jute.OpPing, nil))) // some operations end the connection
			c.next()                                               // likewise
			c.nc.Close()
		}
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
