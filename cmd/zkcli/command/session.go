package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/buildinfo"
)

func addAuthCommand() Command {
	return Command{
		Name: "addauth", Synopsis: "scheme auth", Short: "Authenticate as somebody, in addition",
		Long: "It lasts for the session. For a single command there is --auth, or ZKCLI_AUTH, which\n" +
			"keeps the password out of the list of processes.",
		Examples: []Example{{"addauth digest bob:secret", "be bob"}},
		Args:     []Arg{{Name: "scheme", Kind: Word, Words: []string{"digest", "x509"}}, {Name: "auth"}}, Required: 1, Session: true,
		Run: withClient(func(ctx context.Context, c *Call, zk *client.Client) error {
			a := client.Auth{Scheme: c.Arg(0), Data: []byte(c.Arg(1))}
			if err := zk.Session().AddAuth(ctx, a.Scheme, a.Data); err != nil {
				return err
			}
			c.App.conn.auth = append(c.App.conn.auth, a)
			return nil
		}),
	}
}

func whoAmICommand() Command {
	return Command{
		Name: "whoami", Short: "Print who the servers take this client for",
		Examples: []Example{{"whoami", "a line for each identity"}, {"--auth digest:bob:secret whoami", "check a password's form"}},
		Run: withClient(func(ctx context.Context, c *Call, zk *client.Client) error {
			ids, err := zk.Session().WhoAmI(ctx)
			if err != nil {
				return err
			}
			return c.Emit(identities(ids))
		}),
	}
}

type identity struct {
	Scheme string `json:"scheme"`
	User   string `json:"user"`
}

func identities(ids []client.Identity) Output {
	doc := []identity{}
	rows := [][]string{{"SCHEME", "USER"}}
	var list []string
	for _, id := range ids {
		doc = append(doc, identity{id.Scheme, id.User})
		rows = append(rows, []string{id.Scheme, id.User})
		list = append(list, id.Scheme+": "+id.User)
	}
	raw := lines(list)
	return Output{Text: "Auth scheme: User\n" + string(raw), Data: doc, Raw: raw, Table: rows}
}

func featuresCommand() Command {
	return Command{
		Name: "features", Short: "Print which extensions of the protocol the server offers",
		Long:     "docs/extensions.md has what they are. Servers of Apache offer none.",
		Examples: []Example{{"features", "a line for each"}},
		Run: withClient(func(ctx context.Context, c *Call, zk *client.Client) error {
			names := zk.Status().Features.Names()
			return c.Emit(Output{
				Text: strings.Join(names, "\n"), Data: map[string][]string{"features": names},
				Raw: lines(names), Table: column("FEATURE", names),
			})
		}),
	}
}

func syncCommand() Command {
	return Command{
		Name: "sync", Synopsis: "path", Short: "Wait until the server has all changes that are committed",
		Long:     "A read that follows sees all that was committed before.",
		Examples: []Example{{"sync /", "then read what others have written"}},
		Args:     pathOnly(), Required: 1,
		Run: withClient(func(ctx context.Context, c *Call, zk *client.Client) error {
			if err := zk.Sync(ctx, c.Arg(0)); err != nil {
				return err
			}
			return c.Emit(Output{Text: "Sync is OK", Data: nodePath{c.Arg(0)}, Raw: []byte{}})
		}),
	}
}

func ephemeralsCommand() Command {
	return Command{
		Name: "getEphemerals", Synopsis: "[path]", Short: "List the ephemeral nodes of this session",
		Long:     "The path is a prefix of text; without it all are listed.",
		Examples: []Example{{"getEphemerals", "all of this session's"}, {"getEphemerals /app", "those that begin with /app"}},
		Args:     pathOnly(),
		Run: func(ctx context.Context, c *Call) error {
			prefix := c.pathOr("/")
			if !strings.HasPrefix(prefix, "/") {
				return c.Usage("path %q does not begin with /", prefix)
			}
			zk, err := c.Client(ctx)
			if err != nil {
				return err
			}
			paths, err := zk.Session().Ephemerals(ctx, prefix)
			if err != nil {
				return err
			}
			return c.Emit(pathList("ephemerals", paths))
		},
	}
}

func countCommand() Command {
	return Command{
		Name: "getAllChildrenNumber", Synopsis: "path", Short: "Count all nodes below a node",
		Examples: []Example{{"getAllChildrenNumber /app", "how many there are, at any depth"}},
		Args:     pathOnly(), Required: 1,
		Run: withClient(func(ctx context.Context, c *Call, zk *client.Client) error {
			n, err := zk.CountDescendants(ctx, c.Arg(0))
			if err != nil {
				return err
			}
			doc := struct {
				Path  string `json:"path"`
				Count int    `json:"count"`
			}{c.Arg(0), n}
			return c.Emit(Output{Text: fmt.Sprint(n), Data: doc})
		}),
	}
}

func connectCommand() Command {
	return Command{
		Name: "connect", Synopsis: "[host:port]", Short: "Open a new session, at other servers if they are given",
		Long:     "The session before ends, with its ephemeral nodes and watches.",
		Examples: []Example{{"connect zk1:2181,zk2:2181/app", "everything below /app of another ensemble"}},
		Args:     []Arg{{Name: "host:port", Kind: Host}}, Session: true,
		Run: func(ctx context.Context, c *Call) error {
			if s := c.Arg(0); s != "" {
				if _, _, err := client.ParseServers(s); err != nil {
					return c.Usage("%v", err)
				}
				c.App.opts.Server = s
			}
			c.App.disconnect()
			c.App.conn.closed = false
			_, err := c.Client(ctx)
			return err
		},
	}
}

// disconnect ends the session and forgets what belonged to it.
func (a *App) disconnect() {
	a.conn.close()
	a.watching.forget()
}

func closeCommand() Command {
	return Command{
		Name: "close", Short: "End the session, and stay here",
		Long: "Its ephemeral nodes and watches go. connect opens a new one.", Session: true,
		Run: func(_ context.Context, c *Call) error {
			c.App.disconnect()
			c.App.conn.closed = true
			return nil
		},
	}
}

func quitCommand(name string) Command {
	return Command{
		Name: name, Short: "End the session and leave",
		Run: func(context.Context, *Call) error { return ErrQuit },
	}
}

func versionCommand() Command {
	return Command{
		Name: "version", Short: "Print the version of zkcli",
		Run: func(_ context.Context, c *Call) error {
			v := buildinfo.Read().Revision()
			doc := map[string]string{"version": v}
			return c.Emit(Output{Text: versionText(), Data: doc, Raw: []byte(v + "\n")})
		},
	}
}

// versionText is what version and --version print.
func versionText() string {
	return "ZooKeeper CLI version: zkd " + buildinfo.Read().String()
}

// pathList returns a list of paths as a result. name is the field's name in JSON.
func pathList(name string, paths []string) Output {
	slices.Sort(paths)
	doc := map[string][]string{name: append([]string{}, paths...)}
	return Output{Text: bracketed(paths), Data: doc, Raw: lines(paths), Table: column("PATH", paths)}
}
