package line

import (
	"errors"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/feed"
)

// A line's feeds (package feed) are cursors in the history of changes. What they have to send
// is put into the buffer by Line.Feed, and before anything else is put there that could show
// a change which they lack: see Line.catchUp.

// subscribe begins a feed.
func (r *read) subscribe() error {
	var p jute.SubscribeRequest
	d := jute.NewDecoder(r.req.Body)
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	zxid, err := r.l.feeds.Subscribe(r.History, r.Places, r.l.host.Groups(), &p, r.zxid)
	gone, compacted := errors.AsType[*jute.CompactedError](err)
	switch {
	case compacted:
		r.end((&jute.SubscribeResponse{Zxid: gone.Oldest, Compacted: true}).Append(b))
		return nil
	case err != nil:
		r.l.Discard(b)
		return err
	}
	r.end((&jute.SubscribeResponse{Zxid: zxid}).Append(b))
	r.Server.Subscribed(r.l, true)
	return nil
}

// credit adds to the credit of a feed.
func (r *read) credit() error {
	var p jute.CreditRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	if err := r.l.feeds.Grant(&p); err != nil {
		r.l.Discard(b)
		return err
	}
	r.end(b)
	r.Server.Subscribed(r.l, false)
	return nil
}

// unsubscribe ends a feed.
func (r *read) unsubscribe() error {
	var p jute.UnsubscribeRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	if err := r.l.feeds.Unsubscribe(&p); err != nil {
		r.l.Discard(b)
		return err
	}
	r.end(b)
	return nil
}

// sendEvent puts the next event of a feed, if it has one, into the buffer, unless the
// connection ends. A client that does not take its events loses the connection.
func (l *Line) sendEvent(f *feed.Feed) bool {
	if l.IsOver() {
		return false
	}
	b := l.chunk()
	begin := len(b)
	sight := &sight{schemes: l.lines.Schemes, ids: l.host.Present().IDs()}
	b = f.Append(b, sight.mayRead)
	l.out.b = b
	size := len(b) - begin - 4
	if size < 0 {
		return true
	}
	l.out.observeSize(size)
	l.host.Sent(size)
	if l.tooSlow() {
		l.lines.Server.Slow(l, Feeds)
		l.End(false)
	}
	return true
}

// sight decides what a client sees of the changes in one event.
type sight struct {
	schemes *auth.Schemes
	ids     []jute.ID
	lists   auth.Memory
}

// mayRead reports whether an ACL list allows the client to read.
func (s *sight) mayRead(acl []jute.ACL) bool {
	allowed, _ := s.schemes.AllowedOnce(&s.lists, acl, jute.PermRead, s.ids)
	return allowed
}

// Feed puts the next event of each feed into the buffer, and reports whether there is more.
func (l *Line) Feed() (more bool) {
	if feederAsleep.Planted() {
		return false
	}
	return l.feeds.Next(l.sendEvent)
}

// Feeds returns the feeds of the line.
func (l *Line) Feeds() []*feed.Feed { return l.feeds.All() }
