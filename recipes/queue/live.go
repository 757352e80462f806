package queue

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// live is a queue whose stock is kept up to date while it is worked off, for what
// comes later may have to be taken first. A recursive watch tells which items come and
// go, so that the list is read once and not after each change.
//
// By the time that the reply to a read or a change is here the events before it are,
// too: pop looks at them first. So an item that the consumer's server knew of is not
// overlooked.
type live struct {
	core
	mu    sync.Mutex
	watch *client.Watch // nil if there is none
	stale bool          // the list has to be read
}

func (l *live) init(c *client.Client, path string, o Options, n naming) error {
	err := l.core.init(c, path, o, n)
	l.find = l.findLive
	l.stock.more = make(chan struct{}, 1)
	return err
}

// Close is that of a Queue.
func (l *live) Close(ctx context.Context) error {
	l.life.close()
	if w := l.current(); w != nil {
		dropWatch(ctx, w)
	}
	return l.core.Close(ctx)
}

// findLive returns up to n items that may be taken now.
func (l *live) findLive(ctx context.Context, n int, wait bool) ([]*entry, error) {
	if !wait {
		return l.popLive(ctx, n)
	}
	if err := l.sentry.get(ctx); err != nil {
		return nil, err
	}
	defer l.sentry.put()
	for {
		entries, err := l.popLive(ctx, n)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		if err := l.pause(ctx); err != nil {
			return nil, err
		}
	}
}

func (l *live) popLive(ctx context.Context, n int) ([]*entry, error) {
	if err := l.listing.get(ctx); err != nil {
		return nil, err
	}
	defer l.listing.put()
	if err := l.update(ctx); err != nil {
		return nil, err
	}
	return l.stock.pop(n, false, l.ready()), nil
}

// ready tells which items may be taken; nil is all.
func (l *live) ready() func(*entry) bool {
	if !l.naming.framed {
		return nil
	}
	now := l.o.Clock.Now().UnixMilli()
	return func(e *entry) bool { return e.rank <= now }
}

// update makes the stock what the events say that there is. The caller has listing.
func (l *live) update(ctx context.Context) error {
	w := l.current()
	for w != nil && w.Pending() {
		select {
		case e, ok := <-w.Events():
			l.apply(w, e, ok)
		default: // on its way into the channel, or pause has it
			runtime.Gosched()
		}
	}
	if w = l.current(); w == nil || w.Err() != nil {
		var err error
		if w, err = l.c.AddWatch(ctx, l.dir, client.WatchRecursive); err != nil {
			return err
		}
		l.set(w, true)
	}
	if !l.isStale() {
		return nil
	}
	l.set(w, false)
	// The list is read behind the watch: what comes after it is not missed.
	entries, err := l.list(ctx)
	if err != nil {
		l.set(w, true)
		return err
	}
	l.stock.fill(entries)
	return nil
}

func (l *live) current() *client.Watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch
}

func (l *live) isStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale
}

func (l *live) set(w *client.Watch, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch, l.stale = w, stale
}

// apply does to the stock what an event says. ok is false if the watch has ended. The
// caller has listing.
func (l *live) apply(w *client.Watch, e client.Event, ok bool) {
	name, item := strings.CutPrefix(e.Path, l.dir+"/")
	what, known := l.naming.parse(name)
	switch {
	case !ok:
		l.set(nil, true)
	case e.Type == client.EventRearmed, item && !known, !item && e.Type == client.EventDeleted:
		l.set(w, true)
	case e.Type == client.EventDataChanged && item && l.naming.flagged:
		l.stock.drop(what) // it may have been read ahead as the draft that it was
		l.stock.put(what)
	case e.Type == client.EventCreated && item && !l.naming.flagged:
		l.stock.put(what)
	case e.Type == client.EventDeleted && item:
		l.stock.drop(what)
	}
}

// pause returns when there may be something to take.
func (l *live) pause(ctx context.Context) error {
	w := l.current()
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
			l.set(w, true) // for the event is lost
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

// ranked offers items of a rank, which is checked; what says what is wrong with it.
func (l *live) ranked(ctx context.Context, rank int64, what string, items [][]byte) error {
	if rank < 0 || rank > l.naming.most {
		return badArgument(l.dir, what)
	}
	return l.offer(ctx, rank, items...)
}
