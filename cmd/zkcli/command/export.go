package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

func exportCommand() Command {
	return Command{
		Name: "export", Synopsis: "[-f file] [--live] [--check] path", Short: "Write a subtree, with data and ACLs, to a file or to stdout",
		Long: "The file is lines of JSON with a checksum at the end, for import and diff. It is put\n" +
			"in its place when it is whole. Servers of zkd give the subtree as it was at one zxid,\n" +
			"which the export names. From others, and with --live, each node is read while others\n" +
			"may change it: that is no point in time. --check reads it once more and lists what\n" +
			"has changed meanwhile; if nothing has, the file is what was there when the export\n" +
			"ended. Of / all is written but /zookeeper.",
		Examples: []Example{
			{"export -f app.json /app", "to a file"},
			{"export -f app.json --check /app", "and see that it is consistent"},
			{"export / | gzip > all.gz", "to stdout"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			file := stringFlag(flags, "file", "f", "-", "the file to write; - is stdout", File)
			live := boolFlag(flags, "live", "", "read each node as it is when its turn comes, and so as no server has to keep it")
			check := boolFlag(flags, "check", "", "list what has changed meanwhile; the exit code is 1 if anything has")
			return func(ctx context.Context, c *Call) error {
				if *check && readOnce(*file) {
					return c.Usage("--check reads the file again, and %s can be read only once: name a file with -f", *file)
				}
				return c.export(ctx, *file, *live, *check)
			}
		},
	}
}

// exportDoc is the result of an export to a file, in JSON.
type exportDoc struct {
	Path    string   `json:"path"`
	File    string   `json:"file"`
	Nodes   int      `json:"nodes"`
	Bytes   int64    `json:"bytes"`
	Zxid    string   `json:"zxid,omitempty"` // of the state, if it is that of one zxid
	Masked  []string `json:"masked,omitempty"`
	Checked bool     `json:"checked,omitempty"`
	Changed []string `json:"changed,omitempty"` // what --check has found
}

func (c *Call) export(ctx context.Context, file string, live, check bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	m := c.meter()
	o := subtree.ExportOptions{Source: c.Options.Server, Now: time.Now(), Live: live, Progress: func(done, about int) {
		m.show(subtree.Progress{Doing: "reading", Done: done, Total: about})
	}}
	var done subtree.Exported
	err = writeFile(ctx, file, c.App.out, func(w io.Writer) error {
		done, err = subtree.Export(ctx, zk, c.Arg(0), w, o)
		return err
	})
	m.clear()
	if err != nil {
		return c.notExported(file, done, err)
	}
	if len(done.Masked) > 0 {
		c.App.say("the digests in the ACL of %s, maybe of more nodes, were hidden: only who has the admin permission (addauth) can export them", done.Masked[0])
	}
	if file == "-" {
		return nil
	}
	doc := exportDoc{Path: c.Arg(0), File: file, Nodes: done.Nodes, Bytes: done.Bytes, Masked: done.Masked, Checked: check}
	if done.Zxid != 0 {
		doc.Zxid = done.Zxid.String()
	}
	if check {
		if doc.Changed, err = c.changedSince(ctx, zk, file); err != nil {
			return fmt.Errorf("exported, but not checked: %w", err)
		}
	}
	return c.emitExport(doc, done.Ephemerals)
}

func (c *Call) notExported(file string, done subtree.Exported, err error) error {
	if _, lost := errors.AsType[*subtree.LostError](err); lost {
		err = fmt.Errorf("export again, or with --live, for which no server keeps a state: %w", err)
	} else if done.Nodes == 0 && errors.Is(err, client.ErrThrottled) {
		err = fmt.Errorf("the server is busy, or keeps as many states for others as it can; export later, or with --live: %w", err)
	}
	if file == "-" && done.Nodes > 0 {
		return fmt.Errorf("the export ends after %s, without its last line, so import will refuse it: %w", countText(done.Nodes, "node"), err)
	}
	return err
}

func (c *Call) emitExport(doc exportDoc, ephemerals int) error {
	text := fmt.Sprintf("%s, %d of them ephemeral, %s of data", countText(doc.Nodes, "node"), ephemerals, bytesText(doc.Bytes))
	if doc.Zxid != "" {
		text += ", as of zxid " + doc.Zxid
	}
	text += ": " + doc.File
	if doc.Checked && len(doc.Changed) == 0 {
		text += "\nnothing has changed meanwhile: the file is what was there at one point in time"
	}
	if len(doc.Changed) > 0 {
		text += "\nchanged meanwhile:\n" + strings.Join(doc.Changed, "\n")
	}
	if err := c.Emit(Output{Text: text, Data: doc}); err != nil {
		return err
	}
	if len(doc.Changed) > 0 {
		return &ExitError{Code: exitError}
	}
	return nil
}

// changedSince lists the changes since the file was written.
func (c *Call) changedSince(ctx context.Context, zk *client.Client, file string) ([]string, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r, err := subtree.NewReader(in)
	if err != nil {
		return nil, err
	}
	var list []string
	for d, err := range subtree.ChangedSince(ctx, zk, c.Arg(0), r) {
		if err != nil {
			return nil, err
		}
		list = append(list, treediff.Join(c.Arg(0), d.Path)+": "+strings.Join(whatChanged(d), ", "))
	}
	return list, nil
}

func whatChanged(d subtree.Difference) []string {
	switch {
	case d.A == nil:
		return []string{"created"}
	case d.B == nil:
		return []string{"deleted"}
	case d.Replaced:
		return []string{"deleted and created again"}
	}
	var what []string
	for _, x := range []struct {
		set  bool
		name string
	}{{d.Data, "data"}, {d.ACL, "ACL"}, {d.Kind, "kind"}, {d.Children, "children"}} {
		if x.set {
			what = append(what, x.name)
		}
	}
	return what
}
