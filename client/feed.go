package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// ChangeKind says what happened to a node.
type ChangeKind = jute.ChangeKind

// The kinds of changes.
const (
	ChangeCreated = jute.ChangeCreated
	ChangeDeleted = jute.ChangeDeleted
	ChangeData    = jute.ChangeData
	ChangeACL     = jute.ChangeACL
)

// Change is what a transaction did to a node.
type Change struct {
	Zxid Zxid
	Kind ChangeKind
	Path string // in the view that follows the feed
	Stat Stat   // right after the change; zero if the node was deleted, or is lost: see Lost
	Data []byte // with FeedOptions.Data, of a node that was created or got other data
	// ParentCversion and ParentChildren are the Cversion and NumChildren of the parent's Stat right
	// after the node was created or deleted. The parent's Pzxid is Zxid then.
	ParentCversion, ParentChildren int32
	Time                           time.Time
	Session                        SessionID // that made the change
	// Resume is the zxid up to which all changes have come, this one included. A feed with it as
	// FeedOptions.After has the following ones. While other changes of the same transaction may
	// follow, it is that of an earlier transaction.
	Resume Zxid
}

// Lost reports whether the client has lost permission to read the node. There are no further
// changes of it until the client may read it again.
func (c *Change) Lost() bool { return c.Kind == ChangeACL && c.Stat == Stat{} }

// CompactedError means that a server no longer has all changes after a zxid. Read the nodes again.
type CompactedError = jute.CompactedError

// FromNow as FeedOptions.After begins a feed with the present.
const FromNow = jute.FromNow

// FeedOptions determine which changes a feed has.
type FeedOptions struct {
	// After is the zxid after which the feed begins: FromNow, Change.Resume of the last change that
	// was processed, or the Page.Zxid of a state. 0 means the very beginning, which few servers still
	// have.
	After Zxid
	// Alone excludes the nodes below the path.
	Alone bool
	// Data requests the nodes' data.
	Data bool
	// Kinds are the kinds of changes; none means all.
	Kinds []ChangeKind
}

// feedWindow is the credit of a feed: how many bytes of changes may be on their way, or wait to be
// taken.
const feedWindow = 1 << 20

// Feed yields the changes of a node, which need not exist, and of the nodes below it: each change
// once, in their order, as far as the client may read the nodes. It waits for changes until ctx ends.
// When the connection is lost, it continues where it was, at any server.
//
// An error that is yielded is the last. A *CompactedError says that changes are missed: this feed
// was too slow, its After is too old, or the server has given its place to a client with fewer feeds.
// Read the nodes, and begin a feed after the zxid of what was read. The error is ErrUnimplemented if a
// server does not offer feeds, such as Apache's, and ErrQuotaExceeded if it has no room for one more on
// this connection or in all.
func (c *Client) Feed(ctx context.Context, path string, o FeedOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		f := c.Follow(path, o)
		defer f.Close()
		for {
			changes, err := f.Next()
			for _, change := range changes {
				if !yield(change, nil) {
					return
				}
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
			if len(changes) > 0 {
				continue
			}
			select {
			case <-f.Ready():
			case <-ctx.Done():
				yield(Change{}, &Error{Op: jute.OpSubscribe, Path: path, Err: context.Cause(ctx)})
				return
			}
		}
	}
}

// Follower is a feed for a program that waits for other things, too. One goroutine may use it at a
// time.
type Follower struct {
	c     *Client
	path  string
	o     FeedOptions
	after Zxid        // up to which Next has returned everything
	last  jute.Change // the last one that Next has returned
	sub   *subscription
	begun *Future[jute.SubscribeResponse] // of sub; nil once it has the feed
	taken int                             // bytes of the last event
	err   error                           // that Next has returned
}

// Follow is Feed in a form that does not wait. Close the Follower in the end.
func (c *Client) Follow(path string, o FeedOptions) *Follower {
	f := &Follower{c: c, path: path, o: o, after: o.After}
	f.subscribe()
	return f
}

// Ready returns a channel that can be received from when Next has something new.
func (f *Follower) Ready() <-chan struct{} {
	if f.begun != nil {
		return f.begun.Done()
	}
	return f.sub.ready
}

// Next returns the changes that come next, in the order of Feed, and does not wait for them. Call it
// until it returns none. An error is the last, and one of Feed's.
func (f *Follower) Next() (changes []Change, err error) {
	f.sub.consumed(f.taken)
	f.taken = 0
	for f.err == nil && len(changes) == 0 {
		if f.begun != nil {
			r, ok, err := f.begun.Result()
			if !ok {
				return nil, nil
			}
			f.begun = nil
			f.subscribed(r, err)
			continue
		}
		e, err := f.sub.next()
		switch {
		case err != nil:
			f.failed(err)
		case e == nil:
			return nil, nil
		default:
			f.taken += e.bytes
			changes = f.changes(e)
		}
	}
	return changes, f.err
}

// Zxid returns the zxid up to which Next has returned everything, FromNow before the feed has begun.
// level reports whether that is all that the server has: zxid is then at least that of each reply that
// the client has got.
func (f *Follower) Zxid() (zxid Zxid, level bool) {
	s := f.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := f.sub; b.level && b.err == nil && len(b.events) == 0 {
		return max(f.after, s.lastZxid), true
	}
	return f.after, false
}

// Close makes the server forget the feed.
func (f *Follower) Close() { f.sub.end() }

// changes returns the changes of an event, without what an earlier connection has brought: a part
// of a transaction.
func (f *Follower) changes(e *feedEvent) (changes []Change) {
	for i := range e.Changes {
		c := &e.Changes[i]
		if i > 0 && e.Changes[i-1].Zxid < c.Zxid {
			f.after = max(f.after, e.Changes[i-1].Zxid)
		}
		if i == len(e.Changes)-1 {
			f.after = max(f.after, e.Zxid)
		}
		resume := f.after
		if i < len(e.Changes)-1 && c.Zxid < e.Changes[i+1].Zxid {
			resume = c.Zxid
		}
		if !after(c, &f.last) {
			continue
		}
		f.last = jute.Change{Zxid: c.Zxid, Index: c.Index, Kind: c.Kind}
		changes = append(changes, Change{
			Zxid: c.Zxid, Kind: c.Kind, Path: f.c.strip(c.Path), Stat: c.Stat, Data: c.Data,
			ParentCversion: c.ParentCversion, ParentChildren: c.ParentChildren,
			Time: time.UnixMilli(c.Time), Session: c.Session, Resume: resume,
		})
	}
	f.after = max(f.after, e.Zxid)
	return changes
}

// after reports whether a change comes after another one. A ChangeChildren has the index of the change that it comes with.
func after(c, last *jute.Change) bool {
	if c.Zxid != last.Zxid || c.Index != last.Index {
		return c.Zxid > last.Zxid || c.Zxid == last.Zxid && c.Index > last.Index
	}
	return c.Kind == jute.ChangeChildren && last.Kind != jute.ChangeChildren
}

// subscribe begins the feed on a connection.
func (f *Follower) subscribe() {
	f.sub = &subscription{c: f.c, path: f.path, ready: make(chan struct{}, 1)}
	f.sub.request = jute.SubscribeRequest{
		Recursive: !f.o.Alone, After: f.after, Data: f.o.Data, Kinds: jute.ChangeKindsOf(f.o.Kinds...), Credit: feedWindow,
	}
	f.begun = start(f.c, &f.c.s.table().subscribe, args{path: f.path, feed: f.sub}, nil)
}

// subscribed handles the answer to subscribe.
func (f *Follower) subscribed(r jute.SubscribeResponse, err error) {
	switch {
	case err != nil:
		f.failed(err)
	case r.Compacted:
		f.err = f.sub.compacted(r.Zxid)
	default:
		f.after = r.Zxid
	}
}

// failed handles an error: after the end of a connection, and of a session that is renewed, the feed
// begins again.
func (f *Follower) failed(err error) {
	f.sub.end()
	f.taken = 0
	again := errors.Is(err, ErrSessionExpired) && f.c.s.opts.RenewSession && f.c.bound == 0
	if again || errors.Is(err, ErrConnectionLoss) {
		f.subscribe()
		return
	}
	f.err = err
}

// feedEvent is an event of a feed, with what it has cost.
type feedEvent struct {
	jute.FeedEvent
	bytes int
}

// subscription is a feed on one connection.
type subscription struct {
	c       *Client
	path    string // as the caller passed it
	request jute.SubscribeRequest
	ready   chan struct{} // capacity 1: there is an event, or err
	used    int           // bytes of events for which the server has got no new credit

	// Guarded by session.mu.
	set    bool // the server has it
	level  bool // each change comes before the replies that show it
	events []feedEvent
	err    error // there are no events after these
}

// compacted returns the error that the server has only changes after a zxid.
func (b *subscription) compacted(oldest Zxid) error {
	return &Error{Op: jute.OpSubscribe, Path: b.path, Err: &CompactedError{After: b.request.After, Oldest: oldest}}
}

// next returns the next event, or nil if none has come.
func (b *subscription) next() (e *feedEvent, err error) {
	s := b.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.events) == 0 {
		if b.err != nil {
			return nil, &Error{Op: jute.OpSubscribe, Path: b.path, Err: b.err}
		}
		return nil, nil
	}
	if e, b.events = &b.events[0], b.events[1:]; e.Compacted {
		return nil, b.compacted(e.Zxid)
	}
	return e, nil
}

// consumed gives the server new credit when enough has been consumed.
func (b *subscription) consumed(bytes int) {
	if b.used += bytes; b.used >= feedWindow/2 {
		start(b.c, &b.c.s.table().credit, args{feed: b, version: int64(b.used)}, nil)
		b.used = 0
	}
}

// end makes the server forget the feed.
func (b *subscription) end() { start(b.c, &b.c.s.table().unsubscribe, args{feed: b}, nil) }

// pushLocked adds an event, or the reason why there are no more.
func (b *subscription) pushLocked(e feedEvent, err error) {
	if err != nil {
		b.err = err
	} else {
		b.events, b.level = append(b.events, e), e.Level
	}
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// fed handles an event of a feed.
func (l *link) fed(d *jute.Decoder, bytes int) error {
	e := feedEvent{bytes: bytes}
	e.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	if !e.Level {
		l.hear()
	}
	if r := l.s.relay; r != nil {
		return r.fed(l, &e)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if b := l.s.feeds[e.Feed]; b != nil { // it has not been ended meanwhile
		b.pushLocked(e, nil)
	}
	return nil
}

// endFeedsLocked ends the feeds of the connection.
func (s *session) endFeedsLocked(err error) {
	for id, b := range s.feeds {
		if b.set {
			b.pushLocked(feedEvent{}, err)
			delete(s.feeds, id)
		}
	}
}

func encodeSubscribe(c *Client, k *call, a *args, b []byte) ([]byte, error) {
	s := c.s
	r := &a.feed.request
	delete(s.feeds, r.Feed) // of an attempt that failed
	s.feedID++
	r.Feed, r.Path = s.feedID, a.full
	if s.feeds == nil {
		s.feeds = map[int32]*subscription{}
	}
	s.feeds[r.Feed], k.feed = a.feed, a.feed
	return r.Append(b), nil
}

func decodeSubscribed(p *pending, val *jute.SubscribeResponse, d *jute.Decoder) {
	val.Decode(d)
	s := p.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.feed.set = !val.Compacted; !p.feed.set {
		delete(s.feeds, p.feed.request.Feed)
	}
}

func encodeCredit(c *Client, _ *call, a *args, b []byte) ([]byte, error) {
	if c.s.conn == nil || !a.feed.set || a.feed.err != nil {
		return nil, errDone{}
	}
	r := jute.CreditRequest{Feed: a.feed.request.Feed, Credit: int32(a.version)}
	return r.Append(b), nil
}

// encodeUnsubscribe takes the feed out of the session's table. If its connection is lost, or it never
// began, there is nothing else to do.
func encodeUnsubscribe(c *Client, _ *call, a *args, b []byte) ([]byte, error) {
	id := a.feed.request.Feed
	if c.s.feeds[id] != a.feed {
		return nil, errDone{}
	}
	delete(c.s.feeds, id)
	if l := c.s.conn; l == nil || l.features&jute.FeatureFeed == 0 {
		return nil, errDone{}
	}
	r := jute.UnsubscribeRequest{Feed: id}
	return r.Append(b), nil
}
