package api

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// linesType is the media type of records in JSON, one in a line.
const linesType = "application/jsonl"

// walk reads a subtree as it was at one zxid, and passes its nodes on, page by page. It ends when send is done or fails. When it
// has begun to send, the answer can't be a problem any more.
func (c *call) walk(shown int32, send func(nodes []jute.SubtreeNode) (done bool, err error)) error {
	return c.pages(c.r.Context(), shown, func(page *jute.SubtreePageResponse) (done bool, err error) {
		if !c.begun {
			c.zxid(page.Zxid)
			c.w.Header().Set("Content-Type", linesType)
			c.begun = true
		}
		if done, err = send(page.Nodes); err == nil {
			err = http.NewResponseController(c.w).Flush()
		}
		return done, err
	})
}

// pages calls each for the pages of a subtree as it was at one zxid, until it is done or fails.
func (c *call) pages(ctx context.Context, shown int32, each func(*jute.SubtreePageResponse) (done bool, err error)) error {
	l, leave, err := c.links.use(ctx, c.caller, c.token) // a view belongs to its connection
	if err != nil {
		return err
	}
	defer leave()
	q := jute.SubtreePageRequest{Path: c.path, Show: shown}
	var page jute.SubtreePageResponse
	if _, err := c.read(jute.OpSubtreePage, &q, &page); err != nil {
		return err
	}
	for {
		done, err := each(&page)
		if done || err != nil || page.View == 0 {
			c.endView(l, page.View)
			return err
		}
		q.View = page.View
		replies, err := l.call(ctx, request{jute.OpSubtreePage, &q})
		if err != nil {
			return err
		}
		page = jute.SubtreePageResponse{}
		if _, err := result(&replies[0], nil, &page); err != nil {
			return err
		}
	}
}

// endView ends a view whose caller takes no more of it.
func (c *call) endView(l *link, view int64) {
	if view == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), goodbye)
	defer cancel()
	_, _ = l.call(ctx, request{jute.OpSubtreePage, &jute.SubtreePageRequest{Path: c.path, View: view, Show: jute.ShowNames}}) // or it ends by itself
}

// getSubtree sends the nodes of a subtree, a line for each.
func (c *call) getSubtree() error {
	shown := max(jute.ShowStats, showOf(c.arg("show")))
	if c.looksBack() {
		return c.formerSubtree(shown)
	}
	lines := json.NewEncoder(c.w)
	return c.walk(shown, func(nodes []jute.SubtreeNode) (done bool, err error) {
		for i := range nodes {
			n := &nodes[i]
			out := childOf(&n.PageChild, shown)
			if shown == jute.ShowACLs && n.Err != jute.ErrNoAuth {
				out.ACL = shownACL(n.ACL)
			}
			if err := lines.Encode(&out); err != nil {
				return true, err
			}
		}
		return false, nil
	})
}

// search sends the nodes of a subtree that match, and how far it is after each page.
func (c *call) search() error {
	name, err := c.expression("name")
	if err != nil {
		return err
	}
	data, err := c.expression("data")
	if err != nil {
		return err
	}
	shown, left, searched := jute.ShowStats, int(c.number("limit")), 0
	if data != nil {
		shown = jute.ShowData
	}
	if left == 0 {
		left = mostRows
	}
	lines := json.NewEncoder(c.w)
	return c.walk(shown, func(nodes []jute.SubtreeNode) (done bool, err error) {
		for i := range nodes {
			n := &nodes[i]
			searched++
			if n.Err == jute.ErrNoAuth || name != nil && !name.MatchString(n.Name[strings.LastIndexByte(n.Name, '/')+1:]) || data != nil && !data.Match(n.Data) {
				continue
			}
			if err := lines.Encode(&Found{Name: n.Name, Stat: show.StatOf(&n.Stat)}); err != nil {
				return true, err
			}
			if left--; left == 0 {
				done = true
				break
			}
		}
		return done, lines.Encode(&Found{Searched: searched})
	})
}

// expression returns the regular expression of a parameter, nil if there is none.
func (c *call) expression(parameter string) (*regexp.Regexp, error) {
	text := c.arg(parameter)
	if text == "" {
		return nil, nil
	}
	e, err := regexp.Compile(text)
	if err != nil || len(text) > mostExpression {
		return nil, refuse(http.StatusBadRequest, "%s is no regular expression of up to %d bytes: %v", parameter, mostExpression, err)
	}
	return e, nil
}

// mostExpression bounds the work for each byte that is searched.
const mostExpression = 256
