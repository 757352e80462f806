package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func getCommand() Command {
	return Command{
		Name: "get", Synopsis: "[-s] [-w] path", Short: "Print the data of a node",
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the node's stat, too")
			return func(ctx context.Context, c *Call) error {
				zk, err := c.Client(ctx)
				if err != nil {
					return err
				}
				data, st, err := zk.Get(ctx, c.Arg(0))
				if err != nil {
					return err
				}
				text := dataText(data) + "\n"
				if *stat {
					text += statText(st)
				}
				return c.Emit(Output{Text: text, Raw: append([]byte{}, data...)})
			}
		},
	}
}

func dataText(data []byte) string {
	if data == nil {
		return "null"
	}
	return string(data)
}

func lsCommand() Command {
	return Command{
		Name: "ls", Synopsis: "[-s] [-w] [-R] path", Short: "List the children of a node",
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			return func(ctx context.Context, c *Call) error {
				zk, err := c.Client(ctx)
				if err != nil {
					return err
				}
				names, _, err := zk.Children(ctx, c.Arg(0))
				if err != nil {
					return err
				}
				slices.Sort(names)
				return c.Emit(Output{Text: "[" + strings.Join(names, ", ") + "]", Data: names, Raw: lines(names)})
			}
		},
	}
}
