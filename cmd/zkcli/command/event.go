package command

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// watching is what is done with watch events.
type watching struct {
	print bool // printwatches
	any   bool // a watch has been set: events may come
}

// event is told of each event, in the client's callback goroutine.
func (a *App) event(ev client.Event) {
	if ev.Type == client.EventSession {
		return // the prompt shows it
	}
	a.printEvent(ev.String())
}

// printEvent prints an event as zkCli.sh does.
func (a *App) printEvent(event string) {
	fmt.Fprintf(a.out, "\nWATCHER::\n\n%s\n", event)
}

// barrier waits until the events are printed that came before the last reply, so
// that they stand before what the next command prints. An operation on a path that
// can't be goes no further than the queue of callbacks.
func (a *App) barrier(ctx context.Context) {
	if !a.watching.any || a.conn.c == nil {
		return
	}
	done := make(chan struct{})
	a.conn.c.Async().Exists("", func(client.Presence, error) { close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}
