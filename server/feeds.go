package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/feed"
)

const (
	// feedBytes is roughly how much of the changes is sent at a time.
	feedBytes = 64 << 10
	// feedIdle is the time after which a feed without changes says so.
	feedIdle = 15 * time.Second
)

// changes is a feed of the changes below a path that its reader may read.
type changes struct {
	*lifecycle
	history *feed.History
	cursor  *feed.Cursor
	schemes *auth.Schemes
	ids     []jute.ID
	path    string
}

// Feed implements admin.Server.
func (f adminFacts) Feed(r admin.FeedRequest) (admin.Feed, int, string) {
	if f.cfg.FeedHistory == 0 {
		return nil, http.StatusNotImplemented, "This server keeps no changes: see zkd.feedHistoryKb"
	}
	creds, err := f.credentials(r.Claim)
	if err != nil {
		return nil, http.StatusUnauthorized, "Not authenticated"
	}
	oldest, last := f.history.Span()
	switch {
	case r.After == nil:
		r.After = &last
	case *r.After < oldest:
		return nil, http.StatusGone, (&jute.CompactedError{After: *r.After, Oldest: oldest}).Error()
	}
	return &changes{f.lifecycle, f.history, f.history.After(*r.After), f.schemes, creds.IDs(), r.Path}, 0, ""
}

// Next implements admin.Feed.
func (c *changes) Next(ctx context.Context, yield func(*jute.Change)) error {
	idle := time.NewTimer(feedIdle)
	defer idle.Stop()
	for {
		some := false
		err := c.cursor.Next(feedBytes, func(change *feed.Change) {
			if c.wants(change) {
				some = true
				yield(&change.Change)
			}
		})
		if some || err != nil {
			return err
		}
		select {
		case <-c.history.More(c.cursor.Zxid()):
		case <-idle.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.stopping:
			return io.EOF
		}
	}
}

func (c *changes) wants(change *feed.Change) bool {
	rest, below := strings.CutPrefix(change.Path, c.path)
	below = below && (rest == "" || rest[0] == '/' || c.path == "/")
	return below && c.schemes.Allowed(change.ACL, jute.PermRead, c.ids)
}
