package edge

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/edge/memory"
	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/expiry"
	"github.com/zkd-project/zkd/jute"
)

// Figure is one of the edge's figures, by the name that mntr and /metrics have for it.
type Figure struct {
	Name, Help string
	Counter    bool // it only grows
	Value      int64
}

// Figures returns the edge's figures.
func (e *Edge) Figures() []Figure {
	return e.figuresOf(e.look())
}

func (e *Edge) figuresOf(now look) []Figure {
	f := &e.figures
	list := []Figure{
		{"zk_edge_clients", "Clients with a session.", false, now.clients},
		{"zk_edge_waiting", "Clients that wait for a server: for a session, or to continue theirs.", false, now.waiting},
		{"zk_edge_plain", "Clients whose connection ends with the one to the server, which offers no exactly-once sessions.", false, now.plain},
		{"zk_edge_carrying_connections", "Connections to servers that carry the sessions of several clients (edge.connections).", false, int64(e.carrying())},
		{"zk_edge_clients_most", "The limit of clients.", false, int64(e.o.MaxClients)},
		{"zk_edge_queued_bytes", "Bytes that wait for clients. Beyond 256 MiB no more clients are taken.", false, f.queued.Load()},
		{"zk_edge_sessions_total", "Sessions that clients have begun, or continued, here.", true, f.sessions.Load()},
		{"zk_edge_requests_total", "Requests of clients.", true, f.requests.Load()},
		{"zk_edge_replies_total", "Replies to clients.", true, f.replies.Load()},
		{"zk_edge_events_total", "Events of watches for clients.", true, f.events.Load()},
		{"zk_edge_resumed_total", "Connections to servers that were lost and replaced, unknown to the client.", true, f.resumed.Load()},
		{"zk_edge_lost_total", "Clients whose connection ended because the one to the servers did.", true, f.lost.Load()},
		{"zk_edge_closed_total", "Sessions that were closed, as their clients had gone without closing them (edge.graceAfterClose).", true, f.closed.Load()},
		{"zk_edge_moved_total", "Clients whose connection ended because their session was resumed elsewhere: at another edge or at a server.", true, f.moved.Load()},
		{"zk_edge_taken_total", "Clients that were taken, with their connections, from the edge that ran before.", true, f.taken.Load()},
		{"zk_edge_handed_over_total", "Clients that were handed over, with their connections, to the edge that runs next.", true, f.handedOver.Load()},
		{"zk_edge_refused_total", "Connections of clients beyond the limit.", true, f.refused.Load()},
		{"zk_edge_denied_total", "Clients that the servers have refused: they don't know the edge, or don't let it speak for the client.", true, f.denied.Load()},
		{"zk_edge_attempts_failed_total", "Attempts to connect to a server that failed.", true, f.failed.Load()},
	}
	if e.memory != nil {
		list = append(list,
			Figure{"zk_edge_cached_subtrees", "Subtrees whose reads are answered from memory (edge.cached), for each identity.", false, int64(now.cached.Subtrees)},
			Figure{"zk_edge_cached_nodes", "Nodes in them.", false, int64(now.cached.Nodes)},
			Figure{"zk_edge_cached_bytes", "Bytes that they take.", false, e.memory.room.Used()},
			Figure{"zk_edge_cached_bytes_most", "The limit of these (edge.cachedBytes).", false, e.memory.room.Most()},
			Figure{"zk_edge_cached_reads_total", "Reads that were answered from memory.", true, f.cachedReads.Load()},
			Figure{"zk_edge_cached_events_total", "Events of watches that were told from memory.", true, f.cachedEvents.Load()})
	}
	if len(e.o.Stale) > 0 {
		away, age := int64(0), int64(-1)
		if now.away {
			away = 1
		}
		if !now.known.Current.IsZero() {
			age = time.Since(now.known.Current).Milliseconds()
		}
		list = append(list,
			Figure{"zk_edge_away", "1 while no server is reached and read-only sessions are shown the stale subtrees (edge.stale).", false, away},
			Figure{"zk_edge_stale_age_ms", "How long ago the stale subtrees were known to be current; -1 if nothing can be shown.", false, age},
			Figure{"zk_edge_read_only", "Read-only sessions.", false, f.readOnly.Load()},
			Figure{"zk_edge_stale_reads_total", "Reads of read-only sessions that were answered.", true, f.staleReads.Load()},
			Figure{"zk_edge_stale_refused_total", "Requests of read-only sessions that were refused: writes, and reads of what is not known.", true, f.staleRefused.Load()})
	}
	if until := e.certificateUntil(); !until.IsZero() {
		list = append(list, Figure{"zk_upstream_certificate_until_ms", "When the edge's certificate expires, in ms since 1970.", false, until.UnixMilli()})
	}
	return list
}

// carrying returns how many connections carry sessions.
func (e *Edge) carrying() int {
	if e.pool == nil {
		return 0
	}
	return e.pool.Len()
}

// promptly is how long a client may wait for its session where all is well.
const promptly = time.Second

// recently is how long a client that was refused is a trouble.
const recently = 10 * time.Minute

// look is what the clients' sessions are like now.
type look struct {
	clients, waiting, plain int64
	outstanding             int64 // requests
	full                    bool  // no more clients are taken
	cached                  memory.Stats
	away                    bool // no server is reached, and known is shown
	known                   memory.Known
	zxid                    client.Zxid
	servers                 map[string]int // sessions by the server that they are connected to
}

func (e *Edge) look() look {
	l := look{servers: map[string]int{}, cached: e.memory.stats()}
	l.away, l.known = e.memory.away()
	e.mu.Lock()
	defer e.mu.Unlock()
	l.full = e.admitted >= e.o.MaxClients
	for c := range e.conns {
		r := c.relay.Load()
		if r == nil {
			if c.begins.Load() && time.Since(c.began) > promptly {
				l.waiting++
			}
			continue
		}
		l.clients++
		l.outstanding += c.sent.Load() - c.replied.Load()
		s := r.Client().Status()
		l.zxid = max(l.zxid, s.LastZxid)
		if s.Server == "" {
			l.waiting++
			continue
		}
		l.servers[s.Server]++
		if s.Features&jute.FeatureExactlyOnce == 0 {
			l.plain++
		}
	}
	return l
}

// upstream describes where the sessions are: "zk1:2181 12, zk2:2181 3".
func (l *look) upstream() string {
	var list []string
	for _, server := range slices.Sorted(maps.Keys(l.servers)) {
		list = append(list, fmt.Sprintf("%s %d", server, l.servers[server]))
	}
	return cmp.Or(strings.Join(list, ", "), "no session")
}

// certificateUntil returns when the edge's certificate expires, or the zero time if there is none.
func (e *Edge) certificateUntil() time.Time {
	if e.o.TLS == nil {
		return time.Time{}
	}
	c, err := e.o.TLS("")
	if err != nil || len(c.Certificates) == 0 || c.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return c.Certificates[0].Leaf.NotAfter
}

// troubles says what is wrong now.
func (e *Edge) troubles(l *look) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	failure := e.figures.failure.get()
	if l.away {
		add("no server is reached; read-only sessions are shown %s as of %s, for %v more", strings.Join(e.o.Stale, ","),
			l.known.Current.UTC().Format(time.RFC3339), time.Until(l.known.Until).Round(time.Second))
	}
	switch {
	case l.waiting > 0 && failure != "":
		add("clients that wait for a server: %d; the last error: %s", l.waiting, failure)
	case l.waiting > 0:
		add("clients that wait for a server: %d", l.waiting)
	case failure != "":
		add("the last attempt to reach a server failed: %s", failure)
	}
	if l.plain > 0 {
		add("clients that lose their connection with the one to a server that offers no exactly-once sessions: %d", l.plain)
	}
	if n := e.figures.denied.Load(); n > 0 && time.Since(time.Unix(0, e.figures.deniedAt.Load())) < recently {
		add("clients that the servers have refused since the start: %d; the last one: %s", n, e.figures.denial.get())
	}
	for _, why := range l.cached.Troubles {
		add("reads go to the servers, and not to the cache: %s", why)
	}
	if l.full {
		add("clients are refused: there are %d, and no more may be", e.o.MaxClients)
	}
	if n := e.figures.queued.Load(); n > overrun {
		add("clients are refused: %d MiB wait for clients that do not read", n>>20)
	}
	if until := e.certificateUntil(); !until.IsZero() {
		if left := time.Until(until); left <= 0 {
			add("the edge's certificate has expired")
		} else if left < expiry.Certificate {
			add("the edge's certificate expires in %d days", left/(24*time.Hour))
		}
	}
	return list
}

// answer returns the edge's own answer to a four-letter word, in the form of a server's. What it does not have is
// about servers.
func (e *Edge) answer(word fourletter.Command) string {
	var b strings.Builder
	now := e.look()
	switch word {
	case fourletter.Ruok:
		return "imok"
	case fourletter.Isro:
		if now.away {
			return "ro"
		}
		return "rw"
	case fourletter.Envi:
		return "Environment:\nzookeeper.version=" + e.o.Version + "\n"
	case fourletter.Mntr:
		fmt.Fprintf(&b, "zk_version\t%s\nzk_server_state\t%s\nzk_uptime\t%d\nzk_clock_ms\t%d\n",
			e.o.Version, Mode, time.Since(e.figures.began).Milliseconds(), time.Now().UnixMilli())
		for _, f := range e.figuresOf(now) {
			fmt.Fprintf(&b, "%s\t%d\n", f.Name, f.Value)
		}
	case fourletter.Srvr:
		e.describe(&b, &now)
	case fourletter.Stat:
		fmt.Fprintf(&b, "Zookeeper version: %s\nClients:\n", e.o.Version)
		e.each(func(c *conn) {
			fmt.Fprintf(&b, " %s[1](queued=0,recved=%d,sent=%d)\n", c.address(), c.sent.Load(), c.got.Load())
		})
		b.WriteString("\n")
		var rest strings.Builder
		e.describe(&rest, &now)
		_, text, _ := strings.Cut(rest.String(), "\n") // the version
		b.WriteString(text)
	case fourletter.Cons:
		e.each(func(c *conn) {
			s := c.relay.Load().Client()
			st := s.Status()
			user := ""
			if c.user != nil {
				user = ",user=" + fourletter.Value(*c.user)
			}
			fmt.Fprintf(&b, " %s[1](queued=0,recved=%d,sent=%d,sid=%s,est=%d,to=%d,lzxid=%s,server=%s%s)\n", c.address(), c.sent.Load(), c.got.Load(),
				fourletter.ID(int64(s.Session().ID())), c.began.UnixMilli(), st.Timeout.Milliseconds(), fourletter.ID(int64(st.LastZxid)), cmp.Or(st.Server, "none"), user)
		})
		b.WriteString("\n")
	case fourletter.TelnetClose:
	default:
		return "zkd edge does not answer " + word.String() + ": ask a server\n"
	}
	return b.String()
}

// Mode is the mode of an edge, among those of servers.
const Mode = "edge"

// describe writes what a server answers to srvr, and what only an edge has. It measures no latency.
func (e *Edge) describe(b *strings.Builder, now *look) {
	f := &e.figures
	fmt.Fprintf(b, "Zookeeper version: %s\nLatency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: %s\nMode: %s\nNode count: 0\n",
		e.o.Version, f.requests.Load(), f.replies.Load()+f.events.Load(), now.clients+1, max(now.outstanding, 0), fourletter.ID(int64(now.zxid)), Mode)
	fmt.Fprintf(b, "Uptime: %v\nUpstream: %s\nResumed: %d\nLost: %d", time.Since(f.began).Round(time.Second), now.upstream(), f.resumed.Load(), f.lost.Load())
	if last := f.lastLost.get(); last != "" {
		fmt.Fprintf(b, ", the last one: %s", last)
	}
	b.WriteString("\n")
	if len(e.o.Cached) > 0 {
		fmt.Fprintf(b, "Cached: %s, %d nodes, %d bytes of %d, %d reads, %d events\n", strings.Join(e.o.Cached, ","), now.cached.Nodes,
			e.memory.room.Used(), e.memory.room.Most(), f.cachedReads.Load(), f.cachedEvents.Load())
	}
	if len(e.o.Stale) > 0 {
		age := "unknown"
		if !now.known.Current.IsZero() {
			age = "current " + time.Since(now.known.Current).Round(100*time.Millisecond).String() + " ago"
		}
		fmt.Fprintf(b, "Stale: %s, %s, %d read-only sessions, %d reads, %d refused\n", strings.Join(e.o.Stale, ","), age,
			f.readOnly.Load(), f.staleReads.Load(), f.staleRefused.Load())
	}
	if troubles := e.troubles(now); len(troubles) > 0 {
		fmt.Fprintf(b, "Trouble: %s\n", strings.Join(troubles, "; "))
	}
}

// address returns the client's address as servers write it; that of a UNIX socket is "unix".
func (c *conn) address() string {
	if a, ok := c.nc.RemoteAddr().(*net.TCPAddr); ok {
		return fourletter.Address(a.AddrPort())
	}
	return "unix"
}

// text is a text that several goroutines set.
type text struct {
	mu sync.Mutex
	s  string
}

func (t *text) set(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s = s
}

func (t *text) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.s
}
