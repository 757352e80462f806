package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// event is a change, as the feed of a server has it.
type event struct {
	Zxid    string         `json:"zxid"`
	Time    time.Time      `json:"time"`
	Session string         `json:"session"`
	Path    string         `json:"path"`
	Stat    *show.NodeStat `json:"stat,omitempty"`
}

// feed sends changes as server-sent events: of zkd's servers by their feed, of Apache's by a persistent watch, which tells neither
// the session nor the Stat, and tells nothing of what happens while no server is reached.
func (c *Console) feed(w http.ResponseWriter, r *http.Request) {
	args := r.URL.Query()
	path := args.Get("path")
	if path == "" {
		path = "/"
	}
	if args.Get("follow") == "false" {
		refuse(http.StatusNotImplemented, "this feed has no end").Send(w)
		return
	}
	if err := c.Client.WaitConnected(r.Context()); err != nil {
		refuse(http.StatusServiceUnavailable, err.Error()).Send(w)
		return
	}
	out := &events{w: w}
	if c.features()&jute.FeatureFeed == 0 {
		c.watch(out, r, path)
		return
	}
	o := client.FeedOptions{After: client.FromNow}
	if n, err := strconv.ParseUint(strings.TrimPrefix(args.Get("after"), "0x"), 16, 63); err == nil {
		o.After = client.Zxid(n)
	}
	f := c.Client.Follow(path, o)
	defer f.Close()
	for begun := false; !out.failed; {
		changes, err := f.Next()
		if after, _ := f.Zxid(); !begun && after != client.FromNow { // the server has the feed
			begun = true
			out.send(": changes follow\n\n")
		}
		for _, change := range changes {
			e := event{Zxid: change.Zxid.String(), Time: change.Time.UTC(), Session: change.Session.String(), Path: change.Path}
			if change.Kind != client.ChangeDeleted && !change.Lost() {
				e.Stat = show.StatOf(&change.Stat)
			}
			out.change(change.Kind, &e, change.Resume)
		}
		if gone, compacted := errors.AsType[*client.CompactedError](err); compacted {
			out.send(fmt.Sprintf("event: compacted\ndata: {\"oldest\":%q}\n\n", gone.Oldest))
		}
		switch {
		case err != nil:
			return
		case len(changes) > 0:
			continue
		}
		select {
		case <-f.Ready():
		case <-r.Context().Done():
			return
		}
	}
}

// kinds are the changes of which a watch tells.
var kinds = map[client.EventType]client.ChangeKind{client.EventCreated: client.ChangeCreated, client.EventDeleted: client.ChangeDeleted, client.EventDataChanged: client.ChangeData}

// watch sends what a persistent watch tells.
func (c *Console) watch(out *events, r *http.Request, path string) {
	watch, err := c.Client.AddWatch(r.Context(), path, client.WatchRecursive)
	if err != nil {
		refuse(http.StatusNotImplemented, "these servers have no feed, and no persistent watch: "+err.Error()).Send(out.w)
		return
	}
	defer watch.Close(c.life) // its end is that of the connection otherwise
	out.send(": changes follow\n\n")
	for !out.failed {
		got, err := watch.Next(r.Context())
		if err != nil {
			return
		}
		if got.Type == client.EventRearmed {
			out.send("event: compacted\ndata: {}\n\n")
			continue
		}
		kind, known := kinds[got.Type]
		if !known {
			continue
		}
		e := event{Time: time.Now().UTC(), Session: "0x0", Path: got.Path}
		if got.Zxid > 0 {
			e.Zxid = got.Zxid.String()
		}
		out.change(kind, &e, 0)
	}
}

// events writes server-sent events.
type events struct {
	w      http.ResponseWriter
	failed bool
}

// change writes a change. resume is the zxid after which a feed that follows this one begins, 0 for none.
func (e *events) change(kind client.ChangeKind, change *event, resume client.Zxid) {
	id := ""
	if resume > 0 {
		id = fmt.Sprintf("id: %v\n", resume)
	}
	data, _ := json.Marshal(change) // it has nothing that can't be encoded
	e.send(fmt.Sprintf("%sevent: %v\ndata: %s\n\n", id, kind, data))
}

func (e *events) send(text string) {
	e.w.Header().Set("Content-Type", "text/event-stream")
	_, err := e.w.Write([]byte(text))
	if err == nil {
		err = http.NewResponseController(e.w).Flush()
	}
	e.failed = err != nil
}
