package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func setCommand() Command {
	return Command{
		Name: "set", Synopsis: "[-s] [-v version] [-b] [--create] path data", Short: "Replace the data of a node",
		Long: "Data @FILE is the content of a file, - is stdin; for data that begins with @ write\n" +
			"@@. With -v it fails if the node's version is another one: somebody has changed it.\n" +
			"With --create a node that does not exist is created; servers that don't offer\n" +
			"operations can't do that: see features.",
		Examples: []Example{
			{"set /app/config on", "the text"},
			{"set /app/config @config.json", "a file's content"},
			{"generate | zkcli set /app/config -", "what a program prints"},
			{"set -v 3 /app/config on", "only if nobody has changed version 3"},
			{"set --create /app/config on", "whether it exists or not"},
			{"set -- /app/config -x", "data that begins with a dash"},
		},
		Args: []Arg{{Name: "path", Kind: Path}, {Name: "data", Kind: File}}, Required: 2,
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the node's stat")
			version := versionFlag(flags, "the node")
			b64 := boolFlag(flags, "base64", "b", "the data is given in base64")
			create := boolFlag(flags, "create", "", "create the node if it does not exist")
			return func(ctx context.Context, c *Call) error {
				data, err := c.readData(ctx, c.Arg(1), *b64)
				if err != nil {
					return err
				}
				zk, err := c.Client(ctx)
				if err != nil {
					return err
				}
				var st client.Stat
				if *create {
					var r client.OpResult
					r, err = single(ctx, zk, client.CreateOrSetOp(c.Arg(0), data, *version, client.CreateOptions{}))
					st = r.Stat
				} else {
					st, err = zk.Set(ctx, c.Arg(0), data, *version)
				}
				if err != nil {
					return err
				}
				return c.emitStat(st, *stat)
			}
		},
	}
}

// single does one operation that exists only in a multi, with the errors of a single one.
func single(ctx context.Context, zk *client.Client, op client.Op) (client.OpResult, error) {
	results, err := zk.Multi(ctx, op)
	if e, ok := errors.AsType[*client.MultiError](err); ok {
		err = &client.Error{Op: e.Op, Path: e.Path, Err: e.Err}
	}
	if err != nil {
		return client.OpResult{}, err
	}
	return results[0], nil
}

// emitStat is the result of a change; it has a text only if requested.
func (c *Call) emitStat(st client.Stat, show bool) error {
	o := Output{Data: nodeStat{Path: c.Arg(0), Stat: NewStat(st)}}
	if show {
		o.Text, o.Table = statText(st), statTable(st)
	}
	return c.Emit(o)
}

func deleteCommand() Command {
	return Command{
		Name: "delete", Synopsis: "[-v version] path", Short: "Delete a node that has no children",
		Examples: []Example{{"delete /app/old", "whatever its version"}, {"delete -v 3 /app/old", "only if nobody has changed version 3"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			version := versionFlag(flags, "the node")
			return withClient(func(ctx context.Context, c *Call, zk *client.Client) error {
				if err := zk.Delete(ctx, c.Arg(0), *version); err != nil {
					return err
				}
				return c.Emit(Output{Data: nodePath{c.Arg(0)}})
			})
		},
	}
}
