package client

import "context"

// Ensemble controls the servers themselves. Its operations need the permission to write the
// node ConfigPath, as Reconfig does, and zkd's servers: others answer ErrUnimplemented and
// close the connection.
type Ensemble struct{ c *Client }

// Ensemble returns a view of c that controls the servers.
func (c *Client) Ensemble() Ensemble { return Ensemble{c} }

// TransferLeader makes another server the leader. It returns when the present leader has
// begun to hand over; all clients lose their connections for a moment. A server that is no
// voter, or not up to date, is refused with ErrBadArguments.
func (e Ensemble) TransferLeader(ctx context.Context, server int) error {
	_, err := do(ctx, e.c, &e.c.s.ops.transferLeader, args{version: int64(server)})
	return err
}

// Drain makes the server of this connection end percent of its other connections, so that
// their clients go to other servers. It returns how many it has ended.
func (e Ensemble) Drain(ctx context.Context, percent int) (int, error) {
	return do(ctx, e.c, &e.c.s.ops.drain, args{version: int64(percent)})
}
