package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	places  *feed.Places
	cursor  *feed.Cursor
	schemes *auth.Schemes
	ids     []jute.ID
	path    string
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
	oldest, last := f.history.Span()
	switch {
	case r.After == nil:
		r.After = &last
	case *r.After < oldest:
		f.places.Compacted()
		return nil, http.StatusGone, (&jute.CompactedError{After: *r.After, Oldest: oldest}).Error()
	}
	if !f.places.Enter() {
		return nil, http.StatusTooManyRequests, fmt.Sprintf("There are %d feeds, and zkd.maxFeeds allows no more", f.places.Usage().Open)
	}
	return &changes{f.lifecycle, f.history, f.places, f.history.After(*r.After), f.schemes, creds.IDs(), r.Path}, 0, ""
}

// Close implements admin.Feed.
func (c *changes) Close() { c.places.Leave() }

// Next implements admin.Feed.
func (c *changes) Next(ctx context.Context, yield func(*jute.Change)) error {
	idle := time.NewTimer(feedIdle)
	defer idle.Stop()
	var last jute.Zxid // of what was yielded
	for {
		read, current := 0, jute.Zxid(0)
		err := c.cursor.Next(func(r feed.Record) bool {
			zxid := r.Zxid()
			if zxid != current && read >= feedBytes {
				return false
			}
			current = zxid
			read += r.Len()
			if !feed.Below(c.path, r.Path(), true) {
				return true
			}
			sight := r.Sight(c.mayRead)
			if sight == feed.Nothing {
				return true
			}
			last = zxid
			change := r.Change()
			if sight == feed.Loss {
				change.Stat = jute.Stat{}
			}
			yield(&change)
			return true
		})
		if err != nil {
			c.places.Compacted()
			return err
		}
		if last != 0 && last <= c.cursor.Zxid() { // not within a transaction
			return nil
		}
		select {
		case <-c.history.More(c.cursor.Zxid()):
		case <-idle.C:
			if last == 0 {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.stopping:
			return io.EOF
		}
	}
}

func (c *changes) mayRead(acl []jute.ACL) bool { return c.schemes.Allowed(acl, jute.PermRead, c.ids) }
