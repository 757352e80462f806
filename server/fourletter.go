package server

import (
	"cmp"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/zab"
)

const defaultTraceMask = 306 // Apache's

// words makes what a server shows of itself, by four-letter words and by the pages of the
// AdminServer.
type words struct {
	cfg     *config.Config
	live    func() *config.Config
	metrics *monitor.Metrics
	clock   *base.Clock
	role    func() *zab.Status
	lists   func() *memberLists
	service serviceView
	fs      vfs.FS
	state   *state.State
	tracker *session.Tracker
	digests *digestLog
	clients *clients.Clients // set by the start
	trace   atomic.Int64     // the trace mask, which has no effect
	read    func() *show.View
	joiners func(*show.View) []show.Joiner
}

// source is a show.Source: the server as one connection sees it.
type source struct {
	*words
	connections clients.Facts
}

// source returns the Source for a connection.
func (w *words) source(origin uint64) show.Source { return source{w, w.clients.Facts(origin)} }

func (f source) Serving() bool           { return f.service.Serving() || f.clients.ReadOnly() }
func (f source) ReadOnly() bool          { return f.clients.ReadOnly() && !f.service.Serving() }
func (f source) SetTraceMask(mask int64) { f.trace.Store(mask) }
func (f source) ResetServerStats()       { show.ResetStats(f.metrics) }
func (f source) ResetConnectionStats()   { f.connections.ResetConnectionStats() }

// View looks at the server, and adds the lists to what it has read.
func (f source) View() *show.View {
	v := f.read()
	v.TraceMask = f.trace.Load()
	v.Environment = func() []show.KV { return environment(v.Version) }
	v.Settings, v.DirSizes = f.settings, f.dirSizes
	v.Conns, v.Clients = f.connections.Connections, f.connections.Clients
	v.WatchCount, v.WatchesBySession, v.WatchesByPath = f.watchCount, f.connections.WatchesBySession, f.connections.WatchesByPath
	v.AllSessions, v.ConnectionDeadlines = func() show.Sessions { return f.sessions(v.Copy) }, f.connectionDeadlines
	v.Ephemerals, v.Digests = f.ephemerals, f.kept
	v.Joiners = func() []show.Joiner { return f.joiners(v) }
	return v
}

// environment returns the lines of envi.
func environment(version string) []show.KV {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	name, home := "", ""
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	mb := func(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MB" }
	return []show.KV{
		{Key: "zookeeper.version", Value: version},
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

func (f source) settings() show.Settings {
	size := f.dirSizes()
	return show.Settings{
		ServerID:            max(f.cfg.MyID, 0),
		Quorum:              f.quorumSettings(),
		ClientPort:          actualPort(f.clients.Addr(), f.cfg.ClientPort),
		SecureClientPort:    actualPort(f.clients.SecureAddr(), f.cfg.ClientTLS.Port),
		DataDir:             f.cfg.DataDir,
		DataLogDir:          f.cfg.DataLogDir,
		DataDirBytes:        size.Data,
		DataLogBytes:        size.Log,
		TickTimeMs:          int(f.cfg.TickTime.Milliseconds()),
		MaxClientCnxns:      f.live().MaxClientCnxns,
		MinSessionTimeoutMs: int(f.live().MinSessionTimeout.Milliseconds()),
		MaxSessionTimeoutMs: int(f.live().MaxSessionTimeout.Milliseconds()),
		ListenBacklog:       f.cfg.ClientPortListenBacklog,
	}
}

// actualPort returns the port of a listener, which may have moved or be any free one.
func actualPort(at net.Addr, configured int) int {
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return configured
}

// joiners returns the servers that a leader brings up to date.
func (s *Server) joiners(v *show.View) (list []show.Joiner) {
	for i := range v.Peers {
		p := &v.Peers[i]
		if p.Synced {
			continue
		}
		left, ok := s.logWriter.BytesAfter(p.Match)
		j := show.Joiner{ID: int64(p.ID), Snapshot: !ok, LogLeft: left}
		for _, x := range v.Sending {
			if x.Peer == p.ID {
				j.Snapshot, j.Sent, j.Size = true, x.Done, x.Size
			}
		}
		list = append(list, j)
	}
	return list
}

// kept returns the digests that are kept.
func (f source) kept() []show.Digest {
	var list []show.Digest
	for _, e := range f.digests.transactions() {
		list = append(list, show.Digest{Zxid: int64(e.zxid), Value: int64(e.digest.Lo)})
	}
	return list
}

func (f source) dirSizes() show.Dirs {
	snapshots := dirSize(f.fs, filepath.Join(f.cfg.DataDir, "snap"))
	log := dirSize(f.fs, data.LogDir(f.cfg.DataLogDir))
	if f.cfg.DataDir == f.cfg.DataLogDir { // Apache counts the same directory twice
		return show.Dirs{Data: snapshots + log, Log: snapshots + log}
	}
	return show.Dirs{Data: snapshots, Log: log}
}

// dirSize returns the sum of the sizes of a directory's files.
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

// wallTime converts a time of the session tracker into wall clock time.
func (f source) wallTime(ms int64) time.Time {
	return f.clock.Start().Add(time.Duration(ms) * time.Millisecond).UTC()
}

// sessions returns all sessions. Of a copy they are those of the ensemble that it copies.
func (f source) sessions(ofCopy bool) show.Sessions {
	var s show.Sessions
	if ofCopy {
		return show.Sessions{Learner: true, Timeouts: f.learnerSessions()}
	}
	if s.LocalEnabled = f.cfg.LocalSessions; s.LocalEnabled {
		s.Local = f.sessionBuckets(f.clients.LocalBuckets())
	}
	if s.Learner = f.cfg.Replicated() && f.role().Role != zab.Leading; s.Learner {
		s.Timeouts = f.learnerSessions()
		return s
	}
	s.Buckets = f.sessionBuckets(f.tracker.Buckets())
	return s
}

func (f source) sessionBuckets(buckets []session.Bucket) (list []show.SessionBucket) {
	for _, b := range buckets {
		out := show.SessionBucket{Expires: f.wallTime(b.At)}
		for _, id := range b.Sessions {
			out.Sessions = append(out.Sessions, int64(id))
		}
		list = append(list, out)
	}
	return list
}

func (f source) ephemerals() []show.SessionPaths {
	var list []show.SessionPaths
	f.state.RLock()
	defer f.state.RUnlock()
	for id := range f.state.Tree.EphemeralOwners() {
		s := show.SessionPaths{Session: int64(id)}
		for path := range f.state.Tree.Ephemerals(id, "") {
			s.Paths = append(s.Paths, path)
		}
		slices.Sort(s.Paths)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b show.SessionPaths) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

func (f source) watchCount() show.WatchCount {
	s := f.state.Watches.Summary()
	return show.WatchCount{Connections: s.Connections, Paths: s.Paths, Watches: s.Watches}
}

// connectionDeadlines lists connections with the deadlines of their sessions: zkd closes
// a silent connection when its session expires.
func (f source) connectionDeadlines() []show.ConnectionBucket {
	bySession := make(map[int64]show.ConnectionID)
	var without []show.ConnectionID
	for _, id := range f.connections.ConnectionIDs() {
		if id.Session == 0 {
			without = append(without, id)
		} else {
			bySession[id.Session] = id
		}
	}
	var list []show.ConnectionBucket
	if len(without) > 0 {
		at := f.clock.Now() + f.live().SessionlessCnxnTimeout
		list = append(list, show.ConnectionBucket{Expires: f.wallTime(millis(at)), Connections: without})
	}
	for _, b := range f.tracker.Buckets() {
		out := show.ConnectionBucket{Expires: f.wallTime(b.At)}
		for _, id := range b.Sessions {
			if c, ok := bySession[int64(id)]; ok {
				out.Connections = append(out.Connections, c)
			}
		}
		if len(out.Connections) > 0 {
			list = append(list, out)
		}
	}
	slices.SortStableFunc(list, func(a, b show.ConnectionBucket) int { return a.Expires.Compare(b.Expires) })
	return list
}
