package zktest

import (
	"context"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// Traced is a request that a client has made, or an event that it got.
type Traced struct {
	// Op is the request's operation, or 0 for an event. A multi has one entry for each of its
	// operations, all with OpMulti.
	Op    client.OpCode
	Event client.EventType // of an event
	Path  string           // the servers' path, with the client's chroot
	Watch bool             // the request is a read that sets a watch
}

// String returns "getData /a", "getData /a watch", or "event NodeDeleted /a".
func (r Traced) String() string {
	switch {
	case r.Op == 0:
		return fmt.Sprintf("event %v %s", r.Event, r.Path)
	case r.Watch:
		return fmt.Sprintf("%v %s watch", r.Op, r.Path)
	}
	return fmt.Sprintf("%v %s", r.Op, r.Path)
}

// Recording has what was forwarded since Record, in order.
type Recording struct {
	hub *hub
	all []Traced // guarded by hub.mu
}

// Record begins to record the requests and watch events that are forwarded, through all
// servers of the proxy: those that Any matches. It records until the test ends.
func (p *Proxy) Record() *Recording {
	r := &Recording{hub: p.hub}
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.hub.records = append(p.hub.records, r)
	return r
}

// All returns what has been recorded so far.
func (r *Recording) All() []Traced {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	return slices.Clone(r.all)
}

// Take returns what has been recorded and removes it.
func (r *Recording) Take() []Traced {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// Await waits until there is an entry that matches, if there is none already. The error is
// that of ctx.
func (r *Recording) Await(ctx context.Context, what string, fits func(Traced) bool) error {
	p := Proxy{hub: r.hub}
	return p.await(ctx, what, func() bool { return slices.ContainsFunc(r.All(), fits) })
}

// noteLocked records a request.
func (h *hub) noteLocked(r request) {
	for _, path := range r.paths {
		if r.op == jute.OpPing || !Any()(r.op, path) {
			continue
		}
		for _, rec := range h.records {
			rec.all = append(rec.all, Traced{Op: r.op, Path: path, Watch: r.watch})
		}
	}
}

// heardLocked records an event.
func (h *hub) heardLocked(frame []byte) {
	e, ok := parseEvent(frame)
	if !ok || len(h.records) == 0 {
		return
	}
	for _, rec := range h.records {
		rec.all = append(rec.all, Traced{Event: client.EventType(e.Type), Path: e.Path})
	}
}
