package clients

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/past"
	"github.com/zkd-project/zkd/server/state"
)

const (
	lookWorks  = 2 * time.Minute        // for how long a state or changes may be looked for
	lookIdle   = 15 * time.Second       // after which a look ends whose client does not ask for more
	lookLasts  = 10 * time.Minute       // after which each look ends
	lookWaits  = 500 * time.Millisecond // for how long a request waits for what it asks for, and all after it on the connection
	mostSteps  = 10_000                 // changes of one look
	usualSteps = 500
	longPrefix = 64 // of the parts of a node or of a change that are no path, data or ACL
)

// looks has the look at the past that a client has under way. A server has one at a time, of all doors: see past.Past.Begin.
// A goroutine finds what was asked for; the client's requests wait for that only a while, and then take it in pages.
type looks struct {
	past    func() *past.Past
	authors func() map[jute.Zxid]audit.Author // of transactions; may be nil
	state   *state.State
	schemes *auth.Schemes
	running *sync.WaitGroup

	mu struct {
		sync.Mutex
		last int64 // the number of the last look
		now  *look // nil for none
	}
}

// look is one that is under way. The lock of looks guards it, except for found until done is closed: then the goroutine has it.
type look struct {
	number    int64
	owner     *conn
	request   jute.PastRequest
	ids       []jute.ID // of the client, by its last request
	reader    past.Reader
	begun     time.Time
	asked     time.Time // the last time
	cancel    context.CancelFunc
	done      chan struct{} // closed when there is something to take
	release   func()        // gives the turn back
	ended     bool
	found     found
	nextNode  func() (treediff.Node, error, bool)
	stopNodes func()
	ahead     *jute.SubtreeNode          // had no room in the last page
	named     bool                       // the client may know the users and addresses of others
	authors   map[jute.Zxid]audit.Author // of the last transactions
}

// found is what a look has found.
type found struct {
	err     error
	state   *history.Former
	from    string
	changes *past.Changes
}

// serve answers a request of c for the past. Unlike reads it is not served under the tree's lock: the requests before it are answered
// first, and what it asks for is made meanwhile.
func (s *looks) serve(c *conn, req *line.Request) error {
	if err := c.awaitAnswers(); err != nil {
		return err
	}
	resp, err := s.take(c, req)
	if _, ok := errors.AsType[jute.Code](err); err != nil && !ok {
		return err
	}
	applied := s.state.Applied()
	c.line.Lock()
	defer c.line.Unlock()
	if err == nil && resp.Code != 0 {
		err = resp.Code
	}
	c.shared.lines.Server.Served(&c.line.Line, req, err)
	req.Code = codeOf(err)
	c.stats.answered(req, applied)
	if resp == nil {
		c.line.ReplyCode(req.Xid, applied, req.Code)
		return nil
	}
	c.line.Outbox.Finish(resp.Append(c.line.Reply(req.Xid, applied, 0)))
	return nil
}

// take returns what was found of what a request asks for. It waits for a while.
func (s *looks) take(c *conn, req *line.Request) (*jute.PastResponse, error) {
	var r jute.PastRequest
	d := jute.NewDecoder(req.Body)
	r.Decode(&d)
	if d.Err() != nil {
		return nil, jute.ErrMarshalling
	}
	if s.past == nil {
		return nil, jute.ErrUnimplemented
	}
	l, err := s.lookOf(c, req, &r)
	if l == nil || err != nil {
		return refused(err), nil
	}
	if err := c.socket.awaitFor(l.done, lookWaits); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.ended:
		return refused(errLookEnded), nil
	case !isClosed(l.done):
		return &jute.PastResponse{Look: l.number}, nil
	}
	l.asked = time.Now()
	limits := c.shared.lines.Server.Limits()
	out := l.take(limits.Page, limits.PageNodes)
	if out.Look == 0 {
		s.endLocked(l)
	}
	return out, nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// lookError is an error that clients are told by a code and a text.
type lookError struct {
	code jute.Code
	text string
}

func (e *lookError) Error() string { return e.text }

var errLookEnded = &lookError{jute.ErrOperationTimeout, "the look at the past has ended: it was too slow, or it is another's; begin again"}

// refused is the response with an error; without one it says that a look has ended.
func refused(err error) *jute.PastResponse {
	out := new(jute.PastResponse)
	if err == nil {
		return out
	}
	out.Text = err.Error()
	var own *lookError
	var unknown *past.UnknownError
	var large *history.TooLargeError
	switch {
	case errors.As(err, &own):
		out.Code = own.code
	case errors.As(err, &unknown):
		out.Code = jute.ErrBadArguments
	case errors.As(err, &large):
		out.Code = jute.ErrQuotaExceeded
	case errors.Is(err, past.ErrBusy), errors.Is(err, past.ErrShort):
		out.Code = jute.ErrThrottledOp
	case errors.Is(err, context.DeadlineExceeded):
		out.Code, out.Text = jute.ErrOperationTimeout, fmt.Sprintf("it takes longer than %v", lookWorks)
	default:
		out.Code = jute.ErrSystemError
	}
	return out
}

// lookOf returns the look that a request is about, which it begins if need be; nil if it ends it.
func (s *looks) lookOf(c *conn, req *line.Request, r *jute.PastRequest) (*look, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.mu.now; r.Look != 0 {
		switch {
		case l == nil || l.number != r.Look || l.owner != c:
			return nil, errLookEnded
		case r.Show == jute.ShowNames:
			s.endLocked(l)
			return nil, nil
		}
		l.ids, l.asked = req.Auth, time.Now()
		return l, nil
	}
	if err := valid(r); err != nil {
		return nil, err
	}
	if s.mu.now != nil && s.mu.now.owner == c {
		s.endLocked(s.mu.now) // its client has another wish
	}
	p := s.past()
	release, err := p.Begin()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookWorks)
	s.mu.last++
	l := &look{number: s.mu.last, owner: c, request: *r, ids: req.Auth, begun: time.Now(), asked: time.Now(), cancel: cancel, done: make(chan struct{}), release: release}
	l.reader = past.Reader{State: s.state, Allowed: func(acl []jute.ACL, perm jute.Perms) bool { return s.schemes.Allowed(acl, perm, l.ids) }}
	if l.named = r.Show >= jute.ShowChanges && s.mayOperate(l.ids); l.named && s.authors != nil {
		l.authors = s.authors()
	}
	s.mu.now = l
	ids := req.Auth // the reader may have another request by then
	s.running.Go(func() { s.find(ctx, p, l, ids) })
	return l, nil
}

// valid checks a request that begins.
func valid(r *jute.PastRequest) error {
	if err := jute.ValidatePath(r.Path); err != nil {
		return &lookError{jute.ErrBadArguments, err.Error()}
	}
	bad := func(text string) error { return &lookError{jute.ErrBadArguments, text} }
	switch {
	case r.Show < jute.ShowStats || r.Show > jute.ShowChangedData, r.Limit < 0, r.Zxid < 0:
		return bad("the request is not known here")
	case r.Path == "/zookeeper" || treediff.Below(r.Path, "/zookeeper"):
		return bad("/zookeeper belongs to the servers: its past is not kept")
	case r.Show < jute.ShowChanges && r.Zxid == 0 && r.Time == 0:
		return bad("say which moment")
	}
	return nil
}

// mayOperate reports whether somebody may know who the clients are: those who may change the members.
func (s *looks) mayOperate(ids []jute.ID) bool {
	s.state.RLock()
	defer s.state.RUnlock()
	config, ok := s.state.Tree.Get(datatree.ConfigPath)
	return ok && s.schemes.Allowed(config.ACL, jute.PermWrite, ids)
}

// find looks for what was asked for. The goroutine that calls it ends with it.
func (s *looks) find(ctx context.Context, p *past.Past, l *look, ids []jute.ID) {
	var f found
	if r := &l.request; r.Show < jute.ShowChanges {
		at := history.Moment{Zxid: r.Zxid}
		switch {
		case r.Zxid != 0:
		case r.Time < 0:
			at.Time = time.UnixMilli(max(1, p.Now().UnixMilli()+max(r.Time, -maxAgo)))
		default:
			at.Time = time.UnixMilli(r.Time)
		}
		levels := 1
		if r.Below {
			levels = 0
		}
		f.state, f.from, f.err = p.At(ctx, history.Part{Root: r.Path, Levels: levels}, at)
	} else {
		most := usualSteps
		if r.Limit > 0 {
			most = min(int(r.Limit), mostSteps)
		}
		reader := past.Reader{State: s.state, Allowed: func(acl []jute.ACL, perm jute.Perms) bool { return s.schemes.Allowed(acl, perm, ids) }}
		f.changes, f.err = p.Changes(ctx, r.Path, r.Below, r.Zxid, most, reader.Sees)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.found = f
	close(l.done)
	if l.ended {
		l.release()
	}
}

// maxAgo is 100 years, in ms.
const maxAgo = 100 * 365 * 24 * 3600 * 1000

func (s *looks) endLocked(l *look) {
	if l.ended {
		return
	}
	l.ended = true
	l.cancel()
	if l.stopNodes != nil {
		l.stopNodes()
	}
	if isClosed(l.done) {
		l.release() // else its goroutine does
	}
	s.mu.now = nil
}

// drop ends the look of a connection that has ended.
func (s *looks) drop(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.mu.now; l != nil && l.owner == c {
		s.endLocked(l)
	}
}

// tick ends a look that lasts too long.
func (s *looks) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, now := s.mu.now, time.Now()
	if l == nil {
		return
	}
	idle := isClosed(l.done) && now.Sub(l.asked) > lookIdle
	if idle || now.Sub(l.begun) > lookLasts {
		s.endLocked(l)
	}
}

// take returns the next page of what was found. The lock is held.
func (l *look) take(room, most int) *jute.PastResponse {
	f := &l.found
	if f.err != nil {
		return refused(f.err)
	}
	out := new(jute.PastResponse)
	if f.changes != nil {
		out.Zxid, out.More = f.changes.After, f.changes.More
		l.takeChanges(out, room, most)
		return out
	}
	out.Zxid, out.From = f.state.At, f.from
	if ms := f.state.Last.UnixMilli(); ms > 0 {
		out.Time = ms
	}
	if l.nextNode == nil {
		l.nextNode, l.stopNodes = iter.Pull2(l.reader.Visible(f.state))
	}
	for bytes := 0; len(out.Nodes) < most; {
		n := l.node()
		if n == nil {
			return out
		}
		size := longPrefix + jute.StatLen + len(n.Name) + len(n.Data)
		for i := range n.ACL {
			size += 12 + len(n.ACL[i].ID.Scheme) + len(n.ACL[i].ID.ID)
		}
		if bytes += size; bytes > room && len(out.Nodes) > 0 {
			l.ahead = n
			break
		}
		out.Nodes = append(out.Nodes, *n)
	}
	out.Look = l.number
	return out
}

// node returns the next node as it is shown, nil at the end. A state in memory has no errors.
func (l *look) node() *jute.SubtreeNode {
	if n := l.ahead; n != nil {
		l.ahead = nil
		return n
	}
	n, err, ok := l.nextNode()
	if !ok || err != nil {
		return nil
	}
	out := &jute.SubtreeNode{PageChild: jute.PageChild{Name: strings.TrimSuffix(n.Path, "/"), Stat: n.Stat}}
	switch {
	case n.Hidden:
		out.Err = jute.ErrNoAuth
	case l.request.Show == jute.ShowACLs:
		out.Data, out.ACL = n.Data, l.reader.Shown(n.ACL)
	case l.request.Show == jute.ShowData:
		out.Data = n.Data
	}
	return out
}

// takeChanges takes changes for a page. They are shown if they may be seen by now.
func (l *look) takeChanges(out *jute.PastResponse, room, most int) {
	list, bytes := l.found.changes.List, 0
	for len(list) > 0 && len(out.Changes) < most {
		if l.reader.Sees(list[0]) {
			c := l.change(list[0])
			size := longPrefix + jute.StatLen + len(c.Name) + len(c.Before) + len(c.After) + len(c.User) + len(c.Address)
			if bytes += size; bytes > room && len(out.Changes) > 0 {
				break
			}
			out.Changes = append(out.Changes, c)
		}
		list = list[1:]
	}
	if l.found.changes.List = list; len(list) > 0 {
		out.Look = l.number
	}
}

// change returns a change as it is shown.
func (l *look) change(s *history.Step) jute.PastChange {
	c := jute.PastChange{Zxid: s.Zxid, Time: s.Time.UnixMilli(), Session: s.Session, Xid: s.Xid, Of: int32(s.Of), Op: s.Op, Was: -1,
		Name: strings.TrimPrefix(s.Path, strings.TrimSuffix(l.request.Path, "/"))}
	if s.Existed {
		c.Was = int32(len(s.Before))
	}
	if s.Op != "delete" && s.Op != "expire" {
		c.Stat = s.Stat
	}
	if l.request.Show == jute.ShowChangedData && s.Op != "setACL" {
		c.Before, c.After = s.Before, s.After
	}
	if l.named && s.Session != 0 {
		by, ok := l.authors[s.Zxid]
		if !ok {
			by = l.owner.shared.authorOf(s.Session)
		}
		c.User, c.Address = by.User, by.IP
	}
	return c
}

// authorOf returns the author of a session that is connected to this server.
func (s *shared) authorOf(id jute.SessionID) audit.Author {
	c := connOf(s.register.OfSession(id))
	if c == nil {
		return audit.Author{}
	}
	return audit.Author{User: c.identity.name(), IP: c.identity.ip()}
}
