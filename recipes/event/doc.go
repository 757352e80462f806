// Package event has processes wait for something to be signalled, as with the event
// handles of operating systems: events that stay set, and events that release one.
//
//	e, err := event.New(c, "/events/work", event.Options{AutoReset: true})
//	err = e.Set(ctx)   // releases one that waits, or the next one who comes
//	err = e.Wait(ctx)  // waits until it is released
//	err = e.Reset(ctx) // takes back what nobody has taken
//
// A manual-reset event, which is the default, releases all that wait when it is set, and
// stays set until Reset.
//
// # Layout on the tree
//
//	/events/work                              persistent; JSON: kind and state
//	/events/work/_c_<GUID>-waiter-<sequence>  ephemeral: one who waits for an auto-reset event
//
// The nodes above are made as containers. No other library has this recipe; the ZooKeeper
// documentation names the construct (seeds.md A32).
//
// # What it guarantees
//
//   - Manual reset: a Set releases all whose Wait had looked at the event before, also
//     if Reset follows at once: the event counts how often it was set. So Pulse, which
//     is both in one, releases just those. One wake-up for each.
//   - Auto reset: a Set releases one, in the order in which they came, and two Sets
//     release two. It is remembered if there are no more who wait than Sets which
//     they have yet to take, but only once, as is usual with such events.
//   - A signal is taken by one change, which also takes the waiter out of the line. It
//     is taken once or, if the waiter dies before that, by the next, or is remembered.
//   - No polling and no herd: of those who wait for an auto-reset event the first one
//     watches the event, and each other one the one before it.
//
// # When something breaks
//
//   - The connection: all calls go on when it is back, and find out whether a change
//     was made: the event names the last 16. If there were more meanwhile the error
//     IsAmbiguous.
//   - The session: Wait fails with recipes.ErrLost, and one's place in the line is
//     gone. If that was in the moment of taking the error IsAmbiguous, too: the signal
//     may be taken. Set is ambiguous in the same way.
//   - The process dies when its signal is taken, before it knows: the signal is used up,
//     as by one who dies right behind Wait.
//   - The process is paused: signals wait for it as long as its session lasts, when it
//     is the first. Then they pass on.
//   - The servers' leader: as with the connection.
//   - ctx ends: one leaves the line, and takes nothing.
//
// # What the caller must do
//
// Use one kind of event at one path: the other is recipes.ErrLayout. An event stays until
// somebody deletes its node. Waiting for an auto-reset event takes the permissions to
// read, write, create and delete.
//
// # Goroutines
//
// None.
package event
