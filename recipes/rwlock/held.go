package rwlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Held is a lock that one has, until Unlock or until it is lost.
type Held struct {
	b     *base
	kind  Kind
	path  string // of the node that others see, and ask
	node  string // of the node that exists while it is held: path, or the grant
	share string // what the name of a read lock beside it has before the number
	token client.Zxid
	// session is the one that the nodes belong to.
	session client.SessionID

	// holds watch over its nodes. The context of each ends with that of the one before.
	holds []*line.Hold

	mu       sync.Mutex
	unlocked bool
	asked    bool // OnRevoke is being called
	again    bool // there was a request since it was
}

// begin has hold set holds. Requests that come meanwhile wait.
func (h *Held) begin(hold func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hold()
}

// hold is the one whose context ends when any of them is lost.
func (h *Held) hold() *line.Hold { return h.holds[len(h.holds)-1] }

// inside is the key of the Held of a lock among the values of its context.
type inside struct{ b *base }

// values returns a context with the values of ctx, and h. It does not end with ctx.
func (h *Held) values(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), inside{h.b}, h)
}

// within returns what the caller holds already, as its context says, or nil.
func (b *base) within(ctx context.Context) *Held {
	h, ok := ctx.Value(inside{b}).(*Held)
	if !ok || h.done() {
		return nil
	}
	return h
}

// Context returns a context that ends when the lock is lost, with a cause that wraps
// recipes.ErrLost, or unlocked. It has the values of the context that Lock was given.
func (h *Held) Context() context.Context { return h.hold().Context() }

// Kind returns what the lock is held for.
func (h *Held) Kind() Kind { return h.kind }

// Token returns a number that is larger than those of all that had to have unlocked
// before: see the package's documentation on fencing. A read lock that was taken beside
// another lock has that one's.
func (h *Held) Token() client.Zxid { return h.token }

// Path returns the path of the node that stands for the lock: that of its Contender.
func (h *Held) Path() string { return h.path }

// Guard returns the operations with a check before them that the lock is held. A Multi of
// them, by the client that the lock was made with, is done as one, or not at all and
// with client.ErrNoNode if the lock is lost. The results have one more at the beginning.
func (h *Held) Guard(ops ...client.Op) []client.Op {
	return append([]client.Op{client.CheckOp(h.node, client.AnyVersion)}, ops...)
}

// Err returns nil while the lock is held. It looks at the clock, too, which Context does
// not if the process was stopped for a while: so ask before what must not be done twice.
// It returns recipes.ErrNotHeld after Unlock.
func (h *Held) Err() error {
	if h.done() {
		return h.notHeld()
	}
	return h.hold().Err()
}

func (h *Held) done() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unlocked
}

func (h *Held) notHeld() error {
	return fmt.Errorf("unlock %s: %w: it has been unlocked before", h.b.Path(), recipes.ErrNotHeld)
}

// Unlock gives the lock up. It does so also if ctx has ended, waiting two seconds at
// most; if no server answers by then it is seen to in the background. So its errors don't
// mean that the lock is still held, but for one of the servers', such as
// client.ErrNoAuth.
//
// It returns recipes.ErrNotHeld if it was called before, be it because OnRevoke has
// returned true, and recipes.ErrLost if the lock was lost before: then what was done
// under it may have been done beside somebody else. If no server has answered,
// client.IsAmbiguous says so of the error: by the clock the lock was held until now, but
// somebody may have broken it while the connection was down. Nil is that it was held to the
// end, unless the connection broke just then, and somebody broke the lock meanwhile: nobody
// can tell that from one's own deletion of the node.
func (h *Held) Unlock(ctx context.Context) error {
	h.mu.Lock()
	before := h.unlocked
	h.unlocked = true
	h.mu.Unlock()
	if before {
		return h.notHeld()
	}
	lost := h.hold().Err()
	var err error
	for i := len(h.holds) - 1; i >= 0; i-- {
		err = errors.Join(err, h.holds[i].End(ctx))
	}
	if lost != nil && !errors.Is(err, recipes.ErrLost) {
		err = errors.Join(lost, err)
	}
	if err != nil {
		return fmt.Errorf("unlock %s: %w", h.b.Path(), err)
	}
	return nil
}

// nested takes the lock for whoever holds it.
func (h *Held) nested(ctx context.Context, kind Kind) (*Held, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := h.Err(); err != nil {
		return nil, err
	}
	if kind == Write {
		return nil, ErrSelf
	}
	return h.beside(ctx)
}

// beside makes a read lock that has the number of h, so that whoever waits for h waits
// for it, too, and nobody else comes before it. That is good only if h was held when the
// node was made, which is seen behind that.
func (h *Held) beside(ctx context.Context) (*Held, error) {
	b := h.b
	c := b.line.Client.Steady().InSession(h.session)
	made, err := settle.Create(ctx, c, h.shareName(), b.o.Data, settle.CreateOptions{Mode: client.Ephemeral, ACL: b.o.ACL, By: settle.ByPath})
	if err != nil {
		return nil, err
	}
	found, err := c.Exists(ctx, h.node)
	if err == nil && !found.Exists {
		err = gone(h.node)
	}
	if err != nil {
		return nil, errors.Join(err, line.RemoveUnique(ctx, c, made.Path))
	}
	read := &Held{b: b, kind: Read, path: made.Path, node: made.Path, share: h.share, token: h.token, session: h.session}
	o := line.HoldOptions{Reserve: b.o.Reserve, Changed: read.changed, Session: h.session}
	read.begin(func() { read.holds = []*line.Hold{line.NewHold(read.values(ctx), b.line.Client, made.Path, o)} })
	return read, nil
}

// shareName returns the path for a read lock beside h.
func (h *Held) shareName() string {
	number := h.path[strings.LastIndexAny(h.path, "_abcdefghijklmnopqrstuvwxyz")+1:]
	return line.Join(h.b.Path(), "_c_"+line.NewID()+"-"+h.share+number)
}
