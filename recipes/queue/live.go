package queue

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Priority is a queue from which the items with the lowest priority number are taken
// first, and those of one priority first in, first out. It needs servers that know
// recursive watches: Apache ZooKeeper 3.6 or later. It may be used from any goroutine.
type Priority struct{ consumer }

// NewPriority returns the priority queue at path. It sends no request. Options.Layout is
// Kazoo if it is 0.
func NewPriority(c *client.Client, path string, o Options) (*Priority, error) {
	switch {
	case o.Layout == 0:
		o.Layout = Kazoo
	case o.Layout == Apache:
		return nil, fmt.Errorf("queue: Options.Layout is Apache, which has no priorities: it should be Kazoo or Book")
	}
	if o.Unordered {
		return nil, fmt.Errorf("queue: Options.Unordered can't be set for a priority queue")
	}
	q := &Priority{}
	if err := q.initLive(c, path, o, o.Layout.naming()); err != nil {
		return nil, err
	}
	return q, nil
}

// Offer adds an item: see Queue.Offer. Priorities are 0, which is the highest, to 999, or
// with the layout Book to 99.
func (q *Priority) Offer(ctx context.Context, data []byte, priority int) error {
	return q.OfferAll(ctx, [][]byte{data}, priority)
}

// OfferAll adds items of one priority: see Queue.OfferAll.
func (q *Priority) OfferAll(ctx context.Context, items [][]byte, priority int) error {
	return q.offerRanked(ctx, int64(priority), fmt.Sprintf("the priority is %d: it should be 0 to %d", priority, q.naming.most), items)
}

// Delay is a queue whose items each have a time from which on they can be taken; the
// earliest comes first. Consumers use their own clock, Options.Clock. Peek returns the
// first item even before its time. It needs servers that know recursive watches: Apache
// ZooKeeper 3.6 or later. It may be used from any goroutine.
type Delay struct{ consumer }

// NewDelay returns the delay queue at path. It sends no request.
func NewDelay(c *client.Client, path string, o Options) (*Delay, error) {
	if o.Layout != 0 || o.Unordered {
		return nil, fmt.Errorf("queue: a delay queue has its own layout and order: Options.Layout should be 0, and Unordered false")
	}
	q := &Delay{}
	if err := q.initLive(c, path, o, delayNaming); err != nil {
		return nil, err
	}
	return q, nil
}

// Offer adds an item that can be taken at that time, cut to milliseconds, or later: see
// Queue.Offer. Times before 1970 are errors. A time that is too far away for the layout, some
// 292 million years, is the last one that it has.
func (q *Delay) Offer(ctx context.Context, data []byte, at time.Time) error {
	return q.OfferAll(ctx, [][]byte{data}, at)
}

// OfferAll adds items of one time: see Queue.OfferAll.
func (q *Delay) OfferAll(ctx context.Context, items [][]byte, at time.Time) error {
	return q.offerRanked(ctx, unixMilli(at), fmt.Sprintf("the time is %v: it should be in 1970 or later", at), items)
}

// unixMilli is Time.UnixMilli that does not overflow.
func unixMilli(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/1000:
		return math.MaxInt64
	case s <= math.MinInt64/1000:
		return math.MinInt64
	}
	return t.UnixMilli()
}

// live is the source of a queue in which a new item may have to be taken before older ones.
// A recursive watch says which items come and go, so that the list is read once and not
// after each change.
//
// The events before the reply to a read or a change have arrived when the reply has, and
// find applies them first. So it overlooks no item that the consumer's server knew of.
type live struct {
	*core
	waiting permit // to wait for items

	mu    sync.Mutex
	watch *client.Watch // nil if there is none
	stale bool          // the list must be read
}

func (q *consumer) initLive(c *client.Client, path string, o Options, n naming) error {
	if err := q.init(c, path, o, n); err != nil {
		return err
	}
	q.stock.more = make(chan struct{}, 1)
	q.source = &live{core: &q.core, waiting: newPermit()}
	return nil
}

func (l *live) close(ctx context.Context) {
	if w, _ := l.state(); w != nil {
		line.DropWatch(ctx, w)
	}
}

func (l *live) find(ctx context.Context, n int, wait bool) ([]*entry, error) {
	if !wait {
		return l.pop(ctx, n)
	}
	return l.waiting.await(ctx, n, l.pop, l.pause)
}

// pop returns up to n items that may be taken now.
func (l *live) pop(ctx context.Context, n int) ([]*entry, error) {
	if err := l.listing.get(ctx); err != nil {
		return nil, err
	}
	defer l.listing.put()
	if err := l.update(ctx); err != nil {
		return nil, err
	}
	most := int64(math.MaxInt64)
	if l.naming.framed {
		most = l.o.Clock.Now().UnixMilli()
	}
	return l.stock.pop(n, most, false), nil
}

// update applies the events to the stock, or reads the list. The caller has listing.
func (l *live) update(ctx context.Context) error {
	for w, _ := l.state(); w != nil && w.Pending(); {
		select {
		case e, ok := <-w.Events():
			l.apply(w, e, ok)
		default: // on its way into the channel, or pause has it
			runtime.Gosched()
		}
	}
	w, stale := l.state()
	if w == nil || w.Err() != nil {
		var err error
		if w, err = l.c.AddWatch(ctx, l.dir, client.WatchRecursive); err != nil {
			return err
		}
		stale = true
	}
	if !stale {
		return nil
	}
	// The list is read after the watch was set: what comes later is not missed.
	l.set(w, false)
	entries, err := l.list(ctx)
	if err != nil {
		l.set(w, true)
		return err
	}
	l.stock.fill(entries)
	return nil
}

func (l *live) state() (w *client.Watch, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch, l.stale
}

func (l *live) set(w *client.Watch, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch, l.stale = w, stale
}

// apply applies an event to the stock. ok is false if the watch has ended. The caller has
// listing.
func (l *live) apply(w *client.Watch, e client.Event, ok bool) {
	name, below := strings.CutPrefix(e.Path, l.dir+"/")
	what, known := l.naming.parse(name)
	switch {
	case !ok:
		l.set(nil, true)
	case e.Type == client.EventRearmed, below && !known, !below && e.Type == client.EventDeleted:
		l.set(w, true)
	case e.Type == client.EventDataChanged && below && l.naming.flagged:
		l.stock.drop(what) // it may have been read ahead while it was a draft
		l.stock.put(what)
	case e.Type == client.EventCreated && below && !l.naming.flagged:
		l.stock.put(what)
	case e.Type == client.EventDeleted && below:
		l.stock.drop(what)
	}
}

// pause returns when there may be something to take.
func (l *live) pause(ctx context.Context) error {
	w, _ := l.state()
	if w == nil {
		return nil
	}
	var due <-chan time.Time
	if e := l.stock.first(); e != nil {
		if !l.naming.framed {
			return nil
		}
		due = l.o.Clock.After(time.UnixMilli(e.rank).Sub(l.o.Clock.Now()))
	}
	select {
	case e, ok := <-w.Events():
		if err := l.listing.get(ctx); err != nil {
			l.set(w, true) // the event is lost
			return err
		}
		defer l.listing.put()
		l.apply(w, e, ok)
	case <-l.stock.more:
	case <-due:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
