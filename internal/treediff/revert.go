package treediff

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Reversal is what brings a subtree back to a former state.
type Reversal struct {
	// Root is the path of the subtree on the servers.
	Root string
	// Existed says that there was a node at the root.
	Existed bool
	// Changes are the differences, A being the former state: a node to create, to change or, if A
	// is nil, to delete.
	Changes []Difference
	// LeftOut are the former ephemerals that are gone: they belonged to sessions. Kept are the nodes that
	// are ephemeral now, and those above them: no change touches them. Hidden are the nodes that may not be read, and
	// what can't come back because of that: they are left as they are.
	LeftOut, Kept, Hidden []Node
}

// ErrTooMuch means that two states differ in more than the caller has room for.
var ErrTooMuch = errors.New("the differences are too many for the memory that they may take")

// Revert compares a former state of the subtree at root with the present one. most bounds the bytes that the differences
// take, about; 0 is for no bound.
func Revert(root string, former, present iter.Seq2[Node, error], most int) (*Reversal, error) {
	r := &Reversal{Root: root}
	kept := make(map[string]bool) // and what is above them
	keep := func(p string) {
		for p != "/" {
			p = Parent(p)
			kept[p] = true
		}
	}
	var doomed []int
	bytes, lost := 0, "" // lost is a hidden node that is not there now
	veil := ""           // the last node whose former state is hidden: so may be what was below it
	for d, err := range Diff(r.noting(former), orNothing(present), DiffOptions{IgnoreKind: true, Shown: true}) {
		for _, n := range []*Node{d.A, d.B} {
			if n != nil {
				bytes += 256 + n.CreateSize()
			}
		}
		if d.A != nil && d.A.Hidden && (veil == "" || !Below(d.Path, veil)) {
			veil = d.Path
		}
		hidden := d.A == nil && veil != "" && Below(d.Path, veil) || d.A != nil && d.A.Hidden || d.B != nil && d.B.Hidden
		switch {
		case err != nil:
			return nil, err
		case most > 0 && bytes > most:
			return nil, ErrTooMuch
		case hidden || d.B == nil && lost != "" && Below(d.Path, lost):
			r.Hidden = append(r.Hidden, Node{Path: d.Path, Hidden: true})
			if d.B != nil {
				keep(d.Path)
			} else if hidden {
				lost = d.Path
			}
			continue
		case d.B != nil && d.B.Kind() == Ephemeral:
			r.Kept = append(r.Kept, *d.B)
			keep(d.Path)
			continue
		case d.A != nil && d.A.Kind() == Ephemeral:
			r.LeftOut = append(r.LeftOut, *d.A)
			continue
		case d.A != nil && d.B != nil && counted(Join(root, d.Path)):
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

// counted reports whether a node has what the servers count for a quota: a former count would be wrong now.
func counted(path string) bool {
	return Below(path, "/zookeeper/quota") && strings.HasSuffix(path, "/zookeeper_stats")
}

// noting notes whether a stream of the former state has a root.
func (r *Reversal) noting(nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for n, err := range nodes {
			r.Existed = r.Existed || err == nil
			if !yield(n, err) {
				return
			}
		}
	}
}

// orNothing ends a stream of Live without an error if the root does not exist.
func orNothing(nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for n, err := range nodes {
			if errors.Is(err, jute.ErrNoNode) && n.Path == "" {
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

// Target is where a Reversal writes.
type Target interface {
	// Ensure creates a node, and those above it, if they don't exist.
	Ensure(ctx context.Context, path string) error
	// Grace returns a context for one piece, which should be completed when ctx ends.
	Grace(ctx context.Context) (context.Context, context.CancelFunc)
	// Multi does operations, or none of them. failed is the path of the one that can't be done.
	Multi(ctx context.Context, ops []jute.MultiOp) (failed string, err error)
	SetACL(ctx context.Context, path string, acl []jute.ACL, aversion int32) error
	// Ambiguous reports whether what ended with the error may be done nevertheless.
	Ambiguous(err error) bool
}

// atOnce is how many changes a piece has at most, and maxBytes about how many bytes: half of what servers take.
const (
	atOnce   = 500
	maxBytes = 1 << 19
)

// Run writes the changes, in pieces that are done completely or not at all; ACLs follow one by one. Each write is for the version
// that was compared. The first that fails ends it; a *RacedError means that somebody else was faster. What
// is left is what another Reversal finds. progress may be nil.
func (r *Reversal) Run(ctx context.Context, to Target, progress func(Progress)) (Report, error) {
	report := Report{Plan: r.Counts(), Total: len(r.Changes), Left: len(r.Changes)}
	if len(r.Changes) == 0 {
		return report, nil
	}
	if err := to.Ensure(ctx, Parent(r.Root)); err != nil {
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
		return len(r.Root) + d.A.CreateSize()
	}
	for piece := range Batches(Stream(slices.Concat(writes, deletes)), atOnce, maxBytes, size) {
		left, err := piece, context.Cause(ctx)
		if err == nil {
			left, err = r.write(ctx, to, piece)
		}
		done := (&Reversal{Changes: piece}).Counts()
		less := (&Reversal{Changes: left}).Counts()
		report.Created += done.Created - less.Created
		report.Changed += done.Changed - less.Changed
		report.Deleted += done.Deleted - less.Deleted
		report.Left -= len(piece) - len(left)
		if err != nil {
			report.Next = left[0].Path
			if to.Ambiguous(err) {
				for i := range left {
					report.Unknown = append(report.Unknown, left[i].Path)
				}
			}
			return report, err
		}
		if progress != nil {
			progress(Progress{"writing", report.Total - report.Left, report.Total})
		}
	}
	return report, nil
}

// write writes a piece: one multi, and the ACLs, which a multi can't change. With an error it returns the changes that are left.
func (r *Reversal) write(ctx context.Context, to Target, piece []Difference) (left []Difference, err error) {
	work, stop := to.Grace(ctx)
	defer stop()
	var ops []jute.MultiOp
	for i := range piece {
		d := &piece[i]
		path := Join(r.Root, d.Path)
		switch {
		case d.A == nil:
			ops = append(ops, jute.MultiOp{Type: jute.OpDelete, Path: path, Version: d.B.Stat.Version})
		case d.B == nil:
			ops = append(ops, d.A.createOp(path))
		case d.Data:
			ops = append(ops, jute.MultiOp{Type: jute.OpSetData, Path: path, Data: d.A.Data, Version: d.B.Stat.Version})
		}
		if d.ACL {
			left = append(left, *d)
		}
	}
	if len(ops) > 0 {
		if failed, err := to.Multi(work, ops); err != nil {
			return piece, raced(failed, err)
		}
	}
	for ; len(left) > 0; left = left[1:] {
		d := &left[0]
		path := Join(r.Root, d.Path)
		if err := to.SetACL(work, path, d.A.ACL, d.B.Stat.Aversion); err != nil {
			return left, raced(path, err)
		}
	}
	return nil, nil
}

// raced returns a *RacedError if an error means that a node was changed.
func raced(path string, err error) error {
	for _, code := range []jute.Code{jute.ErrNodeExists, jute.ErrBadVersion, jute.ErrNoNode, jute.ErrNotEmpty} {
		if path != "" && errors.Is(err, code) {
			return &RacedError{Path: path, Err: err}
		}
	}
	return err
}

// createOp returns the operation that creates the node at a path.
func (n *Node) createOp(path string) jute.MultiOp {
	op := jute.MultiOp{Type: jute.OpCreate, Path: path, Data: n.Data, ACL: n.ACL}
	switch n.Kind() {
	case Container:
		op.Type, op.Mode = jute.OpCreateContainer, jute.ModeContainer
	case TTL:
		op.Type, op.Mode, op.TTL = jute.OpCreateTTL, jute.ModePersistentTTL, n.TimeToLive().Milliseconds()
	}
	return op
}

// CreateSize is about how many bytes the creation of the node below "/" has in a multi.
func (n *Node) CreateSize() int {
	size := 64 + len(n.Path) + len(n.Data)
	for _, a := range n.ACL {
		size += 12 + len(a.ID.Scheme) + len(a.ID.ID)
	}
	return size
}
