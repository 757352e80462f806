package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/member"
)

// serverID parses the argument of an action on one server.
func (c *Call) serverID(args []string) (int64, error) {
	if len(args) != 1 {
		return 0, &UsageError{Command: "member " + c.Arg(0), Text: "wrong number of arguments", Usage: "member " + c.Arg(0) + " ID"}
	}
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return 0, &UsageError{Command: "member " + c.Arg(0), Text: fmt.Sprintf("%q is not the id of a server", args[0])}
	}
	return id, nil
}

// transferLeader makes a server the leader, and waits until it leads. The connection may break
// before the answer comes, so what counts is who leads.
func (c *Call) transferLeader(ctx context.Context, e *memberEnsemble, id int64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		st, err := member.Look(ctx, e)
		switch {
		case ctx.Err() == nil && lostConnection(err): // between two leaders
		case err != nil:
			return err
		case st.Leader() == id:
			return c.Emit(Output{Note: fmt.Sprintf("Server %d leads", id), Data: map[string]int64{"leader": id}})
		default:
			zk, err := e.client(ctx)
			if err == nil {
				err = zk.Ensemble().TransferLeader(ctx, int(id))
			}
			if err != nil && !lostConnection(err) {
				return notTransferred(err, id)
			}
		}
		c.memberProgress(fmt.Sprintf("server %d takes over", id))
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("server %d does not lead: %w", id, ctx.Err())
		}
	}
}

// lostConnection reports whether the connection broke, whatever became of the request.
func lostConnection(err error) bool {
	return err != nil && (client.IsRetryable(err) || client.IsAmbiguous(err))
}

func notTransferred(err error, id int64) error {
	switch {
	case errors.Is(err, client.ErrBadArguments):
		return &wordedError{fmt.Sprintf("server %d can't take over: it is no voter, or not up to date", id), err}
	case errors.Is(err, client.ErrUnimplemented):
		return &wordedError{"these servers can't choose their leader: only zkd's can", err}
	}
	return err
}

// drain makes a server end a share of its connections.
func (c *Call) drain(ctx context.Context, e *memberEnsemble, id int64, percent int) error {
	text, err := e.Members(ctx)
	if err != nil {
		return err
	}
	list, err := member.ParseList(text)
	if err != nil {
		return err
	}
	address := ""
	for _, s := range list.Servers {
		if s.ID == id {
			address = s.Address()
		}
	}
	if address == "" {
		return fmt.Errorf("the members do not say where clients reach server %d", id)
	}
	at := c.Options
	at.Server = address
	conn := connection{auth: c.App.conn.auth}
	defer conn.close()
	zk, err := conn.get(ctx, &at, nil)
	if err != nil {
		return err
	}
	ended, err := zk.Ensemble().Drain(ctx, percent)
	if errors.Is(err, client.ErrUnimplemented) {
		err = &wordedError{"this server can't end its connections on request: only zkd's can", err}
	}
	if err != nil {
		return err
	}
	return c.Emit(Output{Note: fmt.Sprintf("Server %d ends %d connections", id, ended), Data: map[string]int64{"server": id, "ended": int64(ended)}})
}
