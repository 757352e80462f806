package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
)

func deleteAllCommand() Command {
	return Command{
		Name: "deleteall", Synopsis: "path [-b batch size] [--dry-run] [--yes]", Short: "Delete a node and all below it",
		Long: "Nodes are deleted from below, in batches of which each is done whole or not at all.\n" +
			"If it is stopped, it says how many are gone and how many are left. At a terminal it\n" +
			"asks before it deletes more than 10,000 nodes. Of / it deletes all but /zookeeper.",
		Examples: []Example{{"deleteall /app", "the whole subtree"}, {"deleteall --dry-run /app", "how many nodes that would be"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			batch := flags.Flags().IntP("batch", "b", 0, "delete so many `nodes` at a time")
			dryRun := boolFlag(flags, "dry-run", "", "only say how many nodes there are")
			yes := boolFlag(flags, "yes", "", "don't ask")
			return func(ctx context.Context, c *Call) error {
				return c.deleteAll(ctx, subtree.DeleteOptions{Batch: max(0, *batch), DryRun: *dryRun}, *yes || *dryRun)
			}
		},
	}
}

// deleteAll deletes a subtree. sure says that there is nothing to ask.
func (c *Call) deleteAll(ctx context.Context, o subtree.DeleteOptions, sure bool) error {
	const many = 10_000
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	m := c.meter()
	o.Progress = m.show
	var refused error
	o.Confirm = func(nodes int) error {
		if all := c.Arg(0) == "/"; !sure && (all || nodes > many) {
			m.clear()
			refused = c.confirm(fmt.Sprintf("This deletes all %d nodes of %s.", nodes, c.Arg(0)), all)
		}
		return refused
	}
	r, err := subtree.Delete(ctx, zk, c.Arg(0), o)
	m.clear()
	if refused != nil {
		return refused
	}
	return c.changed(r, "deleted", r.Deleted, o.DryRun, err)
}

// setAllACLs gives a subtree an ACL.
func (c *Call) setAllACLs(ctx context.Context, acl []client.ACL, dryRun bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	m := c.meter()
	r, err := subtree.SetACL(ctx, zk, c.Arg(0), acl, subtree.SetACLOptions{DryRun: dryRun, Progress: m.show})
	m.clear()
	return c.changed(r, "changed", r.Changed, dryRun, err)
}

// treeChange is what became of the change of a subtree, in JSON.
type treeChange struct {
	Path    string `json:"path"`
	Done    int    `json:"done"`
	Left    int    `json:"left"`
	Total   int    `json:"total"`
	DryRun  bool   `json:"dryRun,omitempty"`
	Unknown int    `json:"unknown,omitempty"` // nodes of which it is not known
}

// changed reports a change of a subtree. One that stopped halfway says how far it
// came.
func (c *Call) changed(r subtree.Report, verb string, done int, dryRun bool, err error) error {
	doc := treeChange{Path: c.Arg(0), Done: done, Left: r.Left, Total: r.Total, DryRun: dryRun, Unknown: len(r.Unknown)}
	switch {
	case errors.Is(err, client.ErrNoNode) && r.Total == 0:
		return err
	case err != nil && r.Total == 0:
		return fmt.Errorf("nothing %s: %w", verb, err)
	case err != nil:
		return fmt.Errorf("%d of %d nodes %s, %d left: %w", done, r.Total, verb, r.Left, err)
	case dryRun:
		return c.Emit(Output{Text: fmt.Sprintf("%d nodes would be %s", r.Left, verb), Data: doc})
	}
	return c.Emit(Output{Data: doc})
}
