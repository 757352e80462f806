package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func createCommand() Command {
	return Command{
		Name: "create", Synopsis: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", Short: "Create a node",
		Args: []Arg{{Name: "path", Kind: Path}, {Name: "data"}, {Name: "acl"}}, Required: 1,
		Setup: func(flags *cobra.Command) Run {
			return func(ctx context.Context, c *Call) error {
				zk, err := c.Client(ctx)
				if err != nil {
					return err
				}
				path, err := zk.Create(ctx, c.Arg(0), []byte(c.Arg(1)), client.Persistent, nil)
				if err != nil {
					return err
				}
				return c.Emit(Output{Note: "Created " + path, Raw: []byte(path + "\n")})
			}
		},
	}
}
