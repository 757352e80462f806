package subtree

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// ExportOptions are for Export.
type ExportOptions struct {
	// Source is the description of the servers in the header.
	Source string
	Now    time.Time
	// Progress is called with the number of nodes written, and approximately how many there
	// are (0: not known). It may be nil.
	Progress func(done, about int)
	// Live reads each node as it is when its turn comes, also where the servers offer to read
	// all of them as they were at one zxid.
	Live bool
}

// Exported is what Export has written.
type Exported struct {
	// Zxid is the zxid of the state that was exported. It is 0 if each node is as it was at some
	// time after the Zxid of the header.
	Zxid  client.Zxid
	Nodes int
	// Bytes are those of the nodes' data.
	Bytes int64
	// Ephemerals is how many of the nodes were ephemeral.
	Ephemerals int
	// Masked are nodes whose ACL has a digest that the server hid, because the client may not
	// change the ACL. Import refuses them. There are no more than ten.
	Masked []string
}

// Export writes the subtree at root to w. Where the servers offer it, that is the subtree as it was at one
// zxid, which is the Zxid of the header; if they lose that state, the error is a *LostError. Otherwise each
// node is as it was at some time after the Zxid of the header: ChangedSince reports what changed
// meanwhile. If Export fails, its output has no trailer.
func Export(ctx context.Context, c *client.Client, root string, w io.Writer, o ExportOptions) (Exported, error) {
	if err := c.Sync(ctx, root); err != nil {
		return Exported{}, err
	}
	x := exporter{
		w: w, progress: o.Progress,
		header: Header{Source: o.Source, Path: root, Zxid: c.Status().LastZxid, Time: o.Now, About: about(ctx, c, root)},
	}
	err := error(client.ErrUnimplemented)
	if !o.Live {
		err = x.write(Frozen(ctx, c, root, func(z client.Zxid) { x.header.Zxid, x.done.Zxid = z, z }))
	}
	if x.out == nil && errors.Is(err, client.ErrUnimplemented) {
		err = x.write(Live(ctx, c, root, ReadOptions{Data: true, ACL: true, SkipSystem: true}))
	}
	return x.done, err
}

// exporter is an export under way.
type exporter struct {
	w        io.Writer
	progress func(done, about int)
	header   Header
	out      *Writer // nil until the first node comes
	done     Exported
}

// write writes the export of all nodes.
func (x *exporter) write(nodes iter.Seq2[Node, error]) error {
	for n, err := range nodes {
		if err == nil && x.out == nil {
			x.out, err = NewWriter(x.w, x.header)
		}
		if err != nil {
			return err
		}
		if err := x.out.Write(n); err != nil {
			return err
		}
		x.done.count(n)
		if x.progress != nil {
			x.progress(x.done.Nodes, x.header.About)
		}
	}
	return x.out.Close()
}

// about returns the number of nodes, or 0 if the servers can't count them.
func about(ctx context.Context, c *client.Client, root string) int {
	below, err := c.CountDescendants(ctx, root)
	if err != nil {
		return 0
	}
	return below + 1
}

func (x *Exported) count(n Node) {
	const maxMasked = 10
	x.Nodes++
	x.Bytes += int64(len(n.Data))
	if n.Kind() == Ephemeral {
		x.Ephemerals++
	}
	if masked(n.ACL) && len(x.Masked) < maxMasked {
		x.Masked = append(x.Masked, n.Path)
	}
}

// ChangedSince compares the subtree at root with an export of it by the zxids and versions
// only. If it yields no difference, the export is the state of the subtree at one point in
// time: the end of the export.
func ChangedSince(ctx context.Context, c *client.Client, root string, r *Reader) func(yield func(Difference, error) bool) {
	live := Live(ctx, c, root, ReadOptions{SkipSystem: true})
	return treediff.Merge(r.Nodes(), live, func(d *Difference) bool {
		a, b := d.A.Stat, d.B.Stat
		d.Replaced = a.Czxid != b.Czxid
		d.Data = a.Mzxid != b.Mzxid
		d.ACL = a.Aversion != b.Aversion
		d.Children = a.Pzxid != b.Pzxid
		return d.Replaced || d.Data || d.ACL || d.Children
	})
}
