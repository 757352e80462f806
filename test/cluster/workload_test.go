package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// The paths of a round, below its prefix.
const (
	registers = 12 // k0, k1, ...: set with and without versions, alone and in a multi
	lists     = 4  // l0, ...: each element is added behind the others
	reborn    = 3  // x0, ...: deleted and made again
)

// workload chooses requests. Every datum that it writes ends with a tag of its
// own, so that what is read tells who wrote it.
type workload struct {
	c       *client
	prefix  string
	beliefs map[string]*belief
	tags    int
	mine    []string // sequential nodes made and not deleted
	brief   []string // ephemerals likewise
	locked  bool     // the lock is held, as far as the client knows
}

func newWorkload(c *client, prefix string) workload {
	return workload{c: c, prefix: prefix, beliefs: make(map[string]*belief)}
}

// skeleton returns what must be there before a round.
func skeleton(prefix string) []*op {
	make := func(path, data string) *op {
		return &op{code: jute.OpCreate2, path: path, data: data}
	}
	list := []*op{make(prefix, ""), make(prefix+"/seq", ""), make(prefix+"/eph", ""), make(prefix+"/fenced", "")}
	for i := range registers {
		list = append(list, make(fmt.Sprintf("%s/k%d", prefix, i), ""))
	}
	for i := range lists {
		list = append(list, make(fmt.Sprintf("%s/l%d", prefix, i), ""))
	}
	return list
}

// tag returns what no other op has.
func (w *workload) tag() string {
	w.tags++
	return fmt.Sprintf("%d.%d", w.c.id, w.tags)
}

// value returns data that ends with a tag, and is long at times.
func (w *workload) value() string {
	if w.c.rng.IntN(5) == 0 { // so that segments of the log fill up
		return strings.Repeat("x", w.c.rng.IntN(8000)) + "," + w.tag()
	}
	return w.tag()
}

func (w *workload) belief(path string) *belief {
	b := w.beliefs[path]
	if b == nil {
		b = &belief{}
		w.beliefs[path] = b
	}
	return b
}

func (w *workload) path(kind string, n int) string {
	return w.prefix + "/" + kind + strconv.Itoa(w.c.rng.IntN(n))
}

// forgetSession is told that the session has ended.
func (w *workload) forgetSession() {
	w.locked = false
	w.brief = nil
}

// choose returns the next requests.
func (w *workload) choose() []*op {
	rng := w.c.rng
	switch n := rng.IntN(100); {
	case n < 26:
		return one(w.set(w.path("k", registers), true))
	case n < 34:
		return one(w.set(w.path("k", registers), false))
	case n < 48:
		return one(w.get(w.anyPath(), rng.IntN(3) == 0))
	case n < 58:
		return w.synced(w.anyPath())
	case n < 66:
		return one(w.append(w.path("l", lists)))
	case n < 74:
		return one(w.multi())
	case n < 79:
		return one(&op{code: jute.OpCreate2, path: w.prefix + "/seq/n", data: w.value(), mode: jute.ModePersistentSequential})
	case n < 82:
		return one(w.deleteMine())
	case n < 85:
		return one(&op{code: jute.OpGetChildren2, path: w.prefix + "/seq", watch: rng.IntN(2) == 0})
	case n < 86:
		return one(&op{code: jute.OpGetChildren2, path: w.prefix + "/may"})
	case n < 90:
		return one(w.rebirth(w.path("x", reborn)))
	case n < 94:
		return one(w.ephemeral())
	default:
		return w.lock()
	}
}

func one(o *op) []*op { return []*op{o} }

func (w *workload) anyPath() string {
	switch n := w.c.rng.IntN(10); {
	case n < 6:
		return w.path("k", registers)
	case n < 8:
		return w.path("l", lists)
	case n < 9:
		return w.path("x", reborn)
	}
	return w.prefix + "/fenced"
}

func (w *workload) get(path string, watch bool) *op {
	return &op{code: jute.OpGetData, path: path, watch: watch}
}

// synced returns a read that may not be late.
func (w *workload) synced(path string) []*op {
	sync := &op{code: jute.OpSync, path: path}
	return []*op{sync, {code: jute.OpGetData, path: path, sync: sync}}
}

// set writes a register, if and only if it has the version that the client
// believes, or in any case.
func (w *workload) set(path string, compare bool) *op {
	b := w.belief(path)
	if !compare {
		b.version++
		return &op{code: jute.OpSetData, path: path, data: w.value(), version: -1}
	}
	if !b.known {
		return w.get(path, false)
	}
	o := &op{code: jute.OpSetData, path: path, data: w.value(), version: b.version}
	b.version++
	return o
}

// append adds an element to a list.
func (w *workload) append(path string) *op {
	b := w.belief(path)
	if !b.known {
		return w.get(path, false)
	}
	tag := w.tag()
	o := &op{code: jute.OpSetData, path: path, data: strings.TrimPrefix(b.data+","+tag, ","), version: b.version}
	b.version++
	b.data = o.data
	return o
}

// multi sets two registers and makes a sequential node, or does nothing.
func (w *workload) multi() *op {
	i := w.c.rng.IntN(registers)
	a, b := fmt.Sprintf("%s/k%d", w.prefix, i), fmt.Sprintf("%s/k%d", w.prefix, (i+1+w.c.rng.IntN(registers-1))%registers)
	first := w.set(a, w.c.rng.IntN(2) == 0)
	if first.code != jute.OpSetData {
		return first
	}
	return &op{code: jute.OpMulti, path: w.prefix, subs: []*op{
		first,
		w.set(b, false),
		{code: jute.OpCreate, path: w.prefix + "/seq/m", data: w.tag(), mode: jute.ModePersistentSequential},
	}}
}

func (w *workload) deleteMine() *op {
	if len(w.mine) == 0 {
		return w.get(w.prefix+"/seq", false)
	}
	path := w.mine[0]
	w.mine = w.mine[1:]
	return &op{code: jute.OpDelete, path: path, version: -1}
}

// rebirth makes a node or deletes it.
func (w *workload) rebirth(path string) *op {
	b := w.belief(path)
	switch {
	case !b.known:
		return &op{code: jute.OpExists, path: path, watch: w.c.rng.IntN(2) == 0}
	case !b.exists:
		b.exists, b.version = true, 0
		return &op{code: jute.OpCreate2, path: path, data: w.value()}
	case w.c.rng.IntN(2) == 0:
		return w.set(path, true)
	}
	b.exists = false
	return &op{code: jute.OpDelete, path: path, version: b.version}
}

func (w *workload) ephemeral() *op {
	if len(w.brief) > 3 {
		path := w.brief[0]
		w.brief = w.brief[1:]
		return &op{code: jute.OpDelete, path: path, version: -1}
	}
	tag := w.tag()
	return &op{code: jute.OpCreate2, path: w.prefix + "/eph/" + tag, data: tag, mode: jute.ModeEphemeral}
}

// lock takes the lock, or writes what it protects and lets it go. Behind the
// write comes the delete on the same connection, so the write happens while the
// lock is held, or not at all.
func (w *workload) lock() []*op {
	path := w.prefix + "/lock"
	if !w.locked {
		if w.c.rng.IntN(3) == 0 {
			return one(&op{code: jute.OpExists, path: path, watch: true})
		}
		return one(&op{code: jute.OpCreate2, path: path, data: w.tag(), mode: jute.ModeEphemeral})
	}
	if w.c.rng.IntN(2) == 0 {
		return one(&op{code: jute.OpSetData, path: w.prefix + "/fenced", data: w.tag(), version: -1})
	}
	w.locked = false
	return one(&op{code: jute.OpDelete, path: path, version: -1})
}

// learn corrects beliefs by a reply.
func (w *workload) learn(o *op) {
	for _, p := range o.parts() {
		w.learnPart(p, o.state, o.err)
	}
}

// underway reports whether requests without reply change a node.
func (w *workload) underway(path string) bool {
	for _, o := range w.c.owed {
		if o.path == path && o.write() {
			return true
		}
	}
	return false
}

func (w *workload) learnPart(o *op, state outcome, err jute.Code) {
	switch {
	case o.mode.Sequential():
		if state == done {
			w.mine = append(w.mine, o.made)
		}
		return
	case strings.HasSuffix(o.path, "/lock"):
		switch {
		case state != done || w.underway(o.path):
		case o.code == jute.OpCreate2:
			w.locked = true
		case o.code == jute.OpExists:
			w.locked = o.stat.EphemeralOwner == w.c.life.id
		}
		return
	case o.mode == jute.ModeEphemeral:
		if state == done {
			w.brief = append(w.brief, o.path)
		}
		return
	}
	b := w.belief(o.path)
	switch {
	case err == jute.ErrNoNode:
		*b = belief{known: true}
	case state == refused:
		b.known = false
	case o.code == jute.OpGetData:
		*b = belief{known: true, exists: true, version: o.stat.Version, data: o.got}
	case o.code == jute.OpExists:
		*b = belief{known: true, exists: true, version: o.stat.Version}
	}
}
