package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/zkd-project/zkd/jute"
)

// linesType is the media type of records in JSON, one in a line.
const linesType = "application/jsonl"

// getSubtree sends the nodes of a subtree as they were at one zxid, a line for each.
func (c *call) getSubtree() error {
	l, leave, err := c.links.use(c.r.Context(), c.caller, c.token) // a view belongs to its connection
	if err != nil {
		return err
	}
	defer leave()
	q := jute.SubtreePageRequest{Path: c.path, Show: max(jute.ShowStats, showOf(c.arg("show")))}
	r, err := c.read(jute.OpSubtreePage, &q)
	if err != nil {
		return err
	}
	var page jute.SubtreePageResponse
	if err := r.decode(&page); err != nil {
		return err
	}
	c.zxid(page.Zxid)
	c.w.Header().Set("Content-Type", linesType)
	c.begun = true
	for {
		if err := c.sendNodes(page.Nodes, q.Show); err != nil || page.View == 0 {
			c.endView(l, page.View)
			return err
		}
		q.View = page.View
		replies, err := l.call(c.r.Context(), request{jute.OpSubtreePage, &q})
		if err != nil {
			return err
		}
		if replies[0].Err != 0 {
			return replies[0].Err
		}
		page = jute.SubtreePageResponse{}
		if err := replies[0].decode(&page); err != nil {
			return err
		}
	}
}

// sendNodes sends the lines of some nodes.
func (c *call) sendNodes(nodes []jute.SubtreeNode, shown int32) error {
	lines := json.NewEncoder(c.w)
	for i := range nodes {
		n := &nodes[i]
		out := childOf(&n.PageChild, shown)
		if shown == jute.ShowACLs && n.Err != jute.ErrNoAuth {
			out.ACL = shownACL(n.ACL)
		}
		if err := lines.Encode(&out); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.w).Flush()
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
