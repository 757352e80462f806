package clients

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/show"
)

// Facts are what is shown of the connections.
type Facts struct {
	clients *Clients
	asker   uint64
}

// Facts returns the data shown to the connection asker.
func (s *Clients) Facts(asker uint64) Facts { return Facts{s, asker} }

// Connections is show.Lists.Conns.
func (f Facts) Connections() []show.Connection {
	list := f.clients.all()
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.line.Origin(), b.line.Origin()) })
	out := make([]show.Connection, len(list))
	for i, c := range list {
		out[i] = f.describe(c)
	}
	return out
}

// opCodes are the short names of operations in cons.
var opCodes = map[jute.OpCode]string{
	jute.OpPing: "PING", jute.OpCreateSession: "SESS", jute.OpCreate: "CREA", jute.OpCreate2: "CREA",
	jute.OpCreateContainer: "CREA", jute.OpCreateTTL: "CREA", jute.OpDelete: "DELE", jute.OpSetData: "SETD",
	jute.OpSetACL: "SETA", jute.OpGetACL: "GETA", jute.OpGetData: "GETD", jute.OpGetChildren: "GETC",
	jute.OpGetChildren2: "GETC", jute.OpGetAllChildrenNumber: "GETACN", jute.OpExists: "EXIS",
	jute.OpSetWatches: "SETW", jute.OpSetWatches2: "STW2", jute.OpAddWatch: "ADDW", jute.OpCheckWatches: "CHKW",
	jute.OpRemoveWatches: "REMW", jute.OpMulti: "MULT", jute.OpMultiRead: "MLTR", jute.OpSync: "SYNC",
	jute.OpCheck: "CHEC", jute.OpCloseSession: "CLOS", jute.OpReconfig: "RECO", jute.OpWhoAmI: "HOMI",
	jute.OpGetEphemerals: "GETE", jute.OpChildrenPage: "GETCP", jute.OpSubtreePage: "GETST", jute.OpPast: "PAST", jute.OpSubscribe: "SUBS", jute.OpCredit: "CRED", jute.OpUnsubscribe: "UNSU",
}

// describe describes a connection. The asking connection is shown with no interest in
// input, as in Apache.
func (f Facts) describe(c *conn) show.Connection {
	c.line.Lock()
	defer c.line.Unlock()
	st := &c.stats
	d := show.Connection{
		Remote:        c.socket.remotePort(),
		For:           c.carriedFor,
		Reading:       c.line.Origin() != f.asker,
		Writing:       c.line.Outbox.Unsent() != nil,
		Secure:        c.socket.secure.Load(),
		Queued:        int64(c.line.Waiting.Len()),
		Received:      st.received,
		Sent:          st.sent,
		Session:       int64(c.line.SessionID()),
		LastOp:        "NA",
		Established:   c.opened,
		LastCxid:      st.lastCxid,
		LastZxid:      int64(st.lastZxid),
		LastReplyMs:   millis(st.lastResponse),
		LastLatencyMs: millis(st.lastLatency),
		MinLatencyMs:  millis(st.minLatency),
		MaxLatencyMs:  millis(st.maxLatency),
	}
	if edge := c.identity.edge(); edge != (jute.ID{}) {
		d.User, d.Edge = c.identity.name(), auth.Name(edge)
	}
	if d.Session != 0 { // the timeout was set before the session
		d.TimeoutMs = int64(c.line.Session.TimeoutMs())
	}
	if name, ok := opCodes[st.lastOp]; ok {
		d.LastOp = name
	}
	if st.count > 0 {
		d.AvgLatencyMs = millis(st.totalLatency) / st.count
	}
	return d
}

// ConnectionIDs returns the connections, in no particular order.
func (f Facts) ConnectionIDs() []show.ConnectionID {
	var list []show.ConnectionID
	for _, c := range f.clients.all() {
		list = append(list, show.ConnectionID{Remote: c.socket.remotePort(), Session: int64(c.line.SessionID())})
	}
	return list
}

// WatchesBySession is that of show.Lists.
func (f Facts) WatchesBySession() []show.SessionPaths {
	var list []show.SessionPaths
	for _, c := range f.clients.all() {
		w, ok := c.line.WatchHandle()
		if !ok {
			continue
		}
		if paths := f.clients.state.Watches.AppendPaths(nil, w); len(paths) > 0 {
			list = append(list, show.SessionPaths{Session: int64(c.line.SessionID()), Paths: paths})
		}
	}
	slices.SortFunc(list, func(a, b show.SessionPaths) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

// WatchesByPath is that of show.Lists.
func (f Facts) WatchesByPath() []show.PathSessions {
	var list []show.PathSessions
	for path, watchers := range f.clients.state.Watches.ByPath() {
		p := show.PathSessions{Path: path}
		for _, w := range watchers {
			if c := f.clients.register.Watcher(w); c != nil {
				p.Sessions = append(p.Sessions, int64(c.SessionID()))
			}
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b show.PathSessions) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// ResetConnectionStats is that of show.Source.
func (f Facts) ResetConnectionStats() {
	for _, c := range f.clients.all() {
		c.line.Lock()
		c.stats, c.out.taken = connStats{lastCxid: -1}, 0
		c.line.Unlock()
	}
}

// Clients is that of show.Lists.
func (f Facts) Clients() (list []show.ClientUse) {
	for _, c := range f.clients.all() {
		if c.line.Origin() == f.asker {
			continue
		}
		u := c.use()
		if w, ok := c.line.WatchHandle(); ok {
			u.Watches = int64(f.clients.state.Watches.CountOf(w))
		}
		list = append(list, u)
	}
	list = f.clients.ended.appendTo(list)
	slices.SortFunc(list, func(a, b show.ClientUse) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Identity, b.Identity))
	})
	return list
}
