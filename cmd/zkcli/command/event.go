package command

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// watching keeps the watches that commands have set, and prints their events.
type watching struct {
	mu    sync.Mutex
	print bool // printwatches
	set   []watch
	used  bool // a watch was set in this session, so an event may come
}

// watch is one that is set.
type watch struct {
	*client.Watch
	kind client.WatchType
}

// add records a watch. It is nil if it could not be set.
func (t *watching) add(w *client.Watch, kind client.WatchType) {
	if w == nil {
		return
	}
	t.mu.Lock()
	t.set, t.used = append(t.set, watch{w, kind}), true
	t.mu.Unlock()
	if kind == client.PersistentWatches || kind == client.RecursiveWatches {
		go drop(w) // prints the watch's events until it ends
	}
}

func drop(w *client.Watch) {
	for range w.Events() {
	}
}

// take removes the watches of a path that a removal of type t closes. It returns the names of
// the events that zkCli.sh prints for them.
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

// fired removes the one-shot watches that an event has fired.
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

// forget removes all watches when the session has ended.
func (t *watching) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set, t.used = nil, false
}

// event handles each event, in the client's callback goroutine.
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

// stateChanged tells the user of an interactive session that it has ended.
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
		_ = a.emitJSON(doc) // an error recurs at the next write
		return
	}
	fmt.Fprintf(a.out, "\nWATCHER::\n\n%s\n", text)
}

// quiet stops events from being printed like zkCli.sh does, including earlier ones, until the
// function that it returns is called.
func (a *App) quiet() (restore func()) {
	was := a.watching.shown()
	a.watching.show(false)
	return func() {
		a.flush()
		a.watching.show(was)
	}
}

// barrier waits until the events before the last reply are printed, so that they precede its
// result.
func (a *App) barrier() {
	if a.watching.expects() {
		a.flush()
	}
}

// flush waits until earlier events are handled. An operation on an invalid path only passes
// through the queue of callbacks.
func (a *App) flush() {
	if a.conn.c == nil {
		return
	}
	done := make(chan struct{})
	a.conn.c.Async().Exists("", func(client.Presence, error) { close(done) })
	<-done
}
