package resume

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Table has watches by kind and path, each in the order in which they were put.
type Table[W comparable] [Kinds]map[string][]W // a map is nil until there is a watch

// Put adds a watch.
func (t *Table[W]) Put(kind Kind, path string, w W) {
	if t[kind] == nil {
		t[kind] = map[string][]W{}
	}
	t[kind][path] = append(t[kind][path], w)
}

// Drop removes a watch and reports whether it was there.
func (t *Table[W]) Drop(kind Kind, path string, w W) (was bool) {
	t.Keep(kind, path, func(other W) bool {
		was = was || other == w
		return other != w
	})
	return was
}

// Keep removes the watches of a kind at a path for which keep returns false. It calls keep once for each, in their order.
func (t *Table[W]) Keep(kind Kind, path string, keep func(W) bool) {
	list, ok := t[kind][path]
	if !ok {
		return
	}
	if list = slices.DeleteFunc(list, func(w W) bool { return !keep(w) }); len(list) > 0 {
		t[kind][path] = list
	} else {
		delete(t[kind], path)
	}
}

// Take removes the watches that a removeWatches is about, and returns them.
func (t *Table[W]) Take(path string, typ jute.WatchType) (taken []W) {
	kinds := map[jute.WatchType][]Kind{
		jute.WatchChildren: {Children}, jute.WatchData: {Data, Exist},
		jute.WatchPersistent: {Persistent}, jute.WatchPersistentRecursive: {Recursive},
		jute.WatchAny: {Data, Exist, Children, Persistent, Recursive},
	}
	for _, k := range kinds[typ] {
		taken = append(taken, t[k][path]...)
		delete(t[k], path)
	}
	return taken
}

// FiredBy returns the kinds of one-shot watches that an event fires.
func FiredBy(typ jute.EventType) []Kind {
	switch typ {
	case jute.EventCreated, jute.EventDataChanged:
		return []Kind{Data, Exist}
	case jute.EventChildrenChanged:
		return []Kind{Children}
	case jute.EventDeleted:
		return []Kind{Data, Exist, Children}
	}
	return nil
}
