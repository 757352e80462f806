package presence

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// Options configure a Group, a Board or a Directory. The zero value is good for most.
type Options struct {
	// Layout is how the nodes of a Group's members are called. All members must have the
	// same. It is not for the others.
	Layout Layout
	// ACL is the access list of new nodes; nil means client.OpenACL. It must let all
	// participants read.
	ACL []client.ACL
	// Patient makes Join and Register wait while the ID is taken: for example by this
	// program before it was restarted, whose session has not ended yet.
	Patient bool
}

// held is a Node that a program has joined or registered with. It is the part that
// Membership, Reporter and Registration share.
type held struct {
	node     *Node
	what     string // it is, for errors
	released atomic.Bool
}

// hold starts a Node and waits until it is there. If ctx ends before, the node is deleted,
// at once or in the background.
func hold(ctx context.Context, c *client.Client, path string, data []byte, o Options) (*Node, error) {
	node, err := NewNode(c, path, NodeOptions{ACL: o.ACL, Patient: o.Patient})
	if err != nil {
		return nil, err
	}
	if err = node.Start(data); err == nil {
		err = node.WaitThere(ctx)
	}
	if err != nil {
		_ = node.Close(ctx) // continues in the background
		return nil, err
	}
	return node, nil
}

// State returns whether others see it. After the end of a session it takes a moment to come
// back.
func (h *held) State() NodeState { return h.node.State() }

// Done returns a channel that is closed when it has ended: by Release, or because of Err.
func (h *held) Done() <-chan struct{} { return h.node.Done() }

// Err returns why it has ended: see Node.Err.
func (h *held) Err() error { return h.node.Err() }

// Release ends it. When Release returns nil, others do not see it any more. If ctx ends
// before, that continues in the background. A second Release is recipes.ErrNotHeld.
func (h *held) Release(ctx context.Context) error {
	if h.released.Swap(true) {
		return fmt.Errorf("release %s: %w", h.what, recipes.ErrNotHeld)
	}
	if err := h.node.Close(ctx); err != nil {
		return fmt.Errorf("release %s: %w", h.what, err)
	}
	return nil
}

// checkName returns what is wrong with a name that becomes part of a path.
func checkName(what, name string) error {
	if name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("the %s is %q: it should be a name without /", what, name)
	}
	return nil
}

// monitor guards something that can be followed.
type monitor struct {
	sync.Mutex
	changed chan struct{} // closed at the next change; nil if nobody waits for it
}

// notifyLocked wakes those that follow.
func (m *monitor) notifyLocked() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *monitor) changedLocked() <-chan struct{} {
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// follow returns what look returns, and again when it has changed, until the loop or ctx
// ends, or look returns an error. States that pass faster than the loop takes them are left
// out, but for the last.
func follow[T any](ctx context.Context, look func() (now T, changed <-chan struct{}, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last T
		for first := true; ; {
			now, changed, err := look()
			if err != nil {
				yield(now, err)
				return
			}
			if first || !reflect.DeepEqual(now, last) {
				first, last = false, now
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(now, context.Cause(ctx))
				return
			}
		}
	}
}
