package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// FeedRequest says what changes a client wants.
type FeedRequest struct {
	Path  string // of this znode and of those below it
	After *jute.Zxid
	Claim Claim
}

// OldestHeader is the header of an answer with status 410: the least zxid after which all changes are there.
const OldestHeader = "X-Oldest-Zxid"

// Feed is a stream of changes.
type Feed interface {
	// Next calls yield for the changes that follow, and says which end their transactions. It blocks
	// until there are some, but not for longer than a time. The error is io.EOF when the server stops, a
	// *jute.CompactedError if changes were forgotten, ErrUnauthorized if an identity has ended, and
	// ErrDisplaced if another client needs the place.
	Next(ctx context.Context, yield func(c *jute.Change, ends bool)) error
	Close()
}

// ErrUnauthorized means that the sender of a request may have no more: an identity that it had
// proved has ended, or clients must have another one now.
var ErrUnauthorized = errors.New("not authenticated any more")

// feedEvent is a change in JSON.
type feedEvent struct {
	Zxid    string         `json:"zxid"`
	Index   int32          `json:"index"`
	Time    time.Time      `json:"time"`
	Session string         `json:"session"`
	Path    string         `json:"path"`
	Stat    *show.NodeStat `json:"stat,omitempty"`
	Data    *string        `json:"data,omitempty"` // base64
}

func feedEventOf(c *jute.Change, withData bool) feedEvent {
	e := feedEvent{Zxid: c.Zxid.String(), Index: c.Index, Time: time.UnixMilli(c.Time).UTC(), Session: c.Session.String(), Path: c.Path}
	if c.Kind != jute.ChangeDeleted && !c.Lost() {
		e.Stat = show.StatOf(&c.Stat)
	}
	if withData && c.Data != nil {
		text := base64.StdEncoding.EncodeToString(c.Data)
		e.Data = &text
	}
	return e
}

// feed sends changes as server-sent events (docs/monitor.md, "The feed"): one for each change, with the name of
// its kind; the last one of a transaction has the zxid as its id. So a client that reconnects with
// Last-Event-ID gets all transactions after that one.
func (h *handler) feed(w http.ResponseWriter, r *http.Request) {
	args := r.URL.Query()
	request := FeedRequest{Path: args.Get("path")}
	after := args.Get("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		after = id
	}
	fail := func(status int, problem string) { http.Error(w, problem, status) }
	if after != "" {
		zxid, err := parseZxid(after)
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		request.After = &zxid
	}
	if request.Path == "" {
		request.Path = "/"
	}
	if err := jute.ValidatePath(request.Path); err != nil {
		fail(http.StatusBadRequest, err.Error())
		return
	}
	request.Claim = claimOf(r)
	ctx, leave := h.enterStream(r)
	if leave == nil {
		fail(http.StatusTooManyRequests, fmt.Sprintf("There are %d other streams", maxStreams))
		return
	}
	defer leave()
	feed, status, problem := h.Server().Feed(ctx, request)
	if feed == nil {
		if gone, ok := errors.AsType[*jute.CompactedError](problem); ok {
			w.Header().Set(OldestHeader, gone.Oldest.String())
		}
		fail(status, problem.Error())
		return
	}
	defer feed.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &eventWriter{w: http.NewResponseController(w), out: w, withData: args.Get("data") == "true"}
	err := out.send(": changes follow\n\n")
	if args.Get("follow") == "false" {
		out.relayPresent(feed, err)
		return
	}
	for err == nil && ctx.Err() == nil {
		err = out.relay(ctx, feed)
	}
}

// relayPresent writes the changes that there are, and does not wait for others. err is of what was sent before.
func (e *eventWriter) relayPresent(feed Feed, err error) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for err == nil {
		err = e.relay(now, feed)
	}
}

// eventWriter writes changes as server-sent events.
type eventWriter struct {
	w        *http.ResponseController
	out      io.Writer
	withData bool
	text     strings.Builder
}

// relay writes the changes that follow, or a sign of life.
func (e *eventWriter) relay(ctx context.Context, feed Feed) error {
	e.text.Reset()
	err := feed.Next(ctx, e.write)
	var gone *jute.CompactedError
	switch {
	case errors.As(err, &gone):
		fmt.Fprintf(&e.text, "event: compacted\ndata: {\"oldest\":%q}\n\n", gone.Oldest)
	case errors.Is(err, ErrUnauthorized):
		e.text.WriteString("event: unauthorized\ndata: {}\n\n")
	case e.text.Len() == 0 && ctx.Err() == nil:
		e.text.WriteString(":\n\n")
	}
	return errors.Join(err, e.send(e.text.String()))
}

// write appends the event of a change.
func (e *eventWriter) write(c *jute.Change, endsTransaction bool) {
	if endsTransaction {
		fmt.Fprintf(&e.text, "id: %v\n", c.Zxid)
	}
	data, _ := json.Marshal(feedEventOf(c, e.withData)) // it has nothing that can't be encoded
	fmt.Fprintf(&e.text, "event: %v\ndata: %s\n\n", c.Kind, data)
}

func (e *eventWriter) send(text string) error {
	e.w.SetWriteDeadline(time.Now().Add(streamPatience)) // not supported by a recorder of tests
	if _, err := io.WriteString(e.out, text); err != nil {
		return err
	}
	return e.w.Flush()
}
