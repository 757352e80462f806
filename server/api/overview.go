package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// Server is a server as operators see it. What it shows is what the AdminServer's commands show, to everybody as there.
type Server interface {
	// Serving reports whether it serves clients.
	Serving() bool
	// View looks at it.
	View() *show.View
	// Health returns the checks of livez and readyz.
	Health() []show.Check
	// Settings returns its configuration.
	Settings() []Setting
	// Try returns what it would say to a request to set or unset a key.
	Try(jute.ConfigureRequest) (string, error)
	// Past returns what looks at its past; nil if it shows none.
	Past() Past
	// Password returns the password of a session. A client that has it owns the session.
	Password(id jute.SessionID) [jute.PasswordLen]byte
	// Ended notes in the audit log that a caller has ended a session, or with which code it could not.
	Ended(ctx context.Context, c *Caller, id jute.SessionID, code jute.Code) error
}

// Overview is a server at a glance.
type Overview struct {
	Version       string  `json:"version"`
	Mode          string  `json:"mode" doc:"standalone, leader, follower, observer or read-only"`
	Role          string  `json:"role" doc:"standalone, leader, follower, observer, starting, looking or standby"`
	Serving       bool    `json:"serving"`
	Zxid          string  `json:"zxid" doc:"of the last transaction that it has applied"`
	UptimeMs      int64   `json:"uptimeMs" doc:"since it began to serve"`
	Nodes         int64   `json:"nodes"`
	Ephemerals    int64   `json:"ephemerals"`
	Bytes         int64   `json:"bytes" doc:"of all paths and data"`
	Watches       int64   `json:"watches"`
	Sessions      int64   `json:"sessions"`
	LocalSessions int64   `json:"localSessions"`
	Connections   int64   `json:"connections"`
	Waiting       int64   `json:"waiting" doc:"requests that wait for the leader"`
	MinLatencyMs  int64   `json:"minLatencyMs"`
	AvgLatencyMs  float64 `json:"avgLatencyMs"`
	MaxLatencyMs  int64   `json:"maxLatencyMs"`
	MemoryPercent int64   `json:"memoryPercent" doc:"how full the memory is; at 100 nothing may grow"`
	Past          Reach   `json:"past" doc:"how far back it can look, without the archive"`
	Checks        []Check `json:"checks"`

	Standby *Standby `json:"standby,omitempty" doc:"of a standby"`
}

// Standby is how a standby follows its ensemble.
type Standby struct {
	Of         string `json:"of" doc:"the servers that it may follow, with commas"`
	From       string `json:"from,omitempty" doc:"the server that it follows"`
	SinceMs    int64  `json:"sinceMs" doc:"for how long it has followed that one, or none"`
	Fetches    bool   `json:"fetches" doc:"it gets a whole state, as no log reaches back to its copy"`
	Fetched    int64  `json:"fetched" doc:"bytes of that state that are here"`
	FetchSize  int64  `json:"fetchSize" doc:"bytes that it has; 0 if that is not known"`
	SilentMs   int64  `json:"silentMs" doc:"for how long nothing was heard of the server that it follows; 0 unless that is too long"`
	Problem    string `json:"problem,omitempty" doc:"why it follows none"`
	Refused    bool   `json:"refused" doc:"the servers refuse it, which somebody has to mend"`
	Zxid       string `json:"zxid" doc:"up to which it has everything"`
	LagMs      int64  `json:"lagMs" doc:"since it last had all that the ensemble had; -1 if it never had"`
	LagEntries int64  `json:"lagEntries" doc:"of the log, that it did not have a moment ago; -1 if that is not known"`
	LagBytes   int64  `json:"lagBytes" doc:"of the log, that it did not have a moment ago; -1 if that is not known"`
	Retired    bool   `json:"retired" doc:"the ensemble is retired, and the copy has everything"`
}

// standbyOf returns how a server follows another ensemble, nil if it is no standby.
func standbyOf(v *show.View) *Standby {
	s := &v.Standby
	if s.Of == "" {
		return nil
	}
	out := &Standby{s.Of, s.From, s.Since.Milliseconds(), s.Fetches, s.Fetched, s.FetchSize, s.Silent.Milliseconds(), s.Problem, s.Refused, jute.Zxid(v.Zxid).String(), s.Lag.Milliseconds(), s.LagEntries, s.LagBytes, s.Retired}
	if s.Lag < 0 {
		out.LagMs = -1
	}
	return out
}

// Reach is how far back the past goes of a server.
type Reach struct {
	Zxid     string `json:"zxid" doc:"0x0 for the beginning"`
	AgeMs    int64  `json:"ageMs" doc:"since that moment; 0 if no past is known"`
	Bytes    int64  `json:"bytes" doc:"of the snapshots and the log that have it"`
	WantedMs int64  `json:"wantedMs" doc:"zkd.historyHours"`
	Cut      bool   `json:"cut" doc:"zkd.historyKb has no room for so much"`
}

// Check is a check of a server's health.
type Check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Members are the servers of an ensemble; none of a server alone.
type Members struct {
	Self    int64    `json:"self" doc:"the id of this server, 0 without an ensemble"`
	Leader  int64    `json:"leader" doc:"the id of the leader, -1 if none is known"`
	Members []Member `json:"members"`
}

// Member is a server of an ensemble.
type Member struct {
	ID        int64     `json:"id"`
	Voter     bool      `json:"voter"`
	Quorum    []string  `json:"quorum" doc:"its addresses for other servers"`
	Client    string    `json:"client,omitempty" doc:"its address for clients, if it is known"`
	Following *Follower `json:"following,omitempty" doc:"what a leader knows of it, if it follows"`
}

// Follower is what a leader knows of a server that follows it.
type Follower struct {
	Synced  bool   `json:"synced" doc:"it serves clients"`
	Counted bool   `json:"counted" doc:"its acknowledgements count"`
	Zxid    string `json:"zxid" doc:"what is durable there"`
	HeardMs int64  `json:"heardMs" doc:"since it was last heard"`
}

// SessionList are sessions of an ensemble, and the local ones of a server.
type SessionList struct {
	Sessions []SessionRow `json:"sessions" doc:"by their ids"`
	More     bool         `json:"more" doc:"there are sessions after these: ask for those after the last id"`
}

// SessionRow is a session as operators see it.
type SessionRow struct {
	ID         string     `json:"id"`
	Local      bool       `json:"local" doc:"it is local to this server"`
	TimeoutMs  int64      `json:"timeoutMs,omitempty" doc:"as far as this server knows it"`
	Expires    *time.Time `json:"expires,omitempty" doc:"unless its client is heard of; a leader and a server alone know that"`
	Address    string     `json:"address,omitempty" doc:"of its client, if that is connected to this server"`
	Identity   string     `json:"identity,omitempty"`
	Ephemerals int64      `json:"ephemerals"`
}

// ConnectionList are connections of a server.
type ConnectionList struct {
	Connections []ConnectionRow `json:"connections" doc:"those with most requests first"`
	More        bool            `json:"more" doc:"there are more than the limit"`
}

// ConnectionRow is a connection.
type ConnectionRow struct {
	Address      string    `json:"address"`
	Session      string    `json:"session"`
	Identity     string    `json:"identity,omitempty"`
	Secure       bool      `json:"secure" doc:"it has TLS"`
	Established  time.Time `json:"established"`
	Requests     int64     `json:"requests"`
	Replies      int64     `json:"replies"`
	BytesIn      int64     `json:"bytesIn"`
	BytesOut     int64     `json:"bytesOut"`
	Watches      int64     `json:"watches"`
	Queued       int64     `json:"queued" doc:"requests without an answer"`
	LastOp       string    `json:"lastOp"`
	AvgLatencyMs int64     `json:"avgLatencyMs"`
	MaxLatencyMs int64     `json:"maxLatencyMs"`
}

// WatchList are the watches of a server by their paths.
type WatchList struct {
	Watches []WatchRow `json:"watches"`
	More    bool       `json:"more" doc:"there are paths after these: ask for those after the last one"`
}

// WatchRow is a path with the sessions that watch it.
type WatchRow struct {
	Path     string   `json:"path"`
	Sessions []string `json:"sessions"`
}

// QuotaList are the quotas by namespace, the first name of a path.
type QuotaList struct {
	Quotas []Quota `json:"quotas"`
}

// Quota is what the quotas of a namespace come to.
type Quota struct {
	Namespace  string `json:"namespace"`
	Nodes      int64  `json:"nodes"`
	NodesLimit int64  `json:"nodesLimit" doc:"-1 for none"`
	Bytes      int64  `json:"bytes"`
	BytesLimit int64  `json:"bytesLimit" doc:"-1 for none"`
}

// LimitList are the rules that limit clients.
type LimitList struct {
	Limits []Limit    `json:"limits"`
	Uses   []LimitUse `json:"uses" doc:"who uses most of a limit on this server, the greatest part of it first; at most 100"`
}

// LimitUse is what a subject uses of a limit.
type LimitUse struct {
	Rule     string `json:"rule"`
	Resource string `json:"resource"`
	Subject  string `json:"subject" doc:"an identity, an address or a path"`
	Used     int64  `json:"used" doc:"of a rate in the last second"`
	Soft     int64  `json:"soft" doc:"0 for none"`
	Hard     int64  `json:"hard" doc:"0 for none"`
}

// Limit is how often a rule was exceeded.
type Limit struct {
	Rule     string `json:"rule"`
	Resource string `json:"resource"`
	Subjects int64  `json:"subjects" doc:"to whom it applies at present"`
	Over     int64  `json:"over" doc:"soft limits exceeded"`
	Slowed   int64  `json:"slowed"`
	Refused  int64  `json:"refused"`
}

// server returns the server that the API is part of.
func (c *call) server() (Server, error) {
	if c.Server == nil {
		return nil, refuse(http.StatusNotImplemented, "only a server of zkd has this, in its own console and API")
	}
	return c.Server(), nil
}

// view returns the server's view, if it serves.
func (c *call) view() (*show.View, error) {
	s, err := c.server()
	if err != nil {
		return nil, err
	}
	if !s.Serving() {
		return nil, refuse(http.StatusServiceUnavailable, "this server does not serve at present")
	}
	return s.View(), nil
}

func (c *call) overview() error {
	s, err := c.server()
	if err != nil {
		return err
	}
	v := s.View()
	out := Overview{
		Version: v.Version, Mode: v.Mode(), Role: v.RoleName(), Serving: s.Serving(), Zxid: jute.Zxid(v.Zxid).String(), UptimeMs: v.Uptime.Milliseconds(),
		Nodes: int64(v.Tree.Nodes), Ephemerals: int64(v.Tree.Ephemerals), Bytes: v.Tree.DataSize, Watches: int64(v.Watches), Sessions: int64(v.Sessions),
		LocalSessions: int64(v.LocalSessions), Connections: int64(v.Connections), Waiting: v.WaitingRequests, MinLatencyMs: v.Latency.Min,
		AvgLatencyMs: v.Latency.Avg, MaxLatencyMs: v.Latency.Max, MemoryPercent: v.MemoryPercent, Checks: []Check{},
		Past:    Reach{jute.Zxid(v.PastZxid).String(), v.PastAge.Milliseconds(), v.PastBytes, v.PastWanted.Milliseconds(), v.PastCut},
		Standby: standbyOf(v),
	}
	if out.Standby != nil {
		out.Role = "standby"
	}
	for _, k := range s.Health() {
		out.Checks = append(out.Checks, Check{k.Name, k.Problem == "", k.Problem, k.Note})
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) members() error {
	s, err := c.server()
	if err != nil {
		return err
	}
	v := s.View()
	if v.Copy {
		return refuse(http.StatusNotImplemented, "a standby is no member: ask a server of the ensemble that it follows")
	}
	out := Members{Leader: -1, Members: []Member{}}
	if p := v.Peer(); p != nil {
		out.Self, out.Leader = p.ID, p.Leader
		for _, m := range p.Members {
			row := Member{ID: m.ID, Voter: !m.Observer, Quorum: m.Quorum, Client: m.Client}
			for _, f := range v.Peers {
				if p.Leads && int64(f.ID.Number()) == m.ID {
					row.Following = &Follower{f.Synced, f.Counted, f.Match.String(), int64(f.HeardMs)}
				}
			}
			out.Members = append(out.Members, row)
		}
	}
	return c.answer(http.StatusOK, out)
}

// mostRows is how many rows a list has at a time, unless a parameter says less.
const mostRows = 1000

// limited cuts a list to the limit that the caller asks for.
func limited[T any](c *call, list []T) (_ []T, more bool) {
	most := int(c.number("limit"))
	if most == 0 {
		most = mostRows
	}
	if len(list) <= most {
		return list, false
	}
	return list[:most], true
}

// sessionRows returns the sessions that this server knows, by their ids.
func sessionRows(v *show.View) (rows map[int64]*SessionRow, ids []int64) {
	rows = make(map[int64]*SessionRow)
	add := func(id int64, row SessionRow) {
		row.ID = jute.SessionID(id).String()
		rows[id] = &row
		ids = append(ids, id)
	}
	all := v.AllSessions()
	for local, buckets := range map[bool][]show.SessionBucket{false: all.Buckets, true: all.Local} {
		for _, b := range buckets {
			for _, id := range b.Sessions {
				add(id, SessionRow{Local: local, Expires: &b.Expires})
			}
		}
	}
	for _, s := range all.Timeouts {
		add(s.Session, SessionRow{TimeoutMs: s.TimeoutMs})
	}
	for _, e := range v.Ephemerals() {
		if row := rows[e.Session]; row != nil {
			row.Ephemerals = int64(len(e.Paths))
		}
	}
	for _, conn := range v.Conns() {
		if row := rows[conn.Session]; row != nil {
			row.Address, row.TimeoutMs = conn.Remote.String(), conn.TimeoutMs
		}
	}
	for _, u := range v.Clients() {
		if row := rows[u.Session]; row != nil {
			row.Identity = u.Identity
		}
	}
	return rows, ids
}

func (c *call) sessions() error {
	v, err := c.view()
	if err != nil {
		return err
	}
	rows, ids := sessionRows(v)
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) })
	after := c.hex("after")
	ids = slices.DeleteFunc(ids, func(id int64) bool { return uint64(id) <= after })
	out := SessionList{Sessions: []SessionRow{}}
	ids, out.More = limited(c, ids)
	for _, id := range ids {
		out.Sessions = append(out.Sessions, *rows[id])
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) connections() error {
	v, err := c.view()
	if err != nil {
		return err
	}
	type place struct {
		session int64
		port    int
	}
	uses := make(map[place]show.ClientUse)
	for _, u := range v.Clients() {
		uses[place{u.Session, u.Port}] = u
	}
	out := ConnectionList{Connections: []ConnectionRow{}}
	for _, conn := range v.Conns() {
		u := uses[place{conn.Session, int(conn.Remote.Port())}]
		out.Connections = append(out.Connections, ConnectionRow{
			Address: conn.Remote.String(), Session: jute.SessionID(conn.Session).String(), Identity: u.Identity, Secure: conn.Secure,
			Established: conn.Established, Requests: conn.Received, Replies: conn.Sent, BytesIn: u.BytesIn, BytesOut: u.BytesOut, Watches: u.Watches,
			Queued: conn.Queued, LastOp: conn.LastOp, AvgLatencyMs: conn.AvgLatencyMs, MaxLatencyMs: conn.MaxLatencyMs,
		})
	}
	slices.SortStableFunc(out.Connections, func(a, b ConnectionRow) int { return cmp.Compare(b.Requests, a.Requests) })
	out.Connections, out.More = limited(c, out.Connections)
	return c.answer(http.StatusOK, out)
}

func (c *call) watches() error {
	v, err := c.view()
	if err != nil {
		return err
	}
	out := WatchList{Watches: []WatchRow{}}
	list := slices.DeleteFunc(v.WatchesByPath(), func(w show.PathSessions) bool {
		return w.Path <= c.arg("after") || c.arg("path") != "" && w.Path != c.arg("path")
	})
	list, out.More = limited(c, list)
	for _, w := range list {
		row := WatchRow{Path: w.Path, Sessions: []string{}}
		for _, id := range w.Sessions {
			row.Sessions = append(row.Sessions, jute.SessionID(id).String())
		}
		out.Watches = append(out.Watches, row)
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) quotas() error {
	v, err := c.view()
	if err != nil {
		return err
	}
	out := QuotaList{Quotas: []Quota{}}
	for _, q := range v.Quotas() {
		out.Quotas = append(out.Quotas, Quota{q.Name, q.Count, q.CountLimit, q.Bytes, q.ByteLimit})
	}
	return c.answer(http.StatusOK, out)
}

func (c *call) limits() error {
	v, err := c.view()
	if err != nil {
		return err
	}
	out := LimitList{Limits: []Limit{}, Uses: []LimitUse{}}
	for _, u := range v.LimitUsers() {
		out.Uses = append(out.Uses, LimitUse{u.Rule, u.Resource.String(), u.Subject, u.Used, u.Limit.Soft, u.Limit.Hard})
	}
	for _, f := range v.Limits {
		out.Limits = append(out.Limits, Limit{f.Rule, f.Resource.String(), int64(f.Subjects), f.Over, f.Slowed, f.Refused})
	}
	return c.answer(http.StatusOK, out)
}
