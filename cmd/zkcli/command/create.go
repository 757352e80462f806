package command

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
)

// maxTTL is the longest time to live, in milliseconds.
const maxTTL = 1<<40 - 1

func createCommand() Command {
	return Command{
		Name: "create", Synopsis: "[-s] [-e] [-c] [-t ttl] [-p] [-b] path [data] [acl]", Short: "Create a node",
		Long: "Without data the node's data is null. Data @FILE is the content of a file, - is\n" +
			"stdin; for data that begins with @ write @@. The ACL is scheme:id:perms,...; the\n" +
			"default is world:anyone:cdrwa. An ephemeral node goes with the session: that of a\n" +
			"single command ends with the command.",
		Examples: []Example{
			{"create /app", "a node without data"},
			{"create /app/config @config.json", "a node with a file's content"},
			{"create -p /app/eu/db x", "with the nodes above it that are missing"},
			{"create -s /app/job- x", "/app/job-0000000000, with the next number"},
			{"create -t 60000 /app/cache x", "a node that goes when unchanged for a minute"},
			{"create /app/secret x auth::cdrwa", "a node for oneself alone: see addauth, and --auth"},
		},
		Args: []Arg{{Name: "path", Kind: Path}, {Name: "data", Kind: File}, {Name: "acl"}}, Required: 1,
		Setup: func(flags *cobra.Command) Run {
			var n newNode
			flags.Flags().BoolVarP(&n.sequential, "sequential", "s", false, "append a number of ten digits to the name")
			flags.Flags().BoolVarP(&n.ephemeral, "ephemeral", "e", false, "the node goes with the session")
			flags.Flags().BoolVarP(&n.container, "container", "c", false, "the node goes after its last child")
			flags.Flags().Int64VarP(&n.ttl, "ttl", "t", 0, "the node is deleted once it has not changed for this many `ms`")
			flags.Flags().BoolVarP(&n.parents, "parents", "p", false, "create the missing nodes above it too, without data and with the same ACL")
			b64 := boolFlag(flags, "base64", "b", "the data is given in base64")
			return func(ctx context.Context, c *Call) error {
				n.hasTTL = flags.Flags().Changed("ttl")
				return c.create(ctx, &n, *b64)
			}
		},
	}
}

// newNode has the values of create's flags.
type newNode struct {
	sequential, ephemeral, container, hasTTL, parents bool
	ttl                                               int64
}

func (n *newNode) check(c *Call) error {
	switch {
	case n.container && (n.sequential || n.ephemeral):
		return c.Usage("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential")
	case n.hasTTL && n.ephemeral:
		return c.Usage("TTLs cannot be used with Ephemeral znodes")
	case n.hasTTL && n.container:
		return c.Usage("TTLs cannot be used with Container znodes")
	case n.hasTTL && (n.ttl <= 0 || n.ttl > maxTTL):
		return c.Usage("ttl must be positive and cannot be larger than: %d", int64(maxTTL))
	}
	return nil
}

func (n *newNode) mode() client.CreateMode {
	switch {
	case n.container:
		return client.Container
	case n.hasTTL && n.sequential:
		return client.PersistentSequentialTTL
	case n.hasTTL:
		return client.PersistentTTL
	case n.ephemeral && n.sequential:
		return client.EphemeralSequential
	case n.ephemeral:
		return client.Ephemeral
	case n.sequential:
		return client.PersistentSequential
	}
	return client.Persistent
}

func (c *Call) create(ctx context.Context, n *newNode, b64 bool) error {
	if err := n.check(c); err != nil {
		return err
	}
	var data []byte
	var acl []client.ACL
	var err error
	if len(c.Args) > 1 {
		if data, err = c.readData(ctx, c.Args[1], b64); err != nil {
			return err
		}
	}
	if len(c.Args) > 2 {
		if acl, err = c.parseACL(c.Args[2]); err != nil {
			return err
		}
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	o := client.CreateOptions{Mode: n.mode(), ACL: acl}
	if n.hasTTL {
		o.TTL = time.Duration(n.ttl) * time.Millisecond
	}
	create := zk.Create
	if n.parents {
		create = func(ctx context.Context, path string, data []byte, o client.CreateOptions) (client.Created, error) {
			return settle.CreateAll(ctx, zk, path, data, o)
		}
	}
	made, err := create(ctx, c.Arg(0), data, o)
	if err != nil {
		return missingParent(ctx, zk, c.Arg(0), aclError(err, acl))
	}
	at := made.Path
	return c.Emit(Output{Note: "Created " + at, Data: nodePath{at}, Raw: []byte(at + "\n"), Table: column("CREATED", []string{at})})
}

// missingParent says which node above a path that could not be created is missing.
func missingParent(ctx context.Context, zk *client.Client, name string, err error) error {
	if !errors.Is(err, client.ErrNoNode) {
		return err
	}
	if root := zk.Root(); root != "" {
		if found, lookErr := zk.Unrooted().Exists(ctx, root); lookErr == nil && !found.Exists {
			return &hintedError{err, fmt.Sprintf("the chroot %s is missing: create it by a session without a chroot", root)}
		}
	}
	return &hintedError{err, fmt.Sprintf("its parent %s is missing: -p creates it, too", path.Dir(name))}
}
