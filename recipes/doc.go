// Package recipes has what the packages below it share: the errors that any of
// them may return. Each recipe is a package of its own:
//
//   - lock, rwlock, semaphore: who may do something now.
//   - election: who is to do something until further notice.
//   - barrier: waiting for each other.
//   - queue: handing work over.
//   - presence: who is there, and how it fares.
//   - naming, config, value, idempotent, cacheview: what everybody knows.
//   - twopc: all or nothing.
//
// A recipe is a convention among clients: the servers know nothing of it. It stands
// on package client alone and works with zkd and with Apache ZooKeeper 3.5 and
// later, at the same time as programs in other languages that keep to the layout
// in the recipe's documentation.
//
// # What all recipes have in common
//
//   - A recipe is given a client.Client, or a view of one such as a Namespace, and a
//     path. Nothing is shared between two values of a recipe, also of one path, but
//     what is on the servers. Closing the client is up to whoever made it.
//   - Nodes above the recipe's are made when they are needed, as containers, so that
//     they go when nobody uses them any more.
//   - What the connection breaks under is repeated until its outcome is known,
//     as the view's RetryPolicy says, or client.DefaultRetry. That is about each
//     request: as long as the connection comes back each time, what it breaks under
//     is looked at and repeated until the context ends. Whatever a call leaves undone
//     then is undone in the background.
//   - What a recipe goes by it has from the leader, or the leader refuses what is done
//     on it. Only what just reads, and says so, is as old as what the client's server
//     knows, which may lag behind the others; client.Client.Sync before it is the cure.
//   - No polling, and no herds: who waits watches one thing, and is woken when it is
//     his turn.
//   - What is held ends with the session, at the latest at
//     client.Status.Deadline, when others may hold it. A context tells of it,
//     but a process that was stopped for long may run a moment longer than it should:
//     only a fencing token protects from that.
package recipes

import "errors"

// ErrClosed is that a recipe was used that had been closed, or was closed meanwhile.
var ErrClosed = errors.New("recipe is closed")

// ErrNotHeld is that something was given back, or used, that one does not have.
var ErrNotHeld = errors.New("not held")

// ErrLost is that something one had, or was waiting for, is gone: the session has
// ended, or may have ended, or somebody has deleted the node that stood for it.
var ErrLost = errors.New("lost")

// ErrLayout is that there are nodes where the recipe keeps its own which are not the
// recipe's. It can't know what they mean. The error names one of them.
var ErrLayout = errors.New("nodes of somebody else are in the way")
