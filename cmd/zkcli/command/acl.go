package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func getACLCommand() Command {
	return Command{
		Name: "getAcl", Synopsis: "[-s] [--at MOMENT] path", Short: "Print the ACL of a node",
		Long:     "The permissions are c create, d delete (both of children), r read, w write, a admin.",
		Examples: []Example{{"getAcl /app", "who may do what"}, {"getAcl -o raw /app", "in the form that setAcl takes"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the node's stat, too")
			at := atFlag(flags)
			return func(ctx context.Context, c *Call) error {
				access, err := c.access(ctx, *at)
				if err != nil {
					return err
				}
				o := aclOutput(c.Arg(0), access.ACL, access.Stat)
				if *stat {
					o.Text += statText(access.Stat)
				}
				return c.Emit(o)
			}
		},
	}
}

func (c *Call) access(ctx context.Context, at string) (client.Access, error) {
	if at != "" {
		e, err := c.nodeAt(ctx, at, false)
		return client.Access{ACL: e.ACL, Stat: e.Stat}, err
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return client.Access{}, err
	}
	return zk.GetACL(ctx, c.Arg(0))
}

// nodeACL is a node's ACL in JSON.
type nodeACL struct {
	Path string     `json:"path"`
	ACL  []aclEntry `json:"acl"`
	Stat *Stat      `json:"stat"`
}

type aclEntry struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

func aclOutput(path string, acl []client.ACL, st client.Stat) Output {
	var text strings.Builder
	doc := nodeACL{Path: path, ACL: []aclEntry{}, Stat: NewStat(st)}
	rows := [][]string{{"SCHEME", "ID", "PERMS"}}
	for _, a := range acl {
		perms := client.FormatPerms(a.Perms)
		fmt.Fprintf(&text, "'%s,'%s\n: %s\n", a.ID.Scheme, a.ID.ID, perms)
		doc.ACL = append(doc.ACL, aclEntry{a.ID.Scheme, a.ID.ID, perms})
		rows = append(rows, []string{a.ID.Scheme, a.ID.ID, perms})
	}
	return Output{Text: text.String(), Data: doc, Table: rows, Raw: []byte(client.FormatACL(acl) + "\n")}
}

func setACLCommand() Command {
	return Command{
		Name: "setAcl", Synopsis: "[-s] [-v version] [-R] path acl", Short: "Replace the ACL of a node, or of a subtree",
		Long: "The ACL is scheme:id:perms,... with perms of c create, d delete (both of children),\n" +
			"r read, w write, a admin. With -v it fails if the ACL's version is another one.",
		Examples: []Example{
			{"setAcl /app world:anyone:r,auth::cdrwa", "all may read, oneself may do everything"},
			{"setAcl -R /app world:anyone:cdrwa", "the node and all below it"},
		},
		Args: []Arg{{Name: "path", Kind: Path}, {Name: "acl"}}, Required: 2,
		Setup: func(flags *cobra.Command) Run {
			stat := boolFlag(flags, "stat", "s", "print the node's stat")
			version := versionFlag(flags, "the ACL")
			recursive := boolFlag(flags, "recursive", "R", "all nodes below, too")
			dryRun := boolFlag(flags, "dry-run", "", "with -R: only say how many nodes there are to change")
			return func(ctx context.Context, c *Call) error {
				acl, err := c.parseACL(c.Arg(1))
				if err != nil {
					return err
				}
				switch {
				case *recursive && *version != client.AnyVersion:
					return c.Usage("-v can't be used with -R: each node has a version of its own")
				case *recursive:
					return c.setAllACLs(ctx, acl, *dryRun)
				case *dryRun:
					return c.Usage("--dry-run is for -R")
				}
				zk, err := c.Client(ctx)
				if err != nil {
					return err
				}
				st, err := zk.SetACL(ctx, c.Arg(0), acl, *version)
				if err != nil {
					return aclError(err, acl)
				}
				return c.emitStat(st, *stat)
			}
		},
	}
}

// parseACL reads an ACL. The message begins as zkCli.sh's does.
func (c *Call) parseACL(s string) ([]client.ACL, error) {
	acl, err := client.ParseACL(s)
	if err != nil {
		return nil, c.Usage("%v", err)
	}
	return acl, nil
}

// aclError explains a refusal of the scheme auth, which means the identities of the
// client.
func aclError(err error, acl []client.ACL) error {
	isAuth := func(a client.ACL) bool { return a.ID.Scheme == "auth" }
	if !errors.Is(err, client.ErrInvalidACL) || !slices.ContainsFunc(acl, isAuth) {
		return err
	}
	return &wordedError{describe(err).Error + ". auth: means the identities of addauth, or --auth: is there one?", err}
}
