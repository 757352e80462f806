package election

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Leadership is what the leader holds. Besides what every Held can do, a leader can
// acknowledge.
type Leadership struct {
	*hold.Held
	e      *Election
	place  *line.Place
	tenure *tenure
}

// lead returns the leadership of a place that is the first.
func (e *Election) lead(ctx context.Context, place *line.Place) *Leadership {
	l := &Leadership{e: e, place: place}
	of := hold.Description{What: "leadership of election " + e.Path(), Nodes: []string{place.Path()}, Token: place.Token()}
	l.Held = hold.New(ctx, of, func(ctx context.Context) hold.Tenure {
		l.tenure = &tenure{hold: place.Hold(ctx, line.HoldOptions{Reserve: e.o.Reserve}), clear: l.clear}
		return l.tenure
	})
	return l
}

// following returns the leadership with a Context that also ends when ctx does.
func (l *Leadership) following(ctx context.Context) *Leadership {
	follows := *l
	follows.Held = l.Held.Following(ctx)
	return &follows
}

// Acknowledge announces that the leader has done what it must do before it can lead: see
// Election.WaitAcknowledged. The announcement ends with the leadership. The data are for
// those that wait, such as an address; another call replaces them.
//
// It returns recipes.ErrLost if leadership is lost, and recipes.ErrNotHeld after Release.
func (l *Leadership) Acknowledge(ctx context.Context, data []byte) error {
	if err := l.Err(); err != nil {
		return err
	}
	if err := l.tenure.acknowledge(); err != nil {
		return err
	}
	err := l.e.acknowledge(ctx, l.place, data)
	if over := l.Err(); over != nil {
		_ = l.withdraw(ctx) // clear may have come too early for it
		return over
	}
	return l.e.failed(ctx, "acknowledge leadership of", err)
}

// clear deletes the leader's node, and after it the acknowledgement, which means nothing
// without the node. In this order others can lead as soon as possible.
func (l *Leadership) clear(ctx context.Context) error {
	err := l.tenure.hold.End(ctx)
	if l.tenure.hasAcknowledged() {
		err = errors.Join(err, l.withdraw(ctx))
	}
	return err
}

// withdraw deletes the acknowledgement, unless it is that of a later leader.
func (l *Leadership) withdraw(ctx context.Context) error {
	c, path := l.e.c.InSession(l.place.Session()), l.e.ackPath(l.place)
	if l.e.line.Layout.Anonymous {
		if ack, err := c.Steady().Get(ctx, path); err == nil && isLater(ack.Data, l.Token()) {
			return nil
		}
	}
	return line.RemoveUnique(ctx, c, path)
}
