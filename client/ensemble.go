package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Ensemble controls the servers themselves. Its operations need the permission to write the
// node ConfigPath, and, except for Reconfig, zkd's servers: others answer ErrUnimplemented and
// close the connection.
type Ensemble struct{ c *Client }

// Ensemble returns a view of c that controls the servers.
func (c *Client) Ensemble() Ensemble { return Ensemble{c} }

// Reconfig changes the members of the ensemble and returns the new configuration. version is
// that of the configuration to change (the "version=" line of the node ConfigPath), or -1 for
// any.
func (e Ensemble) Reconfig(ctx context.Context, m Members, version int64) (Node, error) {
	return do(ctx, e.c, &e.c.s.table().reconfig, args{members: m, version: version})
}

// TransferLeader makes another server the leader. It returns when the present leader has
// begun to hand over; all clients lose their connections for a moment. A server that is no
// voter, or not up to date, is refused with ErrBadArguments.
func (e Ensemble) TransferLeader(ctx context.Context, server int) error {
	_, err := do(ctx, e.c, &e.c.s.table().transferLeader, args{version: int64(server)})
	return err
}

// Drain makes the server of this connection end percent of its other connections, bit by bit,
// so that their clients go to other servers. It returns how many will end.
func (e Ensemble) Drain(ctx context.Context, percent int) (int, error) {
	return do(ctx, e.c, &e.c.s.table().drain, args{version: int64(percent)})
}

// Configuration returns the configuration of the server of this connection, a line for each key
// with its value and where that comes from. Secrets are masked.
func (e Ensemble) Configuration(ctx context.Context) (string, error) {
	return e.configure(ctx, jute.ConfigureShow, "", "")
}

// Configure sets a key of the configuration of the server of this connection, and returns a text
// that says what has changed. The value is in effect until the server restarts or reads its configuration again.
// If the server refuses it, the error wraps ErrBadArguments and has the reason.
func (e Ensemble) Configure(ctx context.Context, key, value string) (string, error) {
	return e.configure(ctx, jute.ConfigureSet, key, value)
}

// Unconfigure ends the effect of Configure: the value of the configuration file counts again.
func (e Ensemble) Unconfigure(ctx context.Context, key string) (string, error) {
	return e.configure(ctx, jute.ConfigureUnset, key, "")
}

func (e Ensemble) configure(ctx context.Context, action int32, key, value string) (string, error) {
	r, err := do(ctx, e.c, &e.c.s.table().configure, args{version: int64(action), path: key, data: []byte(value)})
	if err == nil && !r.Done {
		return "", fmt.Errorf("%w: %s", ErrBadArguments, r.Text)
	}
	return r.Text, err
}

// KeepAway makes the server of this connection end all its other connections, as Drain does,
// and keep clients away for d, at most a week; or let them in again, if d is 0. A session that
// finds no other server is let in before it expires, and clients with Options.Insist always
// are. KeepAway returns how many connections will end.
func (e Ensemble) KeepAway(ctx context.Context, d time.Duration) (int, error) {
	n, err := do(ctx, e.c, &e.c.s.table().keepAway, args{version: d.Milliseconds()})
	if errors.Is(err, ErrBadArguments) && d >= 0 && d <= 7*24*time.Hour {
		err = fmt.Errorf("this server does not know how to keep clients away: %w", err)
	}
	return n, err
}
