package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/feed"
)

// feedIdle is the time after which a feed without changes says so.
const feedIdle = 15 * time.Second

// changes is a feed over HTTP. It implements admin.Feed.
type changes struct {
	stopping  <-chan struct{}
	visitor   *visitor
	reader    *feed.Reader
	places    *feed.Places
	place     *feed.Place
	displaced chan struct{} // is closed when another feed needs the place
}

// Feed implements admin.Server.
func (f *Server) Feed(ctx context.Context, r admin.FeedRequest) (admin.Feed, int, error) {
	if f.Config.FeedHistory == 0 {
		return nil, http.StatusNotImplemented, errors.New("this server keeps no changes: see zkd.feedHistoryKb")
	}
	v, status, problem := f.welcome(ctx, r.Claim)
	if v == nil {
		return nil, status, errors.New(problem)
	}
	_, after := f.Changes.Span()
	if r.After != nil {
		after = *r.After
	}
	reader, err := f.Changes.Reader(r.Path, after, v.mayRead)
	if err != nil {
		f.Clients.Places().Compacted()
		return nil, http.StatusGone, err
	}
	c := &changes{stopping: f.Stopping, visitor: v, reader: reader, places: f.Clients.Places(), displaced: make(chan struct{})}
	if c.place = f.Clients.Places().Enter(c, clients.Groups(v.creds), func() { close(c.displaced) }); c.place == nil {
		return nil, http.StatusTooManyRequests, fmt.Errorf("there are %d feeds, and zkd.maxFeeds allows no more", f.Clients.Places().Usage().Open)
	}
	return c, 0, nil
}

func (c *changes) Close() { c.places.Leave(c.place) }

// patience returns how long to wait for changes: no longer than the identities last.
func (c *changes) patience() time.Duration {
	if until := c.visitor.creds.Until(); until != 0 {
		return min(feedIdle, time.Until(time.UnixMilli(until)))
	}
	return feedIdle
}

func (c *changes) Next(ctx context.Context, yield func(c *jute.Change, ends bool)) error {
	idle := time.NewTimer(c.patience())
	defer idle.Stop()
	for found := false; ; {
		if !c.visitor.whole() || !c.visitor.admitted() {
			return admin.ErrUnauthorized
		}
		c.visitor.lists.Forget()
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
		case <-c.reader.More(): // also if ctx has ended: the caller may want what there is
			continue
		default:
		}
		select {
		case <-c.reader.More():
		case <-idle.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.displaced:
			return admin.ErrDisplaced
		case <-c.stopping:
			return io.EOF
		}
	}
}
