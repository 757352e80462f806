package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
)

func deleteAllCommand() Command {
	return Command{
		Name: "deleteall", Synopsis: "path [-b batch size] [--at-once] [--dry-run] [--yes]", Short: "Delete a node and all below it",
		Long: "Nodes are deleted from below, in batches of which each is done whole or not at all.\n" +
			"If it is stopped, it says how many are gone and how many are left. At a terminal it\n" +
			"asks before it deletes more than 10,000 nodes. Of / it deletes all but /zookeeper.\n" +
			"With --at-once all is deleted in one step, or nothing. That works for up to 10,000\n" +
			"nodes, on servers that offer operations: see features.",
		Examples: []Example{{"deleteall /app", "the whole subtree"}, {"deleteall --dry-run /app", "how many nodes that would be"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			batch := flags.Flags().IntP("batch", "b", 0, "how many `nodes` to delete at a time")
			dryRun := boolFlag(flags, "dry-run", "", "only say how many nodes there are")
			yes := boolFlag(flags, "yes", "", "don't ask")
			atOnce := boolFlag(flags, "at-once", "", "delete all in one step, or nothing")
			return func(ctx context.Context, c *Call) error {
				if *atOnce && !*dryRun {
					return c.deleteAtOnce(ctx)
				}
				return c.deleteAll(ctx, tree.DeleteOptions{Batch: max(0, *batch), DryRun: *dryRun}, *yes || *dryRun)
			}
		},
	}
}

// deleteAtOnce deletes a subtree of bounded size in one step.
func (c *Call) deleteAtOnce(ctx context.Context) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	r, err := single(ctx, zk, client.DeleteTreeOp(c.Arg(0), client.AnyVersion, 0))
	if errors.Is(err, client.ErrNotEmpty) {
		return fmt.Errorf("more than %d nodes, or paths of more than 4 MiB, can't be deleted at once: leave out --at-once: %w", client.MaxDeleteTree, err)
	}
	if err != nil {
		return err
	}
	return c.Emit(Output{Data: treeChange{Path: c.Arg(0), Done: r.Deleted, Total: r.Deleted}})
}

// deleteAll deletes a subtree. With sure it does not ask.
func (c *Call) deleteAll(ctx context.Context, o tree.DeleteOptions, sure bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	m := c.meter()
	defer m.clear()
	o.KeepRoot = c.Arg(0) == "/"
	o.Progress = func(done, found int) {
		if done == 0 {
			m.show(subtree.Progress{Doing: "listing", Done: found})
		} else {
			m.show(subtree.Progress{Doing: "deleting", Done: done, Total: found})
		}
	}
	if !sure {
		switch some, err := c.confirmDeletion(ctx, zk, m, o); {
		case err != nil:
			return err
		case !some: // nodes created meanwhile are not meant
			return c.Emit(Output{Data: treeChange{Path: c.Arg(0)}})
		}
	}
	n, err := tree.Delete(ctx, zk, c.Arg(0), o)
	m.clear()
	doc := treeChange{Path: c.Arg(0), Done: n, Total: n, DryRun: o.DryRun}
	if o.DryRun {
		doc.Done, doc.Left = 0, n
	}
	if e, ok := errors.AsType[*tree.DeleteError](err); ok {
		doc.Done, doc.Left, doc.Unknown = e.Deleted, e.Left, e.Unknown
		doc.Total = e.Deleted + e.Left + e.Unknown
		err = e.Err
	}
	return c.changed(doc, "deleted", err)
}

// confirmDeletion asks the user at the terminal, if many nodes or all are to be deleted. It
// returns false if there is nothing to delete.
func (c *Call) confirmDeletion(ctx context.Context, zk *client.Client, m *meter, o tree.DeleteOptions) (some bool, err error) {
	const many = 10_000
	all := c.Arg(0) == "/"
	if !all && !c.attended() {
		return true, nil
	}
	o.DryRun = true
	n, err := tree.Delete(ctx, zk, c.Arg(0), o)
	m.clear()
	if e, ok := errors.AsType[*tree.DeleteError](err); ok {
		return false, fmt.Errorf("nothing deleted: %w", e.Err)
	}
	if err == nil && (all && n > 0 || n > many) {
		err = c.confirm(fmt.Sprintf("This deletes %s, all of %s.", countText(n, "node"), c.Arg(0)), all)
	}
	return n > 0, err
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
	doc := treeChange{Path: c.Arg(0), Done: r.Changed, Left: r.Left, Total: r.Total, DryRun: dryRun, Unknown: len(r.Unknown)}
	doc.Left -= doc.Unknown
	return c.changed(doc, "changed", err)
}

// treeChange is the result of a change of a subtree in JSON.
type treeChange struct {
	Path    string `json:"path"`
	Done    int    `json:"done"`
	Left    int    `json:"left"`
	Total   int    `json:"total"`
	DryRun  bool   `json:"dryRun,omitempty"`
	Unknown int    `json:"unknown,omitempty"` // nodes whose outcome is unknown
}

// changed reports a change of a subtree. For an interrupted one it reports how far it got.
func (c *Call) changed(doc treeChange, verb string, err error) error {
	switch {
	case errors.Is(err, client.ErrNoNode) && doc.Total == 0:
		return err
	case err != nil && doc.Total == 0:
		return fmt.Errorf("nothing %s: %w", verb, err)
	case err != nil:
		unknown := ""
		if doc.Unknown > 0 {
			unknown = fmt.Sprintf(", of %d it is unknown", doc.Unknown)
		}
		return fmt.Errorf("%d of %d nodes %s, %d left%s: %w", doc.Done, doc.Total, verb, doc.Left, unknown, err)
	case doc.DryRun:
		return c.Emit(Output{Text: fmt.Sprintf("%s would be %s", countText(doc.Left, "node"), verb), Data: doc})
	}
	return c.Emit(Output{Data: doc})
}
