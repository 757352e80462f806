package tree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// ChildrenOptions say what Children yields besides names.
type ChildrenOptions struct {
	Stats bool
	Data  bool // and Stats
	// Page is how many children are read at a time; 0 means 1024.
	Page int
}

// Children yields the children of a node in the order of their names. It reads them in pages,
// where the server offers that, and so in little memory, however many there are; and all at once
// from other servers. It is not a snapshot: it omits children that are deleted meanwhile, and may
// omit those that are created.
//
// A Child's Err concerns that child: ErrNoAuth. An error that is yielded is the last, such as
// ErrNoNode if the node does not exist. Reads that fail because the connection broke are repeated
// as the policy of c says.
func Children(ctx context.Context, c *client.Client, path string, o ChildrenOptions) iter.Seq2[client.Child, error] {
	return func(yield func(client.Child, error) bool) {
		p := newPages(c, path, o)
		for {
			page, err := p.next(ctx)
			if err != nil {
				yield(client.Child{}, err)
				return
			}
			for _, child := range page.Children {
				if !yield(child, nil) {
					return
				}
			}
			if !page.More {
				return
			}
		}
	}
}

// pages reads the children of a node. While a page is used, the next one is under way.
type pages struct {
	c     *client.Client // whose reads are repeated
	path  string
	o     ChildrenOptions
	after string
	ahead *client.Future[client.Page] // nil before start
	// rest are the names that have not been returned, from a server without pages; not nil then.
	rest []string
}

func newPages(c *client.Client, path string, o ChildrenOptions) *pages {
	if o.Page <= 0 {
		o.Page = 1024
	}
	return &pages{c: c.WithRetry(c.Options().Retry), path: path, o: o}
}

// start requests the next page, unless it is under way.
func (p *pages) start() {
	if p.ahead == nil {
		p.ahead = p.c.Async().ChildrenPage(p.path, p.options())
	}
}

func (p *pages) options() client.PageOptions {
	return client.PageOptions{After: p.after, Limit: p.o.Page, Stats: p.o.Stats, Data: p.o.Data}
}

// next returns the next page, which is empty if there are no more children.
func (p *pages) next(ctx context.Context) (client.Page, error) {
	if ctx.Err() != nil {
		return client.Page{}, fmt.Errorf("list %s: %w", p.path, context.Cause(ctx))
	}
	if p.rest != nil {
		return p.listed(ctx)
	}
	p.start() // unless it was
	page, err := p.ahead.Wait(ctx)
	if client.IsTransient(err) {
		page, err = p.c.ChildrenPage(ctx, p.path, p.options())
	}
	p.ahead = nil
	switch {
	case errors.Is(err, client.ErrUnimplemented):
		return p.list(ctx)
	case err != nil:
		return page, err
	}
	if n := len(page.Children); n > 0 {
		p.after = page.Children[n-1].Name
	}
	if page.More {
		p.start()
	}
	return page, p.fetchLong(ctx, page.Children)
}

// fetchLong reads the data that was too long for a page.
func (p *pages) fetchLong(ctx context.Context, children []client.Child) error {
	for i := range children {
		if child := &children[i]; errors.Is(child.Err, client.ErrMarshalling) {
			if err := p.fetch(ctx, child, p.c.Async().Get(p.childPath(child.Name))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pages) childPath(name string) string { return jute.Join(p.path, name) }

// fetch reads a child by itself. Its Err is ErrNoNode if it does not exist any more.
func (p *pages) fetch(ctx context.Context, child *client.Child, f *client.Future[client.Node]) error {
	node, err := f.Wait(ctx)
	if client.IsTransient(err) {
		node, err = p.c.Get(ctx, p.childPath(child.Name))
	}
	child.Stat, child.Data, child.Err = node.Stat, node.Data, err
	if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrNoAuth) {
		return nil
	}
	return err
}

// list lists the children on a server without pages.
func (p *pages) list(ctx context.Context) (client.Page, error) {
	list, err := p.c.Children(ctx, p.path)
	if err != nil {
		return client.Page{}, err
	}
	slices.Sort(list.Names)
	i, found := slices.BinarySearch(list.Names, p.after)
	if found {
		i++
	}
	p.rest = append([]string{}, list.Names[i:]...)
	return p.listed(ctx)
}

// listed returns a page of the names that list has found.
func (p *pages) listed(ctx context.Context) (page client.Page, err error) {
	n := min(p.o.Page, len(p.rest))
	names := p.rest[:n]
	p.rest = p.rest[n:]
	page.More = len(p.rest) > 0
	if !p.o.Stats && !p.o.Data {
		for _, name := range names {
			page.Children = append(page.Children, client.Child{Name: name})
		}
		return page, nil
	}
	nodes := make([]*client.Future[client.Node], n)
	for i, name := range names {
		nodes[i] = p.c.Async().Get(p.childPath(name))
	}
	for i, name := range names {
		child := client.Child{Name: name}
		if err := p.fetch(ctx, &child, nodes[i]); err != nil {
			return page, err
		}
		if !errors.Is(child.Err, client.ErrNoNode) {
			page.Children = append(page.Children, child)
		}
	}
	return page, nil
}
