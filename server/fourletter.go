package server

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/watch"
)

const defaultTraceMask = 306 // Apache's

// fourLetterWord answers a four-letter word if the connection begins with one.
func (c *conn) fourLetterWord(word [4]byte) (done bool, err error) {
	cmd, ok := fourletter.Lookup(word)
	if !ok {
		return false, nil
	}
	c.frames.take(len(word))
	arg, ok := c.frames.take(cmd.ArgLen())
	for !ok {
		if _, err := c.frames.fill(); err != nil {
			return true, err
		}
		arg, ok = c.frames.take(cmd.ArgLen())
	}
	c.srv.log.Debug("four-letter word " + cmd.String())
	c.nc.SetWriteDeadline(time.Now().Add(c.srv.cfg.SessionlessCnxnTimeout))
	err = fourletter.Execute(c.nc, cmd, arg, c.srv.words, facts{c.srv, c})
	c.endAfterFlush()
	return true, err
}

// whitelist makes the set of enabled words.
func (s *Server) whitelist() fourletter.Whitelist {
	wl, _ := fourletter.ParseWhitelist(strings.Join(s.cfg.FourLetterWhitelist, ","))
	return wl
}

// facts is the fourletter.Source of a server, as seen from a connection.
type facts struct {
	*srv
	c *conn
}

// srv is Server by a name that leaves Source's method Server free.
type srv = Server

func (f facts) Serving() bool   { return f.serving.Load() || f.readOnly.Load() }
func (f facts) ReadOnly() bool  { return f.readOnly.Load() && !f.serving.Load() }
func (f facts) Version() string { return f.opts.Version }

func (f facts) Environment() []fourletter.KV {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	name, home := "", ""
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	mb := func(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MB" }
	return []fourletter.KV{
		{Key: "zookeeper.version", Value: f.opts.Version},
		{Key: "host.name", Value: host},
		{Key: "go.version", Value: runtime.Version()},
		{Key: "os.name", Value: runtime.GOOS},
		{Key: "os.arch", Value: runtime.GOARCH},
		{Key: "os.version", Value: kernelVersion()},
		{Key: "user.name", Value: name},
		{Key: "user.home", Value: home},
		{Key: "user.dir", Value: dir},
		{Key: "os.memory.free", Value: mb(m.HeapIdle - m.HeapReleased)},
		{Key: "os.memory.max", Value: mb(m.Sys)},
		{Key: "os.memory.total", Value: mb(m.HeapSys)},
	}
}

func (f facts) Settings() fourletter.Settings {
	data, log := f.DirSizes()
	return fourletter.Settings{
		ServerID:            max(f.cfg.MyID, 0),
		Quorum:              f.quorumSettings(),
		ClientPort:          f.clientPort(),
		SecureClientPort:    -1,
		DataDir:             f.cfg.DataDir,
		DataLogDir:          f.cfg.DataLogDir,
		DataDirBytes:        data,
		DataLogBytes:        log,
		TickTimeMs:          int(f.cfg.TickTime.Milliseconds()),
		MaxClientCnxns:      f.cfg.MaxClientCnxns,
		MinSessionTimeoutMs: int(f.cfg.MinSessionTimeout.Milliseconds()),
		MaxSessionTimeoutMs: int(f.cfg.MaxSessionTimeout.Milliseconds()),
		ListenBacklog:       f.cfg.ClientPortListenBacklog,
	}
}

// clientPort returns the port that clientPort=0 has become.
func (f facts) clientPort() int {
	if tcp, ok := f.Addr().(*net.TCPAddr); ok {
		return tcp.Port
	}
	return f.cfg.ClientPort
}

func (f facts) Server() fourletter.Server {
	r := f.read()
	view := fourletter.Server{
		Mode:         "standalone",
		MinLatencyMs: r.MinLatency(),
		AvgLatencyMs: r.AvgLatency(),
		MaxLatencyMs: r.MaxLatency(),
		Received:     f.metrics.PacketsReceived.Load(),
		Sent:         f.metrics.PacketsSent.Load(),
		Connections:  f.conns.len(),
		Outstanding:  f.throttler.waiting.Load(),
		Zxid:         int64(f.lastApplied()),
		Nodes:        int64(r.Tree.Nodes),
		Disk:         f.diskRemark(),
	}
	f.describeRole(&view)
	return view
}

func (f facts) Connections() []fourletter.Connection {
	list := f.conns.all()
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	out := make([]fourletter.Connection, len(list))
	for i, c := range list {
		out[i] = c.facts(c == f.c)
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
	jute.OpGetEphemerals: "GETE",
}

// facts describes the connection. The one that asks has no interest in input:
// Apache shows its own that way.
func (c *conn) facts(asks bool) fourletter.Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.mu.stats
	f := fourletter.Connection{
		Remote:        remoteAddrPort(c),
		Reading:       !asks,
		Writing:       c.mu.out != nil,
		Queued:        int64(c.mu.pending.Len()),
		Received:      st.received,
		Sent:          st.sent,
		Session:       c.session.Load(),
		LastOp:        "NA",
		Established:   c.opened,
		LastCxid:      st.lastCxid,
		LastZxid:      int64(st.lastZxid),
		LastReplyMs:   millis(st.lastResponse),
		LastLatencyMs: millis(st.lastLatency),
		MinLatencyMs:  millis(st.minLatency),
		MaxLatencyMs:  millis(st.maxLatency),
	}
	if f.Session != 0 { // the timeout was settled before the session was
		f.TimeoutMs = int64(c.timeoutMs)
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
	ap, _ := netip.ParseAddrPort(c.nc.RemoteAddr().String()) // zero for what is no TCP connection
	return ap
}

func (f facts) Metrics() []fourletter.Metric { return f.read().Words() }

func (f facts) Digests() []fourletter.Digest {
	var list []fourletter.Digest
	for _, e := range f.digests.transactions() {
		list = append(list, fourletter.Digest{Zxid: int64(e.zxid), Value: int64(e.digest.Lo)})
	}
	return list
}

func (f facts) DirSizes() (data, log int64) {
	data = dirSize(f.fs, filepath.Join(f.cfg.DataDir, "snap"))
	log = dirSize(f.fs, logDir(f.cfg.DataLogDir))
	if f.cfg.DataDir == f.cfg.DataLogDir { // Apache counts the same directory twice
		return data + log, data + log
	}
	return data, log
}

// dirSize adds up the files of a directory.
func dirSize(fsys vfs.FS, dir string) (size int64) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := fsys.Stat(filepath.Join(dir, e.Name())); err == nil && !info.IsDir() {
			size += info.Size()
		}
	}
	return size
}

// wallTime turns a time of the session tracker into one of the clock on the wall.
func (f facts) wallTime(ms int64) time.Time {
	return f.clock.start.Add(time.Duration(ms) * time.Millisecond).UTC()
}

func (f facts) Sessions() fourletter.Sessions {
	var s fourletter.Sessions
	if s.LocalEnabled = f.cfg.LocalSessions; s.LocalEnabled {
		s.Local = f.sessionBuckets(f.locals)
	}
	if s.Learner = f.ensemble() && !f.leads(); s.Learner {
		s.Timeouts = f.learnerSessions()
		return s
	}
	s.Buckets = f.sessionBuckets(f.tracker)
	return s
}

func (f facts) sessionBuckets(t *session.Tracker) (list []fourletter.SessionBucket) {
	for _, b := range t.Buckets() {
		out := fourletter.SessionBucket{Expires: f.wallTime(b.At)}
		for _, id := range b.Sessions {
			out.Sessions = append(out.Sessions, int64(id))
		}
		list = append(list, out)
	}
	return list
}

// ConnectionDeadlines shows connections with the deadline of their session: zkd
// closes a silent connection when its session expires.
func (f facts) ConnectionDeadlines() []fourletter.ConnectionBucket {
	bySession := make(map[int64]fourletter.ConnectionID)
	var without []fourletter.ConnectionID
	for _, c := range f.conns.all() {
		id := fourletter.ConnectionID{Remote: remoteAddrPort(c), Session: c.session.Load()}
		if id.Session == 0 {
			without = append(without, id)
		} else {
			bySession[id.Session] = id
		}
	}
	var list []fourletter.ConnectionBucket
	if len(without) > 0 {
		at := f.now() + f.cfg.SessionlessCnxnTimeout
		list = append(list, fourletter.ConnectionBucket{Expires: f.wallTime(millis(at)), Connections: without})
	}
	for _, b := range f.tracker.Buckets() {
		out := fourletter.ConnectionBucket{Expires: f.wallTime(b.At)}
		for _, id := range b.Sessions {
			if c, ok := bySession[int64(id)]; ok {
				out.Connections = append(out.Connections, c)
			}
		}
		if len(out.Connections) > 0 {
			list = append(list, out)
		}
	}
	slices.SortStableFunc(list, func(a, b fourletter.ConnectionBucket) int { return a.Expires.Compare(b.Expires) })
	return list
}

func (f facts) Ephemerals() []fourletter.SessionPaths {
	var list []fourletter.SessionPaths
	f.state.mu.RLock()
	defer f.state.mu.RUnlock()
	for id := range f.state.tree.EphemeralOwners() {
		s := fourletter.SessionPaths{Session: int64(id)}
		for path := range f.state.tree.Ephemerals(id) {
			s.Paths = append(s.Paths, path)
		}
		slices.Sort(s.Paths)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b fourletter.SessionPaths) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

func (f facts) WatchCount() fourletter.WatchCount {
	s := f.state.watches.Summary()
	return fourletter.WatchCount{Connections: s.Connections, Paths: s.Paths, Watches: s.Watches}
}

func (f facts) WatchesBySession() []fourletter.SessionPaths {
	var list []fourletter.SessionPaths
	for _, c := range f.conns.all() {
		w := c.watcher.Load()
		if w == 0 {
			continue
		}
		if paths := f.state.watches.AppendPaths(nil, watch.Watcher(w-1)); len(paths) > 0 {
			list = append(list, fourletter.SessionPaths{Session: c.session.Load(), Paths: paths})
		}
	}
	slices.SortFunc(list, func(a, b fourletter.SessionPaths) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

func (f facts) WatchesByPath() []fourletter.PathSessions {
	var list []fourletter.PathSessions
	for path, watchers := range f.state.watches.ByPath() {
		p := fourletter.PathSessions{Path: path}
		for _, w := range watchers {
			if c := f.conns.watcher(w); c != nil {
				p.Sessions = append(p.Sessions, c.session.Load())
			}
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b fourletter.PathSessions) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

func (f facts) TraceMask() int64        { return f.traceMask.Load() }
func (f facts) SetTraceMask(mask int64) { f.traceMask.Store(mask) }
func (f facts) ResetServerStats()       { f.metrics.ResetLatencies() }

func (f facts) ResetConnectionStats() {
	for _, c := range f.conns.all() {
		c.mu.Lock()
		c.mu.stats = connStats{lastCxid: -1}
		c.mu.Unlock()
	}
}
