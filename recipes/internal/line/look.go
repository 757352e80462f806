package line

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
)

// Look is List that also returns the Stat of the path at the same moment.
func (l *Line) Look(ctx context.Context) ([]Entry, client.Stat, error) {
	list, err := l.Client.Steady().Children(ctx, l.Path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, client.Stat{}, nil
	}
	if err != nil {
		return nil, client.Stat{}, err
	}
	entries, err := l.parse(list.Names)
	return entries, list.Stat, err
}

// Next waits for the watch's event. If ctx or the session ends before, it closes the watch, so
// that nothing remains at the server.
func Next(ctx context.Context, w *client.Watch) (client.Event, error) {
	e, err := w.Next(ctx)
	if err != nil {
		DropWatch(ctx, w)
		return e, Lost(err)
	}
	return e, nil
}

// Session returns the session that the place belongs to.
func (p *Place) Session() client.SessionID { return p.stat.EphemeralOwner }

// LookW is Look that sets a watch on the list.
func (l *Line) LookW(ctx context.Context) ([]Entry, *client.Watch, error) {
	list, err := l.Client.Steady().ChildrenW(ctx, l.Path)
	if err != nil {
		return nil, nil, Lost(err)
	}
	entries, err := l.parse(list.Names)
	if err != nil {
		DropWatch(ctx, list.Watch)
		return nil, nil, err
	}
	return entries, list.Watch, nil
}
