package keepalive

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options are what a Node can be told. The zero value is good for most.
type Options struct {
	// ACL is that of the node, and of nodes above it that are missing. Nil is
	// client.OpenACL. It must let the client itself read, and change the data.
	ACL []client.ACL
	// Protected makes the name unique: "_c_", a GUID and "-" go in front of it. So
	// nobody else can have a node there.
	Protected bool
	// Sequential has the servers append a number to the name, which is kept from then
	// on. It implies Protected.
	Sequential bool
	// EndIfDeleted ends the Node with recipes.ErrLost if somebody deletes its node,
	// instead of making it again.
	EndIfDeleted bool
	// Patient waits for an ephemeral node of somebody else's at the path to go,
	// instead of failing with client.ErrNodeExists.
	Patient bool
}

// State is how a Node stands.
type State struct {
	// Path is the node's. It is empty until the servers have given it its number, if
	// it is to have one.
	Path string
	// There is whether the servers have the node, as far as is known: they have said
	// so, and neither the end of the session nor of the node is known of.
	There bool
	// Zxid is the one at which the node that is there was created.
	Zxid client.Zxid
	// Err is why the node is not there, if there is more to say than that it is being
	// made: who is in the way, or what failed last.
	Err error
}

// Node is an ephemeral node that is kept in existence.
type Node struct {
	c    *client.Client
	path string
	o    Options
	open context.Context // ends with Close
	shut context.CancelFunc
	wake chan struct{} // capacity 1: the keeper is to look at want and closing
	done chan struct{} // closed when the keeper has ended

	mu      sync.Mutex
	started bool
	closing bool
	want    []byte
	asked   uint64 // counts what want has been
	written uint64 // the asked that the node has; 0 if it is not known
	refused uint64 // the asked that the servers did not take, for refusal
	refusal error
	state   State
	err     error         // why it has ended
	left    error         // why the node is there nevertheless
	changed chan struct{} // closed and replaced when one of the above has changed
}

// New returns a Node that is not started yet. It doesn't talk to the servers.
func New(c *client.Client, path string, o Options) (*Node, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("keepalive: path %q: %w", path, err)
	}
	n := &Node{
		c: c, path: path, o: o,
		wake: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
	}
	n.open, n.shut = context.WithCancel(context.Background())
	return n, nil
}

// Start begins to keep the node, with that data, and returns at once. A Node is
// started once; after Close the error is recipes.ErrClosed.
func (n *Node) Start(data []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing:
		return n.closedError()
	case n.started:
		return fmt.Errorf("keepalive %s: it is started already", n.path)
	}
	n.started = true
	n.want, n.asked = slices.Clone(data), 1
	k := newKeeper(n)
	go func() {
		defer close(n.done)
		n.end(k.run(), k.left)
	}()
	return nil
}

func (n *Node) closedError() error { return fmt.Errorf("keepalive %s: %w", n.path, recipes.ErrClosed) }

// State returns how the Node stands.
func (n *Node) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// Done returns a channel that is closed when the Node has ended: its node is gone, or
// nobody sees to it any more. It stays open if the Node is never started.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the Node has ended, and nil before: recipes.ErrClosed after Close,
// recipes.ErrLost if the session has ended for good or the node was deleted
// (Options.EndIfDeleted), client.ErrNodeExists if somebody else has a node at the
// path, recipes.ErrLayout if that isn't ephemeral, or what the servers refused.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// WaitThere waits until the node is there. The error is ctx's, or Err.
func (n *Node) WaitThere(ctx context.Context) error {
	return n.await(ctx, "wait for", func() (bool, error) { return n.state.There, nil })
}

// SetData gives the node other data, which it has from then on, also when it has
// come back. It waits until the servers have it, or data that was set after it. If ctx
// ends before, the data is what is wanted nevertheless. If the servers refuse it
// (client.ErrNoAuth, client.ErrBadArguments for what is too large), it is dropped.
func (n *Node) SetData(ctx context.Context, data []byte) error {
	mine, err := n.ask(data)
	if err != nil {
		return err
	}
	return n.awaitData(ctx, mine)
}

// Data returns the data that the node has, or is to have: what was asked for last of
// what the servers have not refused.
func (n *Node) Data() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.want)
}

// Flush waits until the servers have the data that was asked for last, or newer.
func (n *Node) Flush(ctx context.Context) error {
	_, asked, _ := n.order()
	return n.awaitData(ctx, asked)
}

// awaitData waits until the node has data that counts as asked, or newer.
func (n *Node) awaitData(ctx context.Context, asked uint64) error {
	return n.await(ctx, "set data of", func() (bool, error) {
		if n.refused == asked || n.refused > asked && n.written < asked {
			return false, n.refusal
		}
		return n.written >= asked, nil
	})
}

// Post is SetData that doesn't wait. What the servers refuse is dropped.
func (n *Node) Post(data []byte) error {
	_, err := n.ask(data)
	return err
}

// ask makes data what is wanted. It returns what that counts as.
func (n *Node) ask(data []byte) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing:
		return 0, n.closedError()
	case !n.started:
		return 0, fmt.Errorf("keepalive %s: it is not started", n.path)
	case n.err != nil:
		return 0, n.err
	}
	n.want = slices.Clone(data)
	n.asked++
	n.poke()
	return n.asked, nil
}

// Follow returns how the Node stands, and how it does with each change, until the
// loop, ctx or the Node ends. States that pass faster than the loop takes them are
// left out but for the last. An error is the last: ctx's, or Err.
func (n *Node) Follow(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		var last State
		for first := true; ; {
			n.mu.Lock()
			state, err, changed := n.state, n.err, n.changed
			n.mu.Unlock()
			if first || state != last {
				first, last = false, state
				if !yield(state, nil) {
					return
				}
			}
			if err != nil {
				yield(state, err)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(state, context.Cause(ctx))
				return
			}
		}
	}
}

// Close deletes the node, and returns when it is gone. If ctx ends before, that goes
// on in the background; at the latest the node goes with the session. Close is
// idempotent, and returns nil also if the Node has ended before. An error is that the
// servers don't let the node be deleted, which then goes with the session.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	started := n.started
	n.closing = true
	n.shut()
	n.tellLocked()
	n.mu.Unlock()
	if !started {
		return nil
	}
	n.poke()
	select {
	case <-n.done:
	case <-ctx.Done():
		return fmt.Errorf("close keepalive %s: %w; it goes on in the background", n.path, context.Cause(ctx))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// await waits until is, which is called with mu held, says so.
func (n *Node) await(ctx context.Context, what string, is func() (bool, error)) error {
	for {
		n.mu.Lock()
		ok, err := is()
		over, changed := n.err, n.changed
		if over == nil && n.closing {
			over = n.closedError()
		}
		n.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		case over != nil:
			return over
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", what, n.path, context.Cause(ctx))
		}
	}
}

func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// The rest is for the keeper.

// order returns what the node is to be: data that counts as asked, or gone.
func (n *Node) order() (data []byte, asked uint64, closing bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.want, n.asked, n.closing
}

// tell makes the state known, and which data the node has.
func (n *Node) tell(s State, written uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.written = s, written
	n.tellLocked()
}

// refuse drops data that the servers don't take, in favour of those before it.
func (n *Node) refuse(asked uint64, before []byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused, n.refusal = asked, err
	if n.asked == asked {
		n.want = before
	}
	n.tellLocked()
}

func (n *Node) end(err, left error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		err = n.closedError()
	}
	n.err, n.left = err, left
	n.state = State{Path: n.state.Path, Err: err}
	n.tellLocked()
}

func (n *Node) tellLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}
