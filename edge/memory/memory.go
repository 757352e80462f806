package memory

import (
	"cmp"
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
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/jute"
)

// Faults of a memory.
var (
	oneVersion   = mutant.New("memory-one-version") // subtrees do not wait for each other
	resetKept    = mutant.New("memory-reset-kept")  // watches stay in a memory that has missed changes
	rightsKept   = mutant.New("memory-rights-kept") // and on a node that can't be read any more
	firedKept    = mutant.New("memory-fired-kept")  // a watch that has fired fires again
	parentSilent = mutant.New("memory-no-parent")   // the event of a node is told, and that of its parent is not
)

// Options are what a Memory needs.
type Options struct {
	Servers string
	Client  client.Options     // of the identity
	Paths   []string           // the subtrees whose reads are answered
	Stale   []string           // those that are kept for when the servers are away: see SeeLast. None is below one of Paths, or above
	For     time.Duration      // how long they are shown after they were known to be current
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
	behind chan struct{} // capacity 1: wanted has grown
	wanted atomic.Int64  // the zxid that the caches should have

	absence atomic.Pointer[Absence]

	mu      sync.Mutex
	version client.Zxid // up to which all events are told
	waiting []event     // that not all caches have come to
	paths   map[string]map[watcher]client.WatchSet
	relays  map[watcher]map[string]bool // the paths of each
	told    []watcher                   // those with something to tell their clients
}

// watcher is a client.Relay.
type watcher interface {
	Heard(zxid client.Zxid, ev jute.WatcherEvent)
	TellHeard()
}

type event struct {
	zxid client.Zxid
	ev   jute.WatcherEvent
}

// tree is a subtree.
type tree struct {
	m     *Memory
	path  string
	reads bool // it is one of Options.Paths
	stale bool // it is one of Options.Stale
	cache *cache.Cache

	// Guarded by Memory.mu.
	live    bool        // Changed gets all changes
	version client.Zxid // up to which it has everything
	why     string      // reads of it go to the servers, or ""
	current time.Time   // it had everything then, of Options.Stale

	gone bool // its cache has ended; of the goroutine that looks after the caches
}

// Open begins to keep the subtrees.
func Open(o Options) (*Memory, error) {
	o.Client.RenewSession = true
	c, err := client.New(o.Servers, o.Client)
	if err != nil {
		return nil, err
	}
	m := &Memory{
		o: o, client: c, tell: make(chan struct{}, 1), behind: make(chan struct{}, 1),
		paths: map[string]map[watcher]client.WatchSet{}, relays: map[watcher]map[string]bool{},
	}
	m.stop, m.end = context.WithCancel(context.Background())
	for _, path := range o.Paths {
		stale := slices.Contains(o.Stale, path)
		stale = stale || awayUnlisted.Planted()
		m.trees = append(m.trees, &tree{m: m, path: path, reads: true, stale: stale})
	}
	for _, path := range o.Stale {
		if !slices.Contains(o.Paths, path) {
			m.trees = append(m.trees, &tree{m: m, path: path, stale: true})
		}
	}
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
	return t != nil && t.reads
}

// See calls take with what the memory knows of a path: see client.Memory.
func (m *Memory) See(r *client.Relay, path string, take func(*client.Remembered) client.WatchSet) bool {
	t := m.treeOf(path)
	return t.cache.See(path, func(s *cache.Seen) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !t.live {
			return
		}
		n := remembered(s, m.version)
		if set := take(&n); set != 0 {
			m.watchLocked(r, path, set)
		}
	})
}

func remembered(s *cache.Seen, zxid client.Zxid) client.Remembered {
	return client.Remembered{
		Exists: s.Exists, Data: s.Node.Data, Stat: s.Node.Stat, Whole: s.Whole, Names: s.Names, Since: s.Since, Zxid: zxid,
	}
}

func (m *Memory) watchLocked(r watcher, path string, set client.WatchSet) {
	if m.paths[path] == nil {
		m.paths[path] = map[watcher]client.WatchSet{}
	}
	if m.relays[r] == nil {
		m.relays[r] = map[string]bool{}
	}
	m.paths[path][r] |= set
	m.relays[r][path] = true
}

// Forget ends the watches of a client.
func (m *Memory) Forget(r *client.Relay) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.relays[r] {
		m.unwatchLocked(r, path)
	}
}

func (m *Memory) unwatchLocked(r watcher, path string) {
	delete(m.paths[path], r)
	if len(m.paths[path]) == 0 {
		delete(m.paths, path)
	}
	delete(m.relays[r], path)
	if len(m.relays[r]) == 0 {
		delete(m.relays, r)
	}
}

// Behind makes the caches catch up with what a session has seen.
func (m *Memory) Behind(zxid client.Zxid) {
	for old := m.wanted.Load(); old < int64(zxid) && !m.wanted.CompareAndSwap(old, int64(zxid)); old = m.wanted.Load() {
	}
	wake(m.behind)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// --- What the caches learn

// eventOf are the events that changes are.
var eventOf = map[client.ChangeKind]jute.EventType{
	client.ChangeCreated: jute.EventCreated, client.ChangeDeleted: jute.EventDeleted, client.ChangeData: jute.EventDataChanged, jute.ChangeChildren: jute.EventChildrenChanged,
}

// Changed tells the events of changes: see cache.Observer.
func (t *tree) Changed(changes []client.Change, zxid client.Zxid) {
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	t.live, t.version = true, zxid
	if !t.reads {
		return
	}
	for i := range changes {
		c := &changes[i]
		if parentSilent.Planted() && c.Kind == jute.ChangeChildren {
			continue
		}
		rights := c.Kind == client.ChangeACL
		rights = rights && !rightsKept.Planted()
		switch {
		case rights:
			m.leaveLocked(c.Path)
			m.wakeLocked()
		case c.Kind == client.ChangeACL:
		default:
			m.waiting = append(m.waiting, event{c.Zxid, jute.WatcherEvent{Type: eventOf[c.Kind], State: jute.StateSyncConnected, Path: c.Path}})
		}
	}
	m.publishLocked()
}

// Reset makes the watches of the subtree go upstream: see cache.Observer.
func (t *tree) Reset() {
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	t.live = false
	m.waiting = slices.DeleteFunc(m.waiting, func(e event) bool { return m.treeOf(e.ev.Path) == t })
	if !resetKept.Planted() {
		t.leaveLocked()
	}
	m.publishLocked()
}

// leaveLocked makes all watches of those clients go upstream that have one on a path.
func (m *Memory) leaveLocked(path string) {
	for r := range m.paths[path] {
		r.Heard(0, jute.WatcherEvent{})
		m.told = append(m.told, r)
	}
}

// leaveLocked makes all watches of those clients go upstream that have one in the subtree.
func (t *tree) leaveLocked() {
	for path := range t.m.paths {
		if t.m.treeOf(path) == t {
			t.m.leaveLocked(path)
		}
	}
	t.m.wakeLocked()
}

// publishLocked tells the events that all caches have come to.
func (m *Memory) publishLocked() {
	least, most := client.Zxid(-1), client.Zxid(0)
	for _, t := range m.trees {
		if !t.live || !t.reads {
			continue
		}
		if least < 0 || t.version < least {
			least = t.version
		}
		most = max(most, t.version)
	}
	if oneVersion.Planted() {
		least = most
	}
	m.version = least
	if len(m.trees) > 1 {
		slices.SortStableFunc(m.waiting, func(a, b event) int { return cmp.Compare(a.zxid, b.zxid) })
	}
	n := 0
	for n < len(m.waiting) && m.waiting[n].zxid <= least {
		m.fireLocked(m.waiting[n])
		n++
	}
	m.waiting = slices.Delete(m.waiting, 0, n)
	if least < most {
		m.Behind(most)
	}
	m.wakeLocked()
}

// fireLocked has the watchers of a node hear of an event.
func (m *Memory) fireLocked(e event) {
	kinds := client.Fires(client.EventType(e.ev.Type))
	for r, set := range m.paths[e.ev.Path] {
		if set&kinds == 0 {
			continue
		}
		kept := set &^ kinds
		if firedKept.Planted() {
			kept = set
		}
		if m.paths[e.ev.Path][r] = kept; kept == 0 {
			m.unwatchLocked(r, e.ev.Path)
		}
		r.Heard(e.zxid, e.ev)
		m.told = append(m.told, r)
		m.o.Told.Add(1)
	}
}

func (m *Memory) wakeLocked() {
	if len(m.told) > 0 {
		wake(m.tell)
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
	told := m.told
	m.told = nil
	m.mu.Unlock()
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
			continue
		case <-m.behind:
		}
		m.catchUp()
		pause := time.NewTimer(catchUpPause)
		select {
		case <-pause.C:
		case <-m.stop.Done():
			pause.Stop()
			return
		}
	}
}

// catchUp makes the caches have what a session has seen, or one of them.
func (m *Memory) catchUp() {
	ctx, cancel := context.WithTimeout(m.stop, catchUpTime)
	defer cancel()
	for _, t := range m.trees {
		m.mu.Lock()
		lags := t.live && t.reads && t.version < client.Zxid(m.wanted.Load())
		m.mu.Unlock()
		if _, stale := t.cache.Stale(); !lags || stale {
			continue
		}
		if err := t.cache.Sync(ctx); err != nil && m.stop.Err() == nil {
			m.o.Log.Debug("a cache could not catch up", "path", t.path, "err", err)
		}
	}
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
	return t.reads && s.Server != "" && s.Features&jute.FeatureFeed == 0
}

// reset makes the watches of a subtree go upstream that have waited for long.
func (t *tree) reset(silent time.Duration) {
	m := t.m
	if silent < patience {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.leaveLocked()
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
		if _, stale := t.cache.Stale(); !stale && t.reads && why == "" {
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
