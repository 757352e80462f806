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
	e.dropEvent(c, p)
	e.sum.Events++
	a, z := ev, other
	if from == zkdSide {
		a, z = z, a
	}
	open := e.isOpenEvent(c, ev.Path)
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
	}
}

func (e *Engine) isOpenEvent(c *conn, path string) bool {
	return c.late[path] || e.isOpen([]string{path}) || e.anyIn(e.openLists, []string{path})
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
		ev := p.list[0]
		e.dropEvent(c, p)
		r := Report{Class: Difference, Op: "event", Path: ev.Path, Apache: ev.String(), Zkd: "none", What: []string{"event: sent, zkd none"}}
		if p.side == zkdSide {
			r.Apache, r.Zkd, r.What = "none", ev.String(), []string{"event: none, zkd sent"}
		}
		apacheZxid := ev.zxid
		if p.side == zkdSide {
			apacheZxid = -1
		}
		e.reportEvent(c, r, apacheZxid, e.isOpenEvent(c, ev.Path))
	}
}
