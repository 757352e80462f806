package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sort"
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
)

// errExpiredByServer ends a session that has expired at the servers.
var errExpiredByServer = errors.New("the servers don't know the session any more")

// errMovedOn ends the session of a Relay that another client has taken over.
var errMovedOn = fmt.Errorf("another client has taken the session over: %w", ErrSessionMoved)

// ends reports whether an error of a connection ends the session.
func ends(err error) bool {
	return errors.Is(err, ErrSessionExpired) || errors.Is(err, ErrAuthFailed) || errors.Is(err, ErrSessionMoved)
}

// betterServer ends a connection to a server without a quorum because the named server has
// one.
type betterServer string

func (b betterServer) Error() string { return "server " + string(b) + " has a quorum" }

// run connects the session, and does so again until it is connected or has ended. A connected session needs no goroutine for that: the end of its
// connection starts reconnect.
func (s *session) run() {
	for {
		l, err := s.reach()
		if err == nil {
			s.keep(l)
			return
		}
		if s.ended(err) {
			return
		}
	}
}

// reconnect continues a session whose connection has failed.
func (s *session) reconnect(l *link) {
	err := l.err
	if closing := s.lost(l, err); closing {
		s.awaitAbort() // the session is closed: no server is to be asked about it
	}
	if l.answered || time.Since(l.began) >= lastPause {
		s.hosts.held()
	}
	if !s.resumes(err) {
		s.over(StateClosed, ErrConnectionLoss, err)
		s.conclude()
		return
	}
	if better, ok := errors.AsType[betterServer](err); ok {
		s.hosts.prefer(string(better))
	}
	if !s.ended(err) {
		s.run()
	}
}

// ended ends the session if an error does, or Close. It reports whether the session has ended.
func (s *session) ended(err error) bool {
	switch {
	case s.aborted.Load():
		s.over(StateClosed, ErrClosed, errAbort)
	case s.relay != nil && ends(err):
		s.mu.Lock()
		s.relay.expired = errors.Is(err, errExpiredByServer)
		s.mu.Unlock()
		s.over(StateClosed, ErrConnectionLoss, err)
	case errors.Is(err, ErrAuthFailed):
		s.over(StateAuthFailed, ErrAuthFailed, err)
		s.linger()
	case errors.Is(err, ErrSessionExpired):
		s.over(StateExpired, ErrSessionExpired, err)
		if s.opts.RenewSession {
			s.renew()
			return false
		}
		s.linger()
	default:
		return false
	}
	s.conclude()
	return true
}

// conclude is called when the session has ended.
func (s *session) conclude() {
	if r := s.relay; r != nil && !r.left.Load() {
		r.client.Ended(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.concluded = true; s.finished != nil {
		close(s.finished)
	}
}

// resumes reports whether a session whose connection is lost is to have another one.
func (s *session) resumes(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.relay == nil || s.relay.resumesLocked() && !ends(err)
}

// linger waits for Close after the session has ended, so that StateClosed is reported.
func (s *session) linger() {
	s.awaitAbort()
	s.over(StateClosed, ErrClosed, errAbort)
}

// over ends the session: all operations under way fail with err. The new state is reported
// after their callbacks, so that StateClosed comes last.
func (s *session) over(state State, err, cause error) {
	if s.relay == nil {
		s.settleOwed("")
	} else { // its client lacks the events that come before these
		s.failOwed(err)
	}
	s.mu.Lock()
	calls, sent := s.takeCallsLocked(true)
	s.watches.endAll(err)
	if s.relay != nil {
		s.relay.overLocked()
	}
	last := s.changeStateLocked(state, "", cause)
	s.mu.Unlock()
	level := slog.LevelWarn
	if s.relay != nil && state == StateClosed {
		level = slog.LevelDebug // also after closeSession; the relay's program knows more
	}
	if cause == errAbort {
		cause = nil
	} else {
		s.log(level, "session is over", "session", s.id, "state", state, "err", cause)
	}
	s.failTaken(calls, sent, err, cause)
	for _, cb := range last {
		s.later(cb)
	}
}

// renew forgets the session, so that the next connection begins a new one.
func (s *session) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.password, s.timeout, s.writable, s.lastZxid = 0, nil, s.asks.timeout, false, 0
	s.failures = nil
	s.setStateLocked(StateConnecting, "", nil)
}

// lost closes a connection that has failed, and fails the calls that were sent on it. It
// reports whether Close is under way.
func (s *session) lost(l *link, err error) (closing bool) {
	l.close(err)
	s.mu.Lock()
	s.conn = nil
	s.endFeedsLocked(ErrConnectionLoss)
	closing = s.closing
	if !closing {
		s.keepCallsLocked(err)
	}
	calls, sent := s.takeCallsLocked(closing)
	s.failedLocked(l.server, err)
	if !s.aborted.Load() && !closing { // the server closes the connection of a closed session
		s.setStateLocked(StateSuspended, l.server, err)
	}
	s.mu.Unlock()
	if !closing {
		s.log(slog.LevelWarn, "connection lost", "server", l.server, "session", s.id, "err", err)
	}
	if closing {
		s.failTaken(calls, sent, ErrClosed, nil)
		return true
	}
	sentinel := ErrConnectionLoss
	if errors.Is(err, ErrAuthFailed) {
		sentinel = ErrAuthFailed // repeating does not help
	}
	s.failTaken(calls, sent, sentinel, &ServerError{Server: l.server, Err: err})
	return false
}

// reach tries servers until one accepts the session. An error ends the session.
func (s *session) reach() (*link, error) {
	ctx, release := s.until()
	defer release()
	s.mu.Lock()
	born, deadline := s.id != 0, s.heard.Add(s.timeout)
	s.mu.Unlock()
	out := outage{began: time.Now()}
	if born && !s.opts.KeepSession {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline, ErrSessionExpired)
		defer cancel()
	}
	for {
		if s.hosts.exhausted() && out.isNews(time.Now()) {
			s.tellOutage(out)
		}
		server, err := s.nextServer(ctx)
		if err != nil {
			return nil, s.unreachable(err)
		}
		began := time.Now()
		l, err := s.attempt(ctx, server)
		s.attempted(server, time.Since(began), err)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, s.unreachable(err)
		}
		s.mu.Lock()
		s.failedLocked(server, err)
		s.mu.Unlock()
		if ends(err) {
			return nil, s.unreachable(err)
		}
		s.log(slog.LevelDebug, "server failed", "server", server, "err", err)
	}
}

// attempted is called when a server was tried.
func (s *session) attempted(server string, took time.Duration, err error) {
	if s.relay != nil {
		s.relay.client.Attempted(server, err)
	} else if t := s.opts.Trace.Attempt; t != nil {
		t(server, took, err)
	}
}

// outage is a period in which no server is reached.
type outage struct {
	began time.Time
	told  time.Time // when the outage was last logged
}

// isNews reports whether to log the outage: after a second, and again each time that it has
// become twice as long, but at least once a minute.
func (o *outage) isNews(now time.Time) bool {
	next := o.began.Add(time.Second)
	if !o.told.IsZero() {
		next = o.told.Add(min(o.told.Sub(o.began), time.Minute))
	}
	if now.Before(next) {
		return false
	}
	o.told = now
	return true
}

// tellOutage logs how each server fails, so that the operator of a waiting program sees why
// it waits.
func (s *session) tellOutage(o outage) {
	s.mu.Lock()
	err := s.connectErrorLocked(ErrConnectionLoss)
	s.mu.Unlock()
	s.log(slog.LevelWarn, "no server is reached; trying on", "for", o.told.Sub(o.began).Round(time.Millisecond), "err", err)
}

// nextServer returns the next server to try. Between rounds over all servers it pauses, and
// looks up SRV records.
func (s *session) nextServer(ctx context.Context) (string, error) {
	for s.hosts.exhausted() {
		if err := pause.For(ctx, s.hosts.backOff()); err != nil {
			return "", err
		}
		s.hosts.round(func(name string) []string { return s.lookupSRV(ctx, name) })
	}
	return s.hosts.pick(), context.Cause(ctx)
}

// lookupSRV returns the servers of a name of SRV records. An empty list counts as a failure
// of the name.
func (s *session) lookupSRV(ctx context.Context, name string) []string {
	s.mu.Lock()
	within := s.timeout / 3
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within.Round(time.Millisecond)))
	defer cancel()
	servers, err := s.opts.ResolveSRV(ctx, name)
	if err == nil && len(servers) == 0 {
		err = errors.New("there are no SRV records of this name")
	}
	if err != nil {
		err = explain(ctx, err)
		s.log(slog.LevelDebug, "SRV records not found", "name", name, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failedLocked(name, err)
		return nil
	}
	s.worksLocked(name)
	return servers
}

// unreachable explains an error that ends the session.
func (s *session) unreachable(err error) error {
	if !s.aborted.Load() && !errors.Is(err, errExpiredByServer) && !errors.Is(err, ErrAuthFailed) && !errors.Is(err, ErrSessionMoved) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("no server was reached within the session's timeout of %v: %w", s.timeout, s.connectErrorLocked(ErrSessionExpired))
	}
	return err
}

// longestAttempt bounds how long one server is tried: one that accepts a connection and then
// does not answer must not hold up a client whose session has a timeout of minutes.
const longestAttempt = 20 * time.Second

// attempt tries all addresses of one server, within a part of the session's timeout.
func (s *session) attempt(ctx context.Context, server string) (*link, error) {
	s.mu.Lock()
	share := min(max(s.timeout*2/3/time.Duration(len(s.hosts.list)), 100*time.Millisecond), longestAttempt)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, share, fmt.Errorf("no answer within %v", share.Round(time.Millisecond)))
	defer cancel()
	addrs, err := s.resolve(ctx, server)
	if err != nil {
		return nil, explain(ctx, err)
	}
	deadline, _ := ctx.Deadline()
	for i, addr := range addrs {
		var l *link
		within := time.Until(deadline) / time.Duration(len(addrs)-i)
		if l, err = s.attemptAddress(ctx, within, server, addr); err == nil {
			return l, nil
		}
		if ends(err) {
			break
		}
	}
	return nil, err
}

// attemptAddress tries one address of a server, and leaves time for the others.
func (s *session) attemptAddress(ctx context.Context, within time.Duration, server, addr string) (*link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within.Round(time.Millisecond)))
	defer cancel()
	dial := func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, server, addr) }
	var nc net.Conn
	var err error
	if r := s.relay; r != nil {
		nc, err = r.client.Carry(ctx, server, addr, dial)
	} else {
		nc, err = dial(ctx)
	}
	if err != nil {
		return nil, explain(ctx, err)
	}
	l, err := s.handshake(ctx, nc, server)
	if err != nil {
		nc.Close()
		return nil, explain(ctx, err)
	}
	return l, nil
}

// explain adds the reason why ctx ended to an error that this may have caused.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// resolve returns the addresses of a server, in random order.
func (s *session) resolve(ctx context.Context, server string) ([]string, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	if s.opts.Resolve == nil || net.ParseIP(host) != nil {
		return []string{server}, nil
	}
	ips, err := s.opts.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	addrs := make([]string, len(ips))
	for i, ip := range ips {
		addrs[i] = net.JoinHostPort(ip, port)
	}
	s.opts.Rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs, nil
}

// keep makes a connection the session's, until it fails.
func (s *session) keep(l *link) {
	s.mu.Lock()
	l.timer = time.AfterFunc(s.timeout/3, l.look)
	s.mu.Unlock()
	l.endOnce()
	if s.aborted.Load() { // it may have ended before the connection was there
		l.fail(errAbort)
	}
}

// look pings if nothing else was sent or answered, and ends the connection if the server answers nothing.
func (l *link) look() {
	s := l.s
	s.mu.Lock()
	timeout := s.timeout
	waits := s.calls.Len() > 0 || len(l.pings) > 0 || len(l.authsSent) > 0 || l.watchesSent > 0
	s.mu.Unlock()
	now := time.Now()
	since := now.Sub(l.began)
	var silent, pings bool
	var next time.Duration
	if s.relay != nil {
		silent, next = l.signs.LookForRelay(since, timeout, waits)
	} else {
		silent, pings, next = l.signs.Look(since, timeout)
	}
	if silent {
		l.fail(fmt.Errorf("no answer came for %v, and the session's timeout is %v", l.signs.Silence(since).Round(time.Millisecond), timeout))
		return
	}
	if pings {
		l.ping(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.open {
		l.timer.Reset(next)
	}
}

// releaseLocked moves waiting calls to the out buffer in their order: at least one, and more
// up to the given number of bytes.
func (s *session) releaseLocked(most int) {
	waiting := s.waitingLocked()
	if len(waiting) == 0 || !s.fitsLocked(waiting[0], len(waiting[0].frame)) {
		return
	}
	s.reissueLocked(waiting)
	released := 0
	for _, k := range waiting {
		if released += len(k.frame); released > most && released > len(k.frame) || !s.fitsLocked(k, len(k.frame)) {
			break
		}
		s.waiting -= len(k.frame)
		mark := len(s.out)
		s.out, s.queued, k.frame = s.sendLocked(append(s.out, k.frame...), mark, k), k.seq, nil
	}
	s.room.Broadcast()
}

// waitingLocked returns the calls that wait: from the first one on, all do.
func (s *session) waitingLocked() []*call {
	calls := s.calls.All()
	return calls[sort.Search(len(calls), func(i int) bool { return calls[i].frame != nil }):]
}

// reissueLocked decides again, for the watches of calls that wait, what to request from the server,
// because the watch that covered them may have been closed. The last byte of the request says it:
// it is the flag of a read, or the lowest byte of the mode.
func (s *session) reissueLocked(waiting []*call) {
	var calls []*call
	for _, k := range waiting {
		if k.watch != nil {
			k.watch.issued = false
			calls = append(calls, k)
		}
	}
	for _, k := range calls {
		tell := s.watches.issue(k.watch)
		var last bool
		if k.watch.kind.OneShot() {
			last = tell // the read's flag
		} else {
			last = k.watch.kind == watchRecursive || !tell // the mode: that of the watch that covers it
		}
		k.frame = jute.AppendBool(k.frame[:len(k.frame)-1], last)
	}
}

// errNotGranted is why an operation was not sent.
var errNotGranted = errors.New("the server does not offer this extension")

// takeLackingLocked removes the waiting calls that need an extension which the connection
// lacks.
func (s *session) takeLackingLocked() (lacking []*call) {
	for _, k := range s.calls.All() {
		if k.frame != nil && !s.conn.grants(k) {
			lacking = append(lacking, k)
		}
	}
	for _, k := range lacking {
		fifo.Remove(&s.calls, k)
		s.waiting -= len(k.frame)
		k.frame = nil
	}
	return lacking
}

// grants reports whether the server knows the operations of k, as far as these are extensions.
func (l *link) grants(k *call) bool {
	needed := k.op.Feature()
	for i := range k.multi {
		needed |= k.multi[i].Type.Feature()
	}
	return needed&^l.features == 0
}

// connected makes l the session's connection. It sends the identities and watches first, then
// the first of the waiting calls, and the others after the first answer.
func (s *session) connected(l *link, r *greeting) (again bool) {
	var lacking []*call
	defer func() {
		for _, k := range lacking {
			s.fail(k, ErrUnimplemented, errNotGranted, false)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	again = s.id != 0
	s.id, s.password = r.SessionID, r.Password
	s.timeout = time.Duration(r.TimeoutMs) * time.Millisecond
	s.writable = s.writable || !r.ReadOnly
	s.heard = l.began
	if !r.ReadOnly {
		s.kept = l.began
	}
	s.failures = nil
	s.conn = l
	s.out, s.queued, s.sent = s.out[:0], 0, 0
	s.exact = l.features&jute.FeatureExactlyOnce != 0
	s.window.Clear()
	if s.relay != nil {
		s.relay.connectedLocked(l, r)
	}
	s.owed = append(s.owed, s.decideLocked(r)...)
	for _, a := range s.auths {
		s.out = l.appendAuthLocked(s.out, a)
	}
	if s.relay != nil && s.relay.rules.CatchesUp() {
		s.relay.syncLocked(l) // the memory may have shown more since the connect request
	}
	s.out = l.appendWatchesLocked(s.out)
	if s.relay != nil {
		s.out = s.relay.replayLocked(l, s.out)
	}
	lacking = s.takeLackingLocked()
	if s.relay == nil || !s.relay.rules.Replaying() {
		s.releaseLocked(firstBatch)
	}
	state := StateConnected
	if r.ReadOnly {
		state = StateReadOnly
	}
	s.setStateLocked(state, l.server, nil)
	return again
}
