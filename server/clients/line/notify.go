package line

import (
	"bytes"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/watch"
)

// Notify sends an event of a transaction to its watchers that may read the node. It returns
// their number. While a transaction is applied in slices, so is an event with many watchers sent.
func (a *Answers) Notify(ev *datatree.Event, zxid jute.Zxid) (notified int) {
	if zxid != a.zxid {
		a.lists.Forget()
	}
	a.ev, a.zxid, a.event, a.notified = ev, zxid, a.event[:0], 0
	if a.State.Slicing() == nil {
		a.State.Watches.Trigger(ev.Type, ev.Path, a.deliver)
	} else {
		a.notifyInParts(ev)
	}
	if persistentOnce.Planted() {
		for _, w := range a.fired {
			a.State.Watches.Remove(w, ev.Path, jute.WatchPersistent)
		}
		a.fired = a.fired[:0]
	}
	return a.notified
}

func (a *Answers) notifyInParts(ev *datatree.Event) {
	part := a.Server.Limits().Part
	for f := watch.NewFiring(ev.Type, ev.Path); a.State.Watches.Fire(&f, part, a.deliver); {
		a.applier.Telling(part)
		if restUntold.Planted() {
			return
		}
	}
}

// deliverTo sends the event to one watcher. The watch table is locked.
func (a *Answers) deliverTo(w watch.Watcher) {
	l := a.Register.Watcher(w)
	if l == nil || !a.mayRead(l) {
		return
	}
	if len(a.event) == 0 {
		b, mark := jute.BeginFrame(a.event)
		h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: a.zxid}
		a.event = jute.EndFrame(appendEvent(h.Append(b), a.ev.Type, a.ev.Path), mark)
	}
	if persistentOnce.Planted() {
		a.fired = append(a.fired, w)
	}
	if eventLate.Planted() {
		a.late = append(a.late, heldEvent{l, bytes.Clone(a.event)})
		return
	}
	a.sendEvent(l, a.event)
	if firesTwice.Planted() {
		a.sendEvent(l, a.event)
	}
}

// mayRead reports whether the client of a line may read the node of the event.
func (a *Answers) mayRead(l *Line) bool {
	allowed, _ := a.Schemes.AllowedOnce(&a.lists, a.ev.ACL, jute.PermRead, l.host.Present().IDs())
	return allowed
}

// sendEvent sends an event to a line, and ends the line if its client does not take its events.
func (a *Answers) sendEvent(l *Line, event []byte) {
	l.host.Lock()
	sent := l.Send(event)
	if !sent {
		a.Server.Slow(l, Events)
	}
	l.host.Unlock()
	if !sent {
		l.host.Kill()
		return
	}
	a.notified++
	a.applier.Notified(l, len(event))
	a.applier.Dirty(l)
}

// heldEvent is an event that a fault delays.
type heldEvent struct {
	line  *Line
	event []byte
}

func (a *Answers) sendLate() {
	for _, h := range a.late {
		a.sendEvent(h.line, h.event)
	}
	a.late = a.late[:0]
}

// appendEvent appends the body of a notification.
func appendEvent(b []byte, typ jute.EventType, path string) []byte {
	e := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return e.Append(b)
}
