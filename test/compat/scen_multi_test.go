//go:build compat

package compat

import "fmt"

func multiScenarios() []scenario {
	return []scenario{
		{name: "multi: one of each", run: func(w *world) {
			c := w.connect("A")
			c.do(multi(), multi(create("/m", "", 0)), multi(set("/m", "x")), multi(check("/m", 1)), multi(check("/m", 0)), multi(check("/m", -1)), multi(createContainer("/m/box")), multi(createTTL("/m/ttl", 5, 100000)))
			c.do(multi(del("/m/box", -1)), multi(del("/m/ttl", 5)), multi(del("/m/ttl", 0)), multi(create("/m/e", "", 1)), multi(create("/m/s-", "", 3)), multi(del("/m/none", -1)))
			c.tree("/m")
			c.removeAll("/m")
		}},
		{name: "multi: create2", run: func(w *world) {
			c := w.connect("A")
			c.do(multi(create2("/m2", "x", 0), create2("/m2/s-", "y", 2)), multi(create2("/m2", "", 0)))
			c.removeAll("/m2")
		}},
		{name: "multi: later operations see earlier ones", run: func(w *world) {
			c := w.connect("A")
			c.do(multi(create("/see", "", 0), create("/see/x", "", 0), setData("/see", []byte("1"), 0), check("/see", 1), del("/see/x", 0), del("/see", 1)), exists("/see"))
			c.do(multi(create("/see", "", 0), create("/see", "", 0)), exists("/see"), multi(create("/see", "", 1), create("/see/x", "", 0)), exists("/see"))
			c.do(multi(create("/see", "", 0), del("/see", 0), create("/see", "", 0), setData("/see", nil, 0), setData("/see", nil, 1)), get("/see"), multi(del("/see", -1), get("/see")), del("/see", -1))
		}},
		{name: "multi: failures at each place", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/f", "", 0))
			good := []request{create("/f/1", "", 0), set("/f", "x"), create("/f/2-", "", 2), check("/f", -1)}
			for _, bad := range []request{del("/f/none", -1), create("/f", "", 0), create("/none/x", "", 0), setData("/f", nil, 99), check("/f", 99), check("/none", -1),
				createACL(opCreate, "/f/acl", nil, []acl{}, 0), create("f", "", 0), create("/f//x", "", 0), del("/", -1), del("/f", 99), setData("/f/..", nil, 0)} {
				for i := range len(good) + 1 {
					ops := append([]request{}, good[:i]...)
					ops = append(append(ops, bad), good[i:]...)
					c.do(multi(ops...), children("/f"))
				}
			}
			c.do(create("/f/after-", "", 2))
			c.removeAll("/f")
		}},
		{name: "multi: what may not be in it", run: func(w *world) {
			c := w.connect("A")
			for _, r := range everyOp() {
				c.do(multi(create("/in", "", 0), r), exists("/in"))
				if c.gone {
					c = w.connect("A")
				}
				c.w.hushed(func() { c.do(del("/in", -1)) })
			}
			c.do(multi(ping()), multi(closeSession()), multi(whoAmI()), multi(multi(create("/nested", "", 0))), multi(raw(12345, "", nil)), exists("/in"))
		}},
		{name: "multi: broken framing", run: func(w *world) {
			c := w.connect("A")
			one := create("/b", "", 0)
			op := func(typ int32, done bool, err int32, body []byte) enc {
				return enc(nil).i32(typ).bool(done).i32(err).raw(body...)
			}
			for _, r := range []request{
				raw(opMulti, "no end", op(opCreate, false, -1, one.body)),
				raw(opMulti, "end of another type", append(op(opCreate, false, 7, one.body), op(5, true, 0, nil)...)),
				raw(opMulti, "ops after the end", append(op(-1, true, -1, nil), op(opCreate, false, -1, one.body)...)),
				raw(opMulti, "type -1 not done", append(op(-1, false, -1, nil), op(-1, true, -1, nil)...)),
				raw(opMulti, "type 0 not done", append(op(0, false, -1, nil), op(-1, true, -1, nil)...)),
				raw(opMulti, "half a header", []byte{0, 0, 0}),
				raw(opMultiRead, "no end", op(opGetData, false, -1, get("/").body)),
				raw(opMultiRead, "type -1 not done", append(op(-1, false, -1, nil), op(-1, true, -1, nil)...)),
			} {
				c.do(r, exists("/b"))
				c.w.hushed(func() { c.do(del("/b", -1)) })
			}
		}},
		{name: "multi: mixed with reads", run: func(w *world) {
			c := w.connect("A")
			c.do(multi(get("/"), create("/mix", "", 0)), exists("/mix"))
			c.do(multi(create("/mix", "", 0), get("/")), exists("/mix"))
		}},
		{name: "multiRead: mixed with writes", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/mx", "", 0))
			c.do(multiOf(opMultiRead, get("/mx"), create("/mix", "", 0)), exists("/mix"))
			c.do(multiOf(opMultiRead, create("/mix", "", 0)), exists("/mix"), multiOf(opMultiRead, check("/mx", 0)))
			c.do(multi(get("/mx")), multi(read(opGetChildren, "/mx", false)))
			c.removeAll("/mx")
		}},
		{name: "multiRead: results", run: func(w *world) {
			c := w.connect("A")
			locked := []acl{{2, "world", "anyone"}}
			c.do(create("/mr", "x", 0), create("/mr/a", "", 0), createACL(opCreate, "/mr/b", nil, locked, 0))
			c.do(multiOf(opMultiRead), multiOf(opMultiRead, get("/mr"), read(opGetChildren, "/mr", false), get("/mr/none"), get("/mr/b"), read(opGetChildren, "/mr/b", false), get("/mr/a")))
			c.do(multiOf(opMultiRead, getW("/mr/a")), set("/mr/a", "no event"), multiOf(opMultiRead, exists("/mr")), multiOf(opMultiRead, children("/mr")), multiOf(opMultiRead, get("bad"), get("/mr//a")))
			c.removeAll("/mr")
		}},
		{name: "multi: events", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			a.do(create("/ev", "", 0), getW("/ev"), childrenW("/ev"), existsW("/ev/x"))
			b.do(addWatch("/ev", 1))
			a.do(multi(set("/ev", "1"), create("/ev/x", "", 0), set("/ev", "2"), del("/ev/x", -1), create("/ev/y", "", 0)))
			b.do(multi(set("/ev", "3"), check("/none", -1)), getW("/ev"), multi(del("/ev/y", -1), del("/ev", -1)))
		}},
		{name: "multi: large", run: func(w *world) {
			c := w.connect("A")
			ops := []request{create("/large", "", 0)}
			for i := range 1000 {
				ops = append(ops, create(fmt.Sprintf("/large/%d-", i), "0123456789", 2))
			}
			c.do(multi(ops...), exists("/large"))
			c.removeAll("/large")
		}},
	}
}
