package command

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
)

func getCommand() Command {
	return Command{
		Name: "get", Synopsis: "[-s] [-w] [-b] [-x] [--at MOMENT] path", Short: "Print the data of a node",
		Long: "Prints the data as it is, or null if the node has none. With -o raw no newline\n" +
			"is added: what comes out is what is stored, byte for byte. On a terminal, control\n" +
			"characters and what is not UTF-8 are escaped.",
		Examples: []Example{
			{"get /config", "the data"},
			{"get -s /config", "the data and the stat"},
			{"get -w /config", "the data, and one event when it changes"},
			{"get --at 10m /config", "the data ten minutes ago"},
			{"get -o raw /blob > blob", "exactly the bytes"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the node's stat, too")
			watch := boolFlag(flags, "watch", "w", "set a watch on the data")
			b64 := boolFlag(flags, "base64", "b", "print the data in base64")
			hex := boolFlag(flags, "hex", "x", "print the data as a hex dump")
			at := atFlag(flags)
			return func(ctx context.Context, c *Call) error {
				if *b64 && *hex {
					return c.Usage("-b and -x exclude each other")
				}
				data, st, err := c.get(ctx, *watch, *at)
				if err != nil {
					return err
				}
				text := dataText(data)
				switch {
				case data == nil:
				case *b64:
					text = base64.StdEncoding.EncodeToString(data)
				case *hex:
					text = hexDump(data)
				}
				doc := nodeData{Path: c.Arg(0), Stat: NewStat(st)}
				doc.set(data)
				raw := append([]byte{}, data...)
				if *b64 || *hex {
					raw = []byte(text)
				}
				text += "\n"
				if *stat {
					text += statText(st)
				}
				return c.Emit(Output{Text: text, Data: doc, Raw: raw})
			}
		},
	}
}

func (c *Call) get(ctx context.Context, watch bool, at string) ([]byte, client.Stat, error) {
	if at != "" {
		e, err := c.nodeAt(ctx, at, watch)
		return e.Data, e.Stat, err
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, client.Stat{}, err
	}
	if !watch {
		node, err := zk.Get(ctx, c.Arg(0))
		return node.Data, node.Stat, err
	}
	node, err := zk.GetW(ctx, c.Arg(0))
	c.App.watching.add(node.Watch, client.DataWatches)
	return node.Data, node.Stat, err
}

func statCommand() Command {
	return Command{
		Name: "stat", Synopsis: "[-w] [--at MOMENT] path", Short: "Print the stat of a node",
		Examples: []Example{{"stat /config", "versions, times, owner, sizes"}, {"stat -o json /config", "the same for a program"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			watch := boolFlag(flags, "watch", "w", "set a watch on the node's data")
			at := atFlag(flags)
			return func(ctx context.Context, c *Call) error {
				st, err := c.stat(ctx, *watch, *at)
				if err != nil {
					return err
				}
				doc := nodeStat{Path: c.Arg(0), Stat: NewStat(st)}
				return c.Emit(Output{Text: statText(st), Data: doc, Table: statTable(st)})
			}
		},
	}
}

// nodeStat is a node's stat in JSON.
type nodeStat struct {
	Path string `json:"path"`
	Stat *Stat  `json:"stat"`
}

func (c *Call) stat(ctx context.Context, watch bool, at string) (client.Stat, error) {
	if at != "" {
		e, err := c.nodeAt(ctx, at, watch)
		return e.Stat, err
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return client.Stat{}, err
	}
	var found client.Presence
	if watch {
		found, err = zk.ExistsW(ctx, c.Arg(0))
		c.App.watching.add(found.Watch, client.DataWatches)
	} else {
		found, err = zk.Exists(ctx, c.Arg(0))
	}
	if err == nil && !found.Exists {
		err = &client.Error{Path: c.Arg(0), Err: client.ErrNoNode}
	}
	return found.Stat, err
}

func lsCommand() Command {
	return Command{
		Name: "ls", Synopsis: "[-s] [-w] [-R] [--at MOMENT] path", Short: "List the children of a node",
		Long: "Prints the names in brackets, as zkCli.sh does. With -o raw each name is on a\n" +
			"line of its own. With -R come the paths of the node and of all below it.",
		Examples: []Example{
			{"ls /", "the children of the root"},
			{"ls -s /app", "the children and the stat of the node"},
			{"ls -R /app", "the whole subtree"},
			{"ls --at 2026-11-22T14:05:00Z /app", "the children at that time"},
			{"ls -o raw /app | wc -l", "how many children there are"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the node's stat, too")
			watch := boolFlag(flags, "watch", "w", "set a watch on the children")
			recursive := boolFlag(flags, "recursive", "R", "print the paths of the whole subtree")
			at := atFlag(flags)
			return func(ctx context.Context, c *Call) error {
				if *at != "" {
					return c.listAt(ctx, *at, *watch, *stat, *recursive)
				}
				if *recursive {
					return c.listAll(ctx, *watch)
				}
				return c.list(ctx, *watch, *stat)
			}
		},
	}
}

// children is the list of a node's children in JSON.
type children struct {
	Path     string   `json:"path"`
	Children []string `json:"children"`
	Stat     *Stat    `json:"stat"`
}

func (c *Call) list(ctx context.Context, watch, stat bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	names, st, err := c.children(ctx, zk, c.Arg(0), watch)
	if err != nil {
		return err
	}
	return c.emitChildren(names, st, stat)
}

// emitChildren prints the names of a node's children.
func (c *Call) emitChildren(names []string, st client.Stat, stat bool) error {
	text := bracketed(names) + "\n"
	if stat {
		text += statText(st)
	}
	doc := children{Path: c.Arg(0), Children: append([]string{}, names...), Stat: NewStat(st)}
	return c.Emit(Output{Text: text, Data: doc, Raw: lines(names), Table: column("NAME", names)})
}

// children returns the names of a node's children, sorted.
func (c *Call) children(ctx context.Context, zk *client.Client, path string, watch bool) ([]string, client.Stat, error) {
	var list client.Listing
	var err error
	if watch {
		list, err = zk.ChildrenW(ctx, path)
		c.App.watching.add(list.Watch, client.ChildWatches)
	} else {
		list, err = zk.Children(ctx, path)
	}
	if errors.Is(err, client.ErrMarshalling) && !watch {
		return c.longList(ctx, zk, path)
	}
	slices.Sort(list.Names)
	return list.Names, list.Stat, err
}

// longList is children for a node whose list the server does not send in one reply.
func (c *Call) longList(ctx context.Context, zk *client.Client, path string) (names []string, stat client.Stat, err error) {
	found, err := zk.Exists(ctx, path)
	if err != nil {
		return nil, stat, err
	}
	for child, err := range tree.Children(ctx, zk, path, tree.ChildrenOptions{}) {
		if err != nil {
			return nil, stat, err
		}
		names = append(names, child.Name)
	}
	return names, found.Stat, nil
}

// bracketed formats a list like Java.
func bracketed(list []string) string { return "[" + strings.Join(list, ", ") + "]" }
