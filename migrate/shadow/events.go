package shadow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// side is one of the two ensembles.
type side int

const (
	apacheSide side = iota
	zkdSide
)

// event is a watch event.
type event struct {
	jute.WatcherEvent
	zxid jute.Zxid
	at   time.Duration
}

// pathEvents are the events of a path that one side has sent, and the other has not.
type pathEvents struct {
	side side
	list []event
}

// event compares an event with the next one that the other side has sent for the path, or
// keeps it until that comes.
func (e *Engine) event(c *conn, from side, zxid jute.Zxid, d *jute.Decoder) {
	ev := event{zxid: zxid, at: e.now}
	if ev.Decode(d); d.Err() != nil {
		e.report(c, Report{Class: Difference, Op: "event", What: []string{"a malformed event"}})
		return
	}
	e.next(c, from, ev)
}

// next is about an event that has been decoded.
func (e *Engine) next(c *conn, from side, ev event) {
	p := c.events[ev.Path]
	if p == nil || p.side == from {
		if p == nil {
			p = &pathEvents{side: from}
			c.events[ev.Path] = p
		}
		p.list = append(p.list, ev)
		c.held += ev.held()
		return
	}
	other := p.list[0]
	a, z := &ev, &other
	if from == zkdSide {
		a, z = z, a
	}
	if known, ok := e.compare.zxids.of(a.zxid); ok && known != z.zxid && z.zxid > 0 && (c.isLate(a) || c.isLate(z)) {
		if (known < z.zxid) == (from == apacheSide) { // of an earlier change: the other side had no watch then
			e.alone(c, from, &ev)
			return
		}
		e.dropEvent(c, p)
		e.alone(c, p.side, &other)
		e.next(c, from, ev)
		return
	}
	e.dropEvent(c, p)
	e.sum.Events++
	open := e.isOpenEvent(c, a) || e.isOpenEvent(c, z)
	r := Report{Class: Difference, Op: "event", Path: ev.Path, Apache: a.String(), Zkd: z.String()}
	var what differences
	differ(&what, "type", a.Type, z.Type)
	differ(&what, "state", a.State, z.State)
	switch {
	case len(what) > 0:
	case a.zxid == -1 && z.zxid > 0:
		r.Class, r.ID = Known, "event-zxid"
		what.add("zxid", int64(a.zxid), z.zxid)
	case a.zxid == -1 && z.zxid == -1: // of a setWatches
	case a.zxid <= 0 || z.zxid <= 0 || !agrees(e.compare.zxids, a.zxid, z.zxid, !open):
		what.add("zxid", a.zxid, z.zxid)
	}
	if len(what) > 0 {
		r.What = what
		e.reportEvent(c, r, a.zxid, open)
		return
	}
	if known, ok := e.compare.zxids.of(a.zxid); ok && known == z.zxid {
		e.alike(c, z)
	}
}

func (e *Engine) isOpenEvent(c *conn, ev *event) bool {
	return c.isLate(ev) || e.isOpen([]string{ev.Path}) || e.anyIn(e.openLists, []string{ev.Path})
}

// watch is what a client may watch of a znode: its children, or the rest.
type watch struct {
	path     string
	children bool
}

// leaveWatches leaves open what a connection hears of znodes: the answer to a late request may be the same although the watch
// of one side has come after changes that the other one's tells. zkd has answered at a zxid.
func (e *Engine) leaveWatches(o *op, at jute.Zxid) {
	c := o.conn
	if c.late == nil {
		c.late = map[watch]jute.Zxid{}
	}
	before := len(c.late)
	for _, path := range o.reads {
		for _, children := range []bool{false, true} {
			if o.mayWatch(children) {
				c.late[watch{strings.Clone(path), children}] = at
			}
		}
	}
	e.late += len(c.late) - before
	if e.late > keptLate {
		e.stop(c, "too many of its reads came late in the order")
	}
}

// mayWatch reports whether a request may set a watch for children, or one for the rest.
func (r *request) mayWatch(children bool) bool {
	switch r.op {
	case jute.OpGetData, jute.OpExists:
		return !children
	case jute.OpGetChildren, jute.OpGetChildren2:
		return children
	}
	return true
}

// isLate reports whether one side may send an event alone, for a watch that was set late.
func (c *conn) isLate(ev *event) bool {
	return slices.ContainsFunc(ev.watched(), func(w watch) bool { _, ok := c.late[w]; return ok })
}

// watched returns the watches that an event is for.
func (ev *event) watched() []watch {
	switch ev.Type {
	case jute.EventChildrenChanged:
		return []watch{{ev.Path, true}}
	case jute.EventDeleted:
		return []watch{{ev.Path, false}, {ev.Path, true}}
	}
	return []watch{{ev.Path, false}}
}

// alike is about an event that both sides have sent of one change. If that came after the late requests, no side has such a
// watch now that the other one lacks.
func (e *Engine) alike(c *conn, z *event) {
	for _, w := range z.watched() {
		if at, ok := c.late[w]; ok && z.zxid > at {
			delete(c.late, w)
			e.late--
		}
	}
}

// forgetLate forgets the watches of a connection that is compared no longer.
func (e *Engine) forgetLate(c *conn) {
	e.late -= len(c.late)
	c.late = nil
}

func (ev *event) held() int { return 100 + len(ev.Path) }

func (ev *event) String() string { return fmt.Sprintf("%v %q zxid=%v", ev.Type, ev.Path, ev.zxid) }

// dropEvent removes the oldest event of a path.
func (e *Engine) dropEvent(c *conn, p *pathEvents) {
	ev := p.list[0]
	c.held -= ev.held()
	if p.list = p.list[1:]; len(p.list) == 0 {
		delete(c.events, ev.Path)
	}
}

// reportEvent reports a difference between events.
func (e *Engine) reportEvent(c *conn, r Report, apacheZxid jute.Zxid, open bool) {
	switch {
	case r.ID != "":
	case apacheZxid == -1 && c.hasPersistent(r.Path):
		r.Class, r.ID = Known, "watch-modes"
	case open:
		r.Class = Order
	}
	e.report(c, r)
}

// hasPersistent reports whether the client has set a watch on the path, or above it, by addWatch.
func (c *conn) hasPersistent(path string) bool {
	for watched := range c.persistent {
		if path == watched || strings.HasPrefix(path, strings.TrimSuffix(watched, "/")+"/") {
			return true
		}
	}
	return false
}

// oldEvents reports the events that only one side has sent, a while ago. Events that came after
// busy may still be caused on zkd.
func (e *Engine) oldEvents(c *conn, busy, grace time.Duration) {
	var old []*pathEvents
	for _, p := range c.events {
		if at := p.list[0].at; e.now-at >= grace && busy > at {
			old = append(old, p)
		}
	}
	slices.SortFunc(old, func(a, b *pathEvents) int { return strings.Compare(a.list[0].Path, b.list[0].Path) })
	for _, p := range old {
		ev, from := p.list[0], p.side
		e.dropEvent(c, p)
		e.alone(c, from, &ev)
	}
}

// alone reports an event that only one side has sent.
func (e *Engine) alone(c *conn, from side, ev *event) {
	apacheZxid := ev.zxid
	r := Report{Class: Difference, Op: "event", Path: ev.Path, Apache: ev.String(), Zkd: "none", What: []string{"event: sent, zkd none"}}
	if from == zkdSide {
		apacheZxid = -1
		r.Apache, r.Zkd, r.What = "none", ev.String(), []string{"event: none, zkd sent"}
	}
	e.reportEvent(c, r, apacheZxid, e.isOpenEvent(c, ev))
}
