//go:build compat

package compat

import "fmt"

func aclScenarios() []scenario {
	const bob = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=" // bob:pw
	return []scenario{
		{name: "acl: lists", run: func(w *world) {
			c := w.connect("A")
			c.do(auth("digest", "bob:pw"))
			c.do(create("/a", "", 0), create("/a/set", "", 0))
			for i, list := range [][]acl{
				nil, {}, openACL, {openACL[0], openACL[0]}, {{0, "world", "anyone"}}, {{64, "world", "anyone"}}, {{-1, "world", "anyone"}},
				{{31, "world", "me"}}, {{31, "world", ""}}, {{31, "", ""}}, {{31, "nobody", "x"}}, {{31, "super", ""}}, {{31, "super", "super:x"}},
				{{31, "auth", ""}}, {{31, "auth", "ignored"}}, {{1, "auth", ""}, {2, "auth", ""}}, {{31, "auth", ""}, {31, "digest", bob}},
				{{31, "digest", bob}}, {{31, "digest", "a:b:c"}}, {{31, "digest", "x"}}, {{31, "digest", "a:"}}, {{31, "digest", ":b"}}, {{31, "digest", ":"}}, {{31, "digest", ""}},
				{{31, "ip", "127.0.0.1"}}, {{31, "ip", "127.0.0.1/8"}}, {{31, "ip", "127.0.0.1/33"}}, {{31, "ip", "127.0.0.1/-1"}}, {{31, "ip", "127.0.0.1/0"}},
				{{31, "ip", "127.0.0.1/x"}}, {{31, "ip", "127.0.0.1/"}}, {{31, "ip", "127.0.0"}}, {{31, "ip", "127.0.0.256"}}, {{31, "ip", "localhost"}}, {{31, "ip", ""}},
				{{31, "ip", "127.0.0.1/8/8"}}, {{31, "ip", "1.2.3.4.5"}}, {{31, "ip", "+1.2.3.4"}}, {{31, "ip", "01.2.3.4"}},
				{{31, "sasl", "me"}}, {{31, "x509", "CN=me"}}, {{31, "world", "anyone"}, {31, "digest", "broken"}},
				{{1, "world", "anyone"}, {2, "digest", bob}, {1, "world", "anyone"}, {4, "world", "anyone"}},
			} {
				p := fmt.Sprintf("/a/%d", i)
				c.do(createACL(opCreate, p, nil, list, 0), byPath(opGetACL, p), setACL("/a/set", list, -1), byPath(opGetACL, "/a/set"))
				if list != nil { // "odd: null paths" has null lists in a multi
					c.do(multi(createACL(opCreate, p+"m", nil, list, 0)))
				}
			}
		}},
		{name: "acl: ipv6 ids", run: func(w *world) {
			c := w.connect("A")
			for i, id := range []string{"::1", "fe80::1/64", "::1/129", "2001:db8::/32", "::ffff:127.0.0.1"} {
				c.do(createACL(opCreate, fmt.Sprintf("/six%d", i), nil, []acl{{31, "ip", id}}, 0))
			}
		}},
		{name: "acl: permissions", run: func(w *world) { permissions(w, bob) }},
		{name: "acl: order of checks", run: func(w *world) {
			c := w.connect("A")
			locked := []acl{{16, "world", "anyone"}}
			c.each(createACL(opCreate, "/o", nil, locked, 0), exists("/zookeeper"))
			c.each(create("/o/x", "", 0), create("/o/x/y", "", 0), createACL(opCreate, "/none/x", nil, nil, 0), createACL(opCreate, "/o/x", nil, nil, 0), create("/o/..", "", 0))
			c.each(del("/o/x", -1), del("/o/none", 9), del("/none/x", 9), setData("/o", nil, 99), setData("/o/../x", nil, 99), setACL("/o", nil, 99), setACL("/none", nil, 99), setACL("/none", openACL, 99), setACL("/o", openACL, 99))
			c.each(get("/o"), children("/o"), byPath(opGetACL, "/o"), byPath(opGetAllChildrenNumber, "/o"), getW("/o"), get("/o/none"))
			c.each(multi(check("/o", 99)), multi(check("/o", -1)), multi(check("/none", -1)))
			c.each(setACL("/o", openACL, 0), create("/o/e", "", 1), createACL(opCreate, "/o/e/x", nil, nil, 0), create("/o/e/x", "", 0), create("/o/e/..", "", 0))
			c.each(del("/o/e", 5), create("/o/d", "", 0), create("/o/d/d", "", 0), del("/o/d", 5), del("/o/d", 0))
			c.removeAll("/o")
		}},
		{name: "acl: exists needs READ", run: func(w *world) {
			c := w.connect("A")
			c.do(createACL(opCreate, "/x", nil, []acl{{30, "world", "anyone"}}, 0))
			c.do(exists("/x"), existsW("/x"), set("/x", "1"), del("/x", -1))
		}},
		{name: "acl: redaction", run: func(w *world) {
			a, b := w.connect("A"), w.connect("B")
			a.do(auth("digest", "bob:pw"))
			a.do(createACL(opCreate, "/r", nil, []acl{{31, "digest", bob}, {1, "world", "anyone"}, {1, "ip", "127.0.0.1"}, {1, "digest", "x:y"}}, 0))
			a.do(byPath(opGetACL, "/r"))
			b.do(byPath(opGetACL, "/r"))
			b.do(auth("digest", "super:secret"))
			b.do(byPath(opGetACL, "/r"), del("/r", -1))
		}},
		{name: "acl: super", run: func(w *world) {
			w.sortACL = true
			a, b := w.connect("A"), w.connect("B")
			a.do(createACL(opCreate, "/sup", []byte("x"), []acl{{0, "world", "anyone"}}, 0), get("/sup"), byPath(opGetACL, "/sup"))
			b.do(auth("digest", "super:wrong"))
			b.do(get("/sup"), whoAmI())
			b.do(auth("digest", "super:secret"))
			b.do(whoAmI(), get("/sup"), byPath(opGetACL, "/sup"), set("/sup", "y"), setACL("/sup", []acl{{31, "auth", ""}}, -1), byPath(opGetACL, "/sup"), set("/zookeeper/config", ""), del("/zookeeper/config", -1), del("/sup", -1))
		}},
		{name: "acl: auth packets", run: func(w *world) {
			for _, r := range []request{
				auth("digest", "bob:pw"), auth("digest", "nocolon"), auth("digest", ""), auth("digest", ":"), auth("digest", "a:b:c"), auth("digest", "ü:ö"),
				auth("ip", ""), auth("ip", "1.2.3.4"), auth("world", "anyone"), auth("super", ""), auth("auth", ""), auth("none", "x"), auth("", ""), auth("sasl", "x"), auth("x509", "x"),
				raw(opAuth, "type 7", enc(nil).i32(7).str("digest").buf([]byte("bob:pw"))),
			} {
				c := w.connect("A")
				c.do(r)
				if c.gone {
					continue
				}
				c.do(whoAmI(), createACL(opCreate, "/byauth", nil, []acl{{31, "auth", ""}}, 0), byPath(opGetACL, "/byauth"), del("/byauth", -1))
				c.do(closeSession())
			}
		}},
		{name: "acl: credentials add up", run: func(w *world) {
			w.sortACL = true
			c := w.connect("A")
			c.do(auth("digest", "bob:pw"))
			c.do(auth("digest", "amy:pw"))
			c.do(auth("digest", "bob:pw"))
			c.do(whoAmI(), createACL(opCreate, "/add", nil, []acl{{31, "auth", ""}}, 0), byPath(opGetACL, "/add"), del("/add", -1))
		}},
		{name: "acl: changes take effect", run: func(w *world) {
			c := w.connect("A")
			c.each(create("/pipe", "", 0), setACL("/pipe", []acl{{17, "world", "anyone"}}, -1), set("/pipe", "x"), create("/pipe/x", "", 0), setACL("/pipe", openACL, 1), set("/pipe", "y"), get("/pipe"))
			c.each(multi(setDataOp("/pipe"), create("/pipe/z", "", 0)), del("/pipe/z", -1), del("/pipe", -1))
		}},
		{name: "acl: sasl without sasl", run: func(w *world) {
			c := w.connect("A")
			for _, token := range [][]byte{nil, {}, []byte("token")} {
				if c.gone {
					c = w.connect("A")
				}
				c.do(raw(opSASL, dataText(token), enc(nil).buf(token)))
			}
			c.do(whoAmI())
		}},
	}
}

func setDataOp(path string) request { return setData(path, []byte("m"), -1) }

// permissions tries every operation against every permission bit, as a stranger
// and as the owner.
func permissions(w *world, bob string) {
	owner, stranger := w.connect("A"), w.connect("B")
	owner.do(auth("digest", "bob:pw"))
	all := []acl{{31, "digest", bob}}
	for bit := range 5 {
		p := fmt.Sprintf("/perm%d", bit)
		list := []acl{{1 << bit, "world", "anyone"}, all[0]}
		owner.do(createACL(opCreate, p, []byte("x"), list, 0), createACL(opCreate, p+"/kid", nil, all, 0))
		stranger.do(getW(p), children(p), byPath(opGetACL, p), set(p, "y"), create(p+"/new", "", 0), del(p+"/kid", 7), del(p+"/kid", -1), del(p+"/none", -1),
			byPath(opGetAllChildrenNumber, p), multi(check(p, -1)), multiOf(opMultiRead, get(p), read(opGetChildren, p, false)))
		stranger.do(setACL(p, list, -1), byPath(opSync, p), addWatch(p, 0), watchOp(opCheckWatches, p, 3))
		owner.do(set(p, "z"))
		owner.removeAll(p)
	}
}
