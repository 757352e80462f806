package command

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

func treeCommand() Command {
	return Command{
		Name: "tree", Synopsis: "[-L depth] [-d] [--at MOMENT] [path]", Short: "Draw a subtree, with sizes, ages and owners",
		Long: "Each node has its size, how long ago it was created and last changed, and, if it is\n" +
			"ephemeral, the session that owns it. Servers don't say which nodes are containers or\n" +
			"have a time to live. Without a path it is /.",
		Examples: []Example{
			{"tree /app", "the whole subtree"},
			{"tree -L 2 /", "two levels"},
			{"tree -d /workers", "who is there, in what state, and since when"},
			{"tree -o json /app", "a document for each node"},
		},
		Args: pathOnly(),
		Setup: func(flags *cobra.Command) Run {
			depth := flags.Flags().IntP("level", "L", -1, "go down at most this many levels")
			data := boolFlag(flags, "data", "d", "show the data, too")
			at := atFlag(flags)
			return func(ctx context.Context, c *Call) error {
				return c.tree(ctx, *at, subtree.ReadOptions{Data: *data, Limit: *depth >= 0, Depth: *depth})
			}
		},
	}
}

func (c *Call) tree(ctx context.Context, at string, o subtree.ReadOptions) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	root := c.pathOr("/")
	d := drawing{root: root, data: o.Data, now: time.Now()}
	p := c.printer(nodeHeading...)
	var bad trouble
	nodes := subtree.Live(ctx, zk, root, o)
	if at != "" {
		m, err := c.moment("at", at)
		if err != nil {
			return err
		}
		nodes = c.formerSubtree(ctx, zk, root, m)
	}
	for n, err := range nodes {
		if at != "" && o.Limit && treediff.Depth(n.Path) > o.Depth {
			continue
		}
		if err != nil {
			if err = bad.with(c, n.Path, err); err != nil {
				p.flush()
				return err
			}
			if c.Options.Format == FormatText {
				err = p.print(printed{text: d.unreadable(n.Path)})
			}
			if err != nil {
				return err
			}
			continue
		}
		full := treediff.Join(root, n.Path)
		if err := p.print(printed{text: d.line(n), raw: full, data: describeNode(root, n, o.Data), row: nodeRow(full, n)}); err != nil {
			return err
		}
	}
	if at != "" && d.nodes == 0 && bad.last == nil {
		return &client.Error{Path: root, Err: client.ErrNoNode}
	}
	if c.Options.Format == FormatText {
		p.buf.WriteString("\n" + d.summary() + "\n")
	}
	if err := p.end(); err != nil {
		return err
	}
	return bad.err()
}

// pathOr returns the first argument, or another path if there is none.
func (c *Call) pathOr(other string) string {
	if len(c.Args) == 0 {
		return other
	}
	return c.Args[0]
}

// drawing draws a tree line by line, in the order of its nodes.
type drawing struct {
	root string
	data bool
	now  time.Time
	// left is, for each level, the number of children still to come, which tells the last
	// child.
	left []int32

	nodes, ephemerals int
	bytes             int64
}

func (d *drawing) line(n subtree.Node) string {
	d.nodes++
	d.bytes += int64(n.Stat.DataLength)
	if n.Kind() == subtree.Ephemeral {
		d.ephemerals++
	}
	depth := treediff.Depth(n.Path)
	name := d.root
	if depth > 0 {
		name = path.Base(n.Path)
	}
	return d.place(depth, n.Stat.NumChildren) + name + "  " + d.details(n)
}

// unreadable is the line of a node that can't be read.
func (d *drawing) unreadable(p string) string {
	return d.place(treediff.Depth(p), 0) + path.Base(p) + "  [can't be read]"
}

// place returns the branches before the next node, which has that many children.
func (d *drawing) place(depth int, children int32) string {
	d.left = append(d.left[:min(depth, len(d.left))], children)
	if depth > 0 {
		d.left[depth-1]--
	}
	return d.branches(depth)
}

func (d *drawing) branches(depth int) string {
	var b strings.Builder
	for level := range depth {
		more := d.left[level] > 0
		switch {
		case level == depth-1 && more:
			b.WriteString("├── ")
		case level == depth-1:
			b.WriteString("└── ")
		case more:
			b.WriteString("│   ")
		default:
			b.WriteString("    ")
		}
	}
	return b.String()
}

func (d *drawing) details(n subtree.Node) string {
	words := []string{bytesText(int64(n.Stat.DataLength))}
	if n.Stat.NumChildren > 0 {
		words = append(words, countText(int(n.Stat.NumChildren), "child"))
	}
	if n.Stat.Ctime > 0 { // the root has no ctime
		words = append(words, d.ago(n.Stat.Ctime)+" old")
	}
	if n.Stat.Version > 0 {
		words = append(words, "set "+d.ago(n.Stat.Mtime)+" ago")
	}
	if kind := kindText(n); kind != string(subtree.Persistent) {
		words = append(words, strings.TrimPrefix(kind, string(subtree.Persistent)+" "))
	}
	s := "[" + strings.Join(words, ", ") + "]"
	if d.data {
		s += " " + shortData(n.Data)
	}
	return s
}

func (d *drawing) ago(ms int64) string { return ageText(d.now.Sub(time.UnixMilli(ms))) }

func (d *drawing) summary() string {
	return fmt.Sprintf("%s, %d of them ephemeral, %s of data", countText(d.nodes, "node"), d.ephemerals, bytesText(d.bytes))
}
