package election

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Leadership is what the leader has, until Resign or until it is lost.
type Leadership struct {
	e     *Election
	place *line.Place
	hold  *line.Hold

	mu           sync.Mutex
	resigned     bool
	cleared      bool // what stood for it on the servers has been seen to
	acknowledged bool // there may be an acknowledgement
}

// Context returns a context that ends when leadership is lost, with a cause that wraps
// recipes.ErrLost, or resigned.
func (l *Leadership) Context() context.Context { return l.hold.Context() }

// Err returns nil while one leads. It looks at the clock, too, which Context does not if
// the process was stopped for a while: so ask before what must not be done twice. It
// returns recipes.ErrNotHeld after Resign.
func (l *Leadership) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.hold.Err()
	if l.cleared && !errors.Is(err, recipes.ErrLost) {
		return l.notHeld()
	}
	return err
}

func (l *Leadership) notHeld() error {
	return fmt.Errorf("%w: leadership of election %s was resigned", recipes.ErrNotHeld, l.e.Path())
}

// Token returns a number that is larger than those of all leaders before: the zxid at
// which the leader's node was created. See the package's documentation on fencing.
func (l *Leadership) Token() client.Zxid { return l.place.Token() }

// Path returns the path of the leader's node.
func (l *Leadership) Path() string { return l.place.Path() }

// Guard returns the operations with a check before them that one leads. A Multi of them,
// by the client that the election was made with, is done as one, or not at all and with
// client.ErrNoNode of Path if leadership is lost. The results have one more at the
// beginning.
func (l *Leadership) Guard(ops ...client.Op) []client.Op { return l.place.Guard(ops...) }

// Acknowledge tells all that want to know that the leader has done what it has to do
// before it can lead: see Election.WaitAcknowledged. That ends with the leadership. The
// data is for those that ask, such as an address; called again it replaces them.
//
// It returns recipes.ErrLost if leadership is lost, and recipes.ErrNotHeld after Resign.
func (l *Leadership) Acknowledge(ctx context.Context, data []byte) error {
	if err := l.begin(); err != nil {
		return err
	}
	err := l.e.acknowledge(ctx, l.place, data)
	if over := l.Err(); over != nil {
		_ = l.withdraw(ctx) // who cleared away may have come too early for it
		return over
	}
	if err != nil {
		return l.e.failed(ctx, "acknowledge leadership of", err)
	}
	return nil
}

// begin notes that there may be an acknowledgement from now on.
func (l *Leadership) begin() error {
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cleared {
		return l.notHeld()
	}
	l.acknowledged = true
	return nil
}

// Resign gives leadership up. It does so also if ctx has ended, waiting two seconds at
// most; if no server answers by then it is seen to in the background. So its errors don't
// mean that one still leads, but for one of the servers', such as client.ErrNoAuth.
//
// It returns recipes.ErrNotHeld if it was called before, and recipes.ErrLost if leadership
// was lost before: then what was done under it may have been done beside somebody else. If
// no server has answered, client.IsAmbiguous says so of the error: by the clock one has led
// until now, but somebody may have deleted the node while the connection was down.
func (l *Leadership) Resign(ctx context.Context) error {
	l.mu.Lock()
	before := l.resigned
	l.resigned = true
	l.mu.Unlock()
	if before {
		return l.notHeld()
	}
	lost := l.lost()
	first, err := l.clear(ctx)
	switch {
	case lost != nil:
		return l.e.failed(ctx, "resign leadership of", lost)
	case !first:
		return l.notHeld() // it has ended with the latch, or with Run
	}
	return l.e.unless(ctx, "resign leadership of", err)
}

func (l *Leadership) lost() error { return lost(l.hold) }

// lost returns why a hold is lost, if that is why it has ended.
func lost(h *line.Hold) error {
	if err := h.Err(); errors.Is(err, recipes.ErrLost) {
		return err
	}
	return nil
}

// clear deletes the node, and after it the acknowledgement, which counts for nothing
// without: so others can lead as soon as may be.
func (l *Leadership) clear(ctx context.Context) (first bool, err error) {
	l.mu.Lock()
	before, acknowledged := l.cleared, l.acknowledged
	l.cleared = true
	l.mu.Unlock()
	if before {
		return false, nil
	}
	err = l.hold.End(ctx)
	if acknowledged {
		err = errors.Join(err, l.withdraw(ctx))
	}
	return true, err
}

// withdraw deletes the acknowledgement, and not that of a later leader.
func (l *Leadership) withdraw(ctx context.Context) error {
	c, path := l.e.c.InSession(l.place.Session()), l.e.ackPath(l.place)
	if l.e.line.Layout.Anonymous {
		if ack, err := c.Steady().Get(ctx, path); err == nil && isLater(ack.Data, l.Token()) {
			return nil
		}
	}
	return line.RemoveUnique(ctx, c, path)
}
