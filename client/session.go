package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
)

// session is shared by all views of a client. While it is not connected, a goroutine (run) connects it.
// The goroutines of the current link write what calls append to out, and pass replies to the
// calls in the order of the requests.
//
// Lock order: mu, then the lock of a Future, a stream or the callbacks.
type session struct {
	opts  *Options // with the defaults; relays share them
	asks  asks
	root  string // of the connect string; stripped from the paths that Options.Watcher and Trace get
	hosts *hosts // owned by run

	aborted atomic.Bool // the session must end at once
	// background are the goroutines for work that calls leave unfinished: see inBackground.
	background sync.WaitGroup
	opsOnce    sync.Once
	ops        *table // made by table
	queueOnce  sync.Once
	queue      *callbacks   // made by later
	stateNow   atomic.Int32 // state, for readers without the lock

	mu        sync.Mutex
	state     State
	changed   chan struct{}              // closed on the next change of state, nil while nobody waits for one
	finished  chan struct{}              // closed when the session is over, nil while nobody waits for that
	concluded bool                       // it is
	cancels   []*context.CancelCauseFunc // of the contexts of until
	closing   bool
	id        jute.SessionID
	password  []byte
	timeout   time.Duration // as negotiated; before that, as requested
	writable  bool          // a server with a quorum knows the session
	lastZxid  Zxid
	heard     time.Time // when the newest request that has been answered was sent
	kept      time.Time // the same, of requests to servers with a quorum, which extend the session
	failures  []*ServerError

	relay *Relay // that the session belongs to, or nil
	conn  *link  // nil while there is none
	// calls are the calls without a reply, in the order of their requests.
	calls  fifo.List[*call]
	seq    uint64 // of the last call
	queued uint64 // of the last call whose request is in out
	sent   uint64 // of the last call passed to the socket
	// owed are the calls of earlier connections that are decided, and whose callers do not know it: what watches
	// have missed comes first.
	owed []settledCall
	// out holds the requests to be written. The requests of calls that wait for a connection,
	// or for its first answer, are in the calls' frames, which have waiting bytes. room is
	// signalled when either shrinks.
	out     []byte
	waiting int
	room    sync.Cond
	// enc and mark are the request being encoded between begin and end, while mu is held.
	enc  []byte
	mark int

	// exact means that the connection, or the last one, has been granted exactly-once; window has the
	// writes that it carries.
	exact  bool
	window exact.Window

	auths     []*authEntry
	watches   watches
	feeds     map[int32]*subscription // by their numbers, nil until there is one
	feedID    int32                   // the last one
	listeners []*listener
}

// maxOut is the number of bytes that may wait to be written before calls block.
const maxOut = 16 << 20

// firstBatch is the number of waiting bytes that are written before the first answer on a new
// connection. If the connection breaks, the outcome of all written requests is unknown.
const firstBatch = 64 << 10

// asks are those of the Options that each Relay has for itself.
type asks struct {
	timeout          time.Duration
	readOnly, insist bool
	user             *string
}

func newSession(list []string, o *Options) *session {
	s := &session{
		opts: o, asks: asks{o.Timeout, o.AllowReadOnly, o.Insist, o.User}, hosts: newHosts(list, o.Fixed, o.Rand), timeout: o.Timeout,
	}
	s.room.L = &s.mu
	return s
}

// has makes a session that has not begun continue an existing one, if there is a key.
func (s *session) has(key SessionKey) {
	if key.ID != 0 {
		s.id, s.password, s.writable, s.heard = key.ID, slices.Clone(key.Password), true, time.Now()
		s.kept = s.heard
	}
}

// is adds identities to a session that has not begun.
func (s *session) is(auth []Auth) {
	for _, a := range auth {
		s.auths = append(s.auths, &authEntry{Auth: Auth{Scheme: a.Scheme, Data: slices.Clone(a.Data)}})
	}
}

func (s *session) start() { go s.run() }

// until returns a context that ends when the session must end at once. An idle session has none.
func (s *session) until() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted.Load() {
		cancel(errAbort)
	} else {
		s.cancels = append(s.cancels, &cancel)
	}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancels = slices.DeleteFunc(s.cancels, func(c *context.CancelCauseFunc) bool { return c == &cancel })
		cancel(nil)
	}
}

// awaitAbort waits until the session must end at once.
func (s *session) awaitAbort() {
	ctx, release := s.until()
	defer release()
	<-ctx.Done()
}

// done returns a channel that is closed when the session is over.
func (s *session) done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished == nil {
		s.finished = make(chan struct{})
		if s.concluded {
			close(s.finished)
		}
	}
	return s.finished
}

// table returns the operations. They are made for the first one: a Relay has none.
func (s *session) table() *table {
	s.opsOnce.Do(func() { s.ops = newTable() })
	return s.ops
}

// later runs a callback. A Relay has none.
func (s *session) later(cb callback) {
	s.queueOnce.Do(func() { s.queue = &callbacks{log: s.opts.Logger, slow: s.opts.SlowCallback} })
	s.queue.push(cb)
}

func (s *session) log(level slog.Level, msg string, args ...any) {
	s.opts.Logger.Log(context.Background(), level, msg, args...)
}

// --- Calls

// begin gives the call its place in the order and opens its request. If it returns true, it
// holds mu until end.
func (s *session) begin(k *call) bool {
	s.mu.Lock()
	if s.fullLocked() {
		s.waitForRoomLocked(k)
	}
	if err := s.refusalLocked(k); err != nil {
		s.mu.Unlock()
		s.fail(k, err, nil, false)
		return false
	}
	if s.opts.Trace.Request != nil {
		k.issued = time.Now()
	}
	s.openLocked(k)
	return true
}

// fullLocked reports whether the limit of bytes to be written is reached, or that of a relay's requests.
func (s *session) fullLocked() bool {
	full := len(s.out)+s.waiting > maxOut || s.relay != nil && (s.relay.asked.Len() >= maxAsked || s.relay.proving >= maxProofs)
	return full && s.overLocked() == nil
}

// waitForRoomLocked waits until there is room, the session has ended, or the caller of k has
// stopped waiting.
func (s *session) waitForRoomLocked(k *call) {
	if k.ctx != nil {
		defer context.AfterFunc(k.ctx, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.room.Broadcast()
		})()
	}
	for s.fullLocked() && !k.left() {
		s.room.Wait()
	}
}

// left reports whether the caller has stopped waiting before the call was issued.
func (k *call) left() bool { return k.ctx != nil && k.ctx.Err() != nil }

// refusalLocked returns the reason why the call can't be issued, or nil.
func (s *session) refusalLocked(k *call) error {
	if k.left() {
		return context.Cause(k.ctx)
	}
	if err := s.overLocked(); err != nil {
		return err
	}
	if k.bound != 0 && (k.bound != s.id || s.state == StateExpired) {
		return ErrSessionExpired
	}
	return nil
}

// overLocked returns the reason why no operation can be issued any more, or nil.
func (s *session) overLocked() error {
	switch {
	case s.closing || s.state == StateClosed:
		return ErrClosed
	case s.state == StateAuthFailed:
		return ErrAuthFailed
	case s.state == StateExpired && !s.opts.RenewSession:
		return ErrSessionExpired
	}
	return nil
}

func (s *session) openLocked(k *call) {
	s.seq++
	k.seq = s.seq
	var b []byte // a separate buffer if the call has to wait
	if !s.holdsLocked() {
		b = s.out
	}
	b, s.mark = jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: xidOf(k.seq), Type: k.op}
	s.enc = h.Append(b)
}

// holdsLocked reports whether calls must wait for a connection or for earlier calls.
func (s *session) holdsLocked() bool {
	return s.conn == nil || s.waiting > 0 || s.relay != nil && s.relay.rules.Holds()
}

// xidOf returns the xid of a call: 1 to 2^31-1, then 1 again. It is 0 for a call that got no
// place in the order.
func xidOf(seq uint64) int32 {
	if seq == 0 {
		return 0
	}
	return int32((seq-1)%(1<<31-1)) + 1
}

// end completes the request: b is enc with the body. It releases mu.
func (s *session) end(k *call, b []byte) {
	b = jute.EndFrame(b, s.mark)
	s.enc = nil
	if size := len(b) - s.mark - 4 + s.extraBytes(k.op); size > s.opts.MaxRequest {
		s.undoLocked(k)
		if k.watch != nil {
			s.watches.remove(k.watch)
		}
		s.mu.Unlock()
		s.fail(k, ErrBadArguments, fmt.Errorf("the request has %d bytes, the limit is %d: Options.MaxRequest, the servers' jute.maxbuffer",
			size, s.opts.MaxRequest), false)
		return
	}
	s.calls.Push(k)
	holds := s.holdsLocked()
	if !holds && !s.fitsLocked(k, len(b)-s.mark) {
		b, holds = slices.Clone(b[s.mark:]), true
	}
	if holds {
		k.frame = b
		s.waiting += len(b)
		s.mu.Unlock()
		return
	}
	s.out, s.queued = s.sendLocked(b, s.mark, k), k.seq
	s.conn.flushLocked()
	s.mu.Unlock()
}

// undo removes a call between begin and end. It releases mu.
func (s *session) undo(k *call) {
	s.enc = nil
	s.undoLocked(k)
	s.mu.Unlock()
}

// undoLocked takes the last call's place in the order away.
func (s *session) undoLocked(k *call) {
	s.seq--
	k.seq = 0
}

// leave is called when the caller of k stops waiting because of err. With drop, a call that
// waits for a connection is removed.
func (s *session) leave(k *call, err error, drop bool) error {
	s.mu.Lock()
	e := &Error{Op: k.op, Path: k.path, Err: err}
	waits, dropped := k.frame != nil, false
	if waits {
		e.Cause = s.connectErrorLocked(ErrConnectionLoss)
	}
	if drop && waits {
		if dropped = fifo.Remove(&s.calls, k); dropped {
			s.waiting -= len(k.frame)
		}
		if k.watch != nil {
			s.watches.remove(k.watch)
		}
		e.Ambiguous = k.again && isChange(k.op)
	} else {
		e.Ambiguous = isChange(k.op)
	}
	s.mu.Unlock()
	if dropped {
		s.trace(k, 0, e)
	}
	return e
}

// trace reports the outcome of a call to the user's hook.
func (s *session) trace(k *call, zxid Zxid, err error) {
	if t := s.opts.Trace.Request; t != nil && !k.issued.IsZero() {
		ctx := k.ctx
		if ctx == nil {
			ctx = context.Background()
		}
		s.mu.Lock()
		id := s.id
		s.mu.Unlock()
		t(ctx, TracedRequest{
			Op: k.op, Path: k.path, Began: k.issued, Took: time.Since(k.issued), Session: id, Xid: xidOf(k.seq), Zxid: zxid, Err: err,
		})
	}
}

// isChange reports whether an operation changes anything, so that an unknown outcome matters.
func isChange(op jute.OpCode) bool { return op.Write() || op == jute.OpCloseSession }

// fail ends a call without a reply.
func (s *session) fail(k *call, err, cause error, sent bool) {
	s.finish(k, 0, &Error{Op: k.op, Path: k.path, Err: err, Cause: cause, Ambiguous: sent && isChange(k.op)})
}

// finish makes a call's result known. The call is not touched afterwards.
func (s *session) finish(k *call, zxid Zxid, err error) {
	s.trace(k, zxid, err)
	r, op, path, w, calls := k.result, k.op, k.path, k.watch, k.result.hasCallback()
	if abandoned := r.finish(err); abandoned && w != nil {
		s.mu.Lock()
		s.watches.remove(w)
		s.mu.Unlock()
		if err == nil { // the server may have done it, and no caller would learn of it
			s.inBackground(func(ctx context.Context) { w.forget(ctx) })
		}
	}
	if calls {
		s.later(callback{result: r, op: op.String(), path: path})
	}
}

// takeCallsLocked removes all calls, for failTaken. Unless the session has ended, calls that
// wait stay, and so do AddAuths, which are sent on the next connection.
func (s *session) takeCallsLocked(over bool) (calls []*call, sent uint64) {
	for _, k := range s.calls.TakeAll() {
		if k.frame != nil && !over {
			s.calls.Push(k)
			continue
		}
		s.waiting -= len(k.frame)
		if k.watch != nil {
			s.watches.remove(k.watch)
		}
		calls = append(calls, k)
	}
	for _, a := range s.auths {
		a.sent, a.known = false, false
		if over {
			calls = append(calls, a.waiting...)
			a.waiting = nil
		}
	}
	s.out = s.out[:0]
	s.room.Broadcast()
	return calls, s.sent
}

// failTaken fails calls because the connection or the session has ended.
func (s *session) failTaken(calls []*call, sent uint64, err, cause error) {
	for _, k := range calls {
		err := err
		if k.op == jute.OpCloseSession {
			err = ErrConnectionLoss // for these calls it only means that the connection ended
		}
		s.fail(k, err, cause, k.again || k.frame == nil && k.seq <= sent)
	}
}

// --- Close

// errAbort ends run without a closeSession request.
var errAbort = errors.New("client is closed")

// abort ends the session in the client; at the servers it expires.
func (s *session) abort() {
	s.endNow()
	s.wait()
}

func (s *session) endNow() {
	s.mu.Lock()
	s.closing = true
	s.aborted.Store(true)
	s.room.Broadcast()
	l, cancels := s.conn, s.cancels
	s.cancels = nil
	s.mu.Unlock()
	for _, cancel := range cancels {
		(*cancel)(errAbort)
	}
	if l != nil {
		l.fail(errAbort)
	}
}

// wait waits for the session's goroutines.
func (s *session) wait() {
	<-s.done()
	s.background.Wait()
}

// inBackground runs fn in a goroutine that ends before Close does: fn's context ends with the
// session. It returns false if the session has ended already.
func (s *session) inBackground(fn func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.background.Go(func() {
		ctx, release := s.until()
		defer release()
		fn(ctx)
	})
	return true
}

func (s *session) close(ctx context.Context) error {
	s.mu.Lock()
	again, over, connected, born := s.closing, s.state.Final(), s.conn != nil, s.id != 0
	s.closing = true
	var f *Future[None]
	if !again && !over && connected {
		f = &Future[None]{row: new(op[None])}
		f.p.c, f.p.result, f.p.op = &Client{s: s}, f, jute.OpCloseSession
		s.openLocked(&f.p.call)
		s.end(&f.p.call, s.enc)
	} else {
		s.mu.Unlock()
	}
	var err error
	switch {
	case again:
		return s.closed(ctx)
	case f != nil:
		ctx, cancel := context.WithTimeout(ctx, s.asks.timeout)
		_, err = f.Wait(ctx)
		cancel()
	case !over && born:
		err = &Error{Op: jute.OpCloseSession, Err: ErrConnectionLoss, Cause: errors.New("the servers end the session when its timeout has passed")}
	}
	s.abort()
	return err
}

// closed waits until another Close is complete, or ctx ends.
func (s *session) closed(ctx context.Context) error {
	select {
	case <-s.done():
	case <-ctx.Done():
		if s.stateIs(State.Final) {
			break
		}
		return context.Cause(ctx)
	}
	s.wait()
	return nil
}
