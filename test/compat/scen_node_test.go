//go:build compat

package compat

import (
	"fmt"
	"math"
	"time"
)

// badPaths are paths at the edges of the rules: characters, dots, slashes.
func badPaths() []string {
	list := []string{
		"", "/", "x", "x/y", "//", "/p//x", "/p/", "/p/.", "/p/..", "/p/...", "/p/.b", "/p/./x", "/p/../x", "/.", "/..",
		"/p/a b", "/none/x", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/p/\xff\xfe", "/p/\xed\xa0\x80",
	}
	for _, r := range []rune{0, 1, 0x1f, 0x7f, 0x9f, 0xa0, 0xd7ff, 0xe000, 0xf8ff, 0xf900, 0xffef, 0xfff0, 0xffff, 0x10000, 0x1f600} {
		list = append(list, "/p/"+string(r), "/p/a"+string(r)+"b")
	}
	return list
}

func nodeScenarios() []scenario {
	return []scenario{
		{name: "node: paths", own: &config{}, run: func(w *world) {
			c := w.connect("A")
			c.do(create("/p", "", 0))
			for _, p := range badPaths() {
				c.do(create(p, "", 0), create2(p, "", 3), exists(p), get(p), setData(p, []byte("x"), 99), byPath(opGetACL, p),
					setACL(p, openACL, 99), children(p), read(opGetChildren, p, false), byPath(opSync, p),
					byPath(opGetAllChildrenNumber, p), byPath(opGetEphemerals, p), multi(check(p, 99)))
				c.do(del(p, -1), watchOp(opRemoveWatches, p, 3))
			}
			c.removeAll("/p")
		}},
		{name: "node: create flags", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/fl", "", 0))
			for _, op := range []int32{opCreate, opCreate2, opCreateContainer} {
				for _, flags := range []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 127, -1, math.MaxInt32, math.MinInt32} {
					c.do(createACL(op, fmt.Sprintf("/fl/%d.%d-", op, flags), []byte("d"), openACL, flags))
				}
			}
			c.do(multi(create("/fl/m", "", 5)), multi(create("/fl/m", "", 9)), multi(create2("/fl/m", "", -1)))
			c.tree("/fl")
			c.removeAll("/fl")
		}},
		{name: "node: ttl", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/t", "", 0))
			for _, flags := range []int32{5, 6, 7, -1} {
				for _, ttl := range []int64{0, -1, 1, 1000000, 1<<40 - 1, 1 << 40, math.MaxInt64, math.MinInt64} {
					c.do(createTTL(fmt.Sprintf("/t/%d.%d-", flags, ttl), flags, ttl))
				}
			}
			for _, flags := range []int32{0, 1, 2, 3, 4} {
				c.do(createTTL(fmt.Sprintf("/t/%d", flags), flags, 0), createTTL(fmt.Sprintf("/t/%d", flags), flags, 5))
			}
			c.do(multi(createTTL("/t/m-", 6, 100000), createTTL("/t/bad", 5, 0)), multi(createTTL("/t/m-", 6, 100000)))
			c.do(create("/t/5.1000000-/child", "", 0), create("/t/5.1000000-/eph", "", 1))
			c.tree("/t")
			c.removeAll("/t")
		}},
		{name: "node: ttl disabled", own: &config{lines: []string{"extendedTypesEnabled=false"}}, run: func(w *world) {
			c := w.connect("A")
			c.do(createTTL("/t", 5, 1000), createTTL("/t", 6, 0), createTTL("/t", 0, 5), create("/t", "", 5), create("/t", "", 6), createContainer("/box"))
			c.do(multi(createTTL("/t", 5, 1000)), multi(create("/a", "", 0), createTTL("/t", 5, 1000)), get("/a"))
		}},
		{name: "node: ttl default", own: &config{defaults: true}, run: func(w *world) {
			c := w.connect("A")
			c.do(createTTL("/t", 5, 100000))
		}},
		{name: "node: data", run: func(w *world) {
			c := w.connect("A")
			c.do(createACL(opCreate, "/null", nil, openACL, 0), create("/empty", "", 0))
			c.do(get("/null"), get("/empty"), setData("/null", []byte{}, -1), setData("/empty", nil, -1), get("/null"), get("/empty"))
			c.do(set("/null", "same"), set("/null", "same"), exists("/null"))
			c.do(setData("/null", []byte("v"), 2), setData("/null", []byte("v"), 3), setData("/null", []byte("v"), 3), setData("/null", nil, -2), setData("/null", nil, math.MaxInt32))
			c.do(createACL(opCreate2, "/null", []byte("again"), openACL, 0), del("/null", 3), del("/null", 4), del("/null", -1), del("/empty", -2), del("/empty", 1), get("/null"))
		}},
		{name: "node: stat of parents", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/s", "", 0), create("/s/a", "", 0), create("/s/b", "", 0), create("/s/c", "", 0), exists("/s"))
			c.do(del("/s/a", -1), exists("/s"), set("/s/b", "x"), exists("/s"), del("/s/b", -1), del("/s/c", -1), exists("/s"))
			c.do(create("/s/a", "", 0), create("/s/a", "", 0), exists("/s"), set("/s", "data"), exists("/s"), setACL("/s", openACL, 0), setACL("/s", openACL, 0), exists("/s"))
			c.do(del("/s", -1), del("/s", 7), del("/s/a/b", -1), del("/s/none", -1), create("/s/a/b", "", 0), del("/s/a", -1), del("/s/a", 5))
			c.tree("/s")
			c.removeAll("/s")
		}},
		{name: "node: sequences", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/q", "", 0), create("/q/a-", "", 2), create("/q/a-", "", 2), del("/q/a-0000000000", -1), create("/q/a-", "", 2))
			c.do(create("/q/plain", "", 0), create("/q/b-", "", 3), create("/q/", "", 2), create2("/q/.", "", 2), create("/q/..", "", 2), create("/q/x/", "", 2))
			c.do(create("/q/n-0000000009", "", 0), create("/q/n-", "", 2), create("/q/n-", "", 2), create("/none/n-", "", 2))
			c.do(multi(create("/q/m-", "", 2), create("/q/m-", "", 2), create("/q/m-", "", 3)))
			c.do(multi(create("/q/f-", "", 2), create("/q/f-", "", 2), check("/none", -1)), create("/q/after-", "", 2))
			c.do(children("/q"))
			c.removeAll("/q")
		}},
		{name: "node: ephemerals", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			a.do(create("/e", "", 0), create("/e/one", "1", 1), create("/e/two-", "2", 3), create("/e/one/child", "", 0), create("/e/one/child", "", 1), create("/e/one/s-", "", 2))
			b.do(create("/e/zz", "", 1), create("/e/zze", "", 1), set("/e/one", "by B"), setACL("/e/one", openACL, -1), get("/e/one"))
			for _, p := range []string{"/", "", "/e", "/e/", "/e/z", "/e/zz", "/e/zze", "/e/o", "/none", "e"} {
				a.do(byPath(opGetEphemerals, p))
				b.do(byPath(opGetEphemerals, p))
			}
			b.do(del("/e/two-0000000001", -1), byPath(opGetEphemerals, "/"), existsW("/e/one"), childrenW("/e"))
			a.do(byPath(opGetEphemerals, "/"), closeSession())
			a.expectEnd()
			w.barrier()
			b.do(children("/e"))
			b.tree("/e")
			b.removeAll("/e")
		}},
		{name: "node: counting children", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/k", "", 0), create("/k/a", "", 0), create("/k/a/b", "", 0), create("/k/a/b/c", "", 1), create("/kk", "", 0))
			for _, p := range []string{"/k", "/k/a", "/k/a/b/c", "/kk", "/none", "", "k", "/k/", "/zookeeper"} {
				c.do(byPath(opGetAllChildrenNumber, p), read(opGetChildren, p, false))
			}
			c.removeAll("/k")
			c.removeAll("/kk")
		}},
		{name: "node: pipelined", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/l", "a", 0), setData("/l", []byte("b"), 0), get("/l"), setData("/l", []byte("c"), 1), exists("/l"), get("/l"), create("/l/x", "", 0),
				children("/l"), del("/l", 2), del("/l/x", 0), children("/l"), ping(), del("/l", 2), exists("/l"), create("/l", "", 0), byPath(opSync, "/l"), get("/l"), del("/l", -1))
		}},
		{name: "node: containers and ttl are cleaned up", own: &config{props: map[string]string{checkInterval: "200"}}, run: func(w *world) {
			c := w.connect("A")
			c.do(createContainer("/box"), createContainer("/unused"), create("/box/x", "", 0), createTTL("/ttl", 5, 2000), createTTL("/kept", 5, 2000), create("/kept/x", "", 0))
			c.do(read(opExists, "/box", true), childrenW("/box"), addWatch("/ttl", 0))
			w.hushed(func() { c.do(del("/box/x", -1)) }) // perhaps the container goes with it
			w.until("both gone", 15*time.Second, func() bool { return !c.present("/box") && !c.present("/ttl") })
			c.do(exists("/unused"), children("/kept"))
		}},
		{name: "node: quota", own: &config{}, run: quota},
		{name: "node: quota enforced", own: &config{lines: []string{"enforceQuota=true"}}, run: quota},
		{name: "node: quota limits are garbage", own: &config{}, run: func(w *world) {
			c := w.connect("A")
			c.each(create("/q", "12345", 0), create("/zookeeper/quota/q", "", 0), create("/zookeeper/quota/q/zookeeper_limits", "garbage", 0),
				create("/zookeeper/quota/q/zookeeper_stats", "more garbage", 0), set("/q", "1"), create("/q/x", "12", 0), get("/zookeeper/quota/q/zookeeper_stats"))
		}},
		{name: "node: many children", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/many", "", 0))
			inBatches := func(of func(path string) request) { // one by one Apache's followers take a minute
				for i := range 20 {
					var batch []request
					for j := range 100 {
						batch = append(batch, of(fmt.Sprintf("/many/child-%02d-%02d", i, j)))
					}
					c.do(batch...)
				}
			}
			inBatches(func(path string) request { return create(path, "", 0) })
			c.do(children("/many"), byPath(opGetAllChildrenNumber, "/many"))
			inBatches(func(path string) request { return del(path, -1) })
			c.do(del("/many", -1))
		}},
		{name: "node: reconfig on a standalone server", run: func(w *world) {
			c := w.connect("A")
			c.do(raw(opReconfig, "", enc(nil).str("server.2=a:1:2").i32(-1).i32(-1).i64(-1)))
			c.do(auth("digest", "super:secret"))
			c.do(raw(opReconfig, "as super", enc(nil).str("server.2=a:1:2").i32(-1).i32(-1).i64(-1)))
		}},
		{name: "node: reconfig enabled", own: &config{lines: []string{"reconfigEnabled=true"}}, run: func(w *world) {
			c := w.connect("A")
			c.do(raw(opReconfig, "", enc(nil).str("server.2=a:1:2").i32(-1).i32(-1).i64(-1)))
			c.do(auth("digest", "super:secret"))
			c.do(raw(opReconfig, "as super", enc(nil).str("server.2=a:1:2").i32(-1).i32(-1).i64(-1)))
		}},
	}
}

// quota sets soft and hard limits and goes past them.
func quota(w *world) {
	c := w.connect("A")
	usage := func() { c.each(get("/zookeeper/quota/q/zookeeper_stats")) }
	c.each(create("/q", "12345", 0), create("/q/a", "", 0), create("/zookeeper/quota/q", "", 0),
		create("/zookeeper/quota/q/zookeeper_limits", "count=3,bytes=10", 0),
		create("/zookeeper/quota/q/zookeeper_stats", "count=0,bytes=0", 0))
	usage()
	c.each(create("/q/b", "123456789012", 0), create("/q/c", "", 0), create("/q/a/d", "", 0))
	usage()
	c.each(set("/q/b", "1"), set("/q", ""), del("/q/c", -1))
	usage()
	c.each(set("/zookeeper/quota/q/zookeeper_limits", "count=3,bytes=10=;byteHardLimit=12;countHardLimit=5"))
	c.each(create("/q/e", "", 0), create("/q/f", "", 0), create("/q/g", "", 0), create("/q/g", "", 1))
	usage()
	c.each(set("/q/a", "1234567890"), set("/q/a", "12345678901"), set("/q/a", "123456789012"), set("/q/a", "1"), setData("/q/a", nil, -1))
	usage()
	c.each(multi(del("/q/e", -1), create("/q/h", "", 0), create("/q/i", "", 0)), multi(set("/q/a", "1"), set("/q/b", "12345678901234567890")))
	usage()
	c.each(setData("/q/a", []byte("x"), 99), del("/zookeeper/quota/q/zookeeper_limits", -1), set("/q/a", "123456789012345678901234567890"))
	usage()
	c.each(create("/zookeeper/quota/q/zookeeper_limits", "count=100,bytes=1000", 0), set("/q/a", "x"), create("/q/z", "", 0))
	usage()
	c.each(set("/zookeeper/quota/q/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"), create("/q/y", "", 0), create("/q/a/y", "", 0))
	usage()
	c.tree("/zookeeper/quota")
	c.each(children("/q"))
}
