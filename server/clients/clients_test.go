package clients

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
)

// standin is a backend that answers nothing.
type standin struct {
	submitted []replica.Submission
	calls     int // of Submit, with any
}

func (b *standin) Submit(subs ...replica.Submission) {
	b.submitted = append(b.submitted, subs...)
	if len(subs) > 0 {
		b.calls++
	}
}

func (b *standin) Now() time.Duration       { return time.Second }
func (b *standin) AnswersUntil() int64      { return 1 << 40 }
func (b *standin) Service() uint64          { return 1 }
func (b *standin) Serving() bool            { return true }
func (b *standin) Ending() bool             { return false }
func (b *standin) IdleSince() time.Duration { return 0 }
func (b *standin) Shows(uint64) show.Source { return nil }

// newTestClients returns Clients on an empty tree.
func newTestClients(t testing.TB) (*Clients, *standin) {
	t.Helper()
	cfg, _, err := config.Parse(strings.NewReader("dataDir=/data\nclientPort=2181\n"), "zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b := &standin{}
	ids := session.NewIDs(1, 1, 0)
	ids.Reserved(ids.Ahead())
	data := &state.State{Tree: datatree.New(), Watches: watch.New()}
	data.Begin([32]byte{})
	return New(Options{
		Config:   cfg,
		Logger:   zap.NewNop(),
		Metrics:  monitor.NewMetrics(),
		Limits:   Limits{Requests: 1 << 20, Replies: 1 << 20},
		Backend:  b,
		State:    data,
		Schemes:  schemes,
		IDs:      ids,
		Sessions: session.NewTracker(1000),
	}), b
}

// newTestConn returns a connection without its goroutines.
func newTestConn(t *testing.T, s *Clients) *conn {
	t.Helper()
	nc, peer := net.Pipe()
	t.Cleanup(func() { peer.Close() })
	return newConn(&s.shared, nc, plainPort)
}

// TestRefusedClientIsNotServed checks that requests sent right after a connect request
// that is refused without a reply are ignored.
func TestRefusedClientIsNotServed(t *testing.T) {
	s, _ := newTestClients(t)
	c := newTestConn(t, s)
	c.kill() // what the applier does
	if err := c.established(); !errors.Is(err, errHangUp) {
		t.Errorf("a refused connection is served: %v", err)
	}
}

// TestUpgradeEndsUnderAClaim has a connection that claims a local session while another one makes it a global one: neither may
// serve it as a local one.
func TestUpgradeEndsUnderAClaim(t *testing.T) {
	s, _ := newTestClients(t)
	a, b := newTestConn(t, s), newTestConn(t, s)
	establish(t, a, 7)
	if !s.sessions.locals.Get(7).Own(a.line.Origin()) { // as line.Upgrade does
		t.Fatal("the session has an owner")
	}
	b.openLocal(7, false)
	for _, c := range []*conn{a, b} {
		if err := c.established(); !errors.Is(err, errHangUp) {
			t.Errorf("connection %#x is served: %v", c.line.Origin(), err)
		}
	}
}

// TestReadsAllocateNothing, from the frame to the reply.
func TestReadsAllocateNothing(t *testing.T) {
	s, _ := newTestClients(t)
	var out datatree.Applied
	for i, path := range []string{"/n", "/n/child"} {
		s.state.Tree.Apply(&datatree.Txn{Zxid: jute.Zxid(i + 1), Ops: []datatree.Op{{
			Kind: datatree.OpCreate, Path: path, Data: make([]byte, 100), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}, Cversion: 1,
		}}}, &out)
	}
	c := newTestConn(t, s)
	establish(t, c, 1)
	frame := func(xid int32, op jute.OpCode, path string) []byte {
		h := jute.RequestHeader{Xid: xid, Type: op}
		b := h.Append(nil)
		if path != "" {
			r := jute.PathWatchRequest{Path: path}
			b = r.Append(b)
		}
		return b
	}
	for name, frame := range map[string][]byte{
		"getData":      frame(1, jute.OpGetData, "/n"),
		"exists":       frame(1, jute.OpExists, "/n"),
		"absent":       frame(1, jute.OpExists, "/m"),
		"getChildren2": frame(1, jute.OpGetChildren2, "/n"),
		"ping":         frame(jute.XidPing, jute.OpPing, ""),
	} {
		replies := c.stats.sent
		n := testing.AllocsPerRun(200, func() {
			if err := c.handle(frame); err != nil {
				t.Fatal(err)
			}
			c.line.Lock()
			c.line.Outbox.Unsent().Written(len(c.line.Outbox.Unsent().Last()))
			c.line.Unlock()
		})
		if n != 0 {
			t.Errorf("%s allocates %v times, want none", name, n)
		}
		if c.stats.sent == replies {
			t.Errorf("%s has no reply", name)
		}
	}
}

// TestWritesAreHandedOverTogether checks that writes that were read together are handed to
// the leader in one piece, with the audit log, too.
func TestWritesAreHandedOverTogether(t *testing.T) {
	for _, audited := range []bool{false, true} {
		s, b := newTestClients(t)
		if audited {
			log := audit.Open(audit.Options{Sink: discard{}})
			defer log.Close()
			s.Audit(log, "none")
		}
		c := newTestConn(t, s)
		establish(t, c, 1)
		s.register.Add(&c.line.Line, c.identity.ip(), register.Direct, register.Most{})
		var input []byte
		for xid := range int32(3) {
			var mark int
			input, mark = jute.BeginFrame(input)
			h := jute.RequestHeader{Xid: xid + 1, Type: jute.OpSetData}
			r := jute.SetDataRequest{Path: "/", Version: -1}
			input = jute.EndFrame(r.Append(h.Append(input)), mark)
		}
		c.frames.From(bytes.NewReader(input))
		if _, err := c.frames.Fill(); err != nil {
			t.Fatal(err)
		}
		if err := c.handleBuffered(); err != nil {
			t.Fatal(err)
		}
		if b.calls != 1 || len(b.submitted) != 3 {
			t.Errorf("audited %t: %d writes in %d pieces, want 3 in 1", audited, len(b.submitted), b.calls)
		}
	}
}

// discard is an audit.Sink.
type discard struct{}

func (discard) Write(lines []byte, _ []audit.Result) (int, error) { return len(lines), nil }
func (discard) Close() error                                      { return nil }

// TestAnswersComeInOrder checks that a read between two writes is answered between them,
// and that the queue is empty afterwards.
func TestAnswersComeInOrder(t *testing.T) {
	s, b := newTestClients(t)
	c := newTestConn(t, s)
	establish(t, c, 1)
	s.register.Add(&c.line.Line, c.identity.ip(), register.Direct, register.Most{})
	a := s.NewAnswers(func() {}, func(int) {}, func(*datatree.Event, int) {})
	write := func(xid int32) {
		h := jute.RequestHeader{Xid: xid, Type: jute.OpSetData}
		r := jute.SetDataRequest{Path: "/", Version: -1}
		if err := c.handle(r.Append(h.Append(nil))); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	h := jute.RequestHeader{Xid: 2, Type: jute.OpExists}
	r := jute.PathWatchRequest{Path: "/"}
	if err := c.handle(r.Append(h.Append(nil))); err != nil { // waits for the write
		t.Fatal(err)
	}
	write(3)
	c.batch.submit()
	if len(b.submitted) != 2 || c.line.Outbox.Unsent() != nil {
		t.Fatalf("%d requests were handed over, want the 2 writes; replies %v", len(b.submitted), c.line.Outbox.Unsent())
	}
	s.state.Lock()
	a.Begin(s.now())
	for _, sub := range b.submitted {
		txn := &datatree.Txn{Zxid: 9, Cxid: sub.Request.Cxid, Origin: c.line.Origin(), Ops: []datatree.Op{{Kind: datatree.OpSetData, Result: jute.OpSetData}}}
		a.Applied(&replica.Order{}, txn, &datatree.Applied{Results: []datatree.Result{{}}}, true)
	}
	s.state.Unlock()
	var xids []int32
	for rest := c.line.Outbox.Unsent().Last(); len(rest) > 0; {
		n := int(rest[0])<<24 | int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
		var reply jute.ReplyHeader
		d := jute.NewDecoder(rest[4 : 4+n])
		reply.Decode(&d)
		xids = append(xids, reply.Xid)
		rest = rest[4+n:]
	}
	if len(xids) != 3 || xids[0] != 1 || xids[1] != 2 || xids[2] != 3 {
		t.Errorf("replies to %v, want 1, 2, 3", xids)
	}
	if n := c.line.Waiting.Len(); n != 0 || s.throttler.waiting.Load() != 0 {
		t.Errorf("%d requests wait", n)
	}
}
