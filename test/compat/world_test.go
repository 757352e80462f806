//go:build compat

package compat

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/ask"
)

const (
	replyDeadline = time.Minute
	// timeout is what sessions ask for unless they are said to ask for another, and
	// longTimeout is for those that must not expire however slow the machine is, as
	// nothing is sent on an idle connection. In ms; a server alone allows 40,000.
	timeout, longTimeout = 30_000, 600_000
	// silence is how long a scenario waits where no reply is expected.
	silence = 2 * time.Second

	eventXid = -1
	pingXid  = -2
	authXid  = -4

	codeUnimplemented = -6
	codeAuthFailed    = -115
)

// world is one server as a scenario sees it, and the transcript of what was
// sent and what came back. What differs between two runs of one server is
// replaced: zxids count from the start of the scenario, sessions get names,
// times become "T".
type world struct {
	addr  string
	srv   *server
	lines []string

	base int64 // zxid before the scenario's first write
	// resumptions are the zxids that zkd has given to resumptions of sessions, which are no
	// transactions on Apache's server (resume-zxid): the transcript does not count them, unless
	// countsAll.
	resumptions []int64
	countsAll   bool
	sessions    map[int64]*session
	conns       []*conn
	patience    time.Duration // how long to wait for a reply
	events      bool          // show the zxid of notifications
	loose       bool          // the numbers of zxids differ from run to run: show only that they are new
	unsorted    bool          // notifications of one batch have no defined order: sort them
	sortACL     bool          // ACLs have no defined order: "auth" was expanded to several ids
	quiet       bool          // leave replies out of the transcript
	hangs       []string      // what was left unanswered while quiet

	figures *regexp.Regexp // lines of mntr that are compared; nil: all

	ens    *ensemble  // nil when the world is one server
	roles  [3]*server // of ens, when the scenario began: leader, follower, otherFollower
	local  bool       // all connections are to one server: barriers need not ask the others
	probes [3]*conn   // one on each of roles, for barriers
}

type session struct {
	name   string
	id     int64
	passwd []byte
	closed bool
}

func newWorld(srv *server) *world {
	return &world{addr: srv.addr, srv: srv, sessions: map[int64]*session{}, patience: replyDeadline}
}

func (w *world) logf(format string, args ...any) {
	if !w.quiet {
		w.lines = append(w.lines, fmt.Sprintf(format, args...))
	}
}

// begin starts a scenario: zxids count from here.
func (w *world) begin() {
	w.quiet = true
	if w.ens != nil {
		w.beginEnsemble()
		return
	}
	probe := w.connect("probe")
	w.base = probe.lastZxid()
	probe.do(closeSession())
	probe.expectEnd()
	w.base++ // that close is a transaction, too
	w.sessions, w.conns, w.lines, w.resumptions, w.countsAll = map[int64]*session{}, nil, nil, nil, false
	w.quiet = false
}

// finish closes every session that the scenario left open, so that none expires
// in the middle of the next one.
func (w *world) finish() {
	w.quiet = true
	defer func() { w.quiet = false }()
	if w.ens != nil && !w.healEnsemble() {
		return
	}
	for _, c := range w.conns {
		c.close()
	}
	names := slices.SortedFunc(maps.Values(w.sessions), func(a, b *session) int { return strings.Compare(a.name, b.name) })
	for _, s := range names {
		if s.closed || !w.srv.alive() {
			continue
		}
		c := w.connectWith("closer", connectRequest{timeout: 10000, session: s.id, passwd: s.passwd, readOnly: new(bool)})
		c.do(closeSession())
		c.close()
	}
	w.cleanUp()
}

// cleanUp removes what the scenario left in the tree, as a superuser.
func (w *world) cleanUp() {
	if !w.srv.alive() {
		return
	}
	c := w.connect("cleaner")
	c.do(auth("digest", "super:secret"))
	for _, name := range c.list("/") {
		if name != "zookeeper" {
			c.removeAll("/" + name)
		}
	}
	c.do(closeSession())
	c.close()
}

// zxid renders a transaction id relative to the start of the scenario.
func (w *world) zxid(v int64) string {
	switch {
	case v <= 0:
		return fmt.Sprint(v)
	case v <= w.base:
		return "old"
	case w.loose:
		return "new"
	default:
		n := v - w.base
		for _, z := range w.resumptions {
			if z <= v {
				n--
			}
		}
		return fmt.Sprintf("z%d", n)
	}
}

// before returns the zxid that the transcript shows with a number smaller by n.
func (w *world) before(zxid int64, n int) int64 {
	for ; n > 0 || slices.Contains(w.resumptions, zxid); zxid-- {
		if !slices.Contains(w.resumptions, zxid) {
			n--
		}
	}
	return max(zxid, w.base)
}

// resumed notes the zxid of a resumption, the last transaction of the server.
func (w *world) resumed() {
	if w.srv.kind != zkd || w.countsAll {
		return
	}
	text, err := ask.Within(wordTimeout, w.addr, "srvr")
	_, rest, ok := strings.Cut(text, "\nZxid: 0x")
	hex, _, _ := strings.Cut(rest, "\n")
	z, errHex := strconv.ParseInt(hex, 16, 64)
	if err = errors.Join(err, errHex); err != nil || !ok {
		w.logf("srvr after a resumption: %v: %q", err, text)
		return
	}
	w.resumptions = append(w.resumptions, z)
}

func (w *world) sessionName(id int64) string {
	if id == 0 {
		return "0"
	}
	if s := w.sessions[id]; s != nil {
		return s.name
	}
	return "stranger"
}

func timeText(ms int64) string {
	if ms == 0 {
		return "0"
	}
	if age := time.Since(time.UnixMilli(ms)); age < -time.Hour || age > 24*time.Hour {
		return fmt.Sprintf("implausible(%d)", ms)
	}
	return "T"
}

func (w *world) stat(s stat) string {
	return fmt.Sprintf("stat{c=%s m=%s p=%s ct=%s mt=%s v=%d cv=%d av=%d owner=%s len=%d n=%d}",
		w.zxid(s.czxid), w.zxid(s.mzxid), w.zxid(s.pzxid), timeText(s.ctime), timeText(s.mtime),
		s.version, s.cversion, s.aversion, w.sessionName(s.owner), s.dataLength, s.numChildren)
}

// connectRequest is a connect record; readOnly nil leaves the byte out.
type connectRequest struct {
	protocol int32
	lastZxid int64
	timeout  int32
	session  int64
	passwd   []byte
	readOnly *bool
}

func (r connectRequest) encode() []byte {
	e := enc(nil).i32(r.protocol).i64(r.lastZxid).i32(r.timeout).i64(r.session).buf(r.passwd)
	if r.readOnly != nil {
		e = e.bool(*r.readOnly)
	}
	return e
}

// conn is one TCP connection of a scenario.
type conn struct {
	w       *world
	name    string
	nc      net.Conn
	r       *bufio.Reader
	xid     int32
	waiting []sent
	zxid    int64 // of the last reply
	gone    bool
	last    bool // the server has sent the last reply of this connection
	session *session
}

type sent struct {
	xid int32
	req request
}

// connect opens a new session.
func (w *world) connect(name string) *conn { return w.connectFor(name, timeout) }

// connectFor opens a new session with a timeout in ms.
func (w *world) connectFor(name string, timeout int32) *conn {
	return w.connectWith(name, connectRequest{timeout: timeout, passwd: make([]byte, 16), readOnly: new(bool)})
}

// connectWith sends a connect request and logs what comes back. The connection
// is gone when the server closes it or rejects the session.
func (w *world) connectWith(name string, req connectRequest) *conn {
	c := w.dial(name)
	c.write(frame(req.encode()))
	c.handshake()
	if req.session != 0 && !c.gone && c.session != nil && c.session.id == req.session {
		w.resumed()
	}
	if w.ens != nil && !w.local {
		w.syncAll() // a new session is a transaction
	}
	return c
}

// handshake reads the connect response.
func (c *conn) handshake() {
	if c.gone {
		return
	}
	payload, err := c.readFrame()
	if err != nil {
		c.end(" instead of a connect response", err)
		c.close()
		return
	}
	d := dec{b: payload}
	protocol, timeout, id, passwd := d.i32(), d.i32(), d.i64(), d.buf()
	known := c.w.sessions[id]
	if known == nil && id != 0 {
		known = &session{name: "S" + c.name, id: id, passwd: passwd}
		c.w.sessions[id] = known
	}
	c.session = known
	c.w.logf("%s connected: protocol=%d timeout=%d session=%s passwd=%s rest=%x short=%v",
		c.name, protocol, timeout, c.w.sessionName(id), passwdText(passwd, known), d.b, d.short)
	if id == 0 {
		if _, err := c.readFrame(); err != nil {
			c.end(" after a rejection", err)
		}
		c.close()
	}
}

func passwdText(passwd []byte, s *session) string {
	switch {
	case slices.Max(append([]byte{0}, passwd...)) == 0:
		return fmt.Sprintf("zeros(%d)", len(passwd))
	case s != nil && slices.Equal(passwd, s.passwd):
		return fmt.Sprintf("own(%d)", len(passwd))
	default:
		return fmt.Sprintf("other(%d)", len(passwd))
	}
}

// dial opens a connection and sends nothing.
func (w *world) dial(name string) *conn {
	nc, err := net.DialTimeout("tcp", w.addr, replyDeadline)
	if err != nil {
		w.logf("%s: closed instead of a connect response", name)
		return &conn{w: w, name: name, gone: true}
	}
	c := &conn{w: w, name: name, nc: nc, r: bufio.NewReader(nc)}
	w.conns = append(w.conns, c)
	return c
}

func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func (c *conn) write(b []byte) {
	if c.gone {
		return
	}
	c.nc.SetWriteDeadline(time.Now().Add(replyDeadline)) // the write tells
	c.nc.Write(b)                                        // the read that follows tells
}

func (c *conn) close() {
	c.gone = true
	if c.nc != nil {
		c.nc.Close()
	}
}

// readFrame returns the next frame's payload, waiting for at most the world's patience.
func (c *conn) readFrame() ([]byte, error) {
	if c.gone {
		return nil, net.ErrClosed
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(c.w.patience)); err != nil {
		return nil, err
	}
	var head [4]byte
	if n, err := io.ReadFull(c.r, head[:]); err != nil {
		if n > 0 {
			return nil, fmt.Errorf("part of a frame, %x: %w", head[:n], err)
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > 64<<20 {
		return nil, fmt.Errorf("frame of %d bytes", size)
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(c.r, payload)
	return payload, err
}

// end logs why there is nothing more to read. A time-out leaves the connection
// as it is; all else ends it.
func (c *conn) end(where string, err error) {
	var netErr net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		line := fmt.Sprintf("%s: silence%s", c.name, where)
		if c.w.quiet {
			c.w.hangs = append(c.w.hangs, line)
		} else {
			c.w.logf("%s", line)
		}
		c.waiting = nil
		return
	case errors.Is(err, io.ErrUnexpectedEOF), strings.HasPrefix(err.Error(), "part of"):
		c.w.logf("%s: broken frame%s: %v", c.name, where, err)
	default:
		c.w.logf("%s: closed%s", c.name, where)
	}
	c.waiting = nil
	c.close()
}

// send writes requests in one go, with consecutive xids.
func (c *conn) send(reqs ...request) {
	if c.gone {
		c.w.logf("%s: gone", c.name)
		return
	}
	var out []byte
	for _, r := range reqs {
		c.xid++
		xid := c.xid
		switch r.op {
		case opPing:
			xid = pingXid
		case opAuth:
			xid = authXid
		}
		out = append(out, c.queue(xid, r)...)
	}
	c.write(out)
}

// sendAs writes one request under a given xid.
func (c *conn) sendAs(xid int32, r request) {
	c.write(c.queue(xid, r))
}

func (c *conn) queue(xid int32, r request) []byte {
	c.w.logf("%s> %s", c.name, r)
	c.waiting = append(c.waiting, sent{xid, r})
	return frame(enc(nil).i32(xid).i32(r.op).raw(r.body...))
}

// drain reads until every request sent has its reply, and logs all that comes.
func (c *conn) drain() {
	mark := len(c.w.lines)
	defer func() {
		if c.w.unsorted {
			slices.Sort(c.w.lines[mark:])
		}
	}()
	for len(c.waiting) > 0 {
		payload, err := c.readFrame()
		if err != nil {
			c.end("", err)
			return
		}
		c.frame(payload)
	}
	if c.last {
		c.expectEnd()
	}
}

// do sends requests in one go, reads their replies, and then what they made the
// other connections hear.
func (c *conn) do(reqs ...request) {
	c.send(reqs...)
	c.drain()
	c.w.barrier()
}

// each does requests one at a time, where a pipeline's outcome would depend on
// how far the server has got with applying.
func (c *conn) each(reqs ...request) {
	for _, r := range reqs {
		c.do(r)
	}
}

// expectEnd waits for the server to close the connection.
func (c *conn) expectEnd() {
	for !c.gone {
		payload, err := c.readFrame()
		if err != nil {
			c.end("", err)
			return
		}
		c.frame(payload)
	}
}

// lastZxid asks for the server's last zxid with a ping.
func (c *conn) lastZxid() int64 {
	c.send(ping())
	c.drain()
	return c.zxid
}

// barrier pings every connection and reads up to the reply: all notifications
// of what was done before are in the transcript afterwards.
func (w *world) barrier() {
	if w.quiet {
		return
	}
	if w.ens != nil && !w.local {
		w.syncAll()
	}
	for _, c := range w.conns {
		if c.gone || c.session == nil || len(c.waiting) > 0 {
			continue
		}
		c.write(frame(enc(nil).i32(pingXid).i32(opPing)))
		mark := len(w.lines)
		for {
			payload, err := c.readFrame()
			if err != nil {
				c.end("", err)
				break
			}
			d := dec{b: payload}
			if d.i32() == pingXid {
				break
			}
			c.frame(payload)
		}
		if w.unsorted {
			slices.Sort(w.lines[mark:])
		}
	}
}

// frame logs one frame from the server.
func (c *conn) frame(payload []byte) {
	d := dec{b: payload}
	xid, zxid, code := d.i32(), d.i64(), d.i32()
	if d.short {
		c.w.logf("%s< short frame %x", c.name, payload)
		return
	}
	if xid == eventXid && (len(c.waiting) == 0 || c.waiting[0].xid != eventXid) {
		c.event(&d, zxid, code)
		return
	}
	if zxid > 0 {
		c.zxid = zxid
	}
	i := slices.IndexFunc(c.waiting, func(s sent) bool { return s.xid == xid || s.req.op == opPing && xid == pingXid })
	if i < 0 {
		c.w.logf("%s< a frame of %d bytes that answers nothing", c.name, len(payload))
		return
	}
	req := c.waiting[i].req
	order := ""
	if i > 0 {
		order = " OUT OF ORDER"
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	line := fmt.Sprintf("%s< %s zxid=%s err=%d%s", c.name, nameOfOp(req.op), c.w.zxid(zxid), code, order)
	if xid < 0 {
		line += fmt.Sprintf(" xid=%d", xid)
	}
	if code == 0 || req.op == opMultiRead && len(d.b) > 0 {
		line += c.w.body(req.op, &d)
	}
	if len(d.b) > 0 {
		line += fmt.Sprintf(" trailing=%x", d.b)
	}
	if d.short {
		line += " SHORT"
	}
	if req.op == opCloseSession && code == 0 && c.session != nil {
		c.session.closed, c.last = true, true
	}
	if code == codeAuthFailed || code == codeUnimplemented && zxid == -1 {
		c.last = true
	}
	c.w.logf("%s", line)
}

func (c *conn) event(d *dec, zxid int64, code int32) {
	typ, state, path := d.i32(), d.i32(), d.str()
	line := fmt.Sprintf("%s< event type=%d state=%d path=%q", c.name, typ, state, path)
	if code != 0 {
		line += fmt.Sprintf(" err=%d", code)
	}
	if c.w.events {
		line += " zxid=" + c.w.zxid(zxid)
	}
	if len(d.b) > 0 || d.short {
		line += fmt.Sprintf(" trailing=%x short=%v", d.b, d.short)
	}
	c.w.logf("%s", line)
}

// body renders the body of a successful reply.
func (w *world) body(op int32, d *dec) string {
	switch op {
	case opCreate, opSync:
		return fmt.Sprintf(" %q", d.str())
	case opCreate2, opCreateContainer, opCreateTTL:
		return fmt.Sprintf(" %q %s", d.str(), w.stat(d.stat()))
	case opExists, opSetData, opSetACL:
		return " " + w.stat(d.stat())
	case opGetData, opReconfig:
		return fmt.Sprintf(" %s %s", dataText(d.buf()), w.stat(d.stat()))
	case opGetACL:
		list := d.acls()
		if w.sortACL {
			slices.SortFunc(list, func(a, b acl) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		return fmt.Sprintf(" %s %s", aclText(list), w.stat(d.stat()))
	case opGetChildren, opGetEphemerals:
		return " " + sorted(d.strs())
	case opGetChildren2:
		return fmt.Sprintf(" %s %s", sorted(d.strs()), w.stat(d.stat()))
	case opGetAllChildrenNumber, opAddWatch:
		return fmt.Sprintf(" %d", d.i32())
	case opSASL:
		return " token=" + dataText(d.buf())
	case opWhoAmI:
		var ids []string
		for n := d.i32(); n > 0 && !d.short; n-- {
			ids = append(ids, d.str()+":"+d.str())
		}
		return " " + sorted(ids)
	case opMulti, opMultiRead:
		return w.multiBody(d)
	default:
		return ""
	}
}

// multiBody renders the results of a multi up to its end marker.
func (w *world) multiBody(d *dec) string {
	var parts []string
	for !d.short {
		typ, done, code := d.i32(), d.bool(), d.i32()
		part := fmt.Sprintf("%d,%v,%d", typ, done, code)
		if done || d.short {
			parts = append(parts, part)
			break
		}
		if typ == -1 {
			part += fmt.Sprintf(" err=%d", d.i32())
		} else {
			part += w.body(typ, d)
		}
		parts = append(parts, part)
	}
	return " [" + strings.Join(parts, " | ") + "]"
}

func sorted(list []string) string {
	slices.Sort(list)
	return fmt.Sprintf("%q", list)
}

// tree logs the whole tree below path as the connection sees it: data, stat,
// ACL and children of each node.
func (c *conn) tree(path string) {
	c.do(get(path), byPath(opGetACL, path), children(path))
	for _, name := range c.list(path) {
		c.tree(strings.TrimSuffix(path, "/") + "/" + name)
	}
}

// list returns the sorted children of a node, without a trace in the transcript.
func (c *conn) list(path string) []string {
	if c.gone {
		return nil
	}
	c.write(frame(enc(nil).i32(math.MaxInt32).i32(opGetChildren).raw(read(opGetChildren, path, false).body...)))
	for {
		payload, err := c.readFrame()
		if err != nil {
			c.end("", err)
			return nil
		}
		d := dec{b: payload}
		if d.i32() != math.MaxInt32 {
			c.frame(payload)
			continue
		}
		d.take(12)
		names := d.strs()
		slices.Sort(names)
		return names
	}
}
