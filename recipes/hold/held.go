package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Held is something that the caller holds until Release, or until it is lost. See the
// package's documentation for what that means.
type Held struct {
	*state
	ctx context.Context
}

// state is what several Helds of one tenure have in common: see Following.
type state struct {
	tenure Tenure
	of     Description

	mu       sync.Mutex
	released bool
}

// Tenure is what a recipe knows of one Held.
type Tenure interface {
	// Context ends when the tenure does; if it was lost, with a cause that wraps
	// recipes.ErrLost.
	Context() context.Context
	// Err returns why the tenure has ended, or nil. It looks at the clock, too.
	Err() error
	// End deletes the nodes. The error wraps recipes.ErrLost if one did not exist any more,
	// and is ambiguous if the deletion continues in the background.
	End(ctx context.Context) error
}

// Description is what does not change while something is held.
type Description struct {
	What string // such as "lock /locks/backup", for errors
	Path string // "" is Nodes[0]
	// Nodes exist while it is held, and only then. If there are none, because another
	// holder's node may have the same path, Guard proves nothing: FromContext does not
	// return the Held, and the recipe must not expose its Guard.
	Nodes []string
	Token client.Zxid // the zxid at which the last node was created
	// Follows is the context whose end ends Held.Context, for recipes; nil is that of New.
	Follows context.Context
}

// New returns what a recipe has acquired. begin starts the tenure; its context is ctx with
// the Held as a value, for FromContext.
func New(ctx context.Context, of Description, begin func(ctx context.Context) Tenure) *Held {
	h := &Held{state: &state{of: of}}
	if of.Path == "" {
		h.of.Path = of.Nodes[0]
	}
	if of.Follows == nil {
		h.of.Follows = ctx
	}
	if len(of.Nodes) > 0 {
		ctx = context.WithValue(ctx, innermost{}, h)
	}
	h.tenure = begin(ctx)
	h.ctx = line.Follow(h.tenure.Context(), h.of.Follows)
	return h
}

// Following returns h with a Context that also ends when ctx does. It is for something that
// was acquired with another context than that of the work. Either may be released.
func (h *Held) Following(ctx context.Context) *Held {
	return &Held{state: h.state, ctx: line.Follow(h.ctx, ctx)}
}

// WaitOnly returns a context for acquiring something, of which only the wait ends with wait.
// What is acquired follows life:
//
//	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
//	defer cancel()
//	held, err := mutex.Lock(hold.WaitOnly(wait, ctx))
func WaitOnly(wait, life context.Context) context.Context { return line.WaitOnly(wait, life) }

// Follows returns the context whose end ends the Context of h. It is for recipes.
func (h *Held) Follows() context.Context { return h.of.Follows }

// innermost is the key of the Held that was acquired last.
type innermost struct{}

// FromContext returns the Held whose Context ctx is derived from, for its Token and Guard.
// If there are several, it returns the one that was acquired last. It is for functions that
// are called while something is held; the caller that acquired it releases it.
func FromContext(ctx context.Context) (h *Held, ok bool) {
	h, ok = ctx.Value(innermost{}).(*Held)
	return h, ok
}

// Context returns the context of the work under h. It ends when h is lost, with a cause that
// wraps recipes.ErrLost; when h is released; and when the context ends with which h was
// acquired, with that one's cause. In the last case h is still held, and must be released.
// It has the values of the context with which h was acquired.
func (h *Held) Context() context.Context { return h.ctx }

// Token returns the zxid at which the holder's node was created: a number that is larger
// than the tokens of all that had to release before h could be held. A store can use it to
// reject writes of former holders.
func (h *Held) Token() client.Zxid { return h.of.Token }

// Path returns the path of the holder's node, as in Contender.Path.
func (h *Held) Path() string { return h.of.Path }

// Nodes returns the paths of the nodes that Guard checks: one, or several if several
// things are held together.
func (h *Held) Nodes() []string { return slices.Clone(h.of.Nodes) }

// Guard returns the operations preceded by a check for each of Nodes. A Multi of them, by
// the client that the recipe was given, takes effect only if h is held at that moment;
// otherwise it fails with client.ErrNoNode. The results have one more for each check, at the
// beginning.
func (h *Held) Guard(ops ...client.Op) []client.Op {
	guarded := make([]client.Op, 0, len(h.of.Nodes)+len(ops))
	for _, node := range h.of.Nodes {
		guarded = append(guarded, client.CheckOp(node, client.AnyVersion))
	}
	return append(guarded, ops...)
}

// Err returns nil while h is held, an error that wraps recipes.ErrLost if h is lost, and
// recipes.ErrNotHeld after Release. It looks at the clock, which Context may do too late if
// the process was suspended. Call it before doing what must not be done twice.
func (h *Held) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return h.notHeld()
	}
	return h.tenure.Err()
}

func (h *Held) notHeld() error {
	return fmt.Errorf("release %s: %w: it was released before", h.of.What, recipes.ErrNotHeld)
}

// Release gives up what is held. It does so even if ctx has ended. The package's
// documentation lists the errors; none of them means that Release must be repeated.
func (h *Held) Release(ctx context.Context) error {
	h.mu.Lock()
	before := h.released
	h.released = true
	h.mu.Unlock()
	if before {
		return h.notHeld()
	}
	lost := h.tenure.Err()
	err := line.Lost(h.tenure.End(ctx))
	if errors.Is(lost, recipes.ErrLost) && !errors.Is(err, recipes.ErrLost) {
		err = errors.Join(lost, err)
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", h.of.What, err)
	}
	return nil
}
