// Package recipes has the errors that all recipes share. Each recipe is a package below it:
//
//   - hold: the contract of everything that a client can hold.
//   - lock: mutexes, read-write locks, priority locks, semaphores, several locks at once.
//   - election: one of several candidates leads.
//   - barrier: processes wait for each other: barriers, double barriers, rendezvous, events.
//   - queue: producers hand work to consumers.
//   - presence: which programs are alive, and what they do: nodes, groups, status boards,
//     service directories, partitions.
//   - naming, config, value: shared data: names, configuration, values and counters.
//   - idempotent: a change is made once, however often it is requested.
//   - twopc: several sites make a change, or none of them does.
//
// A recipe is a convention among clients; the servers know nothing of it. Recipes use only
// package client. They work with zkd and with Apache ZooKeeper 3.5 and later, and together
// with programs in other languages that use the nodes drawn in the recipe's documentation.
//
// # What all recipes have in common
//
//   - A recipe is given a client.Client, or a view of one such as Client.Namespace, and a
//     path. Two values of a recipe share nothing but the nodes on the servers, even if they
//     have the same path. The caller closes the client.
//   - Missing nodes above the recipe's nodes are created as containers, which the servers
//     delete when they are empty.
//   - If the connection breaks, a request is repeated until its outcome is known, as the
//     view's RetryPolicy says, or else client.DefaultRetry. The policy limits each request
//     and not the whole call: as long as the connection comes back, the call continues until
//     its context ends. What a call could not undo by then is undone in the background.
//   - Decisions are based on what the leader knows, or the leader rejects a change that is
//     based on old data. Only methods that merely read, and whose documentation says so,
//     return the state of the client's server, which may lag behind the others: call
//     client.Client.Sync before them.
//   - Nothing polls, and there are no herds: with few exceptions, which the packages name,
//     each waiter watches one node, and is woken when it can continue.
//   - What is held is lost when the session ends, at the latest at client.Status.Deadline;
//     others can acquire it then. A context tells the holder. A process that is suspended
//     learns of it too late: only a fencing token protects against that.
package recipes

import "errors"

// ErrClosed means that the recipe has been closed, before or during the call.
var ErrClosed = errors.New("recipe is closed")

// ErrNotHeld means that the caller released or used something that it does not hold.
var ErrNotHeld = errors.New("not held")

// ErrLost means that something that the caller held, or waited for, no longer exists: the
// session has ended, or may have ended, or somebody has deleted its node.
var ErrLost = errors.New("lost")

// ErrLayout means that a node among the recipe's nodes is not one of them, so that the
// recipe cannot know what it means. The error names the node.
var ErrLayout = errors.New("nodes of somebody else are in the way")
