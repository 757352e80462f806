package value

import (
	"bytes"
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// rounds is how often a change is begun anew because the connection broke under it. In
// between the connection is back, for which the view's policy waits.
const rounds = 20

// write is a change of one version of the node, without a mark.
type write struct {
	c    *client.Client // of one session: see line.Bind
	path string
	data []byte
	old  client.Stat
}

// settle sets the data. If the reply is lost it looks whether that was done, and goes
// on if not.
func (w *write) settle(ctx context.Context) (client.Stat, error) {
	for round := 1; ; round++ {
		stat, err := w.c.Set(ctx, w.path, w.data, w.old.Version)
		if err == nil || !client.IsAmbiguous(err) {
			return stat, err
		}
		again, why := w.look(ctx, err)
		if !again {
			return client.Stat{}, why
		}
		if round == rounds {
			return client.Stat{}, line.Settled(err, nil)
		}
	}
}

// look finds out what has become of a set that failed with err, and returns whether to
// set again, as it surely was not done. If not, why is the error.
func (w *write) look(ctx context.Context, err error) (again bool, why error) {
	if lookErr := w.c.Sync(ctx, w.path); lookErr != nil {
		return false, line.InDoubt(err, lookErr)
	}
	node, lookErr := w.c.Get(ctx, w.path)
	switch {
	case lookErr != nil:
		return false, line.InDoubt(err, lookErr)
	case node.Stat.Czxid != w.old.Czxid && w.old.Czxid != 0:
		return false, line.InDoubt(err, badVersion("the node has been made anew"))
	case node.Stat.Version == w.old.Version:
		return true, nil
	case node.Stat.Version == w.old.Version+1 && !bytes.Equal(node.Data, w.data):
		return false, line.Settled(err, badVersion("somebody else has set it"))
	case node.Stat.Version == w.old.Version+1:
		return false, line.InDoubt(err, badVersion("the node has the value, but somebody else may have set it"))
	}
	return false, line.InDoubt(err, badVersion("the node has been changed further since"))
}

// badVersion is client.ErrBadVersion with a cause.
func badVersion(cause string) error {
	return &client.Error{Err: client.ErrBadVersion, Cause: errors.New(cause)}
}
