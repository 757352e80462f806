package value

import (
	"bytes"
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rounds is how often a change is tried again because the connection broke. Between two
// attempts the connection is back, for which the view's policy waits.
const rounds = 20

// writeMarked sets the data of version old together with a mark.
func (v *Value[T]) writeMarked(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
	done, err := v.marks.Do(ctx, client.SetOp(v.path, data, old.Version))
	if err != nil {
		return client.Stat{}, err
	}
	if done.Results != nil {
		return done.Results[0].Stat, nil
	}
	// The reply was lost. The mark was changed at the same moment.
	now := old
	now.Version++
	now.Mzxid, now.Mtime, now.DataLength = done.Receipt.Mzxid, done.Receipt.Mtime, int32(len(data))
	return now, nil
}

// write sets the data of version old. If the reply is lost it finds out whether that was
// done, and repeats it if not.
func (v *Value[T]) write(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
	c, _, err := line.Bind(ctx, v.c)
	if err != nil {
		return client.Stat{}, err
	}
	for round := 1; ; round++ {
		stat, err := c.Set(ctx, v.path, data, old.Version)
		if !client.IsAmbiguous(err) {
			return stat, err
		}
		if lookErr := c.Sync(ctx, v.path); lookErr != nil {
			return client.Stat{}, line.InDoubt(err, lookErr)
		}
		node, lookErr := c.Get(ctx, v.path)
		if lookErr != nil {
			return client.Stat{}, line.InDoubt(err, lookErr)
		}
		if !sameVersion(node, old) {
			return client.Stat{}, verdict(node, data, old, err)
		}
		if round == rounds {
			return client.Stat{}, line.Settled(err, nil)
		}
	}
}

func sameVersion(node client.Node, old client.Stat) bool {
	return node.Stat.Version == old.Version && (node.Stat.Czxid == old.Czxid || old.Czxid == 0)
}

// verdict returns the error of a set that failed with err, an ambiguous one, if the node
// has another version than old now.
func verdict(node client.Node, data []byte, old client.Stat, err error) error {
	switch {
	case node.Stat.Czxid != old.Czxid && old.Czxid != 0:
		return line.InDoubt(err, badVersion("the node was deleted and created again"))
	case node.Stat.Version != old.Version+1:
		return line.InDoubt(err, badVersion("the node has been changed further since"))
	case bytes.Equal(node.Data, data):
		return line.InDoubt(err, badVersion("the node has the value, but somebody else may have set it"))
	}
	return line.Settled(err, badVersion("somebody else has set it"))
}

// badVersion returns client.ErrBadVersion with a cause.
func badVersion(cause string) error {
	return &client.Error{Err: client.ErrBadVersion, Cause: errors.New(cause)}
}
