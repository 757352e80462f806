package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/subtrees"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
)

// Options are what a Memory needs.
type Options struct {
	Servers string
	Client  client.Options     // of the identity
	Paths   []string           // the subtrees whose reads are answered
	Stale   []string           // those that are kept for when the servers are away: see SeeLast. None is below one of Paths, or above
	For     time.Duration      // how long they are shown after they were known to be current
	Clock   *base.Clock        // by which that is measured. It tells of suspensions of the machine, too
	Seen    func() client.Zxid // what clients that may read them have seen
	Room    *cache.Room        // for all of the edge's
	Told    *atomic.Int64      // counts the events that clients are told
	Log     *slog.Logger
}

// Memory keeps subtrees for the clients that have one identity.
type Memory struct {
	o      Options
	client *client.Client
	trees  []*tree

	stop   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
	tell   chan struct{} // capacity 1: told has something
	behind chan struct{} // capacity 1: a cache has to catch up

	absence atomic.Pointer[Absence]
	slept   atomic.Int64 // how long the machine was suspended before the caches were up to date; they may be as old as a later suspension

	mu    sync.Mutex
	table *subtrees.Table[watcher]
}

// watcher is a client.Relay.
type watcher interface {
	Heard(zxid client.Zxid, ev jute.WatcherEvent)
	TellHeard()
}

// tree is a subtree.
type tree struct {
	m     *Memory
	path  string
	reads *subtrees.Tree // nil unless it is one of Options.Paths
	stale bool           // it is one of Options.Stale
	cache *cache.Cache

	// Guarded by Memory.mu.
	why     string        // reads of it go to the servers, or ""
	current time.Duration // it had everything then, by Options.Clock, of Options.Stale; 0 if never

	gone bool // its cache has ended; of the goroutine that looks after the caches
}

// Open begins to keep the subtrees.
func Open(o Options) (*Memory, error) {
	o.Client.RenewSession = true
	c, err := client.New(o.Servers, o.Client)
	if err != nil {
		return nil, err
	}
	m := newMemory(o)
	m.client = c
	m.slept.Store(int64(o.Clock.Suspended()))
	m.stop, m.end = context.WithCancel(context.Background())
	m.absence.Store(newAbsence())
	for _, t := range m.trees {
		if t.cache, err = cache.Open(m.stop, c, t.path, cache.Options{Observer: t, Room: o.Room, Watches: t.stale}); err != nil {
			m.Close()
			return nil, err
		}
	}
	if len(o.Stale) > 0 {
		m.work.Go(m.followServers)
		m.work.Go(m.keepUp)
	}
	m.work.Go(m.tellAll)
	m.work.Go(m.follow)
	return m, nil
}

// newMemory returns a memory whose caches are not there yet.
func newMemory(o Options) *Memory {
	m := &Memory{o: o, tell: make(chan struct{}, 1), behind: make(chan struct{}, 1)}
	var reads []*subtrees.Tree
	for _, path := range o.Paths {
		stale := slices.Contains(o.Stale, path)
		stale = stale || awayUnlisted.Planted()
		reads = append(reads, &subtrees.Tree{Path: path})
		m.trees = append(m.trees, &tree{m: m, path: path, reads: reads[len(reads)-1], stale: stale})
	}
	for _, path := range o.Stale {
		if !slices.Contains(o.Paths, path) {
			m.trees = append(m.trees, &tree{m: m, path: path, stale: true})
		}
	}
	m.table = subtrees.New[watcher](reads...)
	return m
}

// Close ends the memory. Its clients' watches go upstream.
func (m *Memory) Close() {
	m.end()
	for _, t := range m.trees {
		if t.cache != nil {
			t.cache.Close()
		}
	}
	m.work.Wait()
	m.tellThem()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m.client.Close(ctx)
}

// --- What clients read

// treeOf returns the subtree that a path is in, or nil.
func (m *Memory) treeOf(path string) *tree {
	for _, t := range m.trees {
		if path == t.path || treediff.Below(path, t.path) {
			return t
		}
	}
	return nil
}

// Covers reports whether reads of a path may be answered.
func (m *Memory) Covers(path string) bool {
	t := m.treeOf(path)
	return t != nil && t.reads != nil
}

// See calls take with what the memory knows of a path: see client.Memory.
func (m *Memory) See(r *client.Relay, path string, take func(*client.Remembered) client.WatchSet) bool {
	if m.woken() {
		wake(m.behind)
		return false
	}
	t := m.treeOf(path)
	return t.cache.See(path, func(s *cache.Seen) {
		m.mu.Lock()
		defer m.mu.Unlock()
		version, live := m.table.Version(t.reads)
		if !live {
			return
		}
		n := remembered(s, version)
		if set := take(&n); set != 0 {
			m.table.Watch(r, path, set)
		}
	})
}

func remembered(s *cache.Seen, zxid client.Zxid) client.Remembered {
	return client.Remembered{
		Exists: s.Exists, Data: s.Node.Data, Stat: s.Node.Stat, Whole: s.Whole, Names: s.Names, Since: s.Since, Zxid: zxid,
	}
}

// Forget ends the watches of a client.
func (m *Memory) Forget(r *client.Relay) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Forget(r)
}

// Behind makes the caches catch up with what a session has seen.
func (m *Memory) Behind(zxid client.Zxid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Behind(zxid)
	wake(m.behind)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// --- What the caches learn

// Changed tells the events of changes: see cache.Observer.
func (t *tree) Changed(changes []client.Change, zxid client.Zxid) {
	if t.reads == nil {
		return
	}
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range changes {
		m.table.Changed(changes[i].Zxid, changes[i].Kind, changes[i].Path)
	}
	m.table.Complete(t.reads, zxid)
	m.wakeLocked()
}

// Reset makes the watches of the subtree go upstream: see cache.Observer.
func (t *tree) Reset() {
	if t.reads == nil {
		return
	}
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Reset(t.reads)
	m.wakeLocked()
}

// wakeLocked has those goroutines run for which there is something to do.
func (m *Memory) wakeLocked() {
	if m.table.Tells() {
		wake(m.tell)
	}
	if m.table.Lag() {
		wake(m.behind)
	}
}

// tellAll has clients told of their events.
func (m *Memory) tellAll() {
	for {
		select {
		case <-m.stop.Done():
			return
		case <-m.tell:
			m.tellThem()
		}
	}
}

func (m *Memory) tellThem() {
	m.mu.Lock()
	told, events := m.table.Told()
	m.mu.Unlock()
	m.o.Told.Add(events)
	for _, r := range told {
		r.TellHeard()
	}
}

// --- Looking after the caches

const (
	lookEvery    = time.Second
	catchUpPause = 2 * time.Millisecond // between two syncs
	catchUpTime  = 5 * time.Second
)

// follow makes the caches catch up, and gives up those that can't.
func (m *Memory) follow() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-m.stop.Done():
			return
		case <-look.C:
			m.look(time.Now())
			if !m.woken() {
				continue
			}
		case <-m.behind:
		}
		m.catchUp()
		if pause.For(m.stop, catchUpPause) != nil {
			return
		}
	}
}

// woken reports whether the machine was suspended since the caches were up to date. Their connections do not notice it for some time.
func (m *Memory) woken() bool {
	return int64(m.o.Clock.Suspended()) != m.slept.Load()
}

// catchUp makes the caches have what a session has seen, or one of them; all if the machine was suspended.
func (m *Memory) catchUp() {
	ctx, cancel := context.WithTimeout(m.stop, catchUpTime)
	defer cancel()
	slept, woken := int64(m.o.Clock.Suspended()), m.woken()
	for _, t := range m.trees {
		m.mu.Lock()
		lags := t.reads != nil && (woken || m.table.Lags(t.reads))
		m.mu.Unlock()
		if _, stale := t.cache.Stale(); !lags || stale {
			continue
		}
		if err := t.cache.Sync(ctx); err != nil {
			if m.stop.Err() == nil {
				m.o.Log.Debug("a cache could not catch up", "path", t.path, "err", err)
			}
			if _, stale := t.cache.Stale(); !stale && t.cache.Err() == nil {
				slept = m.slept.Load()
			}
		}
	}
	m.slept.Store(slept)
}

// patience is how long watches wait for a cache that is not up to date, before they go upstream.
const patience = time.Second

// look gives up caches that have ended, and has watches not wait for those that are not up to date.
func (m *Memory) look(now time.Time) {
	for _, t := range m.trees {
		if t.gone {
			continue
		}
		since, stale := t.cache.Stale()
		switch err := t.cache.Err(); {
		case errors.Is(err, cache.ErrTooLarge):
			t.gone = true
			t.say(fmt.Sprintf("it takes more than edge.cachedBytes leaves: %d bytes of %d are taken", m.o.Room.Used(), m.o.Room.Most()))
		case err != nil:
			t.gone = true
			t.say(err.Error())
		case !stale && !t.lacksFeed():
			t.say("")
		case m.client.Status().Server == "":
			t.reset(now.Sub(since))
		case t.lacksFeed():
			t.say("the servers offer no feeds")
		case now.Sub(since) > 2*patience:
			t.reset(now.Sub(since))
			t.say("it is not read yet, or the servers have no room for one more feed")
		}
	}
}

// lacksFeed reports whether reads of the subtree can't be answered on the servers that there are.
func (t *tree) lacksFeed() bool {
	s := t.m.client.Status()
	return t.reads != nil && s.Server != "" && s.Features&jute.FeatureFeed == 0
}

// reset makes the watches of a subtree go upstream that have waited for long.
func (t *tree) reset(silent time.Duration) {
	m := t.m
	if silent < patience || t.reads == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Leave(t.reads)
	m.wakeLocked()
}

// say notes why a subtree is not answered from memory, or "" if it is.
func (t *tree) say(why string) {
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.why == why {
		return
	}
	t.why = why
	if why != "" {
		m.o.Log.Warn("reads go to the servers, and not to the cache", "path", t.path, "why", why)
	}
}

// GivenUp reports whether the memory has given a subtree up.
func (m *Memory) GivenUp() bool {
	return slices.ContainsFunc(m.trees, func(t *tree) bool { return t.cache.Err() != nil })
}

// Stats are what a memory has, and does.
type Stats struct {
	Subtrees int // whose reads are answered
	Nodes    int
	Troubles []string
}

// Stats returns the figures.
func (m *Memory) Stats() (s Stats) {
	for _, t := range m.trees {
		m.mu.Lock()
		why := t.why
		m.mu.Unlock()
		if _, stale := t.cache.Stale(); !stale && t.reads != nil && why == "" {
			s.Subtrees++
		}
		if _, stale := t.cache.Stale(); !stale || t.stale {
			s.Nodes += t.cache.Len()
		}
		if why != "" {
			s.Troubles = append(s.Troubles, t.path+": "+why)
		}
	}
	return s
}
