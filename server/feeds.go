package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/feed"
)

// feedIdle is the time after which a feed without changes says so.
const feedIdle = 15 * time.Second

// changes is a feed over HTTP.
type changes struct {
	*lifecycle
	reader *feed.Reader
	places *feed.Places
}

// feeds returns the history of changes for feeds, or nil if there is none.
func (s *Server) feeds() *feed.History {
	if s.cfg.FeedHistory == 0 {
		return nil
	}
	return s.changes
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
	_, after := f.history.Span()
	if r.After != nil {
		after = *r.After
	}
	ids := creds.IDs()
	reader, err := f.history.Reader(r.Path, after, func(acl []jute.ACL) bool { return f.schemes.Allowed(acl, jute.PermRead, ids) })
	if err != nil {
		f.places.Compacted()
		return nil, http.StatusGone, err.Error()
	}
	if !f.places.Enter() {
		return nil, http.StatusTooManyRequests, fmt.Sprintf("There are %d feeds, and zkd.maxFeeds allows no more", f.places.Usage().Open)
	}
	return &changes{f.lifecycle, reader, f.places}, 0, ""
}

// Close implements admin.Feed.
func (c *changes) Close() { c.places.Leave() }

// Next implements admin.Feed.
func (c *changes) Next(ctx context.Context, yield func(c *jute.Change, ends bool)) error {
	idle := time.NewTimer(feedIdle)
	defer idle.Stop()
	for found := false; ; {
		err := c.reader.Next(func(c *jute.Change, ends bool) {
			found = true
			yield(c, ends)
		})
		switch {
		case err != nil:
			c.places.Compacted()
			return err
		case found:
			return nil
		}
		select {
		case <-c.reader.More():
		case <-idle.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.stopping:
			return io.EOF
		}
	}
}
