package cluster

import (
	"fmt"
	"math"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// outcome is what a client knows of one of its requests.
type outcome uint8

const (
	unknown outcome = iota // no reply came: it may happen at any later time, or never
	done
	refused // the reply has a code
)

func (o outcome) String() string { return [...]string{"unknown", "done", "refused"}[o] }

// forever is the time of a return that did not come.
const forever = math.MaxInt64

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

// op is a request and what came of it. Times are in ns since the history began.
type op struct {
	client  int
	conn    *connLog
	session jute.SessionID
	code    jute.OpCode
	path    string
	data    string // ends with a tag that no other op has; see tagOf
	version int32  // expected; -1 is any
	mode    jute.CreateMode
	watch   bool
	subs    []*op // of a multi

	call, ret int64 // forever if no reply came
	sync      *op   // of a read: the one that was sent right before it, on the same connection
	state     outcome
	err       jute.Code // of the reply, or of the first operation that failed in a multi
	zxid      jute.Zxid // of the reply's header; of an unknown op that was seen to have happened, its own

	got      string    // data read
	stat     jute.Stat // in the reply
	names    []string  // children read
	made     string    // path created
	unlogged bool      // refused without a transaction: see history.lack
}

func (o *op) String() string {
	s := fmt.Sprintf("client %d: %v %s", o.client, o.code, o.path)
	for _, sub := range o.subs {
		s += fmt.Sprintf("[%v %s %q v%d]", sub.code, sub.path, tagOf(sub.data), sub.version)
	}
	s += fmt.Sprintf(" %q v%d session %v server %d: %v", tagOf(o.data), o.version, o.session, o.server(), o.state)
	if o.err != 0 {
		s += fmt.Sprintf(" (%v)", o.err)
	}
	s += fmt.Sprintf(" at %v, called %.6f s", o.zxid, float64(o.call)/1e9)
	if o.ret != forever {
		s += fmt.Sprintf(", returned %.6f s", float64(o.ret)/1e9)
	}
	if o.state == done && !o.write() {
		s += fmt.Sprintf(", read %q v%d m%v", tagOf(o.got), o.stat.Version, o.stat.Mzxid)
	}
	return s
}

func (o *op) server() int {
	if o.conn == nil {
		return 0
	}
	return o.conn.server
}

// write reports whether the op is a transaction.
func (o *op) write() bool { return o.code.Write() }

// read reports whether the op shows the state of one node.
func (o *op) read() bool {
	return o.code == jute.OpGetData || o.code == jute.OpExists || o.code == jute.OpGetChildren2
}

// since returns when the sync was sent that a read follows, or 0 if the read may
// be late: there is none, or it failed.
func (o *op) since() int64 {
	if o.sync == nil || o.sync.state != done {
		return 0
	}
	return o.sync.call
}

// turnedAway reports whether the request was refused without a transaction: its session
// has ended or moved, or disks are full.
func (o *op) turnedAway() bool {
	return o.unlogged || o.state == refused && (o.err == jute.ErrNotReadOnly || o.err == jute.ErrSessionExpired || o.err == jute.ErrSessionMoved)
}

// parts returns the operations of a multi, or the op itself.
func (o *op) parts() []*op {
	if o.code == jute.OpMulti {
		return o.subs
	}
	return []*op{o}
}

// create reports whether the op makes a node.
func (o *op) create() bool { return o.code == jute.OpCreate || o.code == jute.OpCreate2 }

// tagOf returns the part of a node's data that names the op which wrote it.
func tagOf(data string) string { return data[strings.LastIndexByte(data, ',')+1:] }

// request returns the body of the op's request.
func (o *op) request() process.Record {
	switch o.code {
	case jute.OpCreate2:
		return &jute.CreateRequest{Path: o.path, Data: []byte(o.data), ACL: openACL, Mode: o.mode}
	case jute.OpSetData:
		return &jute.SetDataRequest{Path: o.path, Data: []byte(o.data), Version: o.version}
	case jute.OpDelete:
		return &jute.DeleteRequest{Path: o.path, Version: o.version}
	case jute.OpSync:
		return &jute.SyncRequest{Path: o.path}
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren2:
		return &jute.PathWatchRequest{Path: o.path, Watch: o.watch}
	case jute.OpMulti:
		m := &jute.MultiRequest{}
		for _, s := range o.subs {
			m.Ops = append(m.Ops, jute.MultiOp{Type: s.code, Path: s.path, Data: []byte(s.data), ACL: openACL, Mode: s.mode, Version: s.version})
		}
		return m
	case jute.OpCloseSession, jute.OpPing:
		return nil
	}
	panic("no request for " + o.code.String())
}

// answer takes a reply into the op.
func (o *op) answer(h jute.ReplyHeader, body []byte) error {
	o.zxid, o.err, o.state = h.Zxid, h.Err, done
	if h.Err != 0 {
		o.state = refused
		if o.turnedAway() {
			o.zxid = 0
		}
		for _, sub := range o.subs {
			sub.state = refused
		}
		return nil
	}
	d := jute.NewDecoder(body)
	switch o.code {
	case jute.OpCreate2:
		o.made = d.String()
		o.stat.Decode(&d)
	case jute.OpSetData, jute.OpExists:
		o.stat.Decode(&d)
	case jute.OpGetData:
		o.got = string(d.Buffer())
		o.stat.Decode(&d)
	case jute.OpGetChildren2:
		o.names = d.Strings()
		o.stat.Decode(&d)
	case jute.OpMulti:
		return o.answerMulti(&d)
	}
	return d.Err()
}

func (o *op) answerMulti(d *jute.Decoder) error {
	var m jute.MultiResponse
	m.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	if len(m.Results) != len(o.subs) {
		return fmt.Errorf("%d results for %d operations", len(m.Results), len(o.subs))
	}
	for i, r := range m.Results {
		sub := o.subs[i]
		sub.state, sub.made, sub.stat = done, r.Path, r.Stat
		if r.Type == jute.OpError && r.Err != 0 && r.Err != jute.ErrRuntimeInconsistency {
			o.err, o.state = r.Err, refused
		} else if r.Type != jute.OpError && r.Type != sub.code {
			return fmt.Errorf("result of a %v is a %v", sub.code, r.Type)
		}
	}
	if o.state == refused {
		for _, sub := range o.subs {
			sub.state = refused
		}
	}
	return nil
}

// frameKind says what a server sent.
type frameKind uint8

const (
	aReply frameKind = iota
	anEvent
	aRegistration // the reply to setWatches: watches taken over from the connection before
)

// frame is something that a server sent.
type frame struct {
	kind  frameKind
	zxid  jute.Zxid // of the header; of events 0 or less if the server does not tell
	op    *op       // aReply
	event jute.EventType
	path  string  // of the event
	taken []watch // aRegistration
}

func (f frame) String() string {
	switch f.kind {
	case anEvent:
		return fmt.Sprintf("\n\t%v %v of %s", f.zxid, f.event, f.path)
	case aRegistration:
		return fmt.Sprintf("\n\t%v setWatches %v", f.zxid, f.taken)
	}
	return fmt.Sprintf("\n\t%v %v", f.zxid, f.op)
}

// watchKind says which changes a watch waits for.
type watchKind uint8

const (
	onData  watchKind = iota // of a node that was there
	onExist                  // of a node that was not there
	onChild
)

// watch is one that a client has set, by a read that showed the state at since.
type watch struct {
	kind  watchKind
	path  string
	since jute.Zxid
}

func (w watch) String() string {
	return fmt.Sprintf("%s of %s since %v", [...]string{"data", "exist", "child"}[w.kind], w.path, w.since)
}

// connLog is all that came over one connection, in order.
type connLog struct {
	client  int
	server  int // id
	session jute.SessionID
	seen    jute.Zxid // what the client had seen before
	call    int64     // when the connect request was sent
	frames  []frame
}

// life is a session as its client sees it.
type life struct {
	id      jute.SessionID
	timeout int64 // ns
	begun   int64 // when the session was asked for
	// touched is when the last request was sent that has been answered;
	// written likewise for those that went to the leader.
	touched, written int64
	closed           jute.Zxid // of the answer to closeSession; 0 if there was none
	closing          bool      // a close was sent
	expired          int64     // when a server said that the session is gone; 0: never
	abandoned        bool      // the client does not come back: it may expire
}

// over reports whether the session may have ended.
func (l *life) over() bool { return l.closing || l.expired != 0 || l.abandoned }
