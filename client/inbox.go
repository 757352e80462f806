package client

// Inbox receives the events of many watches: those set through a view of Client.WithInbox.
// Such watches have no channel, so one goroutine can receive the events of all. Events come
// in the order in which the server sent them.
type Inbox struct{ notices *stream[Notice] }

// Notice is an event together with its watch.
type Notice struct {
	Watch *Watch
	Event Event
}

// NewInbox makes an inbox. Close it when its watches are closed.
func NewInbox() *Inbox { return &Inbox{newStream[Notice](persistentBuffer)} }

// WithInbox returns a view of c whose watches pass their events to b instead of to channels.
// The watches' Events returns nil, and their Next only waits for its context. An inbox does
// not report that a watch ended without an event. If b is nil, watches have their own
// channels.
func (c *Client) WithInbox(b *Inbox) *Client {
	view := *c
	view.inbox = b
	return &view
}

// Events returns the channel of events. Close closes it. No event is dropped before that,
// even if the channel is not read.
func (b *Inbox) Events() <-chan Notice { return b.notices.ch }

// Pending is Watch.Pending for all of the watches.
func (b *Inbox) Pending() bool { return b.notices.pending() }

// Close drops the events that have not been received, and all later ones. It does not close
// the watches.
func (b *Inbox) Close() { b.notices.end(true) }
