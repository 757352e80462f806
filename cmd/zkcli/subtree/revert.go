package subtree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// Reversal is what brings a subtree back to a former state.
type Reversal struct {
	// Root is the path of the subtree on the servers.
	Root string
	// Changes are the differences, A being the former state: a node to create, to change or, if A
	// is nil, to delete.
	Changes []Difference
	// LeftOut are the former ephemerals that are gone: they belonged to sessions. Kept are the nodes that
	// are ephemeral now, and those above them: no change touches them.
	LeftOut, Kept []Node
}

// Revert compares a former state of the subtree at root with the present one.
func Revert(root string, former, present iter.Seq2[Node, error]) (*Reversal, error) {
	r := &Reversal{Root: root}
	kept := make(map[string]bool) // and what is above them
	var doomed []int
	for d, err := range Diff(former, orNothing(present), DiffOptions{IgnoreKind: true}) {
		switch {
		case err != nil:
			return nil, err
		case d.B != nil && d.B.Kind() == Ephemeral:
			r.Kept = append(r.Kept, *d.B)
			for p := d.Path; p != "/"; {
				p = Parent(p)
				kept[p] = true
			}
			continue
		case d.A != nil && d.A.Kind() == Ephemeral:
			r.LeftOut = append(r.LeftOut, *d.A)
			continue
		case d.A == nil:
			doomed = append(doomed, len(r.Changes))
		}
		r.Changes = append(r.Changes, d)
	}
	for _, i := range slices.Backward(doomed) {
		if d := r.Changes[i]; kept[d.Path] {
			r.Kept = append(r.Kept, *d.B)
			r.Changes = slices.Delete(r.Changes, i, i+1)
		}
	}
	return r, nil
}

// orNothing ends a stream of Live without an error if the root does not exist.
func orNothing(nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for n, err := range nodes {
			if errors.Is(err, client.ErrNoNode) && n.Path == "" {
				return
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

// Counts returns what there is to do.
func (r *Reversal) Counts() (n Counts) {
	for i := range r.Changes {
		switch d := &r.Changes[i]; {
		case d.A == nil:
			n.Deleted++
		case d.B == nil:
			n.Created++
		default:
			n.Changed++
		}
	}
	n.Ephemerals, n.Skipped = len(r.LeftOut), len(r.Kept)
	return n
}

// RacedError means that somebody has changed a node since it was compared.
type RacedError struct {
	Path string
	Err  error
}

// Error names the node.
func (e *RacedError) Error() string {
	return fmt.Sprintf("%s was changed meanwhile (%v)", e.Path, e.Err)
}

// Unwrap returns what the servers said.
func (e *RacedError) Unwrap() error { return e.Err }

// Run writes the changes, in batches that are done completely or not at all; ACLs follow one by one. Each write is for the version
// that was compared. The first that fails ends it; a *RacedError means that somebody else was faster. What
// is left is what another Reversal finds. progress may be nil.
func (r *Reversal) Run(ctx context.Context, c *client.Client, progress func(Progress)) (Report, error) {
	report := Report{Plan: r.Counts(), Total: len(r.Changes), Left: len(r.Changes)}
	if len(r.Changes) == 0 {
		return report, nil
	}
	if err := settle.Ensure(ctx, c, Parent(r.Root), client.CreateOptions{}); err != nil {
		return report, err
	}
	var writes, deletes []Difference
	for _, d := range r.Changes {
		if d.A == nil {
			deletes = append(deletes, d)
		} else {
			writes = append(writes, d)
		}
	}
	slices.Reverse(deletes) // children first
	size := func(d *Difference) int {
		if d.A == nil {
			return 24 + len(r.Root) + len(d.Path)
		}
		return len(r.Root) + createSize(d.A)
	}
	for batch := range batches(stream(slices.Concat(writes, deletes)), 500, client.DefaultMaxRequest/2, size) {
		err := context.Cause(ctx)
		if err == nil {
			err = r.write(ctx, c, batch)
		}
		if err != nil {
			report.Next = batch[0].Path
			if client.IsAmbiguous(err) {
				for i := range batch {
					report.Unknown = append(report.Unknown, batch[i].Path)
				}
			}
			return report, err
		}
		done := (&Reversal{Changes: batch}).Counts()
		report.Created += done.Created
		report.Changed += done.Changed
		report.Deleted += done.Deleted
		report.Left -= len(batch)
		if progress != nil {
			progress(Progress{"writing", report.Total - report.Left, report.Total})
		}
	}
	return report, nil
}

// write writes a batch: one multi, and the ACLs, which a multi can't change.
func (r *Reversal) write(ctx context.Context, c *client.Client, batch []Difference) error {
	work, stop := grace(ctx, c)
	defer stop()
	var ops []client.Op
	for i := range batch {
		d := &batch[i]
		path := Join(r.Root, d.Path)
		switch {
		case d.A == nil:
			ops = append(ops, client.DeleteOp(path, d.B.Stat.Version))
		case d.B == nil:
			ops = append(ops, createOp(path, d.A, d.A.ACL))
		case d.Data:
			ops = append(ops, client.SetOp(path, d.A.Data, d.B.Stat.Version))
		}
	}
	if len(ops) > 0 {
		if _, err := c.Multi(work, ops...); err != nil {
			if failed, ok := errors.AsType[*client.MultiError](err); ok {
				return raced(failed.Path, err)
			}
			return err
		}
	}
	for i := range batch {
		if d := &batch[i]; d.ACL {
			path := Join(r.Root, d.Path)
			if _, err := c.SetACL(work, path, d.A.ACL, d.B.Stat.Aversion); err != nil {
				return raced(path, err)
			}
		}
	}
	return nil
}

// raced returns a *RacedError if an error means that a node was changed.
func raced(path string, err error) error {
	if disturbed(err) || errors.Is(err, client.ErrNotEmpty) {
		return &RacedError{Path: path, Err: err}
	}
	return err
}
