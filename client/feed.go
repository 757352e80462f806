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
	Zxid    Zxid
	Kind    ChangeKind
	Path    string // in the view that follows the feed
	Stat    Stat   // right after the change; zero if the node was deleted
	Data    []byte // with FeedOptions.Data, of a node that was created or got other data
	Time    time.Time
	Session SessionID // that made the change
	// Resume is the zxid up to which all changes have come, this one included. A feed with it as
	// FeedOptions.After has the following ones. While other changes of the same transaction may
	// follow, it is that of an earlier transaction.
	Resume Zxid
}

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
// was too slow, or its After is too old. Read the nodes, and begin a feed after the zxid of what was
// read. The error is ErrUnimplemented if a server does not offer feeds, such as Apache's.
func (c *Client) Feed(ctx context.Context, path string, o FeedOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		f := follower{c: c, path: path, o: o, after: o.After}
		if err := f.run(ctx, yield); err != nil {
			yield(Change{}, err)
		}
	}
}

// follower is a feed over all its connections.
type follower struct {
	c     *Client
	path  string
	o     FeedOptions
	after Zxid        // up to which everything has been yielded
	last  jute.Change // the last one that was yielded
}

// run yields changes. It returns nil if yield does not want more.
func (f *follower) run(ctx context.Context, yield func(Change, error) bool) error {
	for {
		sub, err := f.subscribe(ctx)
		for more := true; err == nil; {
			var e feedEvent
			if e, err = sub.next(ctx); err == nil {
				more = f.yield(&e, yield)
				sub.taken(e.bytes)
			}
			if !more {
				sub.end()
				return nil
			}
		}
		sub.end()
		if !errors.Is(err, ErrConnectionLoss) || ctx.Err() != nil {
			return err
		}
	}
}

// yield yields the changes of an event, and reports whether more are wanted. What an earlier
// connection has brought is left out: a part of a transaction.
func (f *follower) yield(e *feedEvent, yield func(Change, error) bool) bool {
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
		if c.Zxid < f.last.Zxid || c.Zxid == f.last.Zxid && c.Index <= f.last.Index {
			continue
		}
		f.last = jute.Change{Zxid: c.Zxid, Index: c.Index}
		change := Change{
			Zxid: c.Zxid, Kind: c.Kind, Path: f.c.strip(c.Path), Stat: c.Stat, Data: c.Data,
			Time: time.UnixMilli(c.Time), Session: c.Session, Resume: resume,
		}
		if !yield(change, nil) {
			return false
		}
	}
	f.after = max(f.after, e.Zxid)
	return true
}

// subscribe begins the feed on a connection. The subscription is to be ended even after an error.
func (f *follower) subscribe(ctx context.Context) (*subscription, error) {
	sub := &subscription{c: f.c, path: f.path, ready: make(chan struct{}, 1)}
	sub.request = jute.SubscribeRequest{
		Recursive: !f.o.Alone, After: f.after, Data: f.o.Data, Kinds: jute.ChangeKindsOf(f.o.Kinds...), Credit: feedWindow,
	}
	got, err := do(ctx, f.c, &f.c.s.ops.subscribe, args{path: f.path, feed: sub})
	switch {
	case err != nil:
		return sub, err
	case got.Compacted:
		return sub, sub.compacted(got.Zxid)
	}
	f.after = got.Zxid
	return sub, nil
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
	events []feedEvent
	err    error // there are no events after these
}

// compacted returns the error that the server has only changes after a zxid.
func (b *subscription) compacted(oldest Zxid) error {
	return &Error{Op: jute.OpSubscribe, Path: b.path, Err: &CompactedError{After: b.request.After, Oldest: oldest}}
}

// next waits for an event.
func (b *subscription) next(ctx context.Context) (e feedEvent, err error) {
	s := b.c.s
	for {
		s.mu.Lock()
		if len(b.events) > 0 {
			e, b.events = b.events[0], b.events[1:]
			s.mu.Unlock()
			break
		}
		err = b.err
		s.mu.Unlock()
		if err != nil {
			return e, &Error{Op: jute.OpSubscribe, Path: b.path, Err: err}
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return e, &Error{Op: jute.OpSubscribe, Path: b.path, Err: context.Cause(ctx)}
		}
	}
	if e.Compacted {
		return e, b.compacted(e.Zxid)
	}
	return e, nil
}

// taken gives the server new credit when enough has been taken.
func (b *subscription) taken(bytes int) {
	if b.used += bytes; b.used >= feedWindow/2 {
		start(b.c, &b.c.s.ops.credit, args{feed: b, version: int64(b.used)}, nil)
		b.used = 0
	}
}

// end makes the server forget the feed.
func (b *subscription) end() { start(b.c, &b.c.s.ops.unsubscribe, args{feed: b}, nil) }

// pushLocked adds an event, or the reason why there are no more.
func (b *subscription) pushLocked(e feedEvent, err error) {
	if err != nil {
		b.err = err
	} else {
		b.events = append(b.events, e)
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
	s.feeds[r.Feed], k.feed = a.feed, a.feed
	return r.Append(b), nil
}

func decodeSubscribed(f *Future[jute.SubscribeResponse], d *jute.Decoder) {
	f.val.Decode(d)
	s := f.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.feed.set = !f.val.Compacted; !f.feed.set {
		delete(s.feeds, f.feed.request.Feed)
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
