package clients

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/show"
)

// fourLetterWord answers a four-letter word if the connection begins with one. A word that is not
// allowed is refused at once. An allowed one that needs an argument waits for it, but is answered
// without it when the client sends no more.
func (c *conn) fourLetterWord(word [4]byte) (done bool, err error) {
	cmd, ok := fourletter.Lookup(word)
	if !ok {
		return false, nil
	}
	c.frames.take(len(word))
	allowed := *c.clients.words.Load()
	var arg []byte
	if allowed.Allows(cmd) {
		arg = c.wordArgument(cmd.ArgLen())
	}
	c.clients.log.Debug("four-letter word " + cmd.String())
	c.nc.SetWriteDeadline(time.Now().Add(c.clients.live.Load().SessionlessCnxnTimeout))
	err = show.Execute(c.stream, cmd, arg, allowed, c.clients.backend.Shows(c.line.Origin()))
	c.endAfterFlush()
	return true, err
}

// wordArgument reads the n bytes after a word, or returns nil if they do not come.
func (c *conn) wordArgument(n int) []byte {
	arg, ok := c.frames.take(n)
	for !ok {
		if _, err := c.frames.fill(); err != nil {
			return nil
		}
		arg, ok = c.frames.take(n)
	}
	return arg
}

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
		out[i] = c.describe(c.line.Origin() == f.asker)
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
	jute.OpGetEphemerals: "GETE", jute.OpChildrenPage: "GETCP", jute.OpSubtreePage: "GETST", jute.OpSubscribe: "SUBS", jute.OpCredit: "CRED", jute.OpUnsubscribe: "UNSU",
}

// describe describes the connection. The asking connection is shown with no interest in
// input, as in Apache.
func (c *conn) describe(asks bool) show.Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.mu.stats
	f := show.Connection{
		Remote:        remoteAddrPort(c),
		Reading:       !asks,
		Writing:       c.line.Out() != nil,
		Secure:        c.secure.Load(),
		Queued:        int64(c.line.Waiting()),
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
	if f.Session != 0 { // the timeout was set before the session
		f.TimeoutMs = int64(c.line.TimeoutMs())
	}
	if name, ok := opCodes[st.lastOp]; ok {
		f.LastOp = name
	}
	if st.count > 0 {
		f.AvgLatencyMs = millis(st.totalLatency) / st.count
	}
	return f
}

func remoteAddrPort(c *conn) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(c.nc.RemoteAddr().String()) // zero if it is not a TCP connection
	return ap
}

// ConnectionIDs returns the connections, in no particular order.
func (f Facts) ConnectionIDs() []show.ConnectionID {
	var list []show.ConnectionID
	for _, c := range f.clients.all() {
		list = append(list, show.ConnectionID{Remote: remoteAddrPort(c), Session: int64(c.line.SessionID())})
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
			if c := f.clients.conns.Watcher(w); c != nil {
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
		c.mu.Lock()
		c.mu.stats = connStats{lastCxid: -1}
		c.mu.Unlock()
	}
}
