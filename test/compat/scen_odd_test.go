//go:build compat

package compat

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/ask"
)

// oddScenarios are requests that are decodable and strange, or just not decodable, in
// ways about which 3.9 differs from 3.8.
func oddScenarios() []scenario {
	return []scenario{
		{name: "odd: create modes in a multi", run: createModes},
		{name: "odd: ip ids with IPv4 in IPv6", run: func(w *world) {
			c := w.connect("A")
			for i, id := range []string{"::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "1:2:3:4:5:6:127.0.0.1", "64:ff9b::1.2.3.4", "::ffff:10.0.0.0/104", "::ffff:0:0/96",
				"::", "::/0", "::1/128", "::1/129", "1::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "1::2::3", ":::", ":", "1:", "g::", "12345::", "fe80::1%eth0", "[::1]", "127.0.0.1:80"} {
				path, list := fmt.Sprintf("/ip%d", i), []acl{{31, "world", "anyone"}, {31, "ip", id}}
				c.do(createACL(opCreate, path, nil, list, 0), byPath(opGetACL, path), multi(createACL(opCreate2, path+"m", nil, list, 0)))
			}
		}},
		{name: "odd: prefixes of getEphemerals", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/pre", "", 1), create("/pre x", "", 1), create("/other", "", 1))
			for _, prefix := range []string{"", " ", "  ", "\t", "\n", "\x00", "\x1f", "\u00a0", "/", " /", "/ ", " / ", "\t/\x00", "//", "/pre", "/pre ", " /pre", "/pre\t"} {
				c.do(byPath(opGetEphemerals, prefix))
			}
			c.do(raw(opGetEphemerals, "null", enc(nil).i32(-1)))
		}},
		{name: "odd: credentials that are cut off", run: func(w *world) {
			token := raw(opSASL, "", enc(nil).buf([]byte("token")))
			for _, r := range []request{auth("digest", "bob:pw"), auth("ip", ""), token} {
				for n := range len(r.body) {
					c := w.connect("A")
					c.do(raw(r.op, hex.EncodeToString(r.body[:n]), r.body[:n]))
					c.do(whoAmI(), closeSession())
				}
			}
			for _, r := range []request{
				raw(opAuth, "digest null", enc(nil).i32(0).str("digest").i32(-1)), raw(opAuth, "ip null", enc(nil).i32(0).str("ip").i32(-1)),
				raw(opAuth, "negative scheme", enc(nil).i32(0).i32(-2).buf([]byte("x"))), raw(opAuth, "negative data", enc(nil).i32(0).str("digest").i32(-2)),
				raw(opSASL, "null", enc(nil).i32(-1)), raw(opSASL, "negative", enc(nil).i32(-2)), raw(opSASL, "empty", enc(nil).i32(0)),
			} {
				c := w.connect("A")
				c.do(r)
				c.do(whoAmI(), closeSession())
			}
		}},
		{name: "odd: null paths", since39: true, run: nullPaths},
		{name: "odd: nulls inside", since39: true, run: func(w *world) {
			c := w.connect("A")
			null, open := slices.Clip(enc(nil).i32(-1)), enc(nil).i32(31).str("world").str("anyone")
			scheme, id := enc(nil).i32(31).raw(null...).str("x"), enc(nil).i32(31).str("digest").raw(null...)
			for i, entries := range [][]enc{{scheme}, {open, scheme}, {id}, {open, id}, {enc(nil).i32(31).str("auth").raw(null...)}, {enc(nil).i32(31).str("nosuch").raw(null...)}} {
				list := enc(nil).i32(int32(len(entries)))
				for _, e := range entries {
					list = list.raw(e...)
				}
				c.do(raw(opCreate, fmt.Sprintf("ACL %d", i), enc(nil).str("/inside").buf(nil).raw(list...).i32(0)), raw(opSetACL, fmt.Sprintf("ACL %d", i), enc(nil).str("/zookeeper").raw(list...).i32(-1)))
			}
			c.do(raw(opSetWatches, "null second list", enc(nil).i64(0).strs([]string{"/none"}).raw(null...).strs([]string{})))
			c.do(raw(opSetWatches, "null in the first list", enc(nil).i64(0).i32(2).str("/none").raw(null...).strs([]string{}).strs([]string{})))
			c.do(raw(opAddWatch, "null", enc(nil).i32(-1).i32(0)), watchOp(opCheckWatches, "", 4), raw(opCheckWatches, "null", enc(nil).i32(-1).i32(4)), watchOp(opRemoveWatches, "", 3))
		}},
		{name: "odd: counts and watches of the empty path", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/n", "", 0), byPath(opGetAllChildrenNumber, ""), byPath(opGetAllChildrenNumber, "/"))
			w.hushed(func() { c.do(getW(""), childrenW(""), existsW("")) }) // the root's cversion is that of all scenarios
			c.do(addWatch("", 1))
			c.do(create("/n/x", "", 0), set("/n", "x"), create("/nn", "", 0))
			c.do(watchOp(opCheckWatches, "", 1), watchOp(opCheckWatches, "", 2), watchOp(opCheckWatches, "/", 1), watchOp(opRemoveWatches, "", 3), watchOp(opCheckWatches, "", 3))
			c.do(setWatches(0, "0", []string{""}, []string{""}, []string{""}), setWatches(1<<62, "none missed", []string{""}, nil, []string{""}), create("/nnn", "", 0))
			c.do(raw(opAddWatch, "null", enc(nil).i32(-1).i32(1)), set("/n", "y"))
		}},
		{name: "odd: sizes of responses", own: &config{}, run: func(w *world) {
			c := w.connect("A")
			sizes := func() {
				text, err := ask.Within(wordTimeout, w.addr, "mntr")
				if err != nil {
					w.logf("mntr: %v", err)
				}
				for line := range strings.Lines(text) {
					if strings.Contains(line, "client_response_size") || strings.Contains(line, "drop_probability") {
						w.logf("%s", strings.TrimSpace(line))
					}
				}
			}
			sizes()
			w.word("srst", "")
			sizes()
			for _, r := range []request{create("/abc", strings.Repeat("x", 5000), 0), get("/abc"), ping(), byPath(opSync, "/abc"), getW("/abc"), set("/abc", ""), whoAmI(), get("/none")} {
				c.do(r)
				sizes()
			}
			c.do(auth("ip", ""))
			sizes()
		}},
	}
}

// createModes tries each create with each mode: alone, in a multi, and after another
// operation, which must not have happened if the multi fails.
func createModes(w *world) {
	c := w.connect("A")
	c.do(create("/modes", "", 0))
	for _, op := range []int32{opCreate, opCreate2, opCreateContainer, opCreateTTL} {
		for mode := int32(-1); mode <= 7; mode++ {
			for _, ttl := range []int64{0, 1e9} {
				path := fmt.Sprintf("/modes/%d.%d.%d-", op, mode, ttl)
				r := createACL(op, path, []byte("x"), openACL, mode)
				if op == opCreateTTL {
					r = createTTL(path, mode, ttl)
				} else if ttl > 0 {
					continue
				}
				c.do(r, multi(createACL(opCreate, path+"m", nil, openACL, 0), r), exists(path+"m"))
				c.do(multi(r), multi(r, get("/modes")))
			}
		}
	}
	c.tree("/modes")
}

// nullPaths tries each request with a null path, alone and in a multi or multiRead, and
// null ACLs.
func nullPaths(w *world) {
	c := w.connect("A")
	c.do(create("/null", "", 0))
	null := slices.Clip(enc(nil).i32(-1))
	acls := func(e enc) enc { return e.buf(nil).acls(openACL) }
	with := func(op int32, text string, e enc) request { return raw(op, text, e) }
	creates := []request{
		with(opCreate, "null path", acls(null).i32(0)), with(opCreate, "null path, no mode", acls(null).i32(7)), with(opCreate, "null path, ttl mode", acls(null).i32(5)),
		with(opCreate2, "null path", acls(null).i32(0)), with(opCreateContainer, "null path", acls(null).i32(4)), with(opCreateTTL, "null path", acls(null).i32(5).i64(1000)),
		with(opCreateTTL, "null path, no ttl", acls(null).i32(5).i64(0)),
	}
	for i, list := range []enc{enc(nil).i32(-1), enc(nil).i32(0), enc(nil).i32(-2)} {
		for _, op := range []int32{opCreate, opCreate2, opCreateContainer, opCreateTTL} {
			for _, mode := range []int32{0, 4, 5, 7} {
				body := enc(nil).str("/null/x").buf(nil).raw(list...).i32(mode)
				if op == opCreateTTL {
					body = body.i64(1000)
				}
				creates = append(creates, with(op, fmt.Sprintf("ACL %d mode %d", i, mode), body))
			}
		}
	}
	others := []request{
		with(opDelete, "null path", append(null, enc(nil).i32(-1)...)), with(opSetData, "null path", append(null, enc(nil).buf(nil).i32(-1)...)),
		with(opCheck, "null path", append(null, enc(nil).i32(-1)...)),
	}
	good := set("/null", "changed")
	for _, r := range append(creates, others...) {
		if r.op != opCheck {
			c.do(r)
		}
		c.do(multi(r), multi(good, r), multi(r, good), get("/null"))
	}
	for _, op := range []int32{opSync, opGetEphemerals, opGetAllChildrenNumber, opGetACL} {
		c.do(with(op, "null path", null))
	}
	read, none := with(opGetData, "null path", append(null, 0)), get("/none")
	c.do(multiOf(opMultiRead, read), multiOf(opMultiRead, none, get("/null"), read, get("/null")), multiOf(opMultiRead, with(opGetChildren, "null path", append(null, 1)), none))
	c.do(multi(read), multiOf(opMultiRead, others[2]), multiOf(opMultiRead, good, others[2]), multiOf(opMultiRead, none, good), multiOf(opMultiRead, check("/null", 0)))
}
