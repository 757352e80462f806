package subtree

import (
	"context"
	"io"
	"time"

	"github.com/zkd-project/zkd/client"
)

// ExportOptions are for Export.
type ExportOptions struct {
	// Source is the description of the servers in the header.
	Source string
	Now    time.Time
	// Progress is called with the number of nodes written, and approximately how many there
	// are (0: not known). It may be nil.
	Progress func(done, about int)
}

// Exported is what Export has written.
type Exported struct {
	Nodes int
	// Bytes are those of the nodes' data.
	Bytes int64
	// Ephemerals is how many of the nodes were ephemeral.
	Ephemerals int
	// Masked are nodes whose ACL has a digest that the server hid, because the client may not
	// change the ACL. Import refuses them. There are no more than ten.
	Masked []string
}

// Export writes the subtree at root to w. It is not a snapshot: each node is as it was at
// some time after the Zxid of the header. ChangedSince reports what changed meanwhile. If
// Export fails, its output has no trailer.
func Export(ctx context.Context, c *client.Client, root string, w io.Writer, o ExportOptions) (Exported, error) {
	var done Exported
	if err := c.Sync(ctx, root); err != nil {
		return done, err
	}
	h := Header{Source: o.Source, Path: root, Zxid: c.Status().LastZxid, Time: o.Now, About: about(ctx, c, root)}
	out, err := NewWriter(w, h)
	if err != nil {
		return done, err
	}
	for n, err := range Live(ctx, c, root, ReadOptions{Data: true, ACL: true, SkipSystem: true}) {
		if err != nil {
			return done, err
		}
		if err := out.Write(n); err != nil {
			return done, err
		}
		done.count(n)
		if o.Progress != nil {
			o.Progress(done.Nodes, h.About)
		}
	}
	return done, out.Close()
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
	return merge(r.Nodes(), live, func(d *Difference) bool {
		a, b := d.A.Stat, d.B.Stat
		d.Replaced = a.Czxid != b.Czxid
		d.Data = a.Mzxid != b.Mzxid
		d.ACL = a.Aversion != b.Aversion
		d.Children = a.Pzxid != b.Pzxid
		return d.Replaced || d.Data || d.ACL || d.Children
	})
}
