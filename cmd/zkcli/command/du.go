package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

func duCommand() Command {
	return Command{
		Name: "du", Synopsis: "[-s] [-d depth] [-h] [path]", Short: "Count nodes and bytes of data by subtree",
		Long: "Prints the bytes of data, the number of nodes, and the path of each node that has\n" +
			"children, with all that is below it, the largest first.",
		Examples: []Example{
			{"du -h -d 1 /", "what is large"},
			{"du -s /app", "one line"},
		},
		Args: pathOnly(),
		Setup: func(flags *cobra.Command) Run {
			// Defined here, it leaves -h to the sizes.
			flags.Flags().Bool("help", false, "help for du")
			total := boolFlag(flags, "summarize", "s", "only the path itself")
			depth := flags.Flags().IntP("max-depth", "d", -1, "go down at most this many levels")
			human := boolFlag(flags, "human-readable", "h", "sizes such as 1.2 MiB")
			return func(ctx context.Context, c *Call) error {
				if *total {
					*depth = 0
				}
				return c.du(ctx, *depth, *human)
			}
		},
	}
}

// subtotal is the total of a subtree, including its root.
type subtotal struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Nodes int    `json:"nodes"`
	leaf  bool
}

func (c *Call) du(ctx context.Context, depth int, human bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	root := c.pathOr("/")
	sum := adder{root: root, depth: depth}
	var bad trouble
	for n, err := range subtree.Live(ctx, zk, root, subtree.ReadOptions{}) {
		if err != nil {
			if err = bad.with(c, n.Path, err); err != nil {
				return err
			}
			continue
		}
		sum.add(n)
	}
	p := c.printer("BYTES", "NODES", "PATH")
	for _, u := range sum.result() {
		size := strconv.FormatInt(u.Bytes, 10)
		if human {
			size = bytesText(u.Bytes)
		}
		row := []string{size, strconv.Itoa(u.Nodes), u.Path}
		if err := p.print(printed{text: fmt.Sprintf("%s\t%d\t%s", row[0], u.Nodes, u.Path), raw: u.Path, data: u, row: row}); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	return bad.err()
}

// adder sums up a stream of nodes in tree order.
type adder struct {
	root  string
	depth int        // greatest depth to list; negative: any
	open  []subtotal // the current node and those above it
	done  []subtotal
}

func (a *adder) add(n subtree.Node) {
	a.closeTo(treediff.Depth(n.Path))
	a.open = append(a.open, subtotal{
		Path: treediff.Join(a.root, n.Path), Bytes: int64(n.Stat.DataLength), Nodes: 1, leaf: n.Stat.NumChildren == 0,
	})
}

// closeTo ends the subtrees at and below a depth.
func (a *adder) closeTo(depth int) {
	for len(a.open) > depth {
		last := len(a.open) - 1
		u := a.open[last]
		a.open = a.open[:last]
		if last > 0 {
			a.open[last-1].Bytes += u.Bytes
			a.open[last-1].Nodes += u.Nodes
		}
		if last == 0 || !u.leaf && (a.depth < 0 || last <= a.depth) {
			a.done = append(a.done, u)
		}
	}
}

// result returns the subtrees, the largest first.
func (a *adder) result() []subtotal {
	a.closeTo(0)
	slices.SortFunc(a.done, func(x, y subtotal) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Nodes, x.Nodes), cmp.Compare(x.Path, y.Path))
	})
	return a.done
}
