package subtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// ImportOptions are for Import. The zero value creates what is missing and
// refuses to begin if a node exists that differs from the file's.
type ImportOptions struct {
	// Overwrite makes nodes that exist like those of the file.
	Overwrite bool
	// Skip leaves nodes that exist as they are.
	Skip bool
	// Prune deletes nodes that the file doesn't have. It comes last.
	Prune bool
	// NoACL gives nodes that are created the open ACL and leaves others' alone.
	NoACL bool
	// Ephemerals creates those of the file as persistent nodes. Otherwise they are
	// left out.
	Ephemerals bool
	// Counters raises the counters from which sequential nodes get their numbers
	// to those of the file, so that no number comes twice. See counters.go.
	Counters bool
	// DryRun only finds out what would be done.
	DryRun bool
	// Batch is how many changes a multi has at most; 0 is 500.
	Batch int
	// MaxBytes is about how large a multi may be; 0 is half of what servers take.
	MaxBytes int
	// Progress is called after each batch. It may be nil.
	Progress func(Progress)
}

// Progress is how far a long change is.
type Progress struct {
	Doing       string // "reading", "writing", "deleting", …
	Done, Total int
}

// Import makes the subtree at root like an export. open is called twice or more,
// for a reader at the beginning of the file each time: before anything is written
// the whole file is checked and compared with what is there, so a damaged file and
// one that conflicts are refused with nothing changed. A file that is imported
// again goes on where an interrupted import ended, as nodes that are alike are left
// alone.
//
// Whatever the error, the report says what was done. If ctx ends, Import waits for
// the change that is under way, no longer than the session's timeout. The parents
// of root are created if they are missing.
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
	if err := settle.Ensure(ctx, c, Parent(root), client.CreateOptions{}); err != nil {
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

// ConflictError says that nodes exist which differ from the file's. Nothing was
// written if it comes from Import's first look; the report knows.
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

// verify reads the whole file and looks for what can't be imported.
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
		return fmt.Errorf("the ACLs of %d nodes, the first %s, have digests that the server hid from whoever exported them: "+
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

// run hands the nodes of the file to do, a batch at a time.
func (im *importer) run(ctx context.Context, open func() (io.Reader, error), do func(context.Context, []Node) error) error {
	r, err := reopen(open)
	if err != nil {
		return err
	}
	size := func(n *Node) int { return len(im.root) + createSize(n) }
	for batch, err := range batches(r.Nodes(), im.o.Batch, im.o.MaxBytes, size) {
		if err == nil {
			err = do(ctx, batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createSize is about how many bytes the creation of a node below "/" has in a
// multi.
func createSize(n *Node) int {
	size := 64 + len(n.Path) + len(n.Data)
	for _, a := range n.ACL {
		size += 12 + len(a.ID.Scheme) + len(a.ID.ID)
	}
	return size
}

// plan counts what would be done to a batch.
func (im *importer) plan(ctx context.Context, batch []Node) error {
	found, err := im.look(ctx, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		im.decide(&batch[i], found[i]).count(&im.planned, &im.conflicts, Join(im.root, batch[i].Path))
	}
	im.o.Progress(Progress{"comparing", im.planned.settled() + im.conflicts.Count, im.total})
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
	for d, err := range merge(r.Nodes(), live, func(*Difference) bool { return false }) {
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

// begin tells the report that all is to be done yet.
func (im *importer) begin() { im.report.Left = im.total + len(im.doomed) }
