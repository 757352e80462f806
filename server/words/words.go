package words

import (
	"cmp"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
)

const defaultTraceMask = 306 // Apache's

// Options say of what Words are. Each function may be called from any goroutine.
type Options struct {
	Config  *config.Config
	Live    func() *config.Config // with the values that live keys have by now
	Metrics *monitor.Metrics
	Clock   *base.Clock
	FS      vfs.FS // of the data directories
	State   *state.State
	Tracker *session.Tracker // of the ensemble's sessions
	// Read returns a view without its lists.
	Read func() *show.View
	// Serving reports whether a leader is known, or this server is the leader.
	Serving func() bool
	// Leads reports whether the server decides when sessions expire.
	Leads func() bool
	// Founders returns the text of the members with which the ensemble is to begin.
	Founders func() []byte
	// Joiners returns the servers that a leader brings up to date.
	Joiners func(*show.View) []show.Joiner
}

// Words are what a server shows.
type Words struct {
	o       Options
	clients *clients.Clients
	trace   atomic.Int64 // the trace mask, which has no effect
}

// New returns what a server shows. Clients must be called before it is used.
func New(o Options) *Words {
	w := &Words{o: o}
	w.trace.Store(defaultTraceMask)
	return w
}

// Clients sets the clients, which need a Source themselves.
func (w *Words) Clients(c *clients.Clients) { w.clients = c }

// Source is a show.Source: the server as one connection sees it.
type Source struct {
	w           *Words
	connections clients.Facts
}

// Source returns the Source for a connection.
func (w *Words) Source(origin uint64) Source { return Source{w, w.clients.Facts(origin)} }

// Serving implements show.Source.
func (f Source) Serving() bool { return f.w.o.Serving() || f.w.clients.ReadOnly() }

// ReadOnly implements show.Source.
func (f Source) ReadOnly() bool { return f.w.clients.ReadOnly() && !f.w.o.Serving() }

// SetTraceMask implements show.Source.
func (f Source) SetTraceMask(mask int64) { f.w.trace.Store(mask) }

// ResetServerStats implements show.Source.
func (f Source) ResetServerStats() { show.ResetStats(f.w.o.Metrics) }

// ResetConnectionStats implements show.Source.
func (f Source) ResetConnectionStats() { f.connections.ResetConnectionStats() }

// View implements show.Source. It looks at the server, and adds the lists to what it has read.
func (f Source) View() *show.View {
	v := f.w.o.Read()
	v.TraceMask = f.w.trace.Load()
	v.Environment = func() []show.KV { return environment(v.Version) }
	v.Settings, v.DirSizes = f.settings, f.dirSizes
	v.Conns, v.Clients = f.connections.Connections, f.connections.Clients
	v.WatchCount, v.WatchesBySession, v.WatchesByPath = f.watchCount, f.connections.WatchesBySession, f.connections.WatchesByPath
	v.LimitUsers = f.w.clients.LimitUsers
	v.AllSessions, v.ConnectionDeadlines = func() show.Sessions { return f.sessions(v.Copy) }, f.connectionDeadlines
	v.Ephemerals, v.Digests = f.ephemerals, f.kept
	v.Joiners = func() []show.Joiner { return f.w.o.Joiners(v) }
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

func (f Source) settings() show.Settings {
	size := f.dirSizes()
	return show.Settings{
		ServerID:            max(f.w.o.Config.MyID, 0),
		Quorum:              f.quorumSettings(),
		ClientPort:          actualPort(f.w.clients.Ports().Addr(), f.w.o.Config.ClientPort),
		SecureClientPort:    actualPort(f.w.clients.Ports().SecureAddr(), f.w.o.Config.ClientTLS.Port),
		DataDir:             f.w.o.Config.DataDir,
		DataLogDir:          f.w.o.Config.DataLogDir,
		DataDirBytes:        size.Data,
		DataLogBytes:        size.Log,
		TickTimeMs:          int(f.w.o.Config.TickTime.Milliseconds()),
		MaxClientCnxns:      f.w.o.Live().MaxClientCnxns,
		MinSessionTimeoutMs: int(f.w.o.Live().MinSessionTimeout.Milliseconds()),
		MaxSessionTimeoutMs: int(f.w.o.Live().MaxSessionTimeout.Milliseconds()),
		ListenBacklog:       f.w.o.Config.ClientPortListenBacklog,
	}
}

// actualPort returns the port of a listener, which may have moved or be any free one.
func actualPort(at net.Addr, configured int) int {
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return configured
}

func (f Source) kept() []show.Digest {
	var list []show.Digest
	for _, e := range f.w.o.State.Digests.Transactions() {
		list = append(list, show.Digest{Zxid: int64(e.Zxid), Value: int64(e.Digest.Lo)})
	}
	return list
}

func (f Source) dirSizes() show.Dirs {
	snapshots := dirSize(f.w.o.FS, filepath.Join(f.w.o.Config.DataDir, "snap"))
	log := dirSize(f.w.o.FS, data.LogDir(f.w.o.Config.DataLogDir))
	if f.w.o.Config.DataDir == f.w.o.Config.DataLogDir { // Apache counts the same directory twice
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
func (f Source) wallTime(ms int64) time.Time {
	return f.w.o.Clock.Start().Add(time.Duration(ms) * time.Millisecond).UTC()
}

// sessions returns all sessions. Of a copy they are those of the ensemble that it copies.
func (f Source) sessions(ofCopy bool) show.Sessions {
	var s show.Sessions
	if ofCopy {
		return show.Sessions{Learner: true, Timeouts: f.learnerSessions()}
	}
	if s.LocalEnabled = f.w.o.Config.LocalSessions; s.LocalEnabled {
		s.Local = f.sessionBuckets(f.w.clients.LocalBuckets())
	}
	if s.Learner = f.w.o.Config.Replicated() && !f.w.o.Leads(); s.Learner {
		s.Timeouts = f.learnerSessions()
		return s
	}
	s.Buckets = f.sessionBuckets(f.w.o.Tracker.Buckets())
	return s
}

func (f Source) sessionBuckets(buckets []session.Bucket) (list []show.SessionBucket) {
	for _, b := range buckets {
		out := show.SessionBucket{Expires: f.wallTime(b.At)}
		for _, id := range b.Sessions {
			out.Sessions = append(out.Sessions, int64(id))
		}
		list = append(list, out)
	}
	return list
}

func (f Source) ephemerals() []show.SessionPaths {
	var list []show.SessionPaths
	f.w.o.State.RLock()
	defer f.w.o.State.RUnlock()
	for id := range f.w.o.State.Tree.EphemeralOwners() {
		s := show.SessionPaths{Session: int64(id)}
		for path := range f.w.o.State.Tree.Ephemerals(id, "") {
			s.Paths = append(s.Paths, path)
		}
		slices.Sort(s.Paths)
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b show.SessionPaths) int { return cmp.Compare(a.Session, b.Session) })
	return list
}

func (f Source) watchCount() show.WatchCount {
	s := f.w.o.State.Watches.Summary()
	return show.WatchCount{Connections: s.Connections, Paths: s.Paths, Watches: s.Watches}
}

// connectionDeadlines lists connections with the deadlines of their sessions: zkd closes
// a silent connection when its session expires.
func (f Source) connectionDeadlines() []show.ConnectionBucket {
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
		at := f.w.o.Clock.Now() + f.w.o.Live().SessionlessCnxnTimeout
		list = append(list, show.ConnectionBucket{Expires: f.wallTime(at.Milliseconds()), Connections: without})
	}
	for _, b := range f.w.o.Tracker.Buckets() {
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

// kernelVersion returns the release of the operating system's kernel, or "" where the
// system does not report it.
func kernelVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
