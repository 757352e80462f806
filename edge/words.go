package edge

import (
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/fourletter"
)

// Figure is one of the edge's figures, by the name that mntr and /metrics have for it.
type Figure struct {
	Name, Help string
	Counter    bool // it only grows
	Value      int64
}

// Figures returns the edge's figures.
func (e *Edge) Figures() []Figure {
	clients := int64(0)
	e.each(func(*conn) { clients++ })
	f := &e.figures
	return []Figure{
		{"zk_edge_clients", "Clients with a session.", false, clients},
		{"zk_edge_sessions_total", "Sessions that clients have begun, or continued, here.", true, f.sessions.Load()},
		{"zk_edge_requests_total", "Requests of clients.", true, f.requests.Load()},
		{"zk_edge_replies_total", "Replies to clients.", true, f.replies.Load()},
		{"zk_edge_events_total", "Events of watches for clients.", true, f.events.Load()},
		{"zk_edge_resumed_total", "Connections to servers that were lost and replaced, unknown to the client.", true, f.resumed.Load()},
		{"zk_edge_lost_total", "Clients whose connection ended because the one to the servers did.", true, f.lost.Load()},
		{"zk_edge_refused_total", "Connections of clients beyond the limit.", true, f.refused.Load()},
		{"zk_edge_attempts_failed_total", "Attempts to connect to a server that failed.", true, f.failed.Load()},
	}
}

// answer returns the edge's own answer to a four-letter word. What it does not have is about servers.
func (e *Edge) answer(word fourletter.Command) string {
	var b strings.Builder
	switch word {
	case fourletter.Ruok:
		return "imok"
	case fourletter.Isro:
		return "rw"
	case fourletter.Mntr:
		for _, f := range e.Figures() {
			fmt.Fprintf(&b, "%s\t%d\n", f.Name, f.Value)
		}
	case fourletter.Srvr, fourletter.Stat:
		fmt.Fprintf(&b, "zkd edge of %s\nUptime: %v\n", e.o.Upstream, time.Since(e.figures.began).Round(time.Second))
		for _, f := range e.Figures() {
			fmt.Fprintf(&b, "%s: %d\n", strings.TrimPrefix(f.Name, "zk_edge_"), f.Value)
		}
		if word == fourletter.Srvr {
			break
		}
		fallthrough
	case fourletter.Cons:
		e.each(func(c *conn) {
			s := c.relay.Load().Client()
			fmt.Fprintf(&b, " %v(session=0x%x,server=%s,sent=%d,received=%d,age=%v)\n",
				c.nc.RemoteAddr(), uint64(s.Session().ID()), s.Status().Server, c.got.Load(), c.sent.Load(), c.age())
		})
	case fourletter.TelnetClose:
	default:
		return "zkd edge does not answer " + word.String() + ": ask a server\n"
	}
	return b.String()
}
