package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// directoriesAhead is how many nodes with children are listed ahead of the one that is visited.
const directoriesAhead = 16

// pageWalk is a walk on a server that offers pages: a page shows all that is wanted of a node's
// children, and those without children need no request.
type pageWalk struct {
	c *client.Client
	o WalkOptions
	// due are the nodes whose children are to be visited: the next one first.
	due []*directory
}

// directory is a node whose children are visited.
type directory struct {
	path  string
	depth int
	pages *pages
	page  []client.Child // to be visited; those of one page
	below []*directory   // of these, the ones that have children
	more  bool           // there are pages after it
}

// begin visits the first node.
func (w *pageWalk) begin(ctx context.Context, path string, yield func(Entry, error) bool) {
	node, err := w.c.Get(ctx, path)
	e := Entry{Path: path, Stat: node.Stat}
	if w.o.Data {
		e.Data = node.Data
	}
	switch {
	case errors.Is(err, client.ErrNoAuth):
		yield(Entry{Path: path}, err)
	case err != nil:
		yield(Entry{}, err)
	case yield(e, nil) && node.Stat.NumChildren > 0:
		w.due = []*directory{w.directory(path, 0)}
		w.run(ctx, yield)
	}
}

func (w *pageWalk) directory(path string, depth int) *directory {
	o := ChildrenOptions{Stats: true, Data: w.o.Data, Page: w.o.Window}
	return &directory{path: path, depth: depth, pages: newPages(w.c, path, o), more: true}
}

func (w *pageWalk) run(ctx context.Context, yield func(Entry, error) bool) {
	for len(w.due) > 0 {
		d := w.due[0]
		switch {
		case ctx.Err() != nil:
			yield(Entry{}, fmt.Errorf("walk %s: %w", d.path, context.Cause(ctx)))
			return
		case len(d.page) > 0:
			if !w.visit(d, yield) {
				return
			}
		case d.more:
			if err := w.turn(ctx, d); err != nil {
				yield(Entry{}, err)
				return
			}
		default:
			w.due = w.due[1:]
		}
	}
}

// turn reads the next page of d.
func (w *pageWalk) turn(ctx context.Context, d *directory) error {
	page, err := d.pages.next(ctx)
	d.page, d.more = page.Children, page.More
	if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrNoAuth) { // by now
		return nil
	}
	for i := range page.Children {
		if child := &page.Children[i]; w.descends(d, child) {
			d.below = append(d.below, w.directory(jute.Join(d.path, child.Name), d.depth+1))
		}
	}
	w.startAhead(d)
	return err
}

// descends reports whether the walk visits what is below a child of d.
func (w *pageWalk) descends(d *directory, child *client.Child) bool {
	return child.Err == nil && child.Stat.NumChildren > 0 && (w.o.Depth == 0 || d.depth+1 < w.o.Depth)
}

// startAhead requests the first pages of the directories that are due next.
func (w *pageWalk) startAhead(d *directory) {
	next := d.below
	if w.o.BreadthFirst {
		next = w.due[1:]
	}
	for _, below := range next[:min(len(next), directoriesAhead)] {
		below.pages.start()
	}
}

// visit visits the next child of d, and reports whether the walk continues.
func (w *pageWalk) visit(d *directory, yield func(Entry, error) bool) bool {
	child := &d.page[0]
	d.page = d.page[1:]
	e := Entry{Path: jute.Join(d.path, child.Name), Stat: child.Stat, Data: child.Data, Depth: d.depth + 1}
	switch {
	case errors.Is(child.Err, client.ErrNoNode):
		return true
	case child.Err != nil:
		return yield(Entry{Path: e.Path, Depth: e.Depth}, &client.Error{Op: jute.OpChildrenPage, Path: e.Path, Err: client.ErrNoAuth})
	}
	if w.descends(d, child) {
		below := d.below[0]
		d.below = d.below[1:]
		if w.o.BreadthFirst {
			w.due = append(w.due, below)
		} else {
			w.due = slices.Insert(w.due, 0, below)
		}
		w.startAhead(d)
	}
	return yield(e, nil)
}
