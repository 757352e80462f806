package watch

import (
	"iter"
	"slices"
)

// Summary is what the four-letter word wchs shows: of the data table alone.
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
		n += t.modes[m].links.live
	}
	return n + t.modes[Persistent].links.live
}

// Summary counts the watches of the data table. It costs one look at each
// watch, with the table locked for a thousand paths at a time, so under load it
// is no view of one instant.
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

// AppendPaths appends the paths that w watches in the data table to dst, sorted
// and each once. It is what wchc shows.
func (t *Table) AppendPaths(dst []string, w Watcher) []string {
	start := len(dst)
	t.mu.Lock()
	if state := t.watcherLocked(w); state != nil {
		for _, m := range dataTable {
			r := &t.modes[m]
			state.sets[m].each(func(id uint32) {
				dst = append(dst, r.paths.at(r.links.at(id).path).path)
			})
		}
	}
	t.mu.Unlock()
	slices.Sort(dst[start:])
	return dst[:start+len(slices.Compact(dst[start:]))]
}

// ByPath yields each path of the data table with its watchers, ascending and
// each once, in no particular order of paths. It is what wchp shows. The slice
// is valid until the loop's next turn. The table is locked for a thousand paths
// at a time and never in the loop's body, so a path whose watches come or go
// meanwhile may be left out, or yielded twice.
func (t *Table) ByPath() iter.Seq2[string, []Watcher] {
	return func(yield func(string, []Watcher) bool) {
		var part pathPart
		for i, mode := range dataTable {
			for chunk := 0; t.readPart(&part, mode, dataTable[:i], chunk); chunk++ {
				start := 0
				for j, path := range part.paths {
					if !yield(path, part.watchers[start:part.ends[j]]) {
						return
					}
					start = part.ends[j]
				}
			}
		}
	}
}

// pathPart is a piece of the data table: the watchers of paths[i] end at
// ends[i] in watchers.
type pathPart struct {
	paths    []string
	watchers []Watcher
	ends     []int
}

// readPart fills part with the paths of one chunk of a mode's paths, except
// those that a mode of before has too. It returns false behind the last chunk.
func (t *Table) readPart(part *pathPart, mode Mode, before []Mode, chunk int) bool {
	part.paths, part.watchers, part.ends = part.paths[:0], part.watchers[:0], part.ends[:0]
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.modes[mode]
	if chunk >= len(r.paths.chunks) {
		return false
	}
	for i := range r.paths.chunks[chunk] {
		path := r.paths.chunks[chunk][i].path
		if path == "" || slices.ContainsFunc(before, func(m Mode) bool { return t.watchedLocked(m, path) }) {
			continue
		}
		start := len(part.watchers)
		for _, m := range dataTable {
			part.watchers = t.appendWatchersLocked(part.watchers, m, path)
		}
		slices.Sort(part.watchers[start:])
		part.watchers = part.watchers[:start+len(slices.Compact(part.watchers[start:]))]
		part.paths = append(part.paths, path)
		part.ends = append(part.ends, len(part.watchers))
	}
	return true
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
	for id := r.paths.at(p).first; id != 0; id = r.links.at(id).next {
		dst = append(dst, r.links.at(id).watcher)
	}
	return dst
}
