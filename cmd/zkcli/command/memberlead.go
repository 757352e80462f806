package command

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// transferLeader makes a server the leader.
func (c *Call) transferLeader(ctx context.Context, e *memberEnsemble, id int64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := member.TransferLeader(ctx, e, id, func(ctx context.Context) error {
		zk, err := e.client(ctx)
		if err != nil {
			return err
		}
		return zk.Ensemble().TransferLeader(ctx, int(id))
	}, c.memberProgress)
	if err != nil {
		return err
	}
	return c.Emit(Output{Note: fmt.Sprintf("Server %d leads", id), Data: map[string]int64{"leader": id}})
}

// drain moves clients of a server to others, and waits until they have gone.
func (c *Call) drain(ctx context.Context, e *memberEnsemble, id int64, o *memberOptions) error {
	percent := int(math.Round(100 * o.share))
	switch {
	case o.shareSet && (percent < 1 || percent > 100):
		return c.Usage("--share is a part of 1, such as 0.3")
	case o.shareSet && o.letIn:
		return c.Usage("--share keeps nobody away, so there is nothing to end")
	case o.keepAway < time.Second || o.keepAway > maxKeepAway:
		return c.Usage("--for is a time from 1s to %v", maxKeepAway)
	}
	st, err := member.Look(ctx, e, id)
	if err != nil {
		return err
	}
	s, _ := st.List.Server(id)
	address := e.Address(s)
	if address == "" {
		return fmt.Errorf("the members do not say where clients reach server %d", id)
	}
	if !o.letIn && !o.yes && !st.Welcomes(id) {
		return c.confirm(fmt.Sprintf("No other server than %d serves and lets clients in, so its clients find none.", id), true)
	}
	at := c.Options
	at.Server, at.insist = address, true
	conn := connection{auth: c.App.conn.auth}
	defer conn.close()
	zk, err := conn.get(ctx, &at, nil)
	if err != nil {
		return err
	}
	doc := drainDoc{Server: id}
	note := fmt.Sprintf("Server %d lets clients in", id)
	switch {
	case o.letIn:
		_, err = zk.Ensemble().KeepAway(ctx, 0)
	case o.shareSet:
		doc.Ended, err = zk.Ensemble().Drain(ctx, percent)
		note = fmt.Sprintf("Server %d has ended %s", id, countText(doc.Ended, "connection"))
	default:
		doc.Ended, err = zk.Ensemble().KeepAway(ctx, o.keepAway)
		doc.KeepsAwayMs = o.keepAway.Milliseconds()
		note = fmt.Sprintf("Server %d has ended %s, and keeps clients away for %v", id, countText(doc.Ended, "connection"), o.keepAway)
	}
	if errors.Is(err, client.ErrUnimplemented) {
		err = &wordedError{"this server can't end its connections on request: only zkd's can", err}
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := member.AwaitDrained(ctx, e, []member.Server{s}, 0, c.memberProgress); err != nil {
		return err
	}
	return c.Emit(Output{Note: note, Data: doc})
}

// maxKeepAway is the longest time that servers accept.
const maxKeepAway = 7 * 24 * time.Hour

// drainDoc is what drain did, in JSON.
type drainDoc struct {
	Server      int64 `json:"server"`
	Ended       int   `json:"ended"` // connections
	KeepsAwayMs int64 `json:"keepsAwayMs,omitempty"`
}
