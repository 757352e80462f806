package watch

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/jute"
)

// Watcher is a connection's handle. The server uses small, dense numbers, and may reuse
// one after Drop: the table's size depends on the largest.
type Watcher uint32

// Table holds the watches of a server's connections. Create it with New.
type Table struct {
	seed   maphash.Seed
	memory atomic.Int64

	mu       sync.Mutex // guards the fields below; the package comment has its order
	modes    [modeCount]relation
	watchers []*watcher // by handle; nil: no watches since Drop
	round    uint64     // number of the current or last Trigger
	longest  int        // at least the length of the longest path with a recursive watch
	looked   int        // paths above those of events that Trigger has looked up, for tests
	steps    *steps.Counter
}

// watcher is a connection's side of the relations.
type watcher struct {
	sets  [modeCount]index // ids of watches, by path
	round uint64           // the last round in which it was named
}

// New returns an empty table.
func New() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for m := range t.modes {
		t.modes[m].memory = &t.memory
	}
	return t
}

// Memory returns about how much memory the watches take, in bytes. It needs no lock.
func (t *Table) Memory() int64 { return t.memory.Load() }

// CountSteps has the table count its work. It must precede the table's use by others.
func (t *Table) CountSteps(c *steps.Counter) { t.steps = c }

// Add registers a watch of w on path. A second one of the same mode changes nothing. The
// path is copied and need not be valid. No event is on "", so a watch there never fires,
// as in Apache's server. After the Drop of w, Add must not be called for it until the
// handle is in use again.
func (t *Table) Add(w Watcher, path string, mode Mode) {
	path = tableKey(path)
	hash := t.hash(path, mode)
	t.steps.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for int(w) >= len(t.watchers) {
		t.watchers = append(t.watchers, nil)
	}
	if t.watchers[w] == nil {
		t.watchers[w] = new(watcher)
	}
	if mode == PersistentRecursive {
		t.noteLengthLocked(len(path))
	}
	t.modes[mode].add(w, path, hash, func(w Watcher) *index { return &t.watchers[w].sets[mode] })
}

// noteLengthLocked notes that a recursive watch is about to be set on a path of n bytes.
func (t *Table) noteLengthLocked(n int) {
	if t.modes[PersistentRecursive].watches == 0 {
		t.longest = 0
	}
	t.longest = max(t.longest, n)
}

// Remove removes the watches of w on exactly path that typ selects: of any mode
// for WatchAny, else of the one mode, and none for an unknown type. It returns
// false if there was none (the reply is then ErrNoWatcher).
func (t *Table) Remove(w Watcher, path string, typ jute.WatchType) bool {
	path = tableKey(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.watcherLocked(w)
	if state == nil {
		return false
	}
	removed := false
	for m := range Mode(modeCount) {
		t.steps.Add(1)
		if m.selectedBy(typ) && t.modes[m].remove(&state.sets[m], path, t.hash(path, m)) {
			removed = true
		}
	}
	return removed
}

// Check reports whether Remove would find a watch.
func (t *Table) Check(w Watcher, path string, typ jute.WatchType) bool {
	path = tableKey(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.watcherLocked(w)
	if state == nil {
		return false
	}
	for m := range Mode(modeCount) {
		t.steps.Add(1)
		if m.selectedBy(typ) && t.modes[m].has(&state.sets[m], path, t.hash(path, m)) {
			return true
		}
	}
	return false
}

// Drop removes all watches of w, whose connection is closed. The table is locked for
// some of them at a time, so that nobody waits for a connection with very many.
func (t *Table) Drop(w Watcher) {
	var ends [modeCount]int
	for t.dropPart(w, &ends) {
	}
}

// dropLen is how many watches of a connection are removed under one hold of the lock.
const dropLen = 1024

// dropPart removes the next watches of w, and reports whether there may be more. ends are
// zero at first, then those of the last call.
func (t *Table) dropPart(w Watcher, ends *[modeCount]int) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.watcherLocked(w)
	if state == nil {
		return false
	}
	left := dropLen
	for m := range t.modes {
		left -= t.modes[m].drop(&state.sets[m], &ends[m], left)
	}
	if left == 0 {
		return true
	}
	t.watchers[w] = nil
	return false
}

func (t *Table) watcherLocked(w Watcher) *watcher {
	if int(w) < len(t.watchers) {
		return t.watchers[w]
	}
	return nil
}

// emptyPath takes the place of "", which marks free records. No znode's path has a NUL.
const emptyPath = "\x00"

// tableKey returns the key of a path in the table.
func tableKey(path string) string {
	if path == "" {
		return emptyPath
	}
	return path
}

// pathOfKey is the inverse of tableKey.
func pathOfKey(path string) string {
	if path == emptyPath {
		return ""
	}
	return path
}

// hash returns the hash of a path in a mode. Recursive watches use another hash, which
// Trigger computes for all ancestors of a path in one pass.
func (t *Table) hash(path string, mode Mode) uint32 {
	if mode != PersistentRecursive {
		return uint32(maphash.String(t.seed, path))
	}
	var h uint64
	for end := 0; end < len(path); {
		t.steps.Add(1)
		var name string
		name, end = nextName(path, end)
		h = t.chain(h, name)
	}
	return uint32(h)
}

// chain returns the hash of a path from that of its parent and its last name.
func (t *Table) chain(parent uint64, name string) uint64 {
	h := (parent ^ maphash.String(t.seed, name)) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// nextName returns the name that starts at offset start of path, with the
// slash before it, and the offset of its end. The names of "/a/b" are "/a" and
// "/b", and that of "/" is "/".
func nextName(path string, start int) (name string, end int) {
	end = len(path)
	if i := strings.IndexByte(path[start+1:], '/'); i >= 0 {
		end = start + 1 + i
	}
	return path[start:end], end
}
