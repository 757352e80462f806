package clients

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/feed"
)

// A connection's feeds (package feed) are cursors in the history of changes. What they have to send
// is put into the out buffer by the feeder, and before anything else is put there that could show
// a change which they lack: see conn.beginLocked.

// subscribe begins a feed.
func (r *read) subscribe() error {
	var p jute.SubscribeRequest
	d := jute.NewDecoder(r.req.body)
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	zxid, err := r.c.mu.feeds.Subscribe(r.feeder.history, r.places, r.c.groups(), &p, r.zxid)
	gone, compacted := errors.AsType[*jute.CompactedError](err)
	switch {
	case compacted:
		r.end((&jute.SubscribeResponse{Zxid: gone.Oldest, Compacted: true}).Append(b))
		return nil
	case err != nil:
		r.c.discard(b)
		return err
	}
	r.end((&jute.SubscribeResponse{Zxid: zxid}).Append(b))
	r.feeder.add(r.c)
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
	if err := r.c.mu.feeds.Grant(&p); err != nil {
		r.c.discard(b)
		return err
	}
	r.end(b)
	r.feeder.wake()
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
	if err := r.c.mu.feeds.Unsubscribe(&p); err != nil {
		r.c.discard(b)
		return err
	}
	r.end(b)
	return nil
}

// sendEventLocked puts the next event of a feed, if it has one, into the out buffer, unless the
// connection ends. A client that does not take its events loses the connection.
func (c *conn) sendEventLocked(f *feed.Feed) bool {
	if c.isOverLocked() {
		return false
	}
	if c.mu.out == nil {
		c.mu.out = outBuffers.Get().(*outBuffer)
	}
	b := c.mu.out.chunk()
	begin := len(b)
	b = f.Append(b, c.mayRead)
	c.mu.out.b = b
	if len(b) == begin {
		return true
	}
	c.countFrameLocked(len(b) - begin - 4)
	if c.overLimitLocked() {
		c.clients.log.Warn("closing connection: it does not take the events of its feeds",
			zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("limit_bytes", outLimit))
		c.endWithLocked(false)
	}
	return true
}

// mayRead reports whether an ACL list allows the client to read.
func (c *conn) mayRead(acl []jute.ACL) bool {
	return c.clients.schemes.Allowed(acl, jute.PermRead, c.present().IDs())
}

// feed puts the next event of each feed into the out buffer, and reports whether there is more.
func (c *conn) feed() (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more = c.mu.feeds.Next(c.sendEventLocked)
	if c.mu.out != nil && c.mu.out.len() > 0 && !c.mu.ending && !c.mu.gone {
		c.clients.flushers.add(c)
	}
	return more
}

// feeder gives the feeds of all connections what is added to the history. It has a goroutine while there are
// connections that have subscribed.
type feeder struct {
	history *feed.History // nil for none
	changed chan struct{} // capacity 1: the feeds are to be looked at

	mu      sync.Mutex
	conns   map[*conn]struct{}
	running bool
}

func newFeeder(history *feed.History) *feeder {
	return &feeder{history: history, changed: make(chan struct{}, 1), conns: map[*conn]struct{}{}}
}

// add makes the feeder look after a connection, until remove.
func (f *feeder) add(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = struct{}{}
	if !f.running {
		f.running = true
		c.clients.running.Go(f.run)
	}
	f.wake()
}

func (f *feeder) remove(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.conns[c]; ok {
		delete(f.conns, c)
		f.wake()
	}
}

// wake makes the feeder look at all feeds.
func (f *feeder) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *feeder) run() {
	var conns []*conn
	for {
		_, last := f.history.Span()
		if conns = f.list(conns); len(conns) == 0 {
			return
		}
		more := false
		for _, c := range conns {
			more = c.feed() || more
		}
		if more {
			continue
		}
		select {
		case <-f.history.More(last):
		case <-f.changed:
		}
	}
}

// list returns the connections in the memory of used. If there are none, the goroutine has to end.
func (f *feeder) list(used []*conn) []*conn {
	clear(used)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = len(f.conns) > 0
	return slices.AppendSeq(used[:0], maps.Keys(f.conns))
}
