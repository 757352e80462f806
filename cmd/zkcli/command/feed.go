package command

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func feedCommand() Command {
	return Command{
		Name: "feed", Synopsis: "[--after zxid] [-a] [-d] [-n count] [--json] path", Short: "Print every change at and below a path, until Ctrl-C",
		Long: "Prints a line for each change of a node by a transaction: time, zxid, what happened, and\n" +
			"the path. Unlike watch it misses none, also while it is not connected; and with --after\n" +
			"it begins in the past, as far as the server remembers. With -d each line has the data\n" +
			"that was written. Only servers of zkd have feeds.",
		Examples: []Example{
			{"feed /app", "what happens there from now on"},
			{"feed --after 0x100000a2f -d /app", "from where you were"},
			{"feed --after 0 --json / | jq .path", "all that the server remembers, for programs"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			after := stringFlag(flags, "after", "", "", "begin after this zxid, such as 0x100000a2f (default now)", Text)
			alone := boolFlag(flags, "alone", "a", "without the nodes below")
			data := boolFlag(flags, "data", "d", "the data that was written")
			count := flags.Flags().IntP("count", "n", 0, "end after this many changes")
			asJSON := boolFlag(flags, "json", "", "as -o json: a document on a line for each change")
			return func(ctx context.Context, c *Call) error {
				if *asJSON {
					c.Options.Format = FormatJSON
				}
				o := client.FeedOptions{After: client.FromNow, Alone: *alone, Data: *data}
				if *after != "" {
					zxid, err := strconv.ParseUint(*after, 0, 63)
					if err != nil {
						return c.Usage("--after %q is no zxid, such as 0x100000a2f", *after)
					}
					o.After = client.Zxid(zxid)
				}
				return c.feed(ctx, c.Arg(0), o, *count)
			}
		},
	}
}

// fedChange is a change in JSON.
type fedChange struct {
	Time     string  `json:"time"`
	Zxid     string  `json:"zxid"`
	Kind     string  `json:"kind"`
	Path     string  `json:"path"`
	Session  string  `json:"session"`
	Stat     *Stat   `json:"stat,omitempty"` // unless the node was deleted
	Data     *string `json:"data,omitempty"`
	Encoding string  `json:"encoding,omitempty"`
	Resume   string  `json:"resume"` // for --after
}

// feed prints the changes of a feed, up to count of them if that is not 0.
func (c *Call) feed(ctx context.Context, path string, o client.FeedOptions, count int) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	f := zk.Follow(path, o)
	defer f.Close()
	for said := c.Options.Format == FormatJSON; ; {
		changes, err := f.Next()
		if after, _ := f.Zxid(); !said && after != client.FromNow { // what changes from here on is printed
			c.App.say("following %s", path)
			said = true
		}
		for _, change := range changes {
			if err := c.printChange(&change, o.Data); err != nil {
				return err
			}
			if count--; count == 0 {
				return nil
			}
		}
		switch {
		case errors.Is(err, client.ErrQuotaExceeded):
			return &wordedError{"the server has as many feeds as zkd.maxFeeds allows, or this connection as zkd.maxFeedsPerConnection", err}
		case err != nil:
			return err
		case len(changes) > 0:
			continue
		}
		select {
		case <-f.Ready():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *Call) printChange(change *client.Change, withData bool) error {
	doc := fedChange{
		Time: stamp(change.Time), Zxid: change.Zxid.String(), Kind: change.Kind.String(), Path: change.Path,
		Session: change.Session.String(), Resume: change.Resume.String(),
	}
	if change.Kind != client.ChangeDeleted {
		doc.Stat = NewStat(change.Stat)
	}
	text := strings.Join([]string{change.Time.Local().Format(time.DateTime + ".000"), doc.Zxid, doc.Kind, doc.Path}, "  ")
	if withData && (change.Kind == client.ChangeCreated || change.Kind == client.ChangeData) {
		var d nodeData
		d.set(change.Data)
		doc.Data, doc.Encoding = d.Data, d.Encoding
		text += "  " + shortData(change.Data)
	}
	return c.Emit(Output{Text: text, Data: doc, Raw: []byte(doc.Path + "\n")})
}
