package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/cmd/zkcli/shell"
	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/internal/treediff"
)

func topCommand() Command {
	return Command{
		Name: "top", Synopsis: "[-n frames] [-i interval] [-d depth] [-l lines] [path]", Short: "Show, live, who is hot: servers, connections and subtrees",
		Long: "Each frame has the servers' requests per second and latency, the connections that send\n" +
			"most, and the subtrees below the path that change most, all since the frame before.\n" +
			"With --by, connections are summed up by address or identity, with bytes and watches.\n" +
			"Servers are asked by the four-letter words srvr, mntr, cons and topc, as far as their\n" +
			"4lw.commands.whitelist allows them; changes come from a recursive watch.",
		Examples: []Example{
			{"top", "every 2 s, until q or Ctrl-C"},
			{"top -d 3 /app", "where below /app the changes are"},
			{"top --by identity --order watches", "which user has most watches"},
			{"top -n 1 -i 10s -o json", "one measurement of 10 s for a program"},
		},
		Args: pathOnly(),
		Setup: func(flags *cobra.Command) Run {
			t := top{interval: 2 * time.Second}
			flags.Flags().IntVarP(&t.frames, "frames", "n", 0, "end after this many frames")
			flags.Flags().VarP((*millis)(&t.interval), "interval", "i", "time between frames")
			flags.Flags().IntVarP(&t.depth, "depth", "d", 2, "sum up changes by this many levels below the path")
			flags.Flags().IntVarP(&t.lines, "lines", "l", 10, "how many connections and subtrees to show")
			flags.Flags().StringVar(&t.by, "by", "", "sum up clients by session, address or identity (zkd's servers)")
			flags.Flags().StringVar(&t.order, "order", "requests", "order these by requests, bytes or watches")
			return func(ctx context.Context, c *Call) error {
				if problem := t.check(); problem != "" {
					return c.Usage("%s", problem)
				}
				t.c, t.root = c, c.pathOr("/")
				return t.run(ctx)
			}
		},
	}
}

// top shows the frames.
type top struct {
	c        *Call
	root     string
	frames   int
	interval time.Duration
	depth    int
	lines    int
	by       string // how clients are summed up; "" for not at all
	order    string

	changes map[string]int // by subtree, since the last frame
	events  int
	missed  bool
	before  []servers.View
	since   time.Time
}

// topFrame is a frame in JSON. Rates are per second.
type topFrame struct {
	Time        string       `json:"time"`
	Seconds     float64      `json:"seconds"`
	Servers     []topServer  `json:"servers"`
	Connections []topConn    `json:"connections"`
	Clients     []topClient  `json:"clients,omitempty"`
	Changes     float64      `json:"changesPerSecond"`
	Subtrees    []topSubtree `json:"subtrees"`
	Missed      bool         `json:"missed,omitempty"` // changes, as the connection was lost
}

type topServer struct {
	servers.View
	Requests float64 `json:"requestsPerSecond"`
	Replies  float64 `json:"repliesPerSecond"`
}

type topConn struct {
	Server   string  `json:"server"`
	Client   string  `json:"client"`
	Session  string  `json:"session,omitempty"`
	Requests float64 `json:"requestsPerSecond"`
	Replies  float64 `json:"repliesPerSecond"`
	Queued   int64   `json:"queued"`
	LastOp   string  `json:"lastOp,omitempty"`
}

// topClient is the sum of the connections of a session, address or identity.
type topClient struct {
	Client   string  `json:"client"`
	Requests float64 `json:"requestsPerSecond"`
	Bytes    float64 `json:"bytesPerSecond"` // in both directions
	Watches  int64   `json:"watches"`
}

type topSubtree struct {
	Path    string  `json:"path"`
	Changes float64 `json:"changesPerSecond"`
}

func (t *top) run(ctx context.Context) (err error) {
	zk, err := t.c.Client(ctx)
	if err != nil {
		return err
	}
	defer t.c.App.quiet()()
	w, err := zk.AddWatch(ctx, t.root, client.WatchRecursive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWatch(ctx, w)) }()
	asker, err := t.c.Options.security.asker()
	if err != nil {
		return err
	}
	addrs, err := t.c.servers(ctx, asker, false, t.interval)
	if err != nil {
		return err
	}
	t.reset(servers.LookAll(ctx, addrs, t.interval, asker.LookClosely))
	shown, stop := shell.EndedByKey(ctx, t.c.App.in, "qQ")
	defer stop()
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	for n := 0; t.frames <= 0 || n < t.frames; n++ {
		if err := t.collect(shown, w, ticker.C); err != nil {
			if shown.Err() != nil && ctx.Err() == nil {
				return nil // the key
			}
			return err
		}
		if err := t.show(servers.LookAll(ctx, addrs, t.interval, asker.LookClosely)); err != nil {
			return err
		}
	}
	return nil
}

func (t *top) reset(views []servers.View) {
	t.changes, t.events, t.missed = make(map[string]int), 0, false
	t.before, t.since = views, time.Now()
}

// collect counts events until the next tick.
func (t *top) collect(ctx context.Context, w *client.Watch, tick <-chan time.Time) error {
	for {
		select {
		case ev, ok := <-w.Events():
			if !ok {
				return w.Err()
			}
			if ev.Type == client.EventRearmed {
				t.missed = true
				continue
			}
			t.events++
			t.changes[prefix(ev.Path, treediff.Depth(t.root)+t.depth)]++
		case <-tick:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// prefix cuts a path after that many names.
func prefix(path string, depth int) string {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if depth--; depth <= 0 {
			return path[:i]
		}
	}
	if depth <= 0 {
		return "/"
	}
	return path
}

func (t *top) show(views []servers.View) error {
	now := time.Now()
	f := t.frame(views, now.Sub(t.since).Seconds())
	f.Time = stamp(now)
	t.reset(views)
	if t.c.Options.Format == FormatJSON {
		return t.c.Emit(Output{Data: f})
	}
	text := f.text(now)
	if width := shell.Width(t.c.App.out.writer(), t.c.App.getenv); width > 0 {
		const homeAndClear = "\x1b[H\x1b[2J"
		text = cutLines(string(console.Escape([]byte(text))), width)
		return written(t.c.App.out.raw().Write([]byte(homeAndClear + text)))
	}
	return t.c.App.write([]byte(text))
}

// cutLines shortens lines to the width of the terminal: a line that wraps would disturb the
// columns.
func cutLines(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(shell.Cut(strings.TrimRight(line, " \n"), width) + "\n")
	}
	return b.String()
}

func (t *top) frame(views []servers.View, seconds float64) topFrame {
	f := topFrame{Seconds: seconds, Changes: float64(t.events) / seconds, Missed: t.missed,
		Servers: []topServer{}, Connections: []topConn{}, Subtrees: []topSubtree{}}
	for i, v := range views {
		s := topServer{View: v}
		if b := t.before[i]; v.Mode != "" && b.Mode != "" {
			s.Requests = rate(v.Received, b.Received, seconds)
			s.Replies = rate(v.Sent, b.Sent, seconds)
		}
		f.Servers = append(f.Servers, s)
		f.Connections = append(f.Connections, busy(v, t.before[i], seconds)...)
	}
	slices.SortFunc(f.Connections, func(a, b topConn) int {
		return cmp.Or(cmp.Compare(b.Requests+b.Replies, a.Requests+a.Replies), cmp.Compare(a.Client, b.Client))
	})
	f.Connections = f.Connections[:min(t.lines, len(f.Connections))]
	if t.by != "" {
		f.Clients = t.clients(views, seconds)
	}
	for _, path := range slices.Sorted(maps.Keys(t.changes)) {
		f.Subtrees = append(f.Subtrees, topSubtree{path, float64(t.changes[path]) / seconds})
	}
	slices.SortStableFunc(f.Subtrees, func(a, b topSubtree) int { return cmp.Compare(b.Changes, a.Changes) })
	f.Subtrees = f.Subtrees[:min(t.lines, len(f.Subtrees))]
	return f
}

// check returns what is wrong with the flags, or "".
func (t *top) check() string {
	if !slices.Contains([]string{"", "session", "address", "identity"}, t.by) {
		return "--by is session, address or identity"
	}
	if !slices.Contains([]string{"requests", "bytes", "watches"}, t.order) {
		return "--order is requests, bytes or watches"
	}
	return ""
}

// clients sums up what the servers' clients did since the frame before.
func (t *top) clients(views []servers.View, seconds float64) []topClient {
	sums := make(map[string]*topClient)
	for i, v := range views {
		if t.before[i].Uses == nil {
			continue
		}
		sum := func(u servers.Use) *topClient {
			name := map[string]string{"session": u.Session, "address": u.Address, "identity": u.Identity}[t.by]
			if sums[name] == nil {
				sums[name] = &topClient{Client: name}
			}
			return sums[name]
		}
		was := make(map[servers.Use]servers.Use, len(t.before[i].Uses))
		for _, u := range t.before[i].Uses {
			was[useKey(u)] = u
		}
		for _, u := range v.Uses {
			b := was[useKey(u)]
			delete(was, useKey(u))
			if t.by == "session" && u.Port == 0 {
				continue // of connections that have ended
			}
			s := sum(u)
			s.Requests += rate(u.Requests, b.Requests, seconds)
			s.Bytes += rate(u.Bytes, b.Bytes, seconds)
			s.Watches += u.Watches
		}
		for _, u := range was { // ended meanwhile: what it did before now counts for those that have ended
			if t.by != "session" {
				s := sum(u)
				s.Requests = max(0, s.Requests-float64(u.Requests)/seconds)
				s.Bytes = max(0, s.Bytes-float64(u.Bytes)/seconds)
			}
		}
	}
	list := make([]topClient, 0, len(sums))
	for _, c := range sums {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b topClient) int {
		return cmp.Or(cmp.Compare(b.amount(t.order), a.amount(t.order)), cmp.Compare(a.Client, b.Client))
	})
	return list[:min(t.lines, len(list))]
}

func (c *topClient) amount(order string) float64 {
	switch order {
	case "bytes":
		return c.Bytes
	case "watches":
		return float64(c.Watches)
	}
	return c.Requests
}

// useKey is what identifies a client from one look to the next.
func useKey(u servers.Use) servers.Use {
	if u.Port != 0 {
		return servers.Use{Address: u.Address, Port: u.Port}
	}
	return servers.Use{Address: u.Address, Identity: u.Identity}
}

// busy returns what the connections of a server did since an earlier look. A new connection
// counts from its beginning.
func busy(now, before servers.View, seconds float64) []topConn {
	was := make(map[string]servers.Conn, len(before.Conns))
	for _, c := range before.Conns {
		was[c.Client+c.Session] = c
	}
	var list []topConn
	for _, c := range now.Conns {
		if c.Session == "" {
			continue // the connection of this request
		}
		b := was[c.Client+c.Session]
		list = append(list, topConn{
			Server: now.Server, Client: c.Client, Session: c.Session, Queued: c.Queued, LastOp: c.LastOp,
			Requests: rate(c.Received, b.Received, seconds), Replies: rate(c.Sent, b.Sent, seconds),
		})
	}
	return list
}

// rate is a counter's growth. It is 0 if the counter was reset.
func rate(now, before int64, seconds float64) float64 {
	return float64(max(0, now-before)) / seconds
}

func (f *topFrame) text(now time.Time) string {
	columns := []string{"LATENCY", "CONNS", "OUTSTANDING", "WATCHES"}
	rows := [][]string{append([]string{"SERVER", "MODE", "REQUESTS/S", "REPLIES/S"}, columns...)}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %.1f changes/s\n\n", now.Format("15:04:05"), f.Changes)
	for _, s := range f.Servers {
		if s.Mode == "" {
			rows = append(rows, []string{s.Server, s.Problem})
			continue
		}
		row := []string{s.Server, s.Mode, fmt.Sprintf("%.1f", s.Requests), fmt.Sprintf("%.1f", s.Replies)}
		rows = append(rows, append(row, cells(&s.View, columns)...))
	}
	b.Write(table(rows, false))
	for _, s := range f.Servers {
		if s.Mode != "" && s.Problem != "" {
			b.WriteString(s.Server + ": " + s.Problem + "\n")
		}
	}
	rows = [][]string{{"CLIENT", "SESSION", "SERVER", "REQUESTS/S", "REPLIES/S", "QUEUED", "LAST"}}
	for _, c := range f.Connections {
		rows = append(rows, []string{c.Client, c.Session, c.Server, fmt.Sprintf("%.1f", c.Requests), fmt.Sprintf("%.1f", c.Replies), fmt.Sprint(c.Queued), c.LastOp})
	}
	b.WriteByte('\n')
	b.Write(table(rows, false))
	if f.Clients != nil {
		rows = [][]string{{"CLIENT", "REQUESTS/S", "BYTES/S", "WATCHES"}}
		for _, c := range f.Clients {
			rows = append(rows, []string{cmp.Or(c.Client, "(none)"), fmt.Sprintf("%.1f", c.Requests), fmt.Sprintf("%.0f", c.Bytes), fmt.Sprint(c.Watches)})
		}
		b.WriteByte('\n')
		b.Write(table(rows, false))
	}
	rows = [][]string{{"CHANGES/S", "SUBTREE"}}
	for _, s := range f.Subtrees {
		rows = append(rows, []string{fmt.Sprintf("%.1f", s.Changes), s.Path})
	}
	b.WriteByte('\n')
	b.Write(table(rows, false))
	if f.Missed {
		b.WriteString("connected again: changes may have been missed\n")
	}
	return b.String() + "\n"
}
