package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

func importCommand() Command {
	return Command{
		Name: "import", Synopsis: "[flags] file [path]", Short: "Create a subtree from an export",
		Long: "The whole file is checked and compared with what is there before anything is\n" +
			"written. Nodes that are alike are left alone, so that an import which was stopped is\n" +
			"finished by the same command. If a node exists and differs, nothing is written unless\n" +
			"--overwrite or --skip says what to do. Without a path it is that of the export; -\n" +
			"reads stdin. Ephemeral nodes are left out: they belong to sessions.",
		Examples: []Example{
			{"import --dry-run app.json", "say what would be done"},
			{"import app.json /copy", "to another place"},
			{"import --overwrite --prune app.json", "make it exactly like the file"},
			{"gunzip < all.gz | zkcli import - /", "from stdin"},
		},
		Args: []Arg{{Name: "file", Kind: File}, {Name: "path", Kind: Path}}, Required: 1,
		Setup: importFlags,
	}
}

func importFlags(flags *cobra.Command) Run {
	o := new(subtree.ImportOptions)
	f := flags.Flags()
	f.BoolVar(&o.Overwrite, "overwrite", false, "change nodes that exist and differ")
	f.BoolVar(&o.Skip, "skip", false, "leave nodes that exist and differ")
	f.BoolVar(&o.Prune, "prune", false, "delete nodes that the file doesn't have, at the end")
	f.BoolVar(&o.NoACL, "no-acl", false, "give all nodes the open ACL world:anyone:cdrwa")
	f.BoolVar(&o.Counters, "counters", false, "let sequential nodes go on counting where the exported ones were")
	f.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	f.IntVarP(&o.Batch, "batch", "b", 0, "how many nodes to change at a time")
	ephemerals := stringFlag(flags, "ephemerals", "", "skip", "ephemeral nodes: skip, or persistent", Word, "skip", "persistent")
	return func(ctx context.Context, c *Call) error {
		switch {
		case o.Overwrite && o.Skip:
			return c.Usage("--overwrite and --skip exclude each other")
		case *ephemerals != "skip" && *ephemerals != "persistent":
			return c.Usage("--ephemerals is skip or persistent, not %q", *ephemerals)
		case o.Batch < 0:
			return c.Usage("--batch must not be negative")
		}
		o.Ephemerals = *ephemerals == "persistent"
		return c.imports(ctx, *o)
	}
}

func (c *Call) imports(ctx context.Context, o subtree.ImportOptions) error {
	file, remove, err := c.openFile(ctx, c.Arg(0))
	if err != nil {
		return err
	}
	defer remove()
	root := c.Arg(1)
	if root == "" {
		r, err := subtree.NewReader(file)
		if err != nil {
			return c.badFile(err)
		}
		root = r.Header().Path
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	m := c.meter()
	o.Progress = m.show
	open := func() (io.Reader, error) {
		_, err := file.Seek(0, io.SeekStart)
		return file, err
	}
	r, err := subtree.Import(ctx, zk, root, open, o)
	m.clear()
	return c.imported(root, r, o.DryRun, err)
}

func (c *Call) badFile(err error) error {
	if e, ok := errors.AsType[*subtree.CorruptError](err); ok {
		name := c.Arg(0)
		if name == "-" {
			name = "stdin"
		}
		return fmt.Errorf("%s, %w. Nothing was written", name, e)
	}
	return err
}

// importDoc is the result of an import in JSON.
type importDoc struct {
	Path   string `json:"path"`
	DryRun bool   `json:"dryRun,omitempty"`
	Error  string `json:"error,omitempty"`
	subtree.Report
}

// imported reports what was done and, if incomplete, what is left.
func (c *Call) imported(root string, r subtree.Report, dryRun bool, err error) error {
	doc := importDoc{Path: root, DryRun: dryRun, Report: r}
	if err != nil {
		if conflict, ok := errors.AsType[*subtree.ConflictError](err); ok && r.Left == 0 {
			return fmt.Errorf("%w. Nothing was written; --overwrite changes them, --skip leaves them", conflict)
		}
		if r.Left == 0 && r.Created+r.Changed+r.Deleted == 0 {
			if errors.Is(err, context.Canceled) {
				return fmt.Errorf("nothing was written: %w", err)
			}
			return c.badFile(err)
		}
		doc.Error = err.Error()
		if emitErr := c.Emit(Output{Text: stopped(root, r, err), Data: doc}); emitErr != nil {
			return emitErr
		}
		return err
	}
	what, counts := "", r.Counts
	if dryRun {
		what, counts = "would be: ", r.Plan
	}
	return c.Emit(Output{Text: what + countsText(counts), Data: doc})
}

func countsText(n subtree.Counts) string {
	parts := []string{fmt.Sprintf("%d created", n.Created), fmt.Sprintf("%d changed", n.Changed)}
	for _, x := range []struct {
		n    int
		what string
	}{{n.Deleted, "deleted"}, {n.Same, "alike before"}, {n.Skipped, "skipped"}, {n.Ephemerals, "ephemeral and left out"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(parts, ", ")
}

// stopped says what was done until err. To run the command again helps only if the error may
// be another one then.
func stopped(root string, r subtree.Report, err error) string {
	s := fmt.Sprintf("stopped: %s; %d left", countsText(r.Counts), r.Left)
	if r.Next != "" {
		s += ", from " + treediff.Join(root, r.Next)
	}
	if n := len(r.Unknown); n > 0 {
		s += fmt.Sprintf("; it is not known whether %s changed, from %s to %s",
			countText(n, "node"), treediff.Join(root, r.Unknown[0]), treediff.Join(root, r.Unknown[n-1]))
	}
	if passing(err) {
		return s + ". Run the same command again to continue"
	}
	return s + ". When that is put right, the same command continues"
}

// passing reports whether the same request may succeed later without a change.
func passing(err error) bool {
	if _, raced := errors.AsType[*treediff.RacedError](err); raced {
		return true
	}
	return client.IsRetryable(err) || client.IsAmbiguous(err) || errors.Is(err, client.ErrSessionExpired) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
