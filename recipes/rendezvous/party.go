package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// party is a Meet under way.
type party struct {
	*Rendezvous
	c   *client.Client // for the session of the own node
	own string         // the path of the own node
}

// meet brings together whoever is there, until it has met itself, or they are too few:
// then it waits for those who come later to do that.
//
// So somebody is always at it when n are there: the last one of those who wait has seen,
// when it began to, less than n with all that wait now among them.
func (p *party) meet(ctx context.Context) (Meeting, error) {
	for {
		enough, err := p.match(ctx)
		if err == nil && !enough {
			err = p.wait(ctx)
		}
		if err != nil {
			return Meeting{}, err
		}
		node, err := p.c.Get(ctx, p.own)
		if err != nil {
			return Meeting{}, p.gone(err)
		}
		if node.Stat.Version > 0 {
			return meeting(node.Data, node.Stat)
		}
	}
}

// wait waits until the own node is changed.
func (p *party) wait(ctx context.Context) error {
	node, err := p.c.GetW(ctx, p.own)
	if err != nil {
		return p.gone(err)
	}
	if node.Stat.Version > 0 {
		line.DropWatch(ctx, node.Watch)
		return nil
	}
	_, err = line.Next(ctx, node.Watch)
	return err
}

// invited is somebody who waits.
type invited struct {
	path  string
	value []byte
}

// match has the first n meet that have not yet. It reports whether there were n; if one
// of them was gone when it came to that, or had met, they have not.
func (p *party) match(ctx context.Context) (enough bool, err error) {
	entries, err := p.line.List(ctx)
	if err != nil {
		return false, err
	}
	var group []invited
	for _, e := range entries {
		path := line.Join(p.line.Path, e.Name)
		node, err := p.c.Get(ctx, path)
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue
		case err != nil:
			return false, err
		case node.Stat.Version > 0:
			if path == p.own {
				return false, nil // we have met
			}
			continue
		}
		if group = append(group, invited{path, node.Data}); len(group) == p.n {
			return true, p.introduce(ctx, group)
		}
	}
	return false, nil
}

// introduce tells each of the group of all, in one change: version 1 of a party's node
// is the meeting that it is in.
func (p *party) introduce(ctx context.Context, group []invited) error {
	rec := record{}
	for _, g := range group {
		rec.Values = append(rec.Values, g.value)
	}
	var ops []client.Op
	for i, g := range group {
		rec.Own = i
		ops = append(ops, client.SetOp(g.path, rec.encode(), 0))
	}
	_, err := p.c.Multi(ctx, ops...)
	if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion) || client.IsAmbiguous(err) && ctx.Err() == nil {
		return nil // a look will show
	}
	return err
}

// giveUp takes the own node out, unless somebody has met it.
func (p *party) giveUp(ctx context.Context, why error) (Meeting, error) {
	const patience = 2 * time.Second // the others should not wait for one who is not there
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := p.c.Delete(ctx, p.own, 0)
		switch {
		case err == nil:
			return Meeting{}, line.Settled(why, nil)
		case errors.Is(err, client.ErrBadVersion):
			node, getErr := p.c.Get(ctx, p.own)
			if getErr == nil {
				return meeting(node.Data, node.Stat)
			}
			err = getErr
		case errors.Is(err, client.ErrNoNode) && attempt > 1:
			return Meeting{}, line.Settled(why, nil) // the attempt before, of which no reply came, has done it
		}
		if !client.IsAmbiguous(err) || ctx.Err() != nil {
			return Meeting{}, p.doubt(why, err)
		}
	}
}

// doubt is the error of one who does not know whether the others have met it.
func (p *party) doubt(why, err error) error {
	is := &client.Error{Path: p.own, Err: why, Cause: err, Ambiguous: true}
	if e, ok := errors.AsType[*client.Error](err); ok {
		is.Op = e.Op
	}
	return is
}

// gone is the error of one whose node is not there.
func (p *party) gone(err error) error {
	if errors.Is(err, client.ErrNoNode) {
		return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, p.own)
	}
	return err
}

// record is what is written into a party's node when it has met.
type record struct {
	Values [][]byte `json:"values"`
	Own    int      `json:"own"`
}

func (r record) encode() []byte {
	data, _ := json.Marshal(r) // it has nothing that can't be encoded
	return data
}

// meeting reads it.
func meeting(data []byte, stat client.Stat) (Meeting, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.Own < 0 || r.Own >= len(r.Values) {
		return Meeting{}, fmt.Errorf("%w: somebody else has written into a party's node", recipes.ErrLayout)
	}
	return Meeting{ID: stat.Mzxid, Values: r.Values, Own: r.Own}, nil
}
