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

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

const defaultTraceMask = 306 // Apache's

// words is what a server tells of itself, by four-letter words and by the pages of the
// AdminServer.
type words struct {
	cfg        *config.Config
	live       func() *config.Config
	metrics    *monitor.Metrics
	clock      *base.Clock
	standing   *standing
	service    serviceView
	version    string
	fs         vfs.FS
	state      *state.State
	tracker    *session.Tracker
	digests    *digestLog
	clients    *clients.Clients // set by the start
	trace      atomic.Int64     // the trace mask, which has no effect
	read       func() *monitor.Reading
	diskRemark func() string
	joiners    func(*monitor.Reading) []fourletter.Joiner
}

// facts is a fourletter.Source: the words as one connection sees them.
type facts struct {
	*words
	clients.Facts
}

// facts returns the Source for a connection.
func (w *words) facts(origin uint64) fourletter.Source { return facts{w, w.clients.Facts(origin)} }

func (f facts) Serving() bool   { return f.service.Serving() || f.clients.ReadOnly() }
func (f facts) ReadOnly() bool  { return f.clients.ReadOnly() && !f.service.Serving() }
func (f facts) Version() string { return f.version }

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
		{Key: "zookeeper.version", Value: f.version},
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
		ClientPort:          actualPort(f.clients.Addr(), f.cfg.ClientPort),
		SecureClientPort:    actualPort(f.clients.SecureAddr(), f.cfg.ClientTLS.Port),
		DataDir:             f.cfg.DataDir,
		DataLogDir:          f.cfg.DataLogDir,
		DataDirBytes:        data,
		DataLogBytes:        log,
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

func (f facts) Server() fourletter.Server {
	r := f.read()
	view := fourletter.Server{
		Mode:         "standalone",
		MinLatencyMs: r.MinLatency(),
		AvgLatencyMs: r.AvgLatency(),
		MaxLatencyMs: r.MaxLatency(),
		Received:     f.metrics.PacketsReceived.Load(),
		Sent:         f.metrics.PacketsSent.Load(),
		Connections:  r.Connections,
		Outstanding:  r.WaitingRequests,
		Zxid:         int64(f.state.Applied()),
		Nodes:        int64(r.Tree.Nodes),
		Disk:         f.diskRemark(),
		Drain:        f.clients.DrainRemark(),
		Joiners:      f.joiners(r),
	}
	f.describeRole(&view)
	return view
}

// joiners returns the servers that a leader brings up to date.
func (s *Server) joiners(r *monitor.Reading) (list []fourletter.Joiner) {
	for i := range r.Peers {
		p := &r.Peers[i]
		if p.Synced {
			continue
		}
		left, ok := s.logWriter.BytesAfter(p.Match)
		j := fourletter.Joiner{ID: int64(p.ID), Snapshot: !ok, LogLeft: left}
		for _, x := range r.Sending {
			if x.Peer == p.ID {
				j.Snapshot, j.Sent, j.Size = true, x.Done, x.Size
			}
		}
		list = append(list, j)
	}
	return list
}

func (f facts) Metrics() []fourletter.Metric { return f.read().Words() }

func (f facts) Digests() []fourletter.Digest {
	var list []fourletter.Digest
	for _, e := range f.digests.transactions() {
		list = append(list, fourletter.Digest{Zxid: int64(e.zxid), Value: int64(e.digest.Lo)})
	}
	return list
}

func (f facts) DirSizes() (snapshots, log int64) {
	snapshots = dirSize(f.fs, filepath.Join(f.cfg.DataDir, "snap"))
	log = dirSize(f.fs, data.LogDir(f.cfg.DataLogDir))
	if f.cfg.DataDir == f.cfg.DataLogDir { // Apache counts the same directory twice
		return snapshots + log, snapshots + log
	}
	return snapshots, log
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
func (f facts) wallTime(ms int64) time.Time {
	return f.clock.Start().Add(time.Duration(ms) * time.Millisecond).UTC()
}

func (f facts) Sessions() fourletter.Sessions {
	var s fourletter.Sessions
	if s.LocalEnabled = f.cfg.LocalSessions; s.LocalEnabled {
		s.Local = f.sessionBuckets(f.clients.LocalBuckets())
	}
	if s.Learner = f.cfg.Replicated() && !f.standing.leads(); s.Learner {
		s.Timeouts = f.learnerSessions()
		return s
	}
	s.Buckets = f.sessionBuckets(f.tracker.Buckets())
	return s
}

func (f facts) sessionBuckets(buckets []session.Bucket) (list []fourletter.SessionBucket) {
	for _, b := range buckets {
		out := fourletter.SessionBucket{Expires: f.wallTime(b.At)}
		for _, id := range b.Sessions {
			out.Sessions = append(out.Sessions, int64(id))
		}
		list = append(list, out)
	}
	return list
}

func (f facts) Ephemerals() []fourletter.SessionPaths {
	var list []fourletter.SessionPaths
	f.state.RLock()
	defer f.state.RUnlock()
	for id := range f.state.Tree.EphemeralOwners() {
		s := fourletter.SessionPaths{Session: int64(id)}
		for path := range f.state.Tree.Ephemerals(id) {
			s.Paths = append(s.Paths, path)
		}
		slices.Sort(s.Paths)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b fourletter.SessionPaths) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

func (f facts) WatchCount() fourletter.WatchCount {
	s := f.state.Watches.Summary()
	return fourletter.WatchCount{Connections: s.Connections, Paths: s.Paths, Watches: s.Watches}
}

func (f facts) TraceMask() int64        { return f.trace.Load() }
func (f facts) SetTraceMask(mask int64) { f.trace.Store(mask) }
func (f facts) ResetServerStats()       { f.metrics.ResetStats() }

// ConnectionDeadlines lists connections with the deadlines of their sessions: zkd closes
// a silent connection when its session expires.
func (f facts) ConnectionDeadlines() []fourletter.ConnectionBucket {
	bySession := make(map[int64]fourletter.ConnectionID)
	var without []fourletter.ConnectionID
	for _, id := range f.ConnectionIDs() {
		if id.Session == 0 {
			without = append(without, id)
		} else {
			bySession[id.Session] = id
		}
	}
	var list []fourletter.ConnectionBucket
	if len(without) > 0 {
		at := f.clock.Now() + f.live().SessionlessCnxnTimeout
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
