package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/backup"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/server/history"
)

// restoreOptions are the flags of restore.
type restoreOptions struct {
	from, zxid, at string
	dryRun, yes    bool
}

func restoreCommand() Command {
	return Command{
		Name: "restore", Synopsis: "[--from DIR] [--at MOMENT | --zxid ZXID] [--dry-run] [--yes] path", Short: "Bring a subtree back as it was",
		Long: "The subtree becomes what it was at a moment that the server still knows (see get --at) or,\n" +
			"with --from, of a directory of backup follow, or in a backup in a file. The differences are shown first. Nodes that were deleted since are\n" +
			"created, those that differ get their data and ACLs back, and those that were created\n" +
			"since are deleted, in batches of which each is done whole or not at all; the ACLs of a\n" +
			"batch follow. Each write is for the version that was compared: if somebody else writes\n" +
			"meanwhile, restore ends and names the node. Ephemeral nodes are left out: they belong to\n" +
			"sessions. What is ephemeral now stays, with what is above it. Versions, times and zxids\n" +
			"are new.",
		Examples: []Example{
			{"restore --at 10m --dry-run /app", "what was different ten minutes ago"},
			{"restore --at 10m /app", "show it, ask, and bring it back"},
			{"restore --from /backup --at 2026-11-22T14:05:00Z /app", "from a directory of backups"},
			{"restore --from now.db --yes /app/config", "from one backup, in a script"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			var o restoreOptions
			f := flags.Flags()
			f.StringVar(&o.from, "from", "", "a directory of backups (or s3://…), or one backup")
			f.StringVar(&o.at, "at", "", "the moment: 10m ago, a zxid such as 0x100000002, or a time such as 2026-11-22T14:05:00Z")
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
	Hidden  int      `json:"hidden,omitempty"` // nodes that may not be read, which stay as they are
	LeftOut []string `json:"leftOut"`          // they were ephemeral
	Kept    []string `json:"kept"`             // they are ephemeral, or above one that is
	Error   string   `json:"error,omitempty"`
	subtree.Report
}

// formerState is what a restore brings back.
type formerState struct {
	zxid  client.Zxid
	last  time.Time // of the last transaction that counts, zero for none
	from  string
	text  string // for people
	nodes iter.Seq2[subtree.Node, error]
}

func (c *Call) restore(ctx context.Context, o *restoreOptions) error {
	root := c.Arg(0)
	var f *formerState
	var err error
	if o.from != "" {
		f, err = c.fromBackup(ctx, root, o)
	} else {
		f, err = c.fromServer(ctx, root, o)
	}
	if err != nil {
		return err
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	present := subtree.Live(ctx, zk, root, subtree.ReadOptions{Data: true, ACL: true, SkipSystem: true})
	if o.from == "" {
		present = subtree.Hiding(present)
	}
	r, err := treediff.Revert(root, f.nodes, present, 0)
	if err == nil {
		err = c.mayRestore(root, r, f, o)
	}
	if err != nil {
		return err
	}
	return c.bringBack(ctx, zk, r, f, o)
}

// fromServer returns the state of a moment that a server knows.
func (c *Call) fromServer(ctx context.Context, root string, o *restoreOptions) (*formerState, error) {
	at := o.at
	switch {
	case o.at != "" && o.zxid != "":
		return nil, c.Usage("give a zxid or a time, not both")
	case o.zxid != "":
		at = "0x" + strings.TrimPrefix(o.zxid, "0x")
	case o.at == "":
		return nil, c.Usage("--at is missing: a moment such as 10m; or --from: a directory of backups, or one backup")
	}
	m, err := c.moment("at", at)
	if err != nil {
		return nil, err
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	f := new(formerState)
	f.nodes = subtree.Hiding(patient(ctx, c, func() iter.Seq2[subtree.Node, error] {
		return subtree.Former(ctx, zk, root, m, func(page client.PastPage) {
			f.zxid, f.last, f.from = page.Zxid, page.Time, page.From
			f.text = "from " + page.From
			if !page.Time.IsZero() {
				f.text = stamp(page.Time) + ", " + f.text
			}
		})
	}))
	return f, nil
}

// fromBackup returns the state of a moment that a directory of backups has.
func (c *Call) fromBackup(ctx context.Context, root string, o *restoreOptions) (*formerState, error) {
	if strings.Contains(c.Options.Server, "/") {
		return nil, c.Usage("paths in a backup are whole ones: connect without a chroot")
	}
	at, err := history.ParseMoment(o.zxid, o.at)
	if err != nil {
		return nil, c.Usage("%v", err)
	}
	found, err := backup.StateAt(ctx, o.from, c.App.getenv, c.App.say, at)
	if err != nil {
		return nil, err
	}
	if found.Unusable != nil {
		c.App.say("an older backup is used: %v", found.Unusable)
	}
	return &formerState{found.Tree.LastZxid(), found.Last, found.Base.Name, found.String(), history.Nodes(found.Tree, root)}, nil
}

// mayRestore returns an error if a restore is not what its user can mean, or can do.
func (c *Call) mayRestore(root string, r *treediff.Reversal, f *formerState, o *restoreOptions) error {
	if !r.Existed {
		return fmt.Errorf("there was no %s at zxid %v", root, f.zxid)
	}
	if o.from != "" {
		return nil
	}
	for i := range r.Changes {
		d := &r.Changes[i]
		if d.A != nil && (d.B == nil || d.ACL) && slices.ContainsFunc(d.A.ACL, masked) {
			return fmt.Errorf("the server shows the ACL of %s without its hashes: restore as somebody who had the permission ADMIN on it", treediff.Join(root, d.Path))
		}
	}
	return nil
}

// masked reports whether a server has left the hash out of an entry: see jute's getACL.
func masked(a client.ACL) bool { return a.ID.Scheme == "digest" && strings.HasSuffix(a.ID.ID, ":x") }

// bringBack shows the differences, asks, and writes them.
func (c *Call) bringBack(ctx context.Context, zk *client.Client, r *treediff.Reversal, f *formerState, o *restoreOptions) error {
	doc := restoreOf(r, f, o.dryRun)
	text := reversalText(r, f)
	root := r.Root
	var err error
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
		if o.from == "" && !strings.HasPrefix(o.at, "0x") {
			hint += fmt.Sprintf(" (with --at %v, which is the same moment later)", f.zxid)
		}
		return errors.Join(c.Emit(Output{Text: text + hint, Data: doc}), err)
	}
	done := doc.Counts
	done.Ephemerals, done.Skipped = len(r.LeftOut), len(r.Kept)
	return c.Emit(Output{Text: text + countsText(done), Data: doc})
}

func restoreOf(r *treediff.Reversal, f *formerState, dryRun bool) *restoreDoc {
	doc := &restoreDoc{Path: r.Root, Zxid: f.zxid.String(), Base: f.from, DryRun: dryRun, Hidden: len(r.Hidden),
		Create: []string{}, Change: []string{}, Delete: []string{}, LeftOut: paths(r.Root, r.LeftOut), Kept: paths(r.Root, r.Kept)}
	if !f.last.IsZero() {
		doc.Last = f.last.UTC().Format(time.RFC3339Nano)
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
func reversalText(r *treediff.Reversal, f *formerState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "zxid %v, of %v\n", f.zxid, f.text)
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
	if n := len(r.Hidden); n > 0 {
		fmt.Fprintf(&b, "%s stay as they are: they may not be read now, or could not be read then\n", countText(n, "node"))
	}
	return b.String()
}

// ownerText says of an ephemeral whose it is.
func ownerText(n *subtree.Node) string {
	return fmt.Sprintf("ephemeral, of session %v", n.Stat.EphemeralOwner)
}
