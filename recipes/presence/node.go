package presence

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// NodeOptions configure a Node. The zero value is good for most.
type NodeOptions struct {
	// ACL is the access list of the node, and of missing nodes above it; nil means
	// client.OpenACL. It must let the client itself read, and change the data.
	ACL []client.ACL
	// Protected makes the name unique, by "_c_", a GUID and "-" in front of it.
	Protected bool
	// Sequential appends a number to the name, which is kept afterwards. It implies
	// Protected.
	Sequential bool
	// EndIfDeleted ends the Node with recipes.ErrLost if somebody deletes its node, instead
	// of creating it again.
	EndIfDeleted bool
	// Patient waits for another client's ephemeral node at the path to go, instead of
	// failing with client.ErrNodeExists.
	Patient bool
}

// NodeState is the state of a Node.
type NodeState struct {
	// Path is the path of the node. It is empty until a sequential node has its number.
	Path string
	// There means that the servers have the node, as far as is known.
	There bool
	// Zxid is the one at which the node was created.
	Zxid client.Zxid
	// Err is why the node is not there, if something is in the way or has failed.
	Err error
}

// Node keeps an ephemeral node in existence.
type Node struct {
	c    *client.Client
	path string
	o    NodeOptions
	open context.Context // ends with Close
	shut context.CancelFunc
	wake chan struct{} // capacity 1: the keeper must look at want and closing
	done chan struct{} // closed when the keeper has ended

	mu      monitor // guards what follows
	started bool
	closing bool
	want    []byte
	asked   uint64 // numbers the values of want
	written uint64 // the asked that the node has; 0 if it is not known
	refused uint64 // the asked that the servers refused with refusal
	refusal error
	state   NodeState
	err     error // why it has ended
	left    error // why the node was not deleted
}

// NewNode returns a Node that is not started. It sends no request.
func NewNode(c *client.Client, path string, o NodeOptions) (*Node, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("keep alive: path %q: %w", path, err)
	}
	n := &Node{c: c, path: path, o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	n.open, n.shut = context.WithCancel(context.Background())
	return n, nil
}

// Start begins to keep the node, with that data, and returns at once. A Node is started
// once; after Close the error is recipes.ErrClosed.
func (n *Node) Start(data []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing:
		return n.closedError()
	case n.started:
		return fmt.Errorf("keep alive %s: it is started already", n.path)
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

func (n *Node) closedError() error { return fmt.Errorf("keep alive %s: %w", n.path, recipes.ErrClosed) }

// State returns the state of the Node.
func (n *Node) State() NodeState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// Done returns a channel that is closed when the Node has ended: its node is gone, or is no
// longer kept. It stays open if the Node is never started.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the Node has ended, or nil if it has not: recipes.ErrClosed after Close,
// recipes.ErrLost if the session has ended for good or the node was deleted
// (NodeOptions.EndIfDeleted), client.ErrNodeExists if another node is at the path,
// recipes.ErrLayout if that is not ephemeral, or what the servers refused.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// WaitThere waits until the node is there. The error is that of ctx, or Err.
func (n *Node) WaitThere(ctx context.Context) error {
	return n.await(ctx, "wait for", func() (bool, error) { return n.state.There, nil })
}

// SetData sets the node's data, and waits until the servers have it, or data that was set
// later. If ctx ends before, the data will be set nevertheless. If the servers refuse it
// (client.ErrNoAuth, or client.ErrBadArguments if it is too large), it is dropped.
func (n *Node) SetData(ctx context.Context, data []byte) error {
	asked, err := n.ask(data)
	if err != nil {
		return err
	}
	return n.awaitData(ctx, asked)
}

// Post is SetData that does not wait.
func (n *Node) Post(data []byte) error {
	_, err := n.ask(data)
	return err
}

// Data returns the data that was set last and that the servers have not refused.
func (n *Node) Data() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.want)
}

// Flush waits until the servers have the data that was set last, or newer data.
func (n *Node) Flush(ctx context.Context) error {
	_, asked, _ := n.wanted()
	return n.awaitData(ctx, asked)
}

// awaitData waits until the node has the data with that number, or newer data.
func (n *Node) awaitData(ctx context.Context, asked uint64) error {
	return n.await(ctx, "set data of", func() (bool, error) {
		if n.refused == asked || n.refused > asked && n.written < asked {
			return false, n.refusal
		}
		return n.written >= asked, nil
	})
}

// ask makes data what is wanted, and returns its number.
func (n *Node) ask(data []byte) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing:
		return 0, n.closedError()
	case !n.started:
		return 0, fmt.Errorf("keep alive %s: it is not started", n.path)
	case n.err != nil:
		return 0, n.err
	}
	n.want = slices.Clone(data)
	n.asked++
	n.poke()
	return n.asked, nil
}

// Follow returns the state of the Node, and again after each change, until the loop, ctx or
// the Node ends. States that pass faster than the loop takes them are left out, but for the
// last. An error is the last: that of ctx, or Err.
func (n *Node) Follow(ctx context.Context) iter.Seq2[NodeState, error] {
	return follow(ctx, func() (NodeState, <-chan struct{}, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.state, n.mu.changedLocked(), n.err
	})
}

// Close deletes the node, and returns when it is gone. If ctx ends before, that continues in
// the background; the node goes with the session at the latest. Close is idempotent, and
// returns nil if the Node has ended before. An error means that the servers refuse to delete
// the node, which then goes with the session.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	started := n.started
	n.closing = true
	n.shut()
	n.mu.notifyLocked()
	n.mu.Unlock()
	if !started {
		return nil
	}
	n.poke()
	select {
	case <-n.done:
	case <-ctx.Done():
		return fmt.Errorf("close node %s: %w; it continues in the background", n.path, context.Cause(ctx))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// await waits until ok returns true or an error. ok is called with mu held.
func (n *Node) await(ctx context.Context, what string, ok func() (bool, error)) error {
	for {
		n.mu.Lock()
		done, err := ok()
		if !done && err == nil {
			err = n.err
		}
		if !done && err == nil && n.closing {
			err = n.closedError()
		}
		changed := n.mu.changedLocked()
		n.mu.Unlock()
		if done || err != nil {
			return err
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

// wanted returns the data that the node is to have, its number, and whether the node is to
// go.
func (n *Node) wanted() (data []byte, asked uint64, closing bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.want, n.asked, n.closing
}

// setState sets the state, and the number of the data that the node has.
func (n *Node) setState(s NodeState, written uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.written = s, written
	n.mu.notifyLocked()
}

// refuse drops data that the servers refuse, in favour of the data before.
func (n *Node) refuse(asked uint64, before []byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused, n.refusal = asked, err
	if n.asked == asked {
		n.want = before
	}
	n.mu.notifyLocked()
}

func (n *Node) end(err, left error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		err = n.closedError()
	}
	n.err, n.left = err, left
	n.state = NodeState{Path: n.state.Path, Err: err}
	n.mu.notifyLocked()
}
