package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/backup"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/history"
)

// restoreOptions are the flags of restore.
type restoreOptions struct {
	from, zxid, at string
	dryRun, yes    bool
}

func restoreCommand() Command {
	return Command{
		Name: "restore", Synopsis: "--from DIR [--at TIME | --zxid ZXID] [--dry-run] [--yes] path", Short: "Bring a subtree back as a backup has it",
		Long: "The subtree becomes what it was at a moment of a directory of backup follow, or in a\n" +
			"backup in a file. The differences are shown first. Nodes that were deleted since are\n" +
			"created, those that differ get their data and ACLs back, and those that were created\n" +
			"since are deleted, in batches of which each is done whole or not at all; the ACLs of a\n" +
			"batch follow. Each write is for the version that was compared: if somebody else writes\n" +
			"meanwhile, restore ends and names the node. Ephemeral nodes are left out: they belong to\n" +
			"sessions. What is ephemeral now stays, with what is above it. Versions, times and zxids\n" +
			"are new.",
		Examples: []Example{
			{"restore --from /backup --at 2026-11-22T14:05:00Z --dry-run /app", "what was different then"},
			{"restore --from /backup --at 2026-11-22T14:05:00Z /app", "show it, ask, and bring it back"},
			{"restore --from now.db --yes /app/config", "from one backup, in a script"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			var o restoreOptions
			f := flags.Flags()
			f.StringVar(&o.from, "from", "", "a directory of backups (or s3://…), or one backup")
			f.StringVar(&o.at, "at", "", "the moment, such as 2026-11-22T14:05:00Z; default is the last")
			f.StringVar(&o.zxid, "zxid", "", "the moment after this zxid, in hex")
			f.BoolVar(&o.dryRun, "dry-run", false, "only show the differences")
			f.BoolVar(&o.yes, "yes", false, "don't ask")
			return func(ctx context.Context, c *Call) error { return c.restore(ctx, &o) }
		},
	}
}

// restoreDoc is the result of a restore in JSON. Paths are whole ones.
type restoreDoc struct {
	Path    string   `json:"path"`
	Zxid    string   `json:"zxid"`
	Base    string   `json:"base"`
	Last    string   `json:"last,omitempty"` // the time of the last transaction that counts
	DryRun  bool     `json:"dryRun,omitempty"`
	Create  []string `json:"create"`
	Change  []string `json:"change"`
	Delete  []string `json:"delete"`
	LeftOut []string `json:"leftOut"` // they were ephemeral
	Kept    []string `json:"kept"`    // they are ephemeral, or above one that is
	Error   string   `json:"error,omitempty"`
	subtree.Report
}

func (c *Call) restore(ctx context.Context, o *restoreOptions) error {
	root := c.Arg(0)
	if o.from == "" {
		return c.Usage("--from is missing: a directory of backups, or one backup")
	}
	if strings.Contains(c.Options.Server, "/") {
		return c.Usage("paths in a backup are whole ones: connect without a chroot")
	}
	at, err := history.ParseMoment(o.zxid, o.at)
	if err != nil {
		return c.Usage("%v", err)
	}
	found, err := backup.StateAt(ctx, o.from, c.App.getenv, at)
	if err != nil {
		return err
	}
	if found.Unusable != nil {
		c.App.say("an older backup is used: %v", found.Unusable)
	}
	if _, ok := found.Tree.Get(root); !ok {
		return fmt.Errorf("there was no %s at zxid %v", root, found.Tree.LastZxid())
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	present := subtree.Live(ctx, zk, root, subtree.ReadOptions{Data: true, ACL: true, SkipSystem: true})
	r, err := treediff.Revert(root, history.Nodes(found.Tree, root), present, 0)
	if err != nil {
		return err
	}
	doc := restoreOf(r, found, o.dryRun)
	text := reversalText(r, found)
	switch {
	case len(r.Changes) == 0:
		return c.Emit(Output{Text: text + "nothing to change", Data: doc})
	case o.dryRun:
		doc.Plan = r.Counts()
		return c.Emit(Output{Text: text + "would be: " + countsText(doc.Plan), Data: doc})
	case !o.yes:
		fmt.Fprint(c.App.err, text)
		if err := c.confirm(fmt.Sprintf("This changes %s below %s (%s).", countText(len(r.Changes), "node"), root, countsText(r.Counts())), true); err != nil {
			return err
		}
		text = ""
	}
	m := c.meter()
	doc.Report, err = subtree.Restore(ctx, r, zk, m.show)
	m.clear()
	if err != nil {
		doc.Error = err.Error()
		hint := stopped(root, doc.Report, err)
		if _, raced := errors.AsType[*treediff.RacedError](err); raced {
			err = fmt.Errorf("%w: compare again, by the same command", err)
		}
		return errors.Join(c.Emit(Output{Text: text + hint, Data: doc}), err)
	}
	done := doc.Counts
	done.Ephemerals, done.Skipped = len(r.LeftOut), len(r.Kept)
	return c.Emit(Output{Text: text + countsText(done), Data: doc})
}

func restoreOf(r *treediff.Reversal, found *archive.Found, dryRun bool) *restoreDoc {
	doc := &restoreDoc{Path: r.Root, Zxid: found.Tree.LastZxid().String(), Base: found.Base.Name, DryRun: dryRun,
		Create: []string{}, Change: []string{}, Delete: []string{}, LeftOut: paths(r.Root, r.LeftOut), Kept: paths(r.Root, r.Kept)}
	if !found.Last.IsZero() {
		doc.Last = found.Last.UTC().Format(time.RFC3339Nano)
	}
	for i := range r.Changes {
		d := &r.Changes[i]
		to := &doc.Change
		if d.A == nil {
			to = &doc.Delete
		} else if d.B == nil {
			to = &doc.Create
		}
		*to = append(*to, treediff.Join(r.Root, d.Path))
	}
	return doc
}

func paths(root string, nodes []subtree.Node) []string {
	list := []string{}
	for i := range nodes {
		list = append(list, treediff.Join(root, nodes[i].Path))
	}
	return list
}

// reversalText shows the differences, a line for each.
func reversalText(r *treediff.Reversal, found *archive.Found) string {
	var b strings.Builder
	fmt.Fprintf(&b, "zxid %v, of %v\n", found.Tree.LastZxid(), found)
	for _, d := range r.Changes {
		path := treediff.Join(r.Root, d.Path)
		switch {
		case d.A == nil:
			fmt.Fprintf(&b, "delete %s\n", path)
		case d.B == nil:
			fmt.Fprintf(&b, "create %s: %s\n", path, shortData(d.A.Data))
		default:
			fmt.Fprintf(&b, "change %s: %s\n", path, strings.Join(differences(d), "; "))
		}
	}
	for i := range r.LeftOut {
		n := &r.LeftOut[i]
		fmt.Fprintf(&b, "left out %s: %s\n", treediff.Join(r.Root, n.Path), ownerText(n))
	}
	for i := range r.Kept {
		n := &r.Kept[i]
		why := "it has an ephemeral below it"
		if n.Kind() == subtree.Ephemeral {
			why = ownerText(n)
		}
		fmt.Fprintf(&b, "kept %s: %s\n", treediff.Join(r.Root, n.Path), why)
	}
	return b.String()
}

// ownerText says of an ephemeral whose it is.
func ownerText(n *subtree.Node) string {
	return fmt.Sprintf("ephemeral, of session %v", n.Stat.EphemeralOwner)
}
