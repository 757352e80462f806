package watch

import (
	"strings"
	"sync/atomic"
)

// relation records which watchers watch which paths in one mode. A watcher's side of it
// is a set of the ids of its watches, which the caller keeps and passes in.
//
// Most paths have one watcher. The id of its watch is that of the path, marked as alone, and
// there is no link: the path names the watcher. When a second one comes, both get links,
// which stay until they are removed.
type relation struct {
	watches int
	byPath  [segments]index // ids in paths; segmentOf selects the index
	paths   slab[watchedPath, *watchedPath]
	links   slab[link, *link]
	memory  *atomic.Int64 // of all relations of the table
	cursor  uint32        // the link that the next part of a Firing begins with, or 0: it begins with the head
}

// What a path, without its bytes, and a watch take, all included: see TestMemory.
const (
	pathBytes  = 56
	watchBytes = 48
)

// pathMemory is what a path takes.
func pathMemory(path string) int64 { return pathBytes + int64(len(path)) + int64(len(path))/8 }

// segments is the number of tables into which the index of paths is split, so that no Add
// waits while a big one grows.
const segments = 256

// watchedPath is a path with at least one watcher.
type watchedPath struct {
	path  string // "" while the record is free
	first uint32 // the watcher, marked as alone, or the head of the list of links; 0 only within a call
	hash  uint32
}

// alone marks the id of a watch without a link. Ids and watchers are smaller.
const alone = 1 << 31

// link is a watch of a path that has, or had, several.
type link struct {
	path       uint32 // in paths
	watcher    Watcher
	next, prev uint32 // in the list of the path; 0 is the end
}

func (p *watchedPath) nextFree() *uint32 { return &p.first }
func (l *link) nextFree() *uint32        { return &l.next }

// segmentOf uses bits that are neither in the tag nor, in a segment of up to
// 2^17 slots, in the number of the slot.
func segmentOf(hash uint32) uint32 { return hash >> 17 % segments }

// hashOfID spreads the bits of a path's number (the finalizer of MurmurHash3).
func hashOfID(id uint32) uint32 {
	id ^= id >> 16
	id *= 0x85ebca6b
	id ^= id >> 13
	id *= 0xc2b2ae35
	return id ^ id>>16
}

func (r *relation) pathHash(id uint32) uint32 { return r.paths.at(id).hash }
func (r *relation) linkHash(id uint32) uint32 { return hashOfID(r.pathOf(id)) }

// pathOf returns the number of the path of a watch.
func (r *relation) pathOf(id uint32) uint32 {
	if id&alone != 0 {
		return id &^ alone
	}
	return r.links.at(id).path
}

func (r *relation) watcherOf(id uint32) Watcher {
	if id&alone != 0 {
		return Watcher(r.paths.at(id&^alone).first &^ alone)
	}
	return r.links.at(id).watcher
}

// head returns the first watch of a path.
func (r *relation) head(path uint32) uint32 {
	if first := r.paths.at(path).first; first&alone == 0 {
		return first
	}
	return path | alone
}

// next returns the watch after this one of the same path, or 0.
func (r *relation) next(id uint32) uint32 {
	if id&alone != 0 {
		return 0
	}
	return r.links.at(id).next
}

func (r *relation) slotOf(path string, hash uint32) int {
	return r.byPath[segmentOf(hash)].find(hash, func(id uint32) bool {
		return r.paths.at(id).path == path
	})
}

// find returns the number of a path, or 0 if it has no watchers.
func (r *relation) find(path string, hash uint32) uint32 {
	if i := r.slotOf(path, hash); i >= 0 {
		return r.byPath[segmentOf(hash)].ids[i]
	}
	return 0
}

// linkSlot returns the slot of set that holds the watch of a path, or -1.
func (r *relation) linkSlot(set *index, path uint32) int {
	return set.find(hashOfID(path), func(id uint32) bool {
		return r.pathOf(id) == path
	})
}

// has reports whether the watcher with this set watches path.
func (r *relation) has(set *index, path string, hash uint32) bool {
	id := r.find(path, hash)
	return id != 0 && r.linkSlot(set, id) >= 0
}

// add lets w watch path, unless it does already. setOf returns the set of a watcher.
func (r *relation) add(w Watcher, path string, hash uint32, setOf func(Watcher) *index) {
	set := setOf(w)
	p := r.find(path, hash)
	if p == 0 {
		p = r.paths.alloc()
		*r.paths.at(p) = watchedPath{path: strings.Clone(path), hash: hash, first: uint32(w) | alone}
		r.byPath[segmentOf(hash)].insert(hash, p, r.pathHash)
		set.insert(hashOfID(p), p|alone, r.linkHash)
		r.watches++
		r.memory.Add(pathMemory(path) + watchBytes)
		return
	}
	if r.linkSlot(set, p) >= 0 {
		return
	}
	if id := r.head(p); id&alone != 0 {
		other := r.watcherOf(id)
		its := setOf(other)
		slot := r.linkSlot(its, p)
		its.ids[slot] = r.link(p, other)
	}
	set.insert(hashOfID(p), r.link(p, w), r.linkHash)
	r.watches++
	r.memory.Add(watchBytes)
}

// link puts w at the head of the list of a path.
func (r *relation) link(p uint32, w Watcher) (id uint32) {
	id = r.links.alloc()
	head := &r.paths.at(p).first
	*r.links.at(id) = link{path: p, watcher: w}
	if *head&alone == 0 {
		r.links.at(id).next = *head
		r.links.at(*head).prev = id
	}
	*head = id
	return id
}

// remove undoes add, and reports whether there was a watch.
func (r *relation) remove(set *index, path string, hash uint32) bool {
	p := r.find(path, hash)
	if p == 0 {
		return false
	}
	slot := r.linkSlot(set, p)
	if slot < 0 {
		return false
	}
	id := set.ids[slot]
	set.remove(slot, r.linkHash)
	r.unlink(id)
	return true
}

// keep makes a watch the one that the next part of a Firing begins with.
func (r *relation) keep(id uint32) {
	if id&alone == 0 {
		r.cursor = id
	}
}

// unlink removes a watch, which is no longer in any set, from its path.
func (r *relation) unlink(id uint32) {
	r.watches--
	r.memory.Add(-watchBytes)
	if id&alone != 0 {
		r.forget(id &^ alone)
		return
	}
	l := *r.links.at(id)
	next := id == r.cursor
	next = next && !cursorStays.Planted()
	if next {
		r.cursor = l.next
	}
	if l.next != 0 {
		r.links.at(l.next).prev = l.prev
	}
	if l.prev != 0 {
		r.links.at(l.prev).next = l.next
	} else {
		r.paths.at(l.path).first = l.next
	}
	r.links.release(id)
	if r.paths.at(l.path).first == 0 {
		r.forget(l.path)
	}
}

// forget removes a path without watchers.
func (r *relation) forget(p uint32) {
	w := r.paths.at(p)
	r.memory.Add(-pathMemory(w.path))
	seg := &r.byPath[segmentOf(w.hash)]
	slot := seg.find(w.hash, func(id uint32) bool { return id == p })
	seg.remove(slot, r.pathHash)
	r.paths.release(p)
}

// drop unlinks up to most watches of a set, which gets no more, and returns how many it
// did. It goes through the slots from the last to the first, so that an id is seldom moved
// back; the slots from end on are done, and 0 is the end of all.
func (r *relation) drop(set *index, end *int, most int) (n int) {
	for n < most && set.n > 0 {
		if *end == 0 {
			*end = len(set.tags)
		}
		slot := *end - 1
		if set.tags[slot] == 0 {
			*end = slot
			continue
		}
		id := set.ids[slot]
		set.remove(slot, r.linkHash)
		r.unlink(id)
		n++
	}
	if set.n == 0 {
		*set = index{}
	}
	return n
}
