package command

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/member"
)

// retireDoc is what retire did, in JSON.
type retireDoc struct {
	Retired bool   `json:"retired"`
	Zxid    string `json:"zxid,omitempty"` // since when
}

// retire has the ensemble serve no client and write nothing, or ends that.
func (c *Call) retire(ctx context.Context, e *memberEnsemble, o *memberOptions) error {
	if !o.yes {
		text := "All clients will be sent away, and nothing is written, until standbys take the place of the ensemble or retire --end."
		if o.letIn {
			text = "If a standby has been promoted since, there will be two ensembles, and each has its own writes."
		}
		if err := c.confirm(text, true); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout) // a session whose connection is lost after the creation is not resumed
	defer cancel()
	at := c.Options
	at.insist = true
	conn := connection{auth: c.App.conn.auth}
	defer conn.close()
	zk, err := conn.get(ctx, &at, nil)
	if err != nil {
		return err
	}
	zk = zk.Unrooted()
	if o.letIn {
		err := zk.Delete(ctx, client.RetiredPath, -1)
		if err != nil && !errors.Is(err, client.ErrNoNode) {
			return err
		}
		return c.Emit(Output{Note: "The ensemble serves", Data: retireDoc{}})
	}
	node, err := zk.Get(ctx, client.RetiredPath) // a retired ensemble answers no creation
	if errors.Is(err, client.ErrNoNode) {
		_, err = zk.Create(ctx, client.RetiredPath, []byte(time.Now().UTC().Format(time.RFC3339)), client.CreateOptions{ACL: client.ReadACL()})
		if err == nil {
			node, err = zk.Get(ctx, client.RetiredPath)
		}
	}
	switch {
	case errors.Is(err, client.ErrUnimplemented):
		return &wordedError{"this ensemble can't be retired: each of its servers must be zkd's, of this version or a later one, and in an ensemble", err}
	case err != nil:
		return err
	}
	config, err := zk.Get(ctx, client.ConfigPath)
	if err != nil {
		return err
	}
	list, err := member.ParseList(string(config.Data))
	if err != nil {
		return err
	}
	if err := member.AwaitDrained(ctx, e, list.Servers, o.within, c.memberProgress); err != nil {
		return err
	}
	zxid := node.Stat.Czxid.String()
	return c.Emit(Output{Note: "The ensemble is retired since zxid " + zxid + ": a standby that has that has everything (zkd standby promote --retired-since " + zxid + ")", Data: retireDoc{true, zxid}})
}
