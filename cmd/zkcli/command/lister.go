package command

import (
	"context"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// listWindow is how many listings lister has under way at a time.
const listWindow = 200

// listAll prints the paths of a subtree in zkCli.sh's order: the children of a node together,
// and then the nodes below each. Nodes deleted meanwhile are omitted; nodes created meanwhile
// may be printed.
func (c *Call) listAll(ctx context.Context, watch bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	if _, _, err = c.get(ctx, watch, ""); err != nil {
		return err
	}
	l := lister{c: c, zk: zk, watch: watch}
	if err = l.emit([]string{c.Arg(0)}); err != nil {
		return err
	}
	return l.below(ctx, []string{c.Arg(0)})
}

// lister prints the paths of a subtree as it goes.
type lister struct {
	c       *Call
	zk      *client.Client
	watch   bool
	printed bool
}

// below prints, for each of the paths, all paths below it. It requests listings ahead, so
// that it does not wait a round trip for each node.
func (l *lister) below(ctx context.Context, paths []string) error {
	for window := range slices.Chunk(paths, listWindow) {
		listings := make([]*client.Future[client.Listing], len(window))
		for i, path := range window {
			listings[i] = l.ask(path)
		}
		for i, path := range window {
			listing, err := listings[i].Wait(ctx)
			if errors.Is(err, client.ErrNoNode) {
				continue
			}
			if errors.Is(err, client.ErrMarshalling) && !l.watch {
				listing.Names, _, err = l.c.longList(ctx, l.zk, path)
			}
			if err != nil {
				return err
			}
			l.c.App.watching.add(listing.Watch, client.ChildWatches)
			children := childPaths(path, listing.Names)
			if err := l.emit(children); err != nil {
				return err
			}
			if err := l.below(ctx, children); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lister) ask(path string) *client.Future[client.Listing] {
	if l.watch {
		return l.zk.Async().ChildrenW(path)
	}
	return l.zk.Async().Children(path)
}

// emit prints paths, in JSON a document for each.
func (l *lister) emit(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	if l.c.Options.Format == FormatJSON {
		for _, path := range paths {
			if err := l.c.Emit(Output{Data: nodePath{path}}); err != nil {
				return err
			}
		}
		return nil
	}
	all := lines(paths)
	err := l.c.Emit(Output{Text: string(all), Raw: all, Table: column("PATH", paths), Continued: l.printed})
	l.printed = true
	return err
}

// nodePath is a path in JSON.
type nodePath struct {
	Path string `json:"path"`
}

func childPaths(parent string, names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = treediff.Join(parent, "/"+name)
	}
	slices.Sort(paths)
	return paths
}

// column is a table of one column.
func column(heading string, values []string) [][]string {
	rows := [][]string{{heading}}
	for _, v := range values {
		rows = append(rows, []string{v})
	}
	return rows
}
