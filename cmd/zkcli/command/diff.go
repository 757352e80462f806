package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

func diffCommand() Command {
	return Command{
		Name: "diff", Synopsis: "[-q] [flags] A B | --from MOMENT [--to MOMENT] [-d] path", Short: "Compare two subtrees, or exports, or one subtree at two moments",
		Long: "A and B are each a path, host:port,host:port/path of other servers, or @FILE, an\n" +
			"export. Compared are the data, the ACLs and the kinds of nodes, not versions and times.\n" +
			"With --from a path is compared at that moment with --to or, without it, with the present,\n" +
			"in what the server knows of the past; see get --at.\n" +
			"The exit code is 0 if they are alike, 1 if they differ, and greater if that could not\n" +
			"be found out.",
		Examples: []Example{
			{"diff /app /copy", "two subtrees"},
			{"diff zk1:2181/app zk2:2181/app", "two ensembles"},
			{"diff @app.json /app", "what has changed since the export"},
			{"diff --from 1d /app", "what has changed since yesterday"},
			{"diff -q --ignore-acl /a /b", "only the exit code"},
		},
		Args: []Arg{{Name: "A", Kind: Path}, {Name: "B", Kind: Path}}, Required: 1,
		Setup: func(flags *cobra.Command) Run {
			o := new(subtree.DiffOptions)
			quiet := boolFlag(flags, "quiet", "q", "print nothing: the exit code says it")
			flags.Flags().BoolVar(&o.IgnoreACL, "ignore-acl", false, "don't compare ACLs")
			flags.Flags().BoolVar(&o.IgnoreData, "ignore-data", false, "don't compare data")
			flags.Flags().BoolVar(&o.IgnoreEphemerals, "ignore-ephemerals", false, "leave out ephemeral nodes")
			var f formerDiffOptions
			flags.Flags().StringVar(&f.from, "from", "", "compare path at this `moment`, such as 10m")
			flags.Flags().StringVar(&f.to, "to", "", "with this `moment`; default is the present")
			flags.Flags().BoolVarP(&f.data, "data", "d", false, "with --from: show the data")
			return func(ctx context.Context, c *Call) error {
				var err error
				switch moments := f.from != ""; {
				case moments && c.Arg(1) != "":
					return c.Usage("--from and --to are for one path")
				case !moments && (f.to != "" || f.data):
					return c.Usage("--to and -d need --from")
				case !moments && c.Arg(1) == "":
					return c.Usage("B is missing")
				case moments:
					f.quiet = *quiet
					err = c.formerDiff(ctx, f, *o)
				default:
					err = c.diff(ctx, *o, *quiet)
				}
				if _, differ := errors.AsType[*ExitError](err); !differ && ExitCode(err) == exitError && ctx.Err() == nil {
					f := describe(err)
					return c.end(exitUsage, f.Code, f.Error) // 1 means that there is a difference
				}
				return err
			}
		},
	}
}

// differenceDoc is one difference in JSON.
type differenceDoc struct {
	Path string `json:"path"`
	// Only is "A" or "B" if the node is missing on the other side.
	Only string   `json:"only,omitempty"`
	What []string `json:"what,omitempty"` // data, ACL, kind
	A    *sideDoc `json:"a,omitempty"`
	B    *sideDoc `json:"b,omitempty"`
}

// sideDoc is a node on one side of a difference.
type sideDoc struct {
	Data     *string      `json:"data"`
	Encoding string       `json:"encoding,omitempty"`
	ACL      []string     `json:"acl"`
	Kind     subtree.Kind `json:"kind"`
}

func (c *Call) diff(ctx context.Context, o subtree.DiffOptions, quiet bool) error {
	var sides [2]iter.Seq2[subtree.Node, error]
	for i, arg := range c.Args {
		nodes, done, err := c.side(ctx, arg)
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		defer done()
		sides[i] = nodes
	}
	p := c.printer("PATH", "DIFFERENCE", "A", "B")
	differ := false
	var only onlySide
	for d, err := range treediff.Diff(sides[0], sides[1], o) {
		if err != nil {
			return errors.Join(p.flush(), err)
		}
		differ = true
		if quiet {
			break
		}
		text, show := only.line(c.Args, d)
		if !show && c.Options.Format == FormatText {
			continue
		}
		if err := p.print(printed{text: text, raw: d.Path, data: differenceOf(d), row: differenceRow(d)}); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if differ {
		return &ExitError{Code: exitError}
	}
	return nil
}

// side opens the subtree that an argument names. done closes it.
func (c *Call) side(ctx context.Context, arg string) (nodes iter.Seq2[subtree.Node, error], done func(), err error) {
	o := subtree.ReadOptions{Data: true, ACL: true, SkipSystem: true}
	if name, ok := strings.CutPrefix(arg, "@"); ok {
		return c.openExport(ctx, name)
	}
	if strings.HasPrefix(arg, "/") {
		zk, err := c.Client(ctx)
		if err != nil {
			return nil, nil, err
		}
		return subtree.Live(ctx, zk, arg, o), func() {}, nil
	}
	if _, _, err := net.SplitHostPort(strings.SplitN(arg, "/", 2)[0]); err != nil && !strings.Contains(arg, ",") {
		return nil, nil, c.Usage("it is neither a path, nor @FILE, nor host:port/path")
	}
	zk, err := c.connectTo(ctx, arg)
	if err != nil {
		return nil, nil, err
	}
	_, root, err := client.ParseServers(arg)
	return subtree.Live(ctx, zk, cmp.Or(root, "/"), o), func() { zk.Close(context.WithoutCancel(ctx)) }, err
}

// connectTo opens a session with other servers, which the caller closes. Paths are those of
// the servers, without a chroot.
func (c *Call) connectTo(ctx context.Context, target string) (*client.Client, error) {
	servers, _, err := client.ParseServers(target)
	if err != nil {
		return nil, c.Usage("%v", err)
	}
	other := c.Options
	other.Server = strings.Join(servers, ",")
	o, err := other.client(ctx, nil)
	if err != nil {
		return nil, err
	}
	o.Auth = append(o.Auth, c.App.conn.auth...)
	wait, cancel := context.WithTimeoutCause(ctx, other.wait(), errWait)
	defer cancel()
	zk, err := client.Connect(wait, other.Server, o)
	if err != nil {
		return nil, notConnected(ctx, &other, err)
	}
	return zk, nil
}

// openExport reads an export twice: the first time to check that it is complete.
func (c *Call) openExport(ctx context.Context, name string) (nodes iter.Seq2[subtree.Node, error], done func(), err error) {
	f, done, err := c.openFile(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	r, err := subtree.NewReader(f)
	if err == nil {
		err = r.Verify()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		r, err = subtree.NewReader(f)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return r.Nodes(), done, nil
}

func differenceOf(d subtree.Difference) differenceDoc {
	doc := differenceDoc{Path: d.Path, A: sideOf(d.A), B: sideOf(d.B)}
	switch {
	case d.A == nil:
		doc.Only = "B"
	case d.B == nil:
		doc.Only = "A"
	default:
		doc.What = whatChanged(d)
	}
	return doc
}

func sideOf(n *subtree.Node) *sideDoc {
	if n == nil {
		return nil
	}
	var data nodeData
	data.set(n.Data)
	return &sideDoc{Data: data.Data, Encoding: data.Encoding, ACL: aclWords(n.ACL), Kind: n.Kind()}
}

func aclWords(acl []client.ACL) []string {
	words := make([]string, len(acl))
	for i, a := range acl {
		words[i] = subtree.FormatACL(a)
	}
	return words
}

func differenceRow(d subtree.Difference) []string {
	side := func(n *subtree.Node) string {
		if n == nil {
			return "-"
		}
		return bytesText(int64(len(n.Data)))
	}
	what := "missing"
	if d.A != nil && d.B != nil {
		what = strings.Join(whatChanged(d), ", ")
	}
	return []string{d.Path, what, side(d.A), side(d.B)}
}

// onlySide reports the top of a missing subtree once, not the nodes below it.
type onlySide struct {
	top string
	a   bool
}

// line returns the text of a difference, and whether to show it.
func (s *onlySide) line(names []string, d subtree.Difference) (string, bool) {
	if d.A != nil && d.B != nil {
		return d.Path + ": " + strings.Join(differences(d), "; "), true
	}
	a := d.A != nil
	if s.top != "" && s.a == a && treediff.Below(d.Path, s.top) {
		return "", false
	}
	s.top, s.a = d.Path, a
	name, n := names[1], d.B
	if a {
		name, n = names[0], d.A
	}
	text := "only in " + name + ": " + d.Path
	if n.Stat.NumChildren > 0 {
		text += ", with all below it"
	}
	return text, true
}

func differences(d subtree.Difference) []string {
	var parts []string
	if d.Data {
		parts = append(parts, fmt.Sprintf("data %s | %s", shortData(d.A.Data), shortData(d.B.Data)))
	}
	if d.ACL {
		parts = append(parts, fmt.Sprintf("ACL %s | %s", strings.Join(aclWords(d.A.ACL), ","), strings.Join(aclWords(d.B.ACL), ",")))
	}
	if d.Kind {
		parts = append(parts, fmt.Sprintf("kind %s | %s", d.A.Kind(), d.B.Kind()))
	}
	return parts
}
