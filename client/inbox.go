package client

// Inbox receives the events of many watches: those set through a view of
// Client.WithInbox. These watches have no channels, so one goroutine can receive the
// events of all. Events come in the order in which the server sent them.
type Inbox struct{ notices *stream[Notice] }

// Notice is an event, and the watch that has it.
type Notice struct {
	Watch *Watch
	Event Event
}

// NewInbox makes an inbox. Close it when its watches are closed.
func NewInbox() *Inbox { return &Inbox{newStream[Notice](persistentBuffer)} }

// WithInbox returns a view of c whose watches hand their events to b instead of to
// channels of their own: their Events is nil, and Next waits for its context only.
// An inbox does not report that a watch ended without an event. If b is nil, watches
// have their own channels.
func (c *Client) WithInbox(b *Inbox) *Client {
	view := *c
	view.inbox = b
	return &view
}

// Events returns the channel of events, which Close closes. No event is dropped
// before that because the channel is not read.
func (b *Inbox) Events() <-chan Notice { return b.notices.ch }

// Pending is Watch.Pending for all of the watches.
func (b *Inbox) Pending() bool { return b.notices.pending() }

// Close drops what has not been received, and what is yet to come. It does not close
// the watches.
func (b *Inbox) Close() { b.notices.end(true) }
