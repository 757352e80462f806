package line

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
)

// Line is the places below one path.
type Line struct {
	Client *client.Client
	Path   string
	Layout *Layout
	ACL    []client.ACL // of new nodes; nil is client.OpenACL
	// Ignore, if not nil, reports which children may exist although they are no places.
	Ignore func(name string) bool
	// Make, if not nil, creates the path. The default is a container.
	Make func(ctx context.Context) error
}

// List returns the places in order. There are none if the path does not exist. The error
// wraps recipes.ErrLayout if a child is not a place.
func (l *Line) List(ctx context.Context) ([]Entry, error) {
	entries, _, err := l.Look(ctx)
	return entries, err
}

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

// parse returns the places in order.
func (l *Line) parse(names []string) ([]Entry, error) {
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		e, ok := l.Layout.Parse(name)
		switch {
		case ok:
			entries = append(entries, e)
		case l.Ignore == nil || !l.Ignore(name):
			return nil, fmt.Errorf("%w: %s has a child %q; delete it, or use another path", recipes.ErrLayout, l.Path, name)
		}
	}
	slices.SortFunc(entries, Compare)
	return entries, nil
}

// Join creates a place of that kind at the end of the line, and the path if it does not exist.
// If it fails there is no place, or it is deleted in the background.
func (l *Line) Join(ctx context.Context, kind int, data []byte) (*Place, error) {
	session := l.Client.Session().ID()
	path := Join(l.Path, l.Layout.stem(kind, session))
	const rounds = 10 // a container may be deleted between its creation and its use
	for round := 1; ; round++ {
		made, err := l.make(ctx, path, data)
		if err == nil {
			own := *l
			own.Client = l.Client.InSession(made.Stat.EphemeralOwner)
			return &Place{line: &own, path: made.Path, stat: made.Stat}, nil
		}
		if !errors.Is(err, client.ErrNoNode) || round == rounds {
			return nil, Lost(err)
		}
		if err := l.makePath(ctx); err != nil {
			return nil, Lost(err)
		}
	}
}

func (l *Line) makePath(ctx context.Context) error {
	if l.Make != nil {
		return l.Make(ctx)
	}
	return settle.Ensure(ctx, l.Client, l.Path, client.CreateOptions{Mode: client.Container, ACL: l.ACL})
}

// make creates a place, once.
func (l *Line) make(ctx context.Context, path string, data []byte) (client.Created, error) {
	if l.Layout.Anonymous {
		return l.joinAnonymous(ctx, path, data)
	}
	return settle.Create(ctx, l.Client, path, data, settle.CreateOptions{Mode: client.EphemeralSequential, ACL: l.ACL, By: settle.ByPath})
}

// Lost returns err, wrapped in recipes.ErrLost if the session has ended.
func Lost(err error) error {
	if errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, recipes.ErrLost) {
		return fmt.Errorf("%w: %w", recipes.ErrLost, err)
	}
	return err
}
