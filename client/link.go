package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// link is one connection of a session, with a goroutine that reads, and one that writes. It fails once, with the first error of either. Where the connection is an awaiter, it has none while it is idle: when nothing but the answer to
// a ping has come.
type link struct {
	s      *session
	nc     net.Conn
	server string    // as configured
	began  time.Time // before the connect request was sent

	features Features // that the server has granted

	failed chan struct{} // closed with err
	once   sync.Once
	writes func() // write, made once
	err    error
	work   sync.WaitGroup // of these goroutines; an idle connection counts as one
	in     *input         // owned by the one that reads
	ends   atomic.Int32   // of two: the connection is the session's, and it has failed

	signs resume.Signs // since began

	answered bool // there was a reply to a call; owned by the reader until it has ended

	// Guarded by session.mu.
	timer       *time.Timer   // calls look
	open        bool          // it is written to: the handshake is over, and close was not called
	writing     bool          // there is a goroutine that writes
	wake        chan struct{} // that of this goroutine, capacity 1: there is something to write, or idle has changed
	idle        bool          // it is to end when there is nothing
	spare       []byte        // what the session's out buffer was before
	authsSent   []*authEntry  // without a reply
	watchesSent int           // setWatches without a reply
	rearming    int           // of those, the ones that set watches of the previous connection again
	probe       uint64        // the call whose reply measures a round trip; 0 for none
	probeAt     time.Time     // when it was written
	pings       []time.Time   // when the unanswered pings were queued
}

// hears is called when a frame has come, or a part of one. Events of watches are no answers: they come from a server that gets nothing, too. Those of a feed are
// some while it catches up, before it has used what it may send: pings are answered behind all that, which takes a slow line long.
func (l *link) hears(xid int32, whole bool) {
	if xid != jute.XidNotification && (xid != jute.XidFeed || !whole) {
		l.hear()
	}
}

func (l *link) hear() { l.signs.Hears(time.Since(l.began)) }

// fail makes the connection fail, unless it has failed already.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.failed)
		l.nc.Close()
		l.endOnce()
	})
}

// endOnce is called when the connection is the session's, and when it has failed. After both, the session continues without it.
func (l *link) endOnce() {
	if l.ends.Add(1) == 2 {
		go l.s.reconnect(l)
	}
}

func (l *link) hasFailed() bool {
	select {
	case <-l.failed:
		return true
	default:
		return false
	}
}

// close ends the connection and waits for its goroutines.
func (l *link) close(err error) {
	l.fail(err)
	l.s.mu.Lock()
	l.open = false
	l.timer.Stop()
	l.s.mu.Unlock()
	l.work.Wait()
}

// --- Handshake

// hasTLS reports whether a connection has TLS. It knows a *tls.Conn by a method of it, so that
// programs without TLS do not link crypto/tls.
func hasTLS(nc net.Conn) bool {
	_, ok := nc.(interface {
		HandshakeContext(ctx context.Context) error
	})
	return ok
}

// dial opens a connection to a server at one of its addresses, with TLS if the options require it.
func (s *session) dial(ctx context.Context, server, addr string) (net.Conn, error) {
	nc, err := s.opts.Dial(ctx, "tcp", addr)
	if err != nil || s.opts.Secure == nil {
		return nc, err
	}
	host, _, _ := net.SplitHostPort(server)
	above, err := s.opts.Secure(ctx, nc, host)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return above, nil
}

// handshake makes nc the session's connection. If it fails, the caller closes nc.
func (s *session) handshake(ctx context.Context, nc net.Conn, server string) (_ *link, err error) {
	stop := context.AfterFunc(ctx, cut(nc))
	defer stop()
	l := &link{
		s: s, nc: nc, server: server, began: time.Now(), failed: make(chan struct{}),
	}
	l.writes = l.write
	in := newInput(nc, s.opts.MaxReply)
	l.in = in
	greeting, err := l.greet(in)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("%w: the server has closed the connection: is this port the secureClientPort?", err)
		}
		return nil, err
	}
	if s.opts.SASL != nil {
		host, _, _ := net.SplitHostPort(server)
		if err := sasl.Authenticate(sasl.Conn{Writer: nc, Next: in.next, TLS: hasTLS(nc)}, host, s.opts.SASL, s.opts.SASLOptional); err != nil {
			return nil, err
		}
	}
	if s.asks.user != nil {
		if err := l.speakFor(in, *s.asks.user); err != nil {
			return nil, err
		}
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	l.signs.Begins(time.Since(l.began))
	level := slog.LevelDebug
	if again := s.connected(l, greeting); again {
		level = slog.LevelInfo // the log has told that the connection was lost
	}
	resp := &greeting.ConnectResponse
	s.log(level, "session established", "server", server, "address", nc.RemoteAddr().String(),
		"session", resp.SessionID, "timeout", time.Duration(resp.TimeoutMs)*time.Millisecond, "readOnly", resp.ReadOnly)
	if l.rearming == 0 {
		if err := s.settleOwed(server); err != nil {
			l.fail(err)
		}
	}
	in.onPart = func(xid int32) { l.hears(xid, false) }
	s.mu.Lock()
	l.open = true
	l.flushLocked()
	s.mu.Unlock()
	l.work.Add(1)
	if !l.rest() {
		go l.receive()
	}
	if resp.ReadOnly {
		l.work.Go(l.seekQuorum)
	}
	return l, nil
}

// cut returns a function that makes all reads and writes of nc fail.
func cut(nc net.Conn) func() {
	return func() { nc.SetDeadline(time.Unix(1, 0)) }
}

// greet exchanges the connect request and response.
func (l *link) greet(in *input) (*greeting, error) {
	s := l.s
	s.mu.Lock()
	req := jute.ConnectRequest{
		LastZxidSeen: s.seenLocked(), TimeoutMs: int32(min(s.asks.timeout.Milliseconds(), math.MaxInt32)),
		SessionID: s.id, Password: s.password, ReadOnly: s.asks.readOnly, HasReadOnly: true,
	}
	if s.asks.insist {
		req.ProtocolVersion = jute.ProtocolOperator
	}
	if s.id == 0 || !s.writable { // a session known only to a read-only server can't be moved
		req.SessionID, req.Password = 0, make([]byte, jute.PasswordLen)
	}
	ask := jute.ExtensionRequest{Features: s.wantsLocked(), Confirmed: s.confirmedLocked()}
	if s.relay != nil {
		ask.Holder = s.relay.holder
		s.relay.rules.Greets()
	}
	s.mu.Unlock()
	b, mark := jute.BeginFrame(nil)
	b = req.Append(b)
	b = ask.Append(b)
	if _, err := l.nc.Write(jute.EndFrame(b, mark)); err != nil {
		return nil, fmt.Errorf("send connect request: %w", err)
	}
	frame, err := in.next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the server closed the connection before the session was set up: it has no quorum, is behind what the client has seen, keeps clients away, has too many connections, or takes only TLS on this port")
		}
		return nil, err
	}
	d := jute.NewDecoder(frame)
	var resp greeting
	resp.Decode(&d)
	if jute.Extended(&d) {
		resp.ext.Decode(&d)
	}
	l.features = resp.ext.Features & ask.Features
	switch {
	case d.Err() != nil:
		return nil, fmt.Errorf("%w: connect response: %w", ErrNotZooKeeper, d.Err())
	case resp.SessionID == 0 && l.features&jute.FeatureMoved != 0:
		return nil, errMovedOn
	case resp.SessionID == 0 && resp.TimeoutMs <= 0:
		return nil, fmt.Errorf("%w: %w", ErrSessionExpired, errExpiredByServer)
	case resp.SessionID == 0 || resp.TimeoutMs <= 0:
		return nil, fmt.Errorf("%w: session %v with a timeout of %d ms", ErrNotZooKeeper, resp.SessionID, resp.TimeoutMs)
	case req.SessionID != 0 && resp.SessionID != req.SessionID:
		return nil, fmt.Errorf("the server answered with session %v, not %v", resp.SessionID, req.SessionID)
	}
	return &resp, resp.takeReplies(in)
}

// appendWatchesLocked appends the requests that set the session's watches again.
func (l *link) appendWatchesLocked(b []byte) []byte {
	s := l.s
	chunk := min(setWatchesChunk, s.opts.MaxRequest-256)
	var all []jute.SetWatchesRequest
	if s.relay != nil {
		all = s.relay.rules.RestoreWatches(chunk, false)
	} else {
		all = s.watches.requests(s.lastZxid, chunk)
	}
	for i := range all {
		b = l.appendSetWatchesLocked(b, &all[i])
	}
	if l.rearming = len(all); l.rearming == 0 {
		s.watches.since = 0
	}
	return b
}

func (l *link) appendSetWatchesLocked(b []byte, r *jute.SetWatchesRequest) []byte {
	l.watchesSent++
	b, mark := jute.BeginFrame(b)
	h := jute.RequestHeader{Xid: jute.XidSetWatches, Type: jute.OpSetWatches}
	if len(r.Persistent)+len(r.PersistentRecursive) > 0 {
		h.Type = jute.OpSetWatches2
		return jute.EndFrame(r.Append2(h.Append(b)), mark)
	}
	return jute.EndFrame(r.Append(h.Append(b)), mark)
}

// --- Writing

// pinger is a connection that gathers pings with those of others, and sends them within some time. answered is called when the server has been told, with whether
// that was enough for it.
type pinger interface {
	Ping(within time.Duration, answered func(enough bool)) bool
}

// gathersLocked lets the connection ping the server if it is idle, and has a pinger.
func (l *link) gathersLocked(now time.Time) bool {
	nc, ok := l.nc.(pinger)
	within := resume.PingWithin(l.s.timeout)
	if !ok || l.features&jute.FeaturePings == 0 || !l.idle || l.writing || len(l.pings) > 0 || !nc.Ping(within, l.gathered) {
		return false
	}
	l.pings = append(l.pings, now)
	l.signs.Writes(now.Add(within).Sub(l.began))
	return true
}

// gathered is called when such a ping has an answer.
func (l *link) gathered(enough bool) {
	if enough {
		l.hear()
		l.ponged()
		return
	}
	l.s.mu.Lock()
	l.pings = nil
	l.s.mu.Unlock()
	l.ping(time.Now())
}

// ping asks the server for an answer.
func (l *link) ping(now time.Time) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != l {
		return
	}
	b, mark := jute.BeginFrame(s.out)
	h := jute.RequestHeader{Xid: jute.XidPing, Type: jute.OpPing}
	s.out = jute.EndFrame(h.Append(b), mark)
	l.pings = append(l.pings, now)
	l.signs.Writes(now.Sub(l.began))
	l.flushLocked()
}

// nowWriter is a connection that takes bytes without waiting, as those do that are carried by another one.
type nowWriter interface {
	WriteNow(b []byte) (int, error)
}

// flushLocked has what is in the session's out buffer written: now, or by a goroutine where that has to wait.
func (l *link) flushLocked() {
	s := l.s
	l.idle = false
	if l.writing || !l.writesLocked() {
		l.wakeLocked()
		return
	}
	if nc, ok := l.nc.(nowWriter); ok {
		l.takenLocked()
		n, err := nc.WriteNow(s.out)
		s.out = s.out[:copy(s.out, s.out[n:])]
		l.wrote(err)
		if !l.writesLocked() {
			return
		}
	}
	l.writing, l.wake = true, make(chan struct{}, 1)
	l.work.Add(1)
	go l.writes()
}

// wakeLocked wakes the goroutine that writes, if there is one.
func (l *link) wakeLocked() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// writesLocked reports whether there is something to be written.
func (l *link) writesLocked() bool {
	return l.open && len(l.s.out) > 0 && l.s.conn == l && !l.hasFailed() // what is issued after a failure is not sent
}

// takenLocked is called when what is in the out buffer is passed to the socket.
func (l *link) takenLocked() {
	s := l.s
	if l.probe == 0 && s.queued > s.sent {
		l.probe, l.probeAt = s.queued, time.Now()
	}
	s.sent = s.queued
	s.room.Broadcast()
}

// wrote is called when that was written.
func (l *link) wrote(err error) {
	if err != nil {
		l.fail(fmt.Errorf("write: %w", err))
		return
	}
	l.signs.Writes(time.Since(l.began))
}

// write writes what is in the session's out buffer, until the connection is idle or has failed. Where others write without waiting, it ends when there is
// nothing.
func (l *link) write() {
	defer l.work.Done()
	s := l.s
	_, now := l.nc.(nowWriter)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.writeLocked()
	for !now && !l.idle && l.open && !l.hasFailed() {
		wake := l.wake
		s.mu.Unlock()
		select {
		case <-wake:
		case <-l.failed:
		}
		s.mu.Lock()
		l.writeLocked()
	}
	l.writing, l.wake = false, nil
	l.restLocked()
}

// writeLocked writes while there is something. It releases the lock meanwhile.
func (l *link) writeLocked() {
	s := l.s
	for l.writesLocked() {
		b := s.out
		s.out, l.spare = l.spare[:0], nil
		l.takenLocked()
		s.mu.Unlock()
		_, err := l.nc.Write(b)
		l.wrote(err)
		s.mu.Lock()
		if l.spare = b; cap(b) > 1<<20 {
			l.spare = nil
		}
	}
}

// restLocked gives up the buffers of an idle connection.
func (l *link) restLocked() {
	if s := l.s; l.idle && s.conn == l && len(s.out) == 0 {
		s.out, l.spare = nil, nil
	}
}

// --- Reading

// awaiter is a connection that needs no goroutine while nothing comes. Await has wake called, once, when Read would not wait any more: something has come,
// or the connection has failed or is closed. It reports false if that is so already, or it can't be, and then does nothing.
type awaiter interface {
	Await(wake func()) bool
}

// errIdle ends a goroutine that reads from a connection which is idle.
var errIdle = errors.New("the connection is idle")

// receive handles what the server sends, until the connection ends or is idle: then it is called again when something has come.
func (l *link) receive() {
	if err := l.receiveAll(); err != errIdle {
		l.fail(err)
		l.work.Done()
	}
}

func (l *link) receiveAll() error {
	d := new(jute.Decoder) // one for all replies, to save allocations
	for {
		frame, err := l.in.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server closed the connection")
			}
			return err
		}
		*d = jute.NewDecoder(frame)
		xid, err := l.handle(frame, d)
		if err != nil {
			return err
		}
		if xid == jute.XidPing && l.rest() {
			return errIdle
		}
	}
}

// rest makes a connection idle, if it can be.
func (l *link) rest() bool {
	nc, ok := l.nc.(awaiter)
	if !ok || !l.in.Release() {
		return false
	}
	s := l.s
	s.mu.Lock()
	if l.idle = true; l.writing {
		l.wakeLocked() // it does that
	} else {
		l.restLocked()
	}
	s.mu.Unlock()
	return nc.Await(func() { go l.receive() })
}

// handle handles a frame, of which d is a decoder, and returns its xid.
func (l *link) handle(frame []byte, d *jute.Decoder) (xid int32, _ error) {
	if r := l.s.relay; r != nil {
		if err := r.enter(); err != nil {
			return 0, err
		}
		defer r.exit()
	}
	var h jute.ReplyHeader
	h.Decode(d)
	if d.Err() != nil {
		return 0, fmt.Errorf("reply header: %w", d.Err())
	}
	l.hears(h.Xid, true)
	return h.Xid, l.handleBody(&h, frame, d)
}

func (l *link) handleBody(h *jute.ReplyHeader, frame []byte, d *jute.Decoder) error {
	switch h.Xid {
	case jute.XidNotification:
		return l.notified(h.Zxid, d)
	case jute.XidPing:
		l.ponged()
		return nil
	case jute.XidAuth:
		return l.authReplied(h.Err)
	case jute.XidSetWatches:
		return l.watchesReplied(h)
	case jute.XidFeed:
		return l.fed(d, len(frame))
	case xidCatchUp:
		if r := l.s.relay; r != nil {
			return r.caughtUp(h)
		}
	case xidReplay:
		if r := l.s.relay; r != nil {
			return r.replayReplied(h, d)
		}
	}
	return l.replied(h, d)
}

func (l *link) replied(h *jute.ReplyHeader, d *jute.Decoder) error {
	s := l.s
	s.mu.Lock()
	if s.calls.Len() == 0 || xidOf((*s.calls.Front()).seq) != h.Xid {
		s.mu.Unlock()
		return fmt.Errorf("the server answered request %d out of order", h.Xid)
	}
	k := *s.calls.Front()
	s.calls.Pop(1)
	if s.exact {
		s.window.Confirm(int64(k.seq))
		if s.relay != nil {
			s.relay.answeredLocked(k)
		}
	}
	if !l.answered || s.waiting > 0 && s.window.Low() {
		l.answered = true
		s.releaseLocked(maxOut + s.opts.MaxRequest) // all
		l.flushLocked()
	}
	s.lastZxid = max(s.lastZxid, h.Zxid)
	if s.relay != nil {
		s.relay.rules.Replied(h.Zxid)
	}
	var trip time.Duration
	if l.probe != 0 && k.seq >= l.probe {
		l.probe = 0
		s.heardLocked(l.probeAt)
		if s.opts.Trace.RoundTrip != nil {
			trip = time.Since(l.probeAt)
		}
	}
	s.mu.Unlock()
	if trip > 0 {
		s.opts.Trace.RoundTrip(trip)
	}
	if s.relay != nil {
		s.relay.tellMissed(l)
	}
	return s.answer(k, h, d)
}

// answer decodes the body of a reply and makes the result known. An error means that the body
// is invalid.
func (s *session) answer(k *call, h *jute.ReplyHeader, d *jute.Decoder) error {
	err := k.result.reply(d, h.Zxid, h.Err)
	var broken error
	if k.watch != nil {
		broken = s.settle(k.watch, h, err)
	}
	if err == nil {
		s.finish(k, h.Zxid, nil)
		return broken
	}
	e := &Error{Op: k.op, Path: k.path, Err: err}
	multi := new(MultiError)
	switch {
	case errors.As(err, &multi):
		e.Err, e.Cause = multi.Err, multi
	case h.Err == 0:
		e.Err, e.Cause, e.Ambiguous = ErrMarshalling, err, isChange(k.op)
		broken = fmt.Errorf("reply to %v: %w", k.op, err)
	case h.Err == ErrNotReadOnly && !s.readOnly():
		e.Err = ErrNoRoom
	case h.Err == ErrMarshalling && (k.op == jute.OpGetChildren || k.op == jute.OpGetChildren2):
		e.Cause = errManyChildren
	}
	s.finish(k, h.Zxid, e)
	return broken
}

// errManyChildren is why a node's children can't be listed at once.
var errManyChildren = errors.New("they may be too many for a reply: ChildrenPage lists them in parts")

// readOnly reports whether the server is read-only because it has no quorum.
func (s *session) readOnly() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == StateReadOnly
}

// settle arms the watch that a reply has set, or removes it. An error means that the watches
// must be set again, on another connection.
func (s *session) settle(w *Watch, h *jute.ReplyHeader, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Err == 0 && err != nil {
		s.watches.remove(w) // nobody gets a reference to it
		return nil
	}
	s.watches.settle(w, h.Err)
	switch {
	case h.Err != 0 && !w.kind.OneShot():
		s.watches.uncover(w.full)
	case w.armed && w.lacking:
		return s.conn.setLocked(w, h.Zxid)
	}
	return nil
}

// setLocked makes the server set a one-shot watch that its read did not set: see
// watches.uncover. zxid is that of the read's reply, so if something has changed since, the
// event comes at once. setLocked fails if there is now a wide watch, which this one would
// replace at the server (see watches).
func (l *link) setLocked(w *Watch, zxid Zxid) error {
	t := &l.s.watches
	if t.hasWide(w.full) {
		return fmt.Errorf("watches of %s lack the persistent one that was to cover them", w.full)
	}
	if t.since == 0 {
		t.since = zxid
	}
	r := jute.SetWatchesRequest{RelativeZxid: zxid}
	w.kind.Add(&r, w.full)
	l.s.out = l.appendSetWatchesLocked(l.s.out, &r)
	l.flushLocked()
	return nil
}

// heardLocked records that a server has answered a request sent at that time.
func (s *session) heardLocked(sent time.Time) {
	if sent.After(s.heard) {
		s.heard = sent
		if s.state != StateReadOnly {
			s.kept = sent
		}
	}
}

func (l *link) notified(zxid Zxid, d *jute.Decoder) error {
	var r jute.WatcherEvent
	r.Decode(d)
	if d.Err() != nil {
		return fmt.Errorf("notification: %w", d.Err())
	}
	if relay := l.s.relay; relay == nil || relay.hears(zxid, r) {
		l.tell(zxid, r)
	}
	return nil
}

// tell passes an event on.
func (l *link) tell(zxid Zxid, r jute.WatcherEvent) {
	s := l.s
	s.mu.Lock()
	ev := Event{Type: EventType(r.Type), State: s.state, Path: r.Path, Zxid: zxid}
	if ev.Path == "" {
		ev.Path = "/"
	}
	s.watches.fire(ev)
	if s.relay != nil {
		s.relay.rules.Told(resume.Event{Zxid: zxid, WatcherEvent: r})
	}
	s.mu.Unlock()
	if s.relay != nil {
		s.relay.client.Event(zxid, r)
	}
	s.told(ev)
}

// told passes an event to Options.Watcher and Trace.Event.
func (s *session) told(ev Event) {
	ev.Path = (&Client{s: s, root: s.root}).strip(ev.Path)
	if t := s.opts.Trace.Event; t != nil {
		t(ev)
	}
	if w := s.opts.Watcher; w != nil {
		s.later(callback{fn: func() { w(ev) }, op: "Options.Watcher", path: ev.Path})
	}
}

func (l *link) ponged() {
	s := l.s
	s.mu.Lock()
	if len(l.pings) == 0 {
		s.mu.Unlock()
		return // an answer to nothing that was asked
	}
	at := l.pings[0]
	l.pings = l.pings[1:]
	s.heardLocked(at)
	s.mu.Unlock()
	if t := s.opts.Trace.RoundTrip; t != nil {
		t(time.Since(at))
	}
}

// watchesReplied handles the answer to a setWatches. Events that one-shot watches missed have
// come before it. The connection fails if the server does not set watches.
func (l *link) watchesReplied(h *jute.ReplyHeader) error {
	rearmed, last, err := l.watchReplied(h)
	if last && l.s.relay != nil {
		l.s.relay.tellMissed(l)
	}
	if rearmed && err == nil && l.s.settles() {
		err = l.s.settleOwed(l.server)
	}
	return err
}

// watchReplied reports whether this was the last answer about the watches of the previous connection, and whether
// it was the last one that is awaited: then the session has seen the state that it shows.
func (l *link) watchReplied(h *jute.ReplyHeader) (rearmed, last bool, err error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.watchesSent == 0:
		return false, false, errors.New("the server answered a setWatches that was not asked for")
	case h.Err != 0:
		return false, false, fmt.Errorf("set the watches again: %w", h.Err)
	}
	if l.watchesSent--; l.watchesSent == 0 {
		s.watches.since, last = 0, true
		if s.relay != nil {
			s.relay.rules.Restored(h.Zxid)
			s.lastZxid = s.relay.rules.Shown()
		}
	}
	if l.rearming == 0 {
		return false, last, nil
	}
	if l.rearming--; l.rearming > 0 {
		return false, last, nil
	}
	s.watches.rearmed(Event{Type: EventRearmed, State: s.state, Zxid: -1})
	return true, last, nil
}
