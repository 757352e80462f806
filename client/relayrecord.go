package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// RelayRecord is all that a Relay knows when nothing is under way, so that another process can continue it: see
// Relay.Hold and RelayOptions.Record. It holds the session's password and its client's identities.
//
// Its encoding, in the primitives of jute, is
//
//	int64  session        buffer password
//	int32  timeout, ms    int32 timeout that the client has asked for, ms
//	int32  flags: 1 the client takes a read-only session, 2 it insists (Options.Insist), 4 the relay speaks for a user
//	int64  number of the session's last request
//	int32  holder
//	int64  zxid of the newest reply
//	int64  zxid of the newest event, and its events after that reply: a vector of (int32 type, ustring path)
//	       identities: a vector of (ustring scheme, buffer data)
//	       watches: for each kind (data, exist, children, persistent, recursive) a vector of ustring paths
//	       with flag 4: ustring user
//
// It has no version: the protocol that carries it has one.
type RelayRecord struct {
	key              SessionKey
	timeoutMs        int32
	wantedMs         int32
	readOnly, insist bool
	number           int64
	holder           jute.Holder
	seen, last       Zxid
	ofLast           []jute.WatcherEvent
	auth             []Auth
	watches          [resume.Kinds][]string
	user             *string
}

const (
	recordReadOnly = 1 << iota
	recordInsist
	recordUser
)

// User returns for whom the relay speaks: RelayOptions.User.
func (r *RelayRecord) User() *string { return r.user }

// Append appends the record.
func (r *RelayRecord) Append(b []byte) []byte {
	b = jute.AppendBuffer(jute.AppendInt64(b, r.key.ID), r.key.Password)
	b = jute.AppendInt32(jute.AppendInt32(b, r.timeoutMs), r.wantedMs)
	flags := int32(0)
	if r.readOnly {
		flags |= recordReadOnly
	}
	if r.insist {
		flags |= recordInsist
	}
	if r.user != nil {
		flags |= recordUser
	}
	b = jute.AppendInt32(b, flags)
	b = jute.AppendInt32(jute.AppendInt64(b, r.number), r.holder)
	b = jute.AppendInt64(jute.AppendInt64(b, r.seen), r.last)
	b = jute.AppendInt32(b, int32(len(r.ofLast)))
	for i := range r.ofLast {
		b = jute.AppendString(jute.AppendInt32(b, r.ofLast[i].Type), r.ofLast[i].Path)
	}
	b = jute.AppendInt32(b, int32(len(r.auth)))
	for _, a := range r.auth {
		b = jute.AppendBuffer(jute.AppendString(b, a.Scheme), a.Data)
	}
	for _, paths := range r.watches {
		b = jute.AppendStrings(b, paths)
	}
	if r.user != nil {
		b = jute.AppendString(b, *r.user)
	}
	return b
}

// Decode reads the record. What no Relay can have is an error.
func (r *RelayRecord) Decode(d *jute.Decoder) {
	*r = RelayRecord{key: SessionKey{ID: SessionID(d.Int64()), Password: d.Buffer()}, timeoutMs: d.Int32(), wantedMs: d.Int32()}
	flags := d.Int32()
	r.readOnly, r.insist = flags&recordReadOnly != 0, flags&recordInsist != 0
	r.number, r.holder = d.Int64(), jute.Holder(d.Int32())
	r.seen, r.last = Zxid(d.Int64()), Zxid(d.Int64())
	n, _ := d.Count(8)
	for range n {
		r.ofLast = append(r.ofLast, jute.WatcherEvent{Type: jute.EventType(d.Int32()), State: jute.StateSyncConnected, Path: d.String()})
	}
	n, _ = d.Count(8)
	for range n {
		r.auth = append(r.auth, Auth{Scheme: d.String(), Data: d.Buffer()})
	}
	for k := range r.watches {
		r.watches[k] = d.Strings()
	}
	if flags&recordUser != 0 {
		user := d.String()
		r.user = &user
	}
	if d.Err() == nil && (r.key.ID == 0 || r.timeoutMs <= 0 || r.wantedMs <= 0 || r.number < 0 || flags&^(recordReadOnly|recordInsist|recordUser) != 0) {
		d.Fail(fmt.Errorf("%w: no relay has session %v, timeouts of %d and %d ms, number %d and flags %#x", jute.ErrMarshalling, r.key.ID, r.timeoutMs, r.wantedMs, r.number, flags))
	}
}

// ErrNotHeld is why a relay can't be continued elsewhere: its server offers no exactly-once sessions, its client has logged in by SASL,
// or its session ends.
var ErrNotHeld = errors.New("the session can't continue on another connection")

// Hold waits until nothing of the client is under way, and holds the relay: it passes nothing on, until Release or Abort. Meanwhile its record is that
// of the session. Forward must not be called from the call of Hold on. If ctx ends, or the session can't be continued (ErrNotHeld), the relay is
// not held.
func (r *Relay) Hold(ctx context.Context) (*RelayRecord, error) {
	passed := make(chan struct{}, 1)
	r.passed.Store(&passed)
	defer r.passed.Store(nil)
	for {
		select {
		case r.passes <- struct{}{}:
			record, quiet, err := r.record()
			if quiet {
				return record, nil
			}
			<-r.passes
			if err != nil {
				return nil, err
			}
		default:
		}
		select {
		case <-passed:
		case <-r.Done():
			return nil, ErrNotHeld
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Release lets a relay continue that is held.
func (r *Relay) Release() { <-r.passes }

// Leave ends a relay that is held. Its record tells all that its client has been told.
func (r *Relay) Leave() {
	r.left.Store(true)
	r.c.s.endNow()
	<-r.passes
	r.c.s.wait()
}

// wake lets Hold look again.
func (r *Relay) wake() {
	passed := r.passed.Load()
	if passed == nil {
		return
	}
	select {
	case *passed <- struct{}{}:
	default:
	}
}

// enter is called before something of a server is handled, and exit after it. An error means that the relay continues elsewhere.
func (r *Relay) enter() error {
	r.passes <- struct{}{}
	if r.left.Load() {
		<-r.passes
		return errAbort
	}
	return nil
}

func (r *Relay) exit() {
	<-r.passes
	r.wake()
}

// record returns the state of the relay, if nothing is under way. An error means that this does not change.
func (r *Relay) record() (_ *RelayRecord, quiet bool, _ error) {
	s := r.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.exact || r.rules.Bound || s.closing || s.overLocked() != nil:
		return nil, false, ErrNotHeld
	case s.calls.Len() > 0 || len(s.owed) > 0 || r.asked.Len() > 0 || r.telling.Load() > 0 || r.rules.Replaying():
		return nil, false, nil
	}
	last, tail := r.rules.Tail()
	q := &RelayRecord{
		key: SessionKey{ID: s.id, Password: slices.Clone(s.password)}, timeoutMs: int32(s.timeout.Milliseconds()), wantedMs: int32(s.asks.timeout.Milliseconds()),
		readOnly: s.asks.readOnly, insist: s.asks.insist, number: int64(s.seq), holder: r.holder, seen: s.lastZxid, last: last,
	}
	for _, t := range tail {
		q.ofLast = append(q.ofLast, jute.WatcherEvent{Type: t.Type, State: jute.StateSyncConnected, Path: t.Path})
	}
	for _, a := range s.auths {
		if len(a.waiting) > 0 {
			return nil, false, nil
		}
		q.auth = append(q.auth, Auth{Scheme: a.Scheme, Data: slices.Clone(a.Data)})
	}
	q.user = s.asks.user
	if userLeft.Planted() {
		q.user = nil
	}
	q.watches = r.rules.Watches.Paths()
	return q, true, nil
}

// options returns the options of a relay that continues the one of the record.
func (r *RelayRecord) options(o RelayOptions) RelayOptions {
	o.Session, o.Seen, o.Timeout = r.key, r.seen, time.Duration(r.wantedMs)*time.Millisecond
	o.AllowReadOnly, o.Insist, o.User = r.readOnly, r.insist, r.user
	return o
}

// take makes a relay that has not begun continue the one of the record.
func (r *Relay) take(q *RelayRecord) {
	s := r.c.s
	s.timeout, s.exact = time.Duration(q.timeoutMs)*time.Millisecond, true
	s.seq = uint64(q.number)
	if relayRecordNumber.Planted() {
		s.seq--
	}
	var tail []resume.Event
	for _, ev := range q.ofLast {
		if relayRecordTail.Planted() {
			break
		}
		tail = append(tail, resume.Event{Zxid: q.last, WatcherEvent: ev})
	}
	s.is(q.auth)
	r.holder, r.rules = q.holder, resume.New(q.seen, q.last, tail)
	for k, paths := range q.watches {
		if relayRecordUnwatched.Planted() {
			break
		}
		for _, path := range paths {
			r.rules.Watches.Set(resume.Kind(k), path)
		}
	}
}
