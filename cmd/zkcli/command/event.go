package command

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// watching knows the watches that commands have set, and prints their events.
type watching struct {
	mu    sync.Mutex
	print bool // printwatches
	set   []watch
	used  bool // there has been a watch in this session: an event may be on its way
}

// watch is one that is set.
type watch struct {
	*client.Watch
	kind client.WatchType
}

// add takes in a watch. It is nil if it could not be set.
func (t *watching) add(w *client.Watch, kind client.WatchType) {
	if w == nil {
		return
	}
	t.mu.Lock()
	t.set, t.used = append(t.set, watch{w, kind}), true
	t.mu.Unlock()
	if kind == client.PersistentWatches || kind == client.RecursiveWatches {
		go drop(w) // its events are printed when they reach the client; until its end
	}
}

func drop(w *client.Watch) {
	for range w.Events() {
	}
}

// take removes the watches of a path that a removal of type t is about. It returns
// the names of the events that zkCli.sh prints for them.
func (t *watching) take(path string, wt client.WatchType) (removed []string) {
	names := map[client.WatchType]string{
		client.ChildWatches: "ChildWatchRemoved", client.DataWatches: "DataWatchRemoved",
		client.PersistentWatches: "PersistentWatchRemoved", client.RecursiveWatches: "PersistentWatchRemoved",
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = slices.DeleteFunc(t.set, func(w watch) bool {
		if w.Path() != path || wt != client.AnyWatches && wt != w.kind {
			return false
		}
		removed = append(removed, names[w.kind])
		return true
	})
	slices.Sort(removed)
	return slices.Compact(removed)
}

// fired forgets the one-shot watches that an event has used up.
func (t *watching) fired(ev client.Event) {
	t.set = slices.DeleteFunc(t.set, func(w watch) bool {
		if w.Path() != ev.Path {
			return false
		}
		switch w.kind {
		case client.DataWatches:
			return ev.Type != client.EventChildrenChanged
		case client.ChildWatches:
			return ev.Type == client.EventChildrenChanged || ev.Type == client.EventDeleted
		}
		return false
	})
}

// has reports whether there is a watch of the kind at a path.
func (t *watching) has(path string, wt client.WatchType) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.set, func(w watch) bool {
		return w.Path() == path && (wt == client.AnyWatches || wt == w.kind)
	})
}

func (t *watching) expects() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

func (t *watching) show(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print = on
}

func (t *watching) shown() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.print
}

// forget is for when the session is over.
func (t *watching) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set, t.used = nil, false
}

// event is told of each event, in the client's callback goroutine.
func (a *App) event(ev client.Event) {
	if ev.Type == client.EventSession {
		a.stateChanged(ev.State)
		return
	}
	t := &a.watching
	t.mu.Lock()
	t.fired(ev)
	show := t.print
	t.mu.Unlock()
	if show {
		a.printEvent(ev.String(), changeOf(ev, time.Now()))
	}
}

// stateChanged tells whoever types of a session that has ended by itself.
func (a *App) stateChanged(s client.State) {
	if a.shell == nil {
		return
	}
	switch s {
	case client.StateExpired:
		a.say("The session has expired: its ephemeral nodes and watches are gone. connect opens a new one.")
	case client.StateAuthFailed:
		a.say("The servers refuse the credentials, and the session is over. connect opens a new one.")
	}
	a.shell.Refresh()
}

// printEvent prints an event as zkCli.sh does, or as watch does in JSON.
func (a *App) printEvent(text string, doc change) {
	if a.opts.Format == FormatJSON {
		_ = a.emitJSON(doc) // an error is one of the next write, too
		return
	}
	fmt.Fprintf(a.out, "\nWATCHER::\n\n%s\n", text)
}

// quiet keeps events from being printed as zkCli.sh does, until the function that
// it returns is called: those that came until then, too.
func (a *App) quiet() (restore func()) {
	was := a.watching.shown()
	a.watching.show(false)
	return func() {
		a.flush()
		a.watching.show(was)
	}
}

// barrier waits until the events are printed that came before the last reply, so
// that they stand before the result that the reply is made into.
func (a *App) barrier() {
	if a.watching.expects() {
		a.flush()
	}
}

// flush waits until the events that came are dealt with. An operation on a path that
// can't be goes no further than the queue of callbacks.
func (a *App) flush() {
	if a.conn.c == nil {
		return
	}
	done := make(chan struct{})
	a.conn.c.Async().Exists("", func(client.Presence, error) { close(done) })
	<-done
}
