package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// moment are the parameters that say which moment of the past is meant.
var moment = []param{
	{in: "query", name: "zxid", refuses: []int{410, 413}, pattern: byZxid.pattern, doc: "The moment after this zxid, in hex."},
	{in: "query", name: "at", pattern: `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$`, doc: "Instead of zxid, a time such as 2026-11-22T14:05:00Z, by the clock of the leader."},
}

// looksBack reports whether the request is about a moment of the past.
func (c *call) looksBack() bool { return c.arg("zxid") != "" || c.arg("at") != "" }

// former returns a former state of so many levels of the subtree below the node, 0 for all, for the rest of the request until it is closed.
func (c *call) former(ctx context.Context, levels int) (*Former, error) {
	at := Moment{Zxid: jute.Zxid(c.hex("zxid"))}
	if text := c.arg("at"); text != "" {
		var err error
		if at.Time, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, refuse(http.StatusBadRequest, "%v", err)
		}
	}
	switch {
	case (at.Zxid != 0) == !at.Time.IsZero():
		return nil, refuse(http.StatusBadRequest, "say which moment, by zxid or by at")
	case c.path == "/zookeeper" || treediff.Below(c.path, "/zookeeper"):
		return nil, refuse(http.StatusBadRequest, "/zookeeper belongs to the servers")
	}
	past, err := c.past()
	if err != nil {
		return nil, err
	}
	return past.Former(ctx, c.caller, c.path, at, levels)
}

// backThen has each called for the nodes of a former state that the caller may see, the node of the request first, until it is done or fails. Their
// paths begin there.
func (c *call) backThen(levels int, each func(f *Former, n *treediff.Node) (done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(c.r.Context(), pastLasts, refuse(http.StatusServiceUnavailable, "it takes longer than %v", pastLasts))
	defer cancel()
	f, err := c.former(ctx, levels)
	if err != nil {
		return err
	}
	defer f.Close()
	found := false
	for n, err := range f.Visible {
		if err == nil && !found && n.Hidden {
			err = jute.ErrNoAuth
		}
		found = true
		done := false
		if err == nil {
			done, err = each(f, &n)
		}
		if done || err != nil {
			return err
		}
	}
	if !found {
		p := problemOf(jute.ErrNoNode, c.path)
		p.Detail = "there was no " + c.path + " at zxid " + f.Zxid.String()
		return p
	}
	return nil
}

// formerNode returns the node as it was.
func (c *call) formerNode() (out Node, data []byte, err error) {
	err = c.backThen(1, func(f *Former, n *treediff.Node) (done bool, err error) {
		c.zxid(f.Zxid)
		c.setStat(&n.Stat)
		data = n.Data
		out = Node{Path: c.path, Zxid: f.Zxid.String(), Stat: show.StatOf(&n.Stat), Data: &data, Time: timeText(f.Time), ACL: shownACL(f.Shown(n.ACL))}
		return true, nil
	})
	return out, data, err
}

// formerChildren lists children as they were.
func (c *call) formerChildren() (*Children, error) {
	const most, mostBytes = 4096, 1 << 20
	after, limit, shown, bytes := c.arg("after"), int(c.number("limit")), showOf(c.arg("show")), 0
	if limit == 0 {
		limit = most
	}
	var out *Children
	err := c.backThen(2, func(f *Former, n *treediff.Node) (done bool, err error) {
		if out == nil {
			c.zxid(f.Zxid)
			out = &Children{Path: c.path, Zxid: f.Zxid.String(), Stat: show.StatOf(&n.Stat), Time: timeText(f.Time), Children: []Child{}}
			return false, nil
		}
		name := n.Path[1:]
		if strings.Contains(name, "/") || name <= after {
			return false, nil
		}
		if bytes += len(name) + len(n.Data); len(out.Children) == limit || shown >= jute.ShowData && bytes > mostBytes && len(out.Children) > 0 {
			out.More = true
			return true, nil
		}
		n.Path = name
		out.Children = append(out.Children, formerChild(f, n, shown))
		return false, nil
	})
	return out, err
}

// formerSubtree sends the nodes of a subtree as they were, a line for each.
func (c *call) formerSubtree(shown int32) error {
	lines, out := json.NewEncoder(c.w), http.NewResponseController(c.w)
	defer out.SetWriteDeadline(time.Time{}) // for the next answer on the connection
	return c.backThen(0, func(f *Former, n *treediff.Node) (done bool, err error) {
		if !c.begun {
			out.SetWriteDeadline(time.Now().Add(pastLasts)) // others wait for their turn; not supported by a recorder of tests
			c.zxid(f.Zxid)
			c.w.Header().Set("Content-Type", linesType)
			c.begun = true
		}
		n.Path = strings.TrimSuffix(n.Path, "/")
		return false, lines.Encode(formerChild(f, n, shown))
	})
}

// formerChild returns how a former node of a list is shown. Its path is its name.
func formerChild(f *Former, n *treediff.Node, shown int32) Child {
	p := jute.PageChild{Name: n.Path, Stat: n.Stat, Data: n.Data}
	if n.Hidden {
		p.Err = jute.ErrNoAuth
	}
	out := childOf(&p, shown)
	if shown == jute.ShowNames {
		out.Stat = nil
	}
	if shown == jute.ShowACLs && !n.Hidden {
		out.ACL = shownACL(f.Shown(n.ACL))
	}
	return out
}

// timeText is a time in an answer, "" for none.
func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
