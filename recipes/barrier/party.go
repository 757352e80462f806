package barrier

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
	c   *client.Client // bound to the session of the own node
	own string         // path of the own node
}

// meet matches the parties that are there until this one has met. If they are fewer than
// n, it waits for a later one to match them.
//
// When n parties are there, one of them matches them: the last of those that wait saw
// fewer than n after it had joined.
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
			return Meeting{}, p.lost(err)
		}
		if node.Stat.Version > 0 {
			return decodeMeeting(node)
		}
	}
}

// wait waits until the own node is changed.
func (p *party) wait(ctx context.Context) error {
	node, err := p.c.GetW(ctx, p.own)
	if err != nil {
		return p.lost(err)
	}
	if node.Stat.Version > 0 {
		line.DropWatch(ctx, node.Watch)
		return nil
	}
	_, err = line.Next(ctx, node.Watch)
	return err
}

// match introduces the first n parties that have not met. It reports whether there were n.
func (p *party) match(ctx context.Context) (enough bool, err error) {
	entries, err := p.line.List(ctx)
	if err != nil {
		return false, err
	}
	var paths []string
	var values [][]byte
	for _, e := range entries {
		path := line.Join(p.path, e.Name)
		node, err := p.c.Get(ctx, path)
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue
		case err != nil:
			return false, err
		case node.Stat.Version > 0:
			if path == p.own {
				return false, nil // this party has met
			}
			continue
		}
		paths, values = append(paths, path), append(values, node.Data)
		if len(paths) == p.n {
			return true, p.introduce(ctx, paths, values)
		}
	}
	return false, nil
}

// introduce tells each party of the meeting, in one change: version 1 of its node is the
// meeting. If one of them is gone or has met, nothing is changed.
func (p *party) introduce(ctx context.Context, paths []string, values [][]byte) error {
	var ops []client.Op
	for i, path := range paths {
		data, _ := json.Marshal(record{values, i}) // these types have no error
		ops = append(ops, client.SetOp(path, data, 0))
	}
	_, err := p.c.Multi(ctx, ops...)
	if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion) || client.IsAmbiguous(err) && ctx.Err() == nil {
		return nil // the next look tells
	}
	return err
}

// giveUp deletes the own node, unless it has met.
func (p *party) giveUp(ctx context.Context, why error) (Meeting, error) {
	const patience = 2 * time.Second // the others should not meet a party that has left
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
				return decodeMeeting(node)
			}
			err = getErr
		case errors.Is(err, client.ErrNoNode) && attempt > 1:
			return Meeting{}, line.Settled(why, nil) // the attempt before, whose reply was lost, has done it
		}
		if !client.IsAmbiguous(err) || ctx.Err() != nil {
			return Meeting{}, p.inDoubt(why, err)
		}
	}
}

// inDoubt returns the error of a party that does not know whether it has met.
func (p *party) inDoubt(why, err error) error {
	is := &client.Error{Path: p.own, Err: why, Cause: err, Ambiguous: true}
	if e, ok := errors.AsType[*client.Error](err); ok {
		is.Op = e.Op
	}
	return is
}

// lost wraps recipes.ErrLost if err says that the own node is gone.
func (p *party) lost(err error) error {
	if errors.Is(err, client.ErrNoNode) {
		return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, p.own)
	}
	return err
}

// record is the data of a party's node once it has met.
type record struct {
	Values [][]byte `json:"values"`
	Own    int      `json:"own"`
}

func decodeMeeting(node client.Node) (Meeting, error) {
	var r record
	if err := json.Unmarshal(node.Data, &r); err != nil || r.Own < 0 || r.Own >= len(r.Values) {
		return Meeting{}, fmt.Errorf("%w: somebody else has written into a party's node", recipes.ErrLayout)
	}
	return Meeting{ID: node.Stat.Mzxid, Values: r.Values, Own: r.Own}, nil
}
