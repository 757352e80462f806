package subtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/internal/treediff"
)

// ImportOptions are for Import. The zero value creates missing nodes, and refuses to begin if
// an existing node differs from the file.
type ImportOptions struct {
	// Overwrite makes existing nodes equal to those of the file.
	Overwrite bool
	// Skip leaves existing nodes unchanged.
	Skip bool
	// Prune deletes nodes that are not in the file, at the end.
	Prune bool
	// NoACL gives created nodes the open ACL and leaves the ACLs of others.
	NoACL bool
	// Ephemerals creates those of the file as persistent nodes. By default they are omitted.
	Ephemerals bool
	// Counters raises the counters from which sequential nodes get their numbers
	// to those of the file, so that no number comes twice. See counters.go.
	Counters bool
	// DryRun only determines what would be done.
	DryRun bool
	// Batch is how many changes a multi has at most; 0 is 500.
	Batch int
	// MaxBytes is about how large a multi may be; 0 is half of what servers take.
	MaxBytes int
	// Progress is called after each batch. It may be nil.
	Progress func(Progress)
}

// Import makes the subtree at root equal to an export. It calls open at least twice, for a
// reader at the beginning of the file each time: before it writes anything, it checks the
// whole file and compares it with the existing nodes, so a damaged or conflicting file
// changes nothing. A repeated import continues where an interrupted one ended, because equal
// nodes are left alone.
//
// Whatever the error, the report says what was done. If ctx ends, Import waits for the change
// under way, no longer than the session's timeout. Missing parents of root are created.
func Import(ctx context.Context, c *client.Client, root string, open func() (io.Reader, error), o ImportOptions) (Report, error) {
	im := newImporter(c, root, o)
	if err := im.verify(open); err != nil {
		return im.report, err
	}
	if err := im.run(ctx, open, im.plan); err != nil {
		return im.report, err
	}
	if err := im.finishPlan(ctx, open); err != nil || o.DryRun {
		return im.report, err
	}
	im.begin()
	if err := settle.Ensure(ctx, c, treediff.Parent(root), client.CreateOptions{}); err != nil {
		return im.report, err
	}
	if err := im.run(ctx, open, im.write); err != nil {
		return im.report, err
	}
	if err := im.run(ctx, open, im.raiseCounters); err != nil {
		return im.report, err
	}
	return im.report, im.prune(ctx)
}

// ConflictError means that existing nodes differ from the file. If it comes from Import's
// first pass, nothing was written; the report says so.
type ConflictError struct {
	Paths []string // whole ones; the first ten
	Count int
}

// Error names some of the nodes.
func (e *ConflictError) Error() string {
	names := strings.Join(e.Paths, ", ")
	if e.Count > len(e.Paths) {
		names += ", …"
	}
	return fmt.Sprintf("%d of the file's nodes exist and differ: %s", e.Count, names)
}

// importer is one Import.
type importer struct {
	c      *client.Client
	root   string
	o      ImportOptions
	report Report
	total  int // nodes in the file

	planned   Counts
	conflicts ConflictError
	doomed    []string // relative paths that prune deletes, in tree order
}

func newImporter(c *client.Client, root string, o ImportOptions) *importer {
	if o.Batch <= 0 {
		o.Batch = 500
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = client.DefaultMaxRequest / 2
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return &importer{c: c, root: root, o: o}
}

// verify reads the whole file and looks for nodes that can't be imported.
func (im *importer) verify(open func() (io.Reader, error)) error {
	r, err := reopen(open)
	if err != nil {
		return err
	}
	var hidden []string
	for n, err := range r.Nodes() {
		if err != nil {
			return err
		}
		im.total++
		if !im.o.NoACL && masked(n.ACL) && !im.leftOut(&n) {
			hidden = append(hidden, n.Path)
		}
	}
	if len(hidden) > 0 {
		return fmt.Errorf("the ACLs of %d nodes, the first %s, have digests that the server hid from the user of the export: "+
			"export as someone who has the admin permission, or import without ACLs", len(hidden), hidden[0])
	}
	im.report.Total = im.total
	return nil
}

func reopen(open func() (io.Reader, error)) (*Reader, error) {
	in, err := open()
	if err != nil {
		return nil, err
	}
	return NewReader(in)
}

func (im *importer) leftOut(n *Node) bool { return n.Kind() == Ephemeral && !im.o.Ephemerals }

// run passes the nodes of the file to do, a batch at a time.
func (im *importer) run(ctx context.Context, open func() (io.Reader, error), do func(context.Context, []Node) error) error {
	r, err := reopen(open)
	if err != nil {
		return err
	}
	size := func(n *Node) int { return len(im.root) + n.CreateSize() }
	for batch, err := range treediff.Batches(r.Nodes(), im.o.Batch, im.o.MaxBytes, size) {
		if err == nil {
			err = do(ctx, batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plan counts what would be done to a batch.
func (im *importer) plan(ctx context.Context, batch []Node) error {
	found, err := im.look(ctx, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		im.decide(&batch[i], found[i]).count(&im.planned, &im.conflicts, treediff.Join(im.root, batch[i].Path))
	}
	im.o.Progress(Progress{Doing: "comparing", Done: im.planned.Settled() + im.conflicts.Count, Total: im.total})
	return nil
}

// finishPlan looks for nodes to prune, and refuses what conflicts.
func (im *importer) finishPlan(ctx context.Context, open func() (io.Reader, error)) error {
	im.report.Plan = im.planned
	if im.conflicts.Count > 0 {
		return &im.conflicts
	}
	if !im.o.Prune {
		return nil
	}
	r, err := reopen(open)
	if err != nil {
		return err
	}
	live := Live(ctx, im.c, im.root, ReadOptions{SkipSystem: true})
	for d, err := range treediff.Merge(r.Nodes(), live, func(*Difference) bool { return false }) {
		if errors.Is(err, client.ErrNoNode) {
			break // there is nothing at all
		}
		if err != nil {
			return err
		}
		if d.A == nil {
			im.doomed = append(im.doomed, d.Path)
		}
	}
	im.report.Plan.Deleted = len(im.doomed)
	return nil
}

// begin records in the report that nothing has been done yet.
func (im *importer) begin() { im.report.Left = im.total + len(im.doomed) }
