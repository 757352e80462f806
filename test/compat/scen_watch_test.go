//go:build compat

package compat

import (
	"fmt"
	"strings"
)

// watchKinds are the ways to set a watch on a path.
var watchKinds = []struct {
	name string
	set  func(path string) request
}{
	{"data", getW},
	{"exist", existsW},
	{"child", childrenW},
	{"child1", func(p string) request { return read(opGetChildren, p, true) }},
	{"persistent", func(p string) request { return addWatch(p, 0) }},
	{"recursive", func(p string) request { return addWatch(p, 1) }},
}

// changes are what can happen around the node /w/n. Each runs on a fresh /w
// that has n, unless it creates it.
var changes = []struct {
	name   string
	absent bool // /w/n does not exist when the watch is set
	ops    []request
}{
	{"set data", false, []request{set("/w/n", "1"), set("/w/n", "2")}},
	{"set acl", false, []request{setACL("/w/n", openACL, -1)}},
	{"child made and gone", false, []request{create("/w/n/c", "", 0), set("/w/n/c", "x"), del("/w/n/c", -1), create("/w/n/d", "", 0)}},
	{"grandchild", false, []request{create("/w/n/c", "", 0), create("/w/n/c/g", "", 0), del("/w/n/c/g", -1)}},
	{"delete and again", false, []request{del("/w/n", -1), create("/w/n", "", 0), set("/w/n", "x"), del("/w/n", -1)}},
	{"create", true, []request{create("/w/n", "", 0), set("/w/n", "x")}},
	{"failures", false, []request{setData("/w/n", nil, 99), create("/w/n", "", 0), del("/w/n", 99), multi(set("/w/n", "x"), check("/none", -1))}},
	{"neighbours", false, []request{create("/w/nn", "", 0), set("/w", "x"), create("/w/m", "", 0), create("/w/m/n", "", 0)}},
}

func watchScenarios() []scenario {
	list := []scenario{
		{name: "watch: each kind, each change", run: func(w *world) {
			for _, kind := range watchKinds {
				for _, change := range changes {
					w.logf("== %s watch: %s", kind.name, change.name)
					onWatched(w, change.absent, change.ops, kind.set("/w/n"))
				}
			}
		}},
		{name: "watch: data and child together", run: func(w *world) {
			for _, change := range changes {
				w.logf("== %s", change.name)
				onWatched(w, change.absent, change.ops, getW("/w/n"), childrenW("/w/n"), childrenW("/w"), existsW("/w/n"))
			}
		}},
		{name: "watch: on the parent and above", run: func(w *world) {
			for _, change := range changes {
				w.logf("== %s", change.name)
				onWatched(w, change.absent, change.ops, childrenW("/w"), addWatch("/", 1), addWatch("/w/n/c", 0))
			}
		}},
		{name: "watch: recursive and standard", run: func(w *world) {
			for _, change := range changes {
				w.logf("== %s", change.name)
				onWatched(w, change.absent, change.ops, addWatch("/w", 1), getW("/w/n"), childrenW("/w/n"))
			}
		}},
		{name: "watch: modes on one path", run: func(w *world) {
			for i, first := range watchKinds {
				for j, second := range watchKinds {
					if i == j {
						continue
					}
					w.logf("== %s then %s", first.name, second.name)
					ops := append(append([]request{}, changes[0].ops...), changes[2].ops...)
					onWatched(w, false, ops, first.set("/w/n"), second.set("/w/n"))
				}
			}
		}},
		{name: "watch: zxid of events", run: func(w *world) {
			w.events = true
			onWatched(w, false, []request{set("/w/n", "1")}, getW("/w/n"))
		}},
		{name: "watch: event before the own reply", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/own", "", 0), getW("/own"), childrenW("/own"), set("/own", "x"), create("/own/x", "", 0), get("/own"), getW("/own"), del("/own/x", -1), del("/own", -1))
		}},
		{name: "watch: twice and absent", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			a.do(getW("/tw"), childrenW("/tw"), existsW("/tw"), existsW("/tw"))
			b.do(create("/tw", "", 0), set("/tw", "x"), create("/tw/x", "", 0))
			a.do(getW("/tw"), getW("/tw"), existsW("/tw"), childrenW("/tw"), read(opGetChildren, "/tw", true))
			b.do(set("/tw", "y"), set("/tw", "z"), del("/tw/x", -1), create("/tw/x", "", 0))
			b.removeAll("/tw")
		}},
		{name: "watch: odd paths and modes", own: &config{}, run: func(w *world) {
			c := w.connect("A")
			for _, mode := range []int32{0, 1, 2, -1, 3} {
				for _, p := range []string{"/", "", "x", "/none/x", "/a//b", "/zookeeper"} {
					c.do(addWatch(p, mode))
				}
			}
			c.do(create("/odd", "", 0), set("/", "x"), del("/odd", -1))
			d := w.connect("B")
			d.do(getW("/"), childrenW("/"), existsW(""))
			c.do(set("/", "y"), create("/odd", "", 0), del("/odd", -1))
		}},
		{name: "watch: session close", run: func(w *world) {
			a, b, c := w.connect("A"), w.connect("B"), w.connect("C")
			a.do(create("/cl", "", 0), create("/cl/e", "", 1))
			b.do(getW("/cl/e"), childrenW("/cl"))
			c.do(addWatch("/cl", 1), addWatch("/cl/e", 0))
			a.do(closeSession())
			w.barrier()
			b.removeAll("/cl")
		}},
		{name: "watch: not without READ", run: func(w *world) {
			a, b, c := w.connect("A"), w.connect("B"), w.connect("C")
			a.do(auth("digest", "bob:pw"))
			mine := []acl{{31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}}
			b.do(addWatch("/no", 1), existsW("/no/x"))
			c.do(addWatch("/no", 0), existsW("/no/x"))
			a.do(createACL(opCreate, "/no", nil, mine, 0), createACL(opCreate, "/no/x", nil, openACL, 0), set("/no", "x"), set("/no/x", "x"))
			a.do(getW("/no"), childrenW("/no"), set("/no", "y"), create("/no/y", "", 0))
			a.removeAll("/no")
		}},
		{name: "watch: withdrawn READ", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			a.do(auth("digest", "bob:pw"))
			mine := []acl{{31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}}
			a.do(create("/wd", "", 0))
			b.do(getW("/wd"), childrenW("/wd"))
			a.do(setACL("/wd", mine, -1), set("/wd", "x"), createACL(opCreate, "/wd/x", nil, openACL, 0), setACL("/wd", openACL, -1), set("/wd", "y"), create("/wd/y", "", 0))
			a.removeAll("/wd")
		}},
	}
	return append(list, append(removeWatchScenarios(), setWatchScenarios()...)...)
}

// onWatched makes /w (with n in it, unless absent), sets watches from one
// connection, makes the changes from another, and cleans up.
func onWatched(w *world, absent bool, ops []request, watches ...request) {
	a, b := w.connect("A"), w.connect("B")
	w.hushed(func() {
		b.do(create("/w", "", 0))
		if !absent {
			b.do(create("/w/n", "", 0))
		}
	})
	a.do(watches...)
	for _, op := range ops {
		b.do(op)
	}
	w.hushed(func() { a.do(closeSession()); b.removeAll("/w"); b.do(closeSession()) })
}

func removeWatchScenarios() []scenario {
	matrix := func(op int32, standard bool) func(w *world) {
		return func(w *world) {
			for _, kind := range watchKinds {
				if standard == strings.HasPrefix(kind.set("").String(), "addWatch") {
					continue
				}
				for typ := int32(0); typ <= 6; typ++ {
					w.logf("== %s watch, type %d", kind.name, typ)
					onWatched(w, false, []request{set("/w/n", "x"), create("/w/n/c", "", 0)}, kind.set("/w/n"), watchOp(op, "/w/n", typ), watchOp(op, "/w", typ), watchOp(op, "/w/n", typ))
				}
			}
		}
	}
	return []scenario{
		{name: "watch: removeWatches, standard", run: matrix(opRemoveWatches, true)},
		{name: "watch: checkWatches, standard", run: matrix(opCheckWatches, true)},
		{name: "watch: removeWatches, persistent", run: matrix(opRemoveWatches, false)},
		{name: "watch: checkWatches, persistent", run: matrix(opCheckWatches, false)},
		{name: "watch: checkWatches for another's watch", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			a.do(create("/cw", "", 0), getW("/cw"), childrenW("/cw"))
			for typ := int32(1); typ <= 3; typ++ {
				b.do(watchOp(opCheckWatches, "/cw", typ))
			}
		}},
		{name: "watch: removeWatches, both tables", run: func(w *world) {
			for typ := int32(1); typ <= 3; typ++ {
				w.logf("== type %d", typ)
				onWatched(w, false, []request{set("/w/n", "x"), create("/w/n/c", "", 0)}, getW("/w/n"), childrenW("/w/n"), watchOp(opRemoveWatches, "/w/n", typ), watchOp(opCheckWatches, "/w/n", 1), watchOp(opCheckWatches, "/w/n", 2), watchOp(opCheckWatches, "/w/n", 3))
			}
		}},
	}
}

func setWatchScenarios() []scenario {
	return []scenario{
		{name: "watch: setWatches", run: func(w *world) { resetWatches(w, false) }},
		{name: "watch: setWatches2", run: func(w *world) { resetWatches(w, true) }},
		{name: "watch: setWatches on odd paths", run: func(w *world) {
			c := w.connect("A")
			odd := []string{"", "x", "/", "/a//b", "/none"}
			c.do(setWatches(0, "0", odd, odd, odd, odd, odd))
			c.do(setWatches(-1, "-1", []string{"/zookeeper"}, []string{"/zookeeper"}, []string{"/zookeeper"}))
			c.do(setWatches(1<<62, "future", []string{"/zookeeper"}, nil, []string{"/zookeeper"}))
			c.do(set("/zookeeper", "x"))
		}},
	}
}

// resetWatches changes nodes in every way between a zxid and a setWatches with
// that zxid, with each node in each list.
func resetWatches(w *world, two bool) {
	w.events = true
	a, b := w.connect("A"), w.connect("B")
	b.do(create("/sw", "", 0))
	var paths []string
	for i := range 6 {
		paths = append(paths, fmt.Sprintf("/sw/%d", i))
		b.do(create(paths[i], "", 0))
	}
	var zxid int64
	w.hushed(func() { zxid = b.lastZxid() })
	// 0 untouched, 1 set, 2 deleted, 3 child, 4 recreated, 5 acl, 6 made, 7 never there.
	b.do(set(paths[1], "x"), del(paths[2], -1), create(paths[3]+"/c", "", 0), del(paths[4], -1), create(paths[4], "", 0), setACL(paths[5], openACL, -1), create("/sw/6", "", 0))
	paths = append(paths, "/sw/6", "/sw/7")
	for i, p := range paths {
		for list := range 3 {
			w.logf("== node %d, list %d", i, list)
			lists := make([][]string, 3)
			if two {
				lists = make([][]string, 5)
			}
			lists[list] = []string{p}
			a.do(setWatches(zxid, "then", lists...))
		}
	}
	if two {
		// Persistent watches on paths of their own: in 3.8 a path has one mode.
		a.do(setWatches(zxid, "then", nil, nil, nil, []string{"/sw/p"}, []string{"/sw/r"}))
		w.hushed(func() { b.do(create("/sw/p", "", 0), create("/sw/r", "", 0)) })
	}
	w.events = false
	for _, p := range paths {
		b.do(set(p, "later"), create(p+"/later", "", 0), create(p, "", 0))
	}
	b.removeAll("/sw")
}
