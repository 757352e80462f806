package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// anonymous creates a place whose name does not identify its creator.
type anonymous struct {
	line *Line
	c    *client.Client // for one session
	data []byte
	// session and after distinguish the place from others: it belongs to session and was
	// created later than after.
	session client.SessionID
	after   client.Zxid
}

// joinAnonymous creates the place, once.
func (l *Line) joinAnonymous(ctx context.Context, stem string, data []byte) (client.Created, error) {
	if err := l.Client.WaitConnected(ctx); err != nil {
		return client.Created{}, err // otherwise there is no session to recognise the place by
	}
	a := &anonymous{line: l, data: data, after: l.Client.Status().LastZxid}
	a.session = l.Client.Session().ID()
	a.c = l.Client.Steady().InSession(a.session)
	for {
		made, err := a.c.Create(ctx, stem, data, client.CreateOptions{Mode: client.EphemeralSequential, ACL: l.ACL, Stat: true})
		if !client.IsAmbiguous(err) {
			return made, err
		}
		made, lookErr := a.find(ctx)
		if lookErr != nil {
			go a.forget()
			return client.Created{}, lookErr
		}
		if made.Path != "" {
			return made, nil
		}
	}
}

// find returns the place. If it does not exist the result has no path, and the creates sent so
// far will not make it: the servers refuse what a session sent on earlier connections.
func (a *anonymous) find(ctx context.Context) (client.Created, error) {
	if err := a.c.Sync(ctx, a.line.Path); err != nil {
		return client.Created{}, err
	}
	list, err := a.c.Children(ctx, a.line.Path)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return client.Created{}, err
	}
	for _, name := range list.Names {
		if _, ok := a.line.Layout.Parse(name); !ok {
			continue
		}
		path := Join(a.line.Path, name)
		node, err := a.c.Get(ctx, path)
		switch {
		case errors.Is(err, client.ErrNoNode):
		case err != nil:
			return client.Created{}, err
		case node.Stat.EphemeralOwner == a.session && node.Stat.Czxid > a.after && bytes.Equal(node.Data, a.data):
			return client.Created{Path: path, Stat: node.Stat}, nil
		}
	}
	return client.Created{}, nil
}

// forget deletes the place if it exists. It returns when the session ends at the latest.
func (a *anonymous) forget() {
	ctx := context.Background()
	for {
		made, err := a.find(ctx)
		if made.Path != "" {
			err = settle.Delete(ctx, a.c, made.Path, client.AnyVersion, settle.DeleteOptions{Insist: true})
		}
		if !errors.Is(err, client.ErrConnectionLoss) {
			return
		}
	}
}

// mine reports whether the node at the place's path is the place itself. It can be another
// one only if the layout is anonymous, and the line's path was deleted and created again.
func (p *Place) mine(ctx context.Context) (bool, error) {
	if !p.line.Layout.Anonymous {
		return true, nil
	}
	found, err := p.line.Client.Steady().Exists(ctx, p.path)
	return found.Exists && found.Stat.Czxid == p.stat.Czxid, Lost(err)
}

// deleteMine deletes an anonymous place, and no other, if need be in the background.
func (p *Place) deleteMine(ctx context.Context) error {
	remove := func(ctx context.Context) error {
		mine, err := p.mine(ctx)
		switch {
		case err != nil:
			return err
		case !mine:
			return fmt.Errorf("%w: the path was deleted and created again", client.ErrNoNode)
		}
		return settle.Delete(ctx, p.line.Client, p.path, client.AnyVersion, settle.DeleteOptions{Insist: true})
	}
	err := remove(ctx)
	if err != nil && (ctx.Err() != nil || errors.Is(err, client.ErrConnectionLoss)) {
		go func() {
			for errors.Is(remove(context.WithoutCancel(ctx)), client.ErrConnectionLoss) {
			}
		}()
	}
	return err
}
