package shadow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func connectFrame(session jute.SessionID) []byte {
	r := jute.ConnectRequest{TimeoutMs: 10000, SessionID: session, Password: make([]byte, jute.PasswordLen), HasReadOnly: true}
	return r.Append(nil)
}

func connectedFrame(session jute.SessionID) []byte {
	r := jute.ConnectResponse{TimeoutMs: 10000, SessionID: session, Password: make([]byte, jute.PasswordLen), HasReadOnly: true}
	return r.Append(nil)
}

// duo is an Engine between a script's clients and ensembles.
type duo struct {
	t       *testing.T
	e       *Engine
	now     time.Duration
	did     []string // actions: "dial 1", "send 1 xid", "close 1"
	reports []Report
}

func newDuo(t *testing.T, tune func(*Config)) *duo {
	cfg := DefaultConfig(1_000_000_000)
	if tune != nil {
		tune(&cfg)
	}
	return &duo{t: t, e: New(cfg)}
}

// after collects what an input leads to.
func (d *duo) after() {
	for _, a := range d.e.Actions() {
		switch a.Kind {
		case Dial:
			d.did = append(d.did, fmt.Sprintf("dial %d", a.Conn))
		case Send:
			r, err := decodeRequest(a.Frame)
			if err != nil {
				d.t.Fatal(err)
			}
			d.did = append(d.did, fmt.Sprintf("send %d %d", a.Conn, r.xid))
		case Close:
			d.did = append(d.did, fmt.Sprintf("close %d", a.Conn))
		}
	}
	d.reports = append(d.reports, d.e.Reports()...)
}

// done returns what was done since the last call.
func (d *duo) done() string {
	text := strings.Join(d.did, ", ")
	d.did = nil
	return text
}

func (d *duo) expect(want string) {
	d.t.Helper()
	if got := d.done(); got != want {
		d.t.Errorf("done: %q, want %q", got, want)
	}
}

func (d *duo) expectReports(want ...string) {
	d.t.Helper()
	var got []string
	for _, r := range d.reports {
		got = append(got, fmt.Sprintf("%s%s %s %s %s", r.Class, r.ID, r.Op, r.Path, strings.Join(r.What, "; ")))
	}
	d.reports = nil
	if !slices.Equal(got, want) {
		d.t.Errorf("reports:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (d *duo) client(id ConnID, frame []byte) {
	d.e.FromClient(d.now, id, jute.AppendBuffer(nil, frame))
	d.after()
}

func (d *duo) apache(id ConnID, frame []byte) {
	d.e.FromApache(d.now, id, jute.AppendBuffer(nil, frame))
	d.after()
}

func (d *duo) zkd(id ConnID, frame []byte) {
	d.e.FromZkd(d.now, id, jute.AppendBuffer(nil, frame))
	d.after()
}

func (d *duo) tick(after time.Duration) {
	d.now += after
	d.e.Tick(d.now)
	d.after()
}

func (d *duo) closed(id ConnID) {
	d.e.Closed(d.now, id)
	d.after()
}

// open opens connections with sessions id on Apache and 100+id on zkd.
func (d *duo) open(ids ...ConnID) {
	d.t.Helper()
	for _, id := range ids {
		d.connect(id, 0, jute.SessionID(id))
		d.expect(fmt.Sprintf("dial %d", id))
		d.zkd(id, connectedFrame(jute.SessionID(100+id)))
	}
}

func (d *duo) connect(id ConnID, asked, got jute.SessionID) {
	d.e.Open(d.now, id)
	d.client(id, connectFrame(asked))
	d.apache(id, connectedFrame(got))
}

func request1(xid int32, op jute.OpCode, body []byte) []byte {
	h := jute.RequestHeader{Xid: xid, Type: op}
	return append(h.Append(nil), body...)
}

func get(xid int32, path string) []byte {
	r := jute.PathWatchRequest{Path: path, Watch: true}
	return request1(xid, jute.OpGetData, r.Append(nil))
}

func set(xid int32, path string) []byte {
	r := jute.SetDataRequest{Path: path, Data: []byte("x"), Version: -1}
	return request1(xid, jute.OpSetData, r.Append(nil))
}

func create(xid int32, path string, mode jute.CreateMode) []byte {
	r := jute.CreateRequest{Path: path, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}, Mode: mode}
	return request1(xid, jute.OpCreate, r.Append(nil))
}

func reply(xid int32, zxid jute.Zxid, err jute.Code, body []byte) []byte {
	h := jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: err}
	return append(h.Append(nil), body...)
}

func statBody(change func(*jute.Stat)) []byte {
	s := jute.Stat{Czxid: 1, Mzxid: 1, Ctime: 5, Mtime: 5, Pzxid: 1}
	if change != nil {
		change(&s)
	}
	return s.Append(nil)
}

func pathBody(path string) []byte { return jute.AppendString(nil, path) }

func notification(zxid jute.Zxid, typ jute.EventType, path string) []byte {
	ev := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return reply(jute.XidNotification, zxid, 0, ev.Append(nil))
}

func closeSession(xid int32) []byte { return request1(xid, jute.OpCloseSession, nil) }

// Requests on one znode are sent in the order of Apache's zxids, not in that in which the answers
// came, and the next one only after the answer to the one before. Others do not wait.
func TestConflictingRequestsAreSentInApachesOrder(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2, 3)
	d.client(1, set(11, "/a"))
	d.client(2, set(21, "/a"))
	d.client(3, set(31, "/b"))
	d.client(3, get(32, "/a"))
	d.apache(2, reply(21, 7, 0, statBody(nil)))
	d.apache(3, reply(31, 8, 0, statBody(nil)))
	d.apache(3, reply(32, 8, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	d.expect("")
	d.apache(1, reply(11, 6, 0, statBody(nil)))
	d.expect("send 1 11, send 3 31")
	d.zkd(1, reply(11, 106, 0, statBody(nil)))
	d.expect("send 2 21")
	d.zkd(2, reply(21, 107, 0, statBody(nil)))
	d.expect("send 3 32")
	if d.e.Quiet() {
		t.Error("quiet before all is answered")
	}
	d.zkd(3, reply(31, 108, 0, statBody(nil)))
	d.zkd(3, reply(32, 108, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	if !d.e.Quiet() || d.e.Summary().Held != 0 {
		t.Errorf("not quiet, or something is held: %+v", d.e.Summary())
	}
	d.expectReports()
}

// A create changes the parent, so creates of siblings are in order, too; a close of a session
// runs alone.
func TestCreatesAndClosesWait(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2, 3)
	d.client(1, create(11, "/p/s-", jute.ModePersistentSequential))
	d.apache(1, reply(11, 5, 0, pathBody("/p/s-0")))
	d.client(2, create(21, "/p/s-", jute.ModePersistentSequential))
	d.apache(2, reply(21, 6, 0, pathBody("/p/s-1")))
	d.client(3, closeSession(31))
	d.apache(3, reply(31, 7, 0, nil))
	d.expect("send 1 11")
	d.zkd(1, reply(11, 105, 0, pathBody("/p/s-0")))
	d.expect("send 2 21")
	d.client(1, get(12, "/elsewhere"))
	d.apache(1, reply(12, 7, jute.ErrNoNode, nil))
	d.expect("")
	d.zkd(2, reply(21, 106, 0, pathBody("/p/s-1")))
	d.expect("send 3 31")
	d.zkd(3, reply(31, 107, 0, nil))
	d.expect("close 3, send 1 12")
	d.expectReports()
}

// Replies of Apache that are longer than Java's clients accept by default are counted.
func TestLongRepliesAreCounted(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	body := func(n int) []byte { return append(jute.AppendBuffer(nil, make([]byte, n)), statBody(nil)...) }
	for i, n := range []int{jute.JavaMaxBuffer - 16 - 4 - 68, jute.JavaMaxBuffer - 16 - 4 - 68 + 1} {
		xid := int32(11 + i)
		d.client(1, get(xid, fmt.Sprint("/", i)))
		d.apache(1, reply(xid, 6, 0, body(n)))
		d.expect(fmt.Sprint("send 1 ", xid))
		d.zkd(1, reply(xid, 106, 0, body(n)))
	}
	d.expectReports()
	if text := d.e.sum.Text(); d.e.sum.Long != 1 || !strings.Contains(text, `1 replies, the last about "/1"`) {
		t.Errorf("summary:\n%s", text)
	}
}

// An answer from a server that is behind may differ, and one after which nobody waited any longer.
func TestLateAnswers(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2)
	d.client(1, set(11, "/a"))
	d.client(2, get(21, "/a"))
	d.apache(1, reply(11, 9, 0, statBody(nil)))
	d.expect("")
	d.tick(d.e.cfg.Hold)
	d.expect("send 1 11")
	d.zkd(1, reply(11, 109, 0, statBody(nil)))
	d.apache(2, reply(21, 8, jute.ErrNoNode, nil))
	d.zkd(2, reply(21, 109, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	d.expectReports("order getData /a error: node does not exist (-101), zkd ok")
}

func TestStats(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	tests := []struct {
		apache, zkd func(*jute.Stat)
		want        string
	}{
		{func(s *jute.Stat) { s.Mzxid = 20 }, func(s *jute.Stat) { s.Mzxid = 120 }, ""},
		{func(s *jute.Stat) { s.Mzxid = 20 }, func(s *jute.Stat) { s.Mzxid = 121 }, "stat.mzxid: 0x14 (zkd's 0x78), zkd 0x79"},
		{func(s *jute.Stat) { s.Pzxid = 21 }, func(s *jute.Stat) { s.Pzxid = 120 }, "stat.pzxid: 0x15, zkd 0x78"},
		{nil, func(s *jute.Stat) { s.Version = 3 }, "stat.version: 0, zkd 3"},
		{nil, func(s *jute.Stat) { s.Cversion = 3 }, "stat.cversion: 0, zkd 3"},
		{nil, func(s *jute.Stat) { s.Aversion = 3 }, "stat.aversion: 0, zkd 3"},
		{nil, func(s *jute.Stat) { s.DataLength = 3 }, "stat.dataLength: 0, zkd 3"},
		{nil, func(s *jute.Stat) { s.NumChildren = 3 }, "stat.numChildren: 0, zkd 3"},
		{func(s *jute.Stat) { s.EphemeralOwner = 1 }, func(s *jute.Stat) { s.EphemeralOwner = 101 }, ""},
		{func(s *jute.Stat) { s.EphemeralOwner = 1 }, func(s *jute.Stat) { s.EphemeralOwner = 102 }, "stat.ephemeralOwner: 0x1, zkd 0x66"},
		{nil, func(s *jute.Stat) { s.EphemeralOwner = 101 }, "stat.ephemeralOwner: 0x0, zkd 0x65"},
		{func(s *jute.Stat) { s.Ctime = 7 }, nil, "stat.ctime: 7, zkd 5"}, // copied: the zxids are the same
		{func(s *jute.Stat) { s.Czxid, s.Ctime = 30, 7 }, func(s *jute.Stat) { s.Czxid, s.Ctime = 130, 8 }, ""},
		{nil, func(s *jute.Stat) { s.Mtime = 0 }, "stat.mtime: 5, zkd 0; stat.mtime: that of the create, zkd 0"},
	}
	for i, tt := range tests {
		path := fmt.Sprintf("/%d", i)
		r := jute.PathWatchRequest{Path: path}
		d.client(1, request1(1, jute.OpExists, r.Append(nil)))
		d.apache(1, reply(1, 50, 0, statBody(tt.apache)))
		d.zkd(1, reply(1, 150, 0, statBody(tt.zkd)))
		if tt.want == "" {
			d.expectReports()
		} else {
			d.expectReports("difference exists " + path + " " + tt.want)
		}
	}
}

// The zxid in the answer to a write is that of its transaction.
func TestZxidsOfWrites(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	d.client(1, set(1, "/a"))
	d.apache(1, reply(1, 50, 0, statBody(func(s *jute.Stat) { s.Mzxid = 50 })))
	d.zkd(1, reply(1, 150, 0, statBody(func(s *jute.Stat) { s.Mzxid = 149 })))
	d.expectReports("difference setData /a stat.mzxid: 0x32 (zkd's 0x96), zkd 0x95")
}

// A server that is behind answers exists before a create and a delete that are answered already. zkd says the same after
// them, and has nothing to tell to the watch.
func TestWatchOfALateRead(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2)
	d.client(1, create(11, "/a", 0))
	d.apache(1, reply(11, 9, 0, pathBody("/a")))
	d.zkd(1, reply(11, 109, 0, pathBody("/a")))
	d.client(1, request1(12, jute.OpDelete, jute.AppendInt32(pathBody("/a"), int32(-1))))
	d.apache(1, reply(12, 10, 0, nil))
	d.zkd(1, reply(12, 110, 0, nil))
	d.client(2, request1(21, jute.OpExists, jute.AppendBool(pathBody("/a"), true)))
	d.apache(2, reply(21, 8, jute.ErrNoNode, nil))
	d.zkd(2, reply(21, 110, jute.ErrNoNode, nil))
	d.apache(2, notification(9, jute.EventCreated, "/a"))
	d.tick(d.e.cfg.Grace)
	d.tick(time.Second)
	d.expectReports("order event /a event: sent, zkd none")
}

// What is late hides no later difference: when both sides have told of one change, what one of them tells alone after that is a
// difference.
func TestDifferenceAfterALateRead(t *testing.T) {
	set2 := func(d *duo, xid int32, a jute.Zxid) {
		d.client(1, set(xid, "/a"))
		d.apache(1, reply(xid, a, 0, statBody(nil)))
		d.zkd(1, reply(xid, 100+a, 0, statBody(nil)))
	}
	begin := func(t *testing.T) *duo {
		d := newDuo(t, nil)
		d.open(1, 2)
		set2(d, 11, 9)
		d.client(2, get(21, "/a"))
		data := append(jute.AppendBuffer(nil, nil), statBody(nil)...)
		d.apache(2, reply(21, 8, 0, data)) // of a server that is behind
		d.zkd(2, reply(21, 109, 0, data))
		if s := d.e.Summary(); s.Late != 1 || !strings.Contains(s.Text(), "1 watches that requests may have set late") {
			t.Fatalf("late: %+v", s)
		}
		return d
	}
	t.Run("seen", func(t *testing.T) {
		d := begin(t)
		d.apache(2, notification(9, jute.EventDataChanged, "/a")) // zkd's watch came after that
		set2(d, 12, 10)
		set2(d, 13, 11)
		d.apache(2, notification(10, jute.EventDataChanged, "/a")) // of watches set again
		d.zkd(2, notification(110, jute.EventDataChanged, "/a"))
		d.expectReports("order event /a event: sent, zkd none") // that of 9, at once
		if d.e.Summary().Late != 0 {
			t.Error("still late after an event of both sides")
		}
		d.zkd(2, notification(111, jute.EventDataChanged, "/a"))
		d.tick(d.e.cfg.Grace)
		d.tick(time.Second)
		d.expectReports("difference event /a event: none, zkd sent")
	})
	t.Run("not yet", func(t *testing.T) { // an event of before the late read says nothing of its watch
		d := begin(t)
		d.zkd(2, notification(109, jute.EventDataChanged, "/a"))
		d.apache(2, notification(9, jute.EventDataChanged, "/a"))
		set2(d, 12, 10)
		d.zkd(2, notification(110, jute.EventDataChanged, "/a"))
		d.tick(d.e.cfg.Grace)
		d.tick(time.Second)
		d.expectReports("order event /a event: none, zkd sent")
	})
	t.Run("other watches", func(t *testing.T) {
		d := begin(t)
		d.apache(2, notification(9, jute.EventChildrenChanged, "/a"))
		d.tick(d.e.cfg.Grace)
		d.tick(time.Second)
		d.expectReports("difference event /a event: sent, zkd none")
	})
	t.Run("the end", func(t *testing.T) {
		d := begin(t)
		d.closed(2)
		if d.e.Summary().Late != 0 {
			t.Error("watches of a closed connection are kept")
		}
	})
	t.Run("too many", func(t *testing.T) {
		d := begin(t)
		d.e.late = keptLate
		set2(d, 12, 10)
		d.client(2, get(22, "/a"))
		d.apache(2, reply(22, 8, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
		d.client(2, request1(23, jute.OpGetChildren, jute.AppendBool(pathBody("/a"), true)))
		d.apache(2, reply(23, 8, 0, jute.AppendInt32(nil, int32(0))))
		d.zkd(2, reply(22, 110, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
		d.zkd(2, reply(23, 110, 0, jute.AppendInt32(nil, int32(0))))
		if s := d.e.Summary(); s.Stopped["too many of its reads came late in the order"] != 1 || s.Clean() || s.Late != keptLate-1 {
			t.Errorf("after too many: %+v", s)
		}
	})
}

func TestEvents(t *testing.T) {
	const a, b = "/a", "/b"
	created, deleted := jute.EventCreated, jute.EventDeleted
	tests := []struct {
		name        string
		apache, zkd [][]byte
		want        []string
	}{
		{"the same", [][]byte{notification(5, created, a)}, [][]byte{notification(105, created, a)}, nil},
		{"forgotten", [][]byte{notification(5, created, a)}, nil, []string{"difference event /a event: sent, zkd none"}},
		{"one too many", [][]byte{notification(5, created, a)}, [][]byte{notification(105, created, a), notification(106, created, a)},
			[]string{"difference event /a event: none, zkd sent"}},
		{"another type", [][]byte{notification(5, created, a)}, [][]byte{notification(105, deleted, a)},
			[]string{"difference event /a type: NodeCreated, zkd NodeDeleted"}},
		{"another znode", [][]byte{notification(5, created, a)}, [][]byte{notification(105, created, b)},
			[]string{"difference event /a event: sent, zkd none", "difference event /b event: none, zkd sent"}},
		{"reordered on one znode", [][]byte{notification(5, created, a), notification(6, deleted, a)},
			[][]byte{notification(105, deleted, a), notification(106, created, a)},
			[]string{"difference event /a type: NodeCreated, zkd NodeDeleted"}}, // the second one is like the first
		{"reordered on two znodes", [][]byte{notification(5, created, a), notification(6, created, b)},
			[][]byte{notification(106, created, b), notification(105, created, a)},
			[]string{"difference order  zxid: not less than the last one, zkd 0x69 after 0x6a"}},
		{"of another order of sessions", [][]byte{notification(5, created, a), notification(6, created, b)},
			[][]byte{notification(105, created, b), notification(106, created, a)}, nil},
		{"3.8 has no zxid", [][]byte{notification(-1, created, a)}, [][]byte{notification(105, created, a)},
			[]string{"knownevent-zxid event /a zxid: -1, zkd 0x69"}},
		{"no zxid", [][]byte{notification(5, created, a)}, [][]byte{notification(-1, created, a)},
			[]string{"difference event /a zxid: 0x5, zkd 0xffffffffffffffff"}},
	}
	for _, tt := range tests {
		for _, zkdFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, zkdFirst), func(t *testing.T) {
				d := newDuo(t, nil)
				d.open(1)
				for i := range 2 {
					if (i == 0) == zkdFirst {
						for _, frame := range tt.zkd {
							d.zkd(1, frame)
						}
					} else {
						for _, frame := range tt.apache {
							d.apache(1, frame)
						}
					}
				}
				d.tick(d.e.cfg.Grace)
				d.tick(time.Second)
				d.expectReports(tt.want...)
			})
		}
	}
}

// Apache's server may send an event after its answer to closeSession, of a change that came after that.
func TestEventAfterAClose(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	d.client(1, closeSession(11))
	d.apache(1, reply(11, 9, 0, nil))
	d.apache(1, notification(10, jute.EventDeleted, "/a"))
	d.zkd(1, reply(11, 109, 0, nil))
	d.closed(1)
	d.tick(time.Minute)
	d.expectReports()
}

// An event that zkd lacks is no difference while it has requests to do that came before it.
func TestEventsWaitForRequests(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2)
	d.client(2, set(21, "/a"))
	d.apache(2, reply(21, 5, 0, statBody(nil)))
	d.apache(1, notification(5, jute.EventDataChanged, "/a"))
	d.tick(20 * time.Second)
	d.expectReports()
	d.zkd(2, reply(21, 105, 0, statBody(nil)))
	d.zkd(1, notification(105, jute.EventDataChanged, "/a"))
	d.tick(time.Minute)
	d.expectReports()
}

// An auth may be answered before the requests in front of it. zkd gets it in its place.
func TestAuthOvertakes(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	auth := jute.AuthRequest{Scheme: "digest", Auth: []byte("u:secret")}
	d.client(1, set(1, "/a"))
	d.client(1, request1(jute.XidAuth, jute.OpAuth, auth.Append(nil)))
	d.client(1, get(2, "/a"))
	d.apache(1, reply(jute.XidAuth, 0, 0, nil))
	d.expect("")
	d.apache(1, reply(1, 5, 0, statBody(nil)))
	d.apache(1, reply(2, 5, jute.ErrNoAuth, nil))
	d.expect("send 1 1, send 1 -4, send 1 2")
	d.zkd(1, reply(jute.XidAuth, 0, jute.ErrAuthFailed, nil))
	d.zkd(1, reply(1, 105, 0, statBody(nil)))
	d.zkd(1, reply(2, 105, jute.ErrNoAuth, nil))
	if len(d.reports) != 1 || strings.Contains(fmt.Sprint(d.reports), "secret") {
		t.Errorf("reports: %v", d.reports)
	}
	d.expectReports("difference auth  error: ok, zkd authentication failed (-115)")
}

// A login that ends the comparison, when the connection is lost before the answers to earlier requests:
// nothing of the connection stays.
func TestLoginOvertakesWhatIsLost(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	d.client(1, get(1, "/a"))
	d.client(1, request1(2, jute.OpSASL, jute.AppendBuffer(nil, []byte("token"))))
	d.client(1, request1(jute.XidPing, jute.OpPing, nil))
	d.apache(1, reply(2, 0, 0, jute.AppendBuffer(nil, []byte("challenge"))))
	d.apache(1, reply(jute.XidPing, 0, 0, nil))
	d.closed(1)
	d.expect("close 1")
	if d.e.all.Len() > 0 || !d.e.Quiet() {
		t.Errorf("%d requests of the connection are left", d.e.all.Len())
	}
}

// A connection that Apache does not answer keeps no requests of others in memory.
func TestMemoryBehindASilentConnection(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2)
	d.client(1, get(1, "/a"))
	for xid := range int32(10_000) {
		d.client(2, get(xid, "/b"))
		d.apache(2, reply(xid, 5, jute.ErrNoNode, nil))
	}
	d.tick(time.Second)
	if n := d.e.asks.Len(); n != 1 {
		t.Errorf("%d requests are kept, of which Apache has not answered one", n)
	}
}

// What zkd must not get is not sent.
func TestNotSent(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	r := jute.ReconfigRequest{Leaving: "3", ConfigID: -1}
	d.client(1, request1(1, jute.OpReconfig, r.Append(nil)))
	d.client(1, get(2, "/a"))
	d.apache(1, reply(1, 5, jute.ErrNoAuth, nil))
	d.apache(1, reply(2, 5, jute.ErrNoNode, nil))
	d.expect("send 1 2")
	if s := d.e.Summary(); len(s.NotSent) != 1 || !s.Clean() {
		t.Errorf("summary %+v", s)
	}
}

// A session that comes back on another connection is resumed on zkd, after the first connection
// is done with.
func TestResume(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	d.client(1, set(1, "/a"))
	d.apache(1, reply(1, 5, 0, statBody(nil)))
	d.expect("send 1 1")
	d.client(1, set(2, "/b")) // its answer is lost
	d.connect(2, 1, 1)
	d.closed(1)
	d.expect("")
	d.zkd(1, reply(1, 105, 0, statBody(nil)))
	d.expect("close 1, dial 2")
	d.zkd(2, connectedFrame(101))
	d.client(2, get(3, "/b"))
	d.apache(2, reply(3, 6, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	d.zkd(2, reply(3, 105, jute.ErrNoNode, nil))
	d.expectReports("order getData /b error: ok, zkd node does not exist (-101)")
	if s := d.e.Summary(); s.Unknown != 1 || !s.Clean() {
		t.Errorf("summary %+v", s)
	}
}

// The ephemerals of a session that is left alone are open, as it expires sooner or later on one side.
func TestEphemeralsOfALostSession(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1, 2)
	d.client(1, create(1, "/e/x", jute.ModeEphemeral))
	d.apache(1, reply(1, 5, 0, pathBody("/e/x")))
	d.zkd(1, reply(1, 105, 0, pathBody("/e/x")))
	d.closed(1)
	d.expect("send 1 1, close 1")
	d.tick(15 * time.Second)
	d.client(2, get(1, "/e/x"))
	d.apache(2, reply(1, 6, jute.ErrNoNode, nil))
	d.zkd(2, reply(1, 105, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	d.expectReports("order getData /e/x error: node does not exist (-101), zkd ok")
	d.tick(time.Minute)
	d.client(2, get(1, "/e/x"))
	d.apache(2, reply(1, 6, jute.ErrNoNode, nil))
	d.zkd(2, reply(1, 105, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	d.expectReports("difference getData /e/x error: node does not exist (-101), zkd ok")
}

// When zkd is too far behind, the comparison of the connection ends. What it held is released,
// those that waited for it continue, and its writes are counted.
func TestTooFarBehind(t *testing.T) {
	d := newDuo(t, func(c *Config) { c.MostOfOne = 1000 })
	d.open(1, 2)
	for i := range int32(30) {
		d.client(1, set(i, "/a"))
		d.apache(1, reply(i, jute.Zxid(5+i), 0, statBody(nil)))
	}
	d.client(2, set(1, "/a"))
	d.apache(2, reply(1, 50, 0, statBody(nil)))
	if got := d.done(); !strings.HasSuffix(got, "close 1, send 2 1") {
		t.Errorf("done: %q", got)
	}
	s := d.e.Summary()
	if s.Stopped["zkd is too far behind"] != 1 || s.Missing != 30 || s.Clean() || s.Held > 200 {
		t.Errorf("summary %+v", s)
	}
	d.zkd(2, reply(1, 105, 0, statBody(func(s *jute.Stat) { s.Version = 7 })))
	d.expectReports("order setData /a stat.version: 0, zkd 7")
}

// zkd's connection breaks, or can't be made.
func TestZkdIsLost(t *testing.T) {
	for _, serving := range []bool{false, true} {
		d := newDuo(t, nil)
		d.open(1, 2)
		d.client(1, set(1, "/a"))
		d.apache(1, reply(1, 5, 0, statBody(nil)))
		d.e.ZkdLost(d.now, 1, serving, "closed")
		d.after()
		s := d.e.Summary()
		if s.Clean() || len(s.Stopped) != 1 || s.Differences != len(d.reports) || (s.Differences == 1) != serving {
			t.Errorf("serving=%v: %+v, %v", serving, s, d.reports)
		}
	}
}

// Four-letter words, TLS and nonsense are passed on.
func TestNotTheProtocol(t *testing.T) {
	for _, first := range []string{"ruok", "\x16\x03\x01\x02\x00", "GET / HTTP/1.1\r\n", "\x00\x00\x00\x03abc"} {
		d := newDuo(t, nil)
		d.e.Open(0, 1)
		d.e.FromClient(0, 1, []byte(first))
		d.e.FromApache(0, 1, []byte("imok"))
		d.closed(1)
		if s := d.e.Summary(); s.Passed != 1 || !s.Clean() || s.Connections != 0 || len(d.e.conns) != 0 {
			t.Errorf("%q: %+v", first, s)
		}
	}
}

func TestKnown(t *testing.T) {
	ttl := jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: "/t", Mode: jute.ModePersistentTTL}, TTL: 5}
	multi := jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpCreate2, Path: "/m"}}}
	ip := jute.SetACLRequest{Path: "/i", ACL: []jute.ACL{{Perms: 1, ID: jute.ID{Scheme: "ip", ID: "::1"}}}}
	created := jute.MultiResponse{Results: []jute.MultiResult{{Type: jute.OpCreate, Path: "/m"}}}
	created2 := jute.MultiResponse{Results: []jute.MultiResult{{Type: jute.OpCreate2, Path: "/m"}}}
	exists := jute.PathWatchRequest{Path: "/x"}
	config := jute.PathWatchRequest{Path: configPath}
	data := func(text string) []byte { return append(jute.AppendBuffer(nil, []byte(text)), statBody(nil)...) }
	tests := []struct {
		op          jute.OpCode
		body        []byte
		apache, zkd []byte
		want        string
	}{
		{jute.OpCreateTTL, ttl.Append(nil), reply(1, 5, jute.ErrUnimplemented, nil), reply(1, 105, 0, append(pathBody("/t"), statBody(nil)...)), "ttl-on"},
		{jute.OpMulti, multi.Append(nil), reply(1, 5, 0, created.Append(nil)), reply(1, 105, 0, created2.Append(nil)), "multi-create2"},
		{jute.OpSetACL, ip.Append(nil), reply(1, 5, jute.ErrInvalidACL, nil), reply(1, 105, 0, statBody(nil)), "ipv6-acl"},
		{jute.OpExists, exists.Append(nil), reply(1, 5, 0, statBody(nil)), reply(1, 105, jute.ErrNoAuth, nil), "exists-read"},
		{jute.OpGetData, config.Append(nil), reply(1, 5, 0, data("a")), reply(1, 105, 0, data("b")), "config-version"},
	}
	for _, tt := range tests {
		d := newDuo(t, nil)
		d.open(1)
		d.client(1, request1(1, tt.op, tt.body))
		d.apache(1, tt.apache)
		d.zkd(1, tt.zkd)
		if s := d.e.Summary(); s.Known[tt.want] != 1 || s.Differences != 0 || len(d.reports) != 1 || d.reports[0].ID != tt.want {
			t.Errorf("%s: %+v", tt.want, s)
		}
	}
}

// What depends on the clocks of the servers, such as a znode with a time to live, is open.
func TestTimeToLiveIsOpen(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	ttl := jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: "/t", Mode: jute.ModePersistentTTL}, TTL: 5}
	d.client(1, request1(1, jute.OpCreateTTL, ttl.Append(nil)))
	d.apache(1, reply(1, 5, 0, append(pathBody("/t"), statBody(nil)...)))
	d.zkd(1, reply(1, 105, 0, append(pathBody("/t"), statBody(nil)...)))
	d.client(1, get(2, "/t"))
	d.apache(1, reply(2, 6, jute.ErrNoNode, nil))
	d.zkd(1, reply(2, 105, 0, append(jute.AppendBuffer(nil, nil), statBody(nil)...)))
	d.expectReports("order getData /t error: node does not exist (-101), zkd ok")
}

// A request that came before Apache had answered a setACL may be checked against either list.
func TestSetACLRace(t *testing.T) {
	acl := jute.SetACLRequest{Path: "/a", ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.WorldAnyone}}, Version: -1}
	for _, races := range []bool{true, false} {
		d := newDuo(t, nil)
		d.open(1, 2)
		d.client(1, request1(1, jute.OpSetACL, acl.Append(nil)))
		if races {
			d.client(2, set(1, "/a"))
		}
		d.apache(1, reply(1, 5, 0, statBody(nil)))
		if !races {
			d.client(2, set(1, "/a"))
		}
		d.apache(2, reply(1, 6, 0, statBody(nil)))
		d.zkd(1, reply(1, 105, 0, statBody(nil)))
		d.zkd(2, reply(1, 106, jute.ErrNoAuth, nil))
		class := "difference"
		if races {
			class = "order"
		}
		d.expectReports(class + " setData /a error: ok, zkd not authorized (-102)")
	}
}

// That a container has gone on one side leaves its parent's list open, and nothing else there.
func TestParentOfAContainer(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	body := append(pathBody("/p/c"), statBody(nil)...)
	d.client(1, request1(1, jute.OpCreateContainer, create(1, "/p/c", jute.ModeContainer)[8:]))
	d.apache(1, reply(1, 5, 0, body))
	d.zkd(1, reply(1, 105, 0, body))
	exists := jute.PathWatchRequest{Path: "/p"}
	for i, tt := range []struct {
		change func(*jute.Stat)
		want   string
	}{
		{func(s *jute.Stat) { s.NumChildren = 1 }, "order exists /p stat.numChildren: 0, zkd 1"},
		{func(s *jute.Stat) { s.NumChildren, s.Version = 1, 1 }, "difference exists /p stat.version: 0, zkd 1; stat.numChildren: 0, zkd 1"},
	} {
		xid := int32(2 + i)
		d.client(1, request1(xid, jute.OpExists, exists.Append(nil)))
		d.apache(1, reply(xid, 6, 0, statBody(nil)))
		d.zkd(1, reply(xid, 106, 0, statBody(tt.change)))
		d.expectReports(tt.want)
	}
}

// An ephemeral of a session that does not live through the shadow may end sooner on one side.
func TestEphemeralOfAStranger(t *testing.T) {
	for _, owner := range []jute.SessionID{55, 101} {
		d := newDuo(t, nil)
		d.open(1)
		d.client(1, get(1, "/e"))
		d.apache(1, reply(1, 5, jute.ErrNoNode, nil))
		d.zkd(1, reply(1, 105, 0, append(jute.AppendBuffer(nil, nil), statBody(func(s *jute.Stat) { s.EphemeralOwner = owner })...)))
		class := "order"
		if owner == 101 {
			class = "difference"
		}
		d.expectReports(class + " getData /e error: node does not exist (-101), zkd ok")
	}
}

// A session from before the shadow continues if zkd has it, with the client's password. If not,
// its connection is not compared, which is no difference.
func TestSessionFromBefore(t *testing.T) {
	for _, has := range []bool{true, false} {
		d := newDuo(t, nil)
		d.connect(1, 7, 7)
		d.expect("dial 1")
		if has {
			d.zkd(1, connectedFrame(7))
		} else {
			refused := jute.ConnectResponse{Password: make([]byte, jute.PasswordLen), HasReadOnly: true}
			d.zkd(1, refused.Append(nil))
		}
		s := d.e.Summary()
		if s.Differences != 0 || s.Clean() != has || (len(s.Stopped) == 0) != has {
			t.Errorf("has=%v: %+v", has, s)
		}
		d.expectReports()
	}
}

// zkd does not answer: neither a connect, nor a request.
func TestZkdHangs(t *testing.T) {
	d := newDuo(t, nil)
	d.open(1)
	d.client(1, set(1, "/a"))
	d.apache(1, reply(1, 5, 0, statBody(nil)))
	d.connect(2, 0, 2)
	d.closed(2)
	d.expect("send 1 1, dial 2")
	d.tick(d.e.cfg.Patience + time.Second)
	d.expect("close 1, close 2")
	if s := d.e.Summary(); s.Stopped["zkd did not answer in time"] != 2 || s.Missing != 1 || len(d.e.conns) != 1 {
		t.Errorf("%+v, %d connections", s, len(d.e.conns))
	}
}
