package watch

import (
	"iter"
	"slices"
)

// Summary is what the four-letter word wchs shows, which is about the data table only.
type Summary struct {
	Connections int // watchers with at least one watch
	Paths       int // distinct paths
	Watches     int // pairs of watcher and path
}

// dataTable lists the modes of Apache's data table.
var dataTable = [...]Mode{Data, Persistent, PersistentRecursive}

// Count returns the number of watches in both of Apache's tables: a persistent
// watch counts twice. (Apache counts several modes of one connection on one
// path once in each table; this counts each.) It is O(1).
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for m := range t.modes {
		n += t.modes[m].watches
	}
	return n + t.modes[Persistent].watches
}

// CountOf returns the number of watches of w, of all modes.
func (t *Table) CountOf(w Watcher) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state := t.watcherLocked(w); state != nil {
		for m := range state.sets {
			n += state.sets[m].n
		}
	}
	return n
}

// Summary counts the watches of the data table. It looks at each watch, as ByPath does,
// and so under load it does not show a single instant.
func (t *Table) Summary() Summary {
	var s Summary
	t.mu.Lock()
	for _, w := range t.watchers {
		if w != nil && w.sets[Data].n+w.sets[Persistent].n+w.sets[PersistentRecursive].n > 0 {
			s.Connections++
		}
	}
	t.mu.Unlock()
	for _, watchers := range t.ByPath() {
		s.Paths++
		s.Watches += len(watchers)
	}
	return s
}

// AppendPaths appends the paths that w watches in the data table to dst, sorted and
// without duplicates, as wchc shows them.
func (t *Table) AppendPaths(dst []string, w Watcher) []string {
	start := len(dst)
	t.mu.Lock()
	if state := t.watcherLocked(w); state != nil {
		for _, m := range dataTable {
			r := &t.modes[m]
			state.sets[m].each(func(id uint32) {
				dst = append(dst, pathOfKey(r.paths.at(r.pathOf(id)).path))
			})
		}
	}
	t.mu.Unlock()
	slices.Sort(dst[start:])
	return dst[:start+len(slices.Compact(dst[start:]))]
}

// ByPath yields each path of the data table with its watchers, ascending and without
// duplicates, in no particular order of paths, as wchp shows them. The slice is valid
// until the next iteration. The table is locked for about a thousand watches at a time
// and never in the loop's body, so a path whose watches are added or removed meanwhile
// may be left out, or yielded twice.
func (t *Table) ByPath() iter.Seq2[string, []Watcher] {
	return func(yield func(string, []Watcher) bool) {
		for i, mode := range dataTable {
			var part pathPart
			for more := true; more; {
				more = t.readPart(&part, mode, dataTable[:i])
				start := 0
				for j, path := range part.paths {
					watchers := part.watchers[start:part.ends[j]]
					start = part.ends[j]
					slices.Sort(watchers)
					if !yield(path, slices.Compact(watchers)) {
						return
					}
				}
			}
		}
	}
}

// pathPart is a piece of the data table: the watchers of paths[i] end at
// ends[i] in watchers.
type pathPart struct {
	next     uint32 // number of the path after the last one read
	paths    []string
	watchers []Watcher
	ends     []int
}

// readPart reads the next paths of a mode into part, except those that a mode in before
// has too, and reports whether there are more.
func (t *Table) readPart(part *pathPart, mode Mode, before []Mode) (more bool) {
	part.paths, part.watchers, part.ends = part.paths[:0], part.watchers[:0], part.ends[:0]
	t.mu.Lock()
	defer t.mu.Unlock()
	paths := &t.modes[mode].paths
	const enough = 1024
	for seen := 0; part.next < paths.used && seen+len(part.watchers) < enough; seen++ {
		id := part.next
		part.next++
		if id == 0 || paths.at(id).path == "" {
			continue // not in use
		}
		path := paths.at(id).path
		if slices.ContainsFunc(before, func(m Mode) bool { return t.watchedLocked(m, path) }) {
			continue
		}
		for _, m := range dataTable {
			part.watchers = t.appendWatchersLocked(part.watchers, m, path)
		}
		part.paths = append(part.paths, pathOfKey(path))
		part.ends = append(part.ends, len(part.watchers))
	}
	return part.next < paths.used
}

func (t *Table) watchedLocked(mode Mode, path string) bool {
	return t.modes[mode].find(path, t.hash(path, mode)) != 0
}

func (t *Table) appendWatchersLocked(dst []Watcher, mode Mode, path string) []Watcher {
	r := &t.modes[mode]
	p := r.find(path, t.hash(path, mode))
	if p == 0 {
		return dst
	}
	for id := r.head(p); id != 0; id = r.next(id) {
		dst = append(dst, r.watcherOf(id))
	}
	return dst
}
