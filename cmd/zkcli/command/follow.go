package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

func watchCommand() Command {
	return Command{
		Name: "watch", Synopsis: "[-r] [-d] [-n count] [--json] path", Short: "Print changes as they happen, until Ctrl-C",
		Long: "Prints a line for each change of a node or of its list of children; with -r for each\n" +
			"node that is created, changed or deleted at or below the path. It continues after a lost\n" +
			"connection, and says so: changes meanwhile are not seen. It ends with the session.\n" +
			"With -d each line has the data as it is by then: quick changes may show the same twice.",
		Examples: []Example{
			{"watch -r /app", "all that happens there"},
			{"watch -r --json /app | jq .path", "for programs"},
			{"watch -n 1 /app/config", "until the first change"},
		},
		Args: pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			recursive := boolFlag(flags, "recursive", "r", "all nodes below, too")
			data := boolFlag(flags, "data", "d", "read the data of nodes that were created or changed")
			count := flags.Flags().IntP("count", "n", 0, "end after this many events")
			asJSON := boolFlag(flags, "json", "", "as -o json: a document on a line for each event")
			return func(ctx context.Context, c *Call) error {
				if *asJSON {
					c.Options.Format = FormatJSON
				}
				f := follower{c: c, data: *data, left: *count, counted: *count > 0}
				return f.run(ctx, c.Arg(0), *recursive)
			}
		},
	}
}

// change is an event in JSON.
type change struct {
	Time     string  `json:"time"` // when it arrived
	Type     string  `json:"type"`
	Path     string  `json:"path"`
	Zxid     string  `json:"zxid,omitempty"` // if the server sends it
	Missed   bool    `json:"missed,omitempty"`
	Data     *string `json:"data,omitempty"`
	Encoding string  `json:"encoding,omitempty"`
	Bytes    *int32  `json:"bytes,omitempty"` // of the data
}

// eventNames are the types of events in watch's output.
var eventNames = map[client.EventType]string{
	client.EventCreated: "created", client.EventDeleted: "deleted", client.EventDataChanged: "changed",
	client.EventChildrenChanged: "children", client.EventRearmed: "rearmed",
}

// changeOf returns the document of an event that came in at a time.
func changeOf(ev client.Event, at time.Time) change {
	doc := change{Time: stamp(at), Type: eventNames[ev.Type], Path: ev.Path, Missed: ev.Type == client.EventRearmed}
	if ev.Zxid > 0 {
		doc.Zxid = ev.Zxid.String()
	}
	return doc
}

// follower prints the events of a watch.
type follower struct {
	c       *Call
	zk      *client.Client
	data    bool
	counted bool
	left    int
}

func (f *follower) run(ctx context.Context, path string, recursive bool) (err error) {
	if f.zk, err = f.c.Client(ctx); err != nil {
		return err
	}
	defer f.c.App.quiet()()
	mode := client.WatchPersistent
	if recursive {
		mode = client.WatchRecursive
	}
	w, err := f.zk.AddWatch(ctx, path, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWatch(ctx, w)) }()
	if f.c.Options.Format != FormatJSON {
		f.c.App.say("watching %s", path)
	}
	for !f.counted || f.left > 0 {
		ev, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if err := f.print(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

// closeWatch removes the watch at the server, even if the command was interrupted.
func closeWatch(ctx context.Context, w *client.Watch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	if err := w.Close(ctx); err != nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrClosed) {
		return err
	}
	return nil
}

func (f *follower) print(ctx context.Context, ev client.Event) error {
	now := time.Now()
	doc := changeOf(ev, now)
	text := now.Format("15:04:05.000") + "  " + doc.Type + "  " + ev.Path
	if doc.Missed {
		text += "  connected again: changes may have been missed"
	} else {
		f.left--
	}
	if f.data && (ev.Type == client.EventCreated || ev.Type == client.EventDataChanged) {
		node, err := f.zk.Get(ctx, ev.Path)
		switch {
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNoAuth), errors.Is(err, client.ErrConnectionLoss):
			text += "  (data: " + describe(err).Error + ")"
		case err != nil:
			return err
		default:
			var d nodeData
			d.set(node.Data)
			doc.Data, doc.Encoding, doc.Bytes = d.Data, d.Encoding, &node.Stat.DataLength
			text += "  " + shortData(node.Data)
		}
	}
	return f.c.Emit(Output{Text: text, Data: doc, Raw: []byte(ev.Path + "\n")})
}
