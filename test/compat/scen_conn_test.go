//go:build compat

package compat

import (
	"encoding/hex"
	"math"
	"slices"
)

var (
	yes = true
	no  = false
)

func connectScenarios() []scenario {
	zeros := make([]byte, 16)
	return []scenario{
		{name: "connect: timeouts", run: func(w *world) {
			for _, ms := range []int32{0, -1, 1, 3999, 4000, 10000, 40000, 40001, math.MaxInt32, math.MinInt32} {
				w.logf("timeout %d", ms)
				c := w.connectWith("A", connectRequest{timeout: ms, passwd: zeros, readOnly: &no})
				c.do(closeSession())
			}
		}},
		{name: "connect: record variants", run: func(w *world) {
			for _, r := range []connectRequest{
				{timeout: 10000, passwd: zeros},                 // no readOnly byte
				{timeout: 10000, passwd: zeros, readOnly: &yes}, // read-only client
				{timeout: 10000, passwd: nil, readOnly: &no},    // null password
				{timeout: 10000, passwd: []byte{}, readOnly: &no},
				{timeout: 10000, passwd: []byte("short"), readOnly: &no},
				{timeout: 10000, passwd: make([]byte, 100), readOnly: &no},
				{protocol: 7, timeout: 10000, passwd: zeros, readOnly: &no},
				{protocol: -1, timeout: 10000, passwd: zeros, readOnly: &no},
				{lastZxid: -1, timeout: 10000, passwd: zeros, readOnly: &no},
				{lastZxid: math.MinInt64, timeout: 10000, passwd: zeros, readOnly: &no},
			} {
				w.logf("protocol %d zxid %d passwd %d readOnly %v", r.protocol, r.lastZxid, len(r.passwd), r.readOnly != nil)
				c := w.connectWith("A", r)
				c.do(closeSession())
				c.expectEnd()
			}
			w.logf("trailing bytes")
			c := w.dial("A")
			c.write(frame(append(connectRequest{timeout: 10000, passwd: zeros, readOnly: &yes}.encode(), 1, 2, 3)))
			c.handshake()
			c.do(closeSession())
		}},
		{name: "connect: refused", run: func(w *world) {
			w.logf("zxid ahead")
			w.connectWith("A", connectRequest{lastZxid: math.MaxInt64, timeout: 10000, passwd: zeros, readOnly: &no})
			ahead := w.connect("B")
			zxid := ahead.lastZxid()
			w.connectWith("C", connectRequest{lastZxid: zxid + 1, timeout: 10000, passwd: zeros, readOnly: &no})
			w.connectWith("D", connectRequest{lastZxid: zxid, timeout: 10000, passwd: zeros, readOnly: &no})
			w.logf("unknown session")
			w.connectWith("E", connectRequest{timeout: 10000, session: 0x1234, passwd: zeros, readOnly: &no})
			w.connectWith("F", connectRequest{timeout: 10000, session: 0x1234, passwd: zeros})
			w.connectWith("G", connectRequest{timeout: 10000, session: -5, passwd: nil, readOnly: &yes})
			w.connectWith("H", connectRequest{timeout: 10000, session: math.MinInt64, passwd: []byte{1}, readOnly: &yes})
		}},
		{name: "connect: truncated", run: func(w *world) {
			whole := connectRequest{timeout: 10000, passwd: zeros, readOnly: &no}.encode()
			for n := range len(whole) - 1 {
				w.logf("%d bytes", n)
				c := w.dial("A")
				c.write(frame(whole[:n]))
				c.handshake()
			}
		}},
		{name: "connect: garbage", run: func(w *world) {
			w.patience = silence
			for _, hexBytes := range []string{
				"ffffffff", "80000000", "00100000", "7fffffff", "fff4fffd", "00000000",
				"0000002d" + "00000000" + "0000000000000000" + "00002710" + "0000000000000000" + "7fffffff",
				"0000001c" + "00000000" + "0000000000000000" + "00002710" + "0000000000000000" + "fffffffe",
				"0000001c" + "00000000" + "0000000000000000" + "00002710" + "0000000000000000" + "00000100",
				hex.EncodeToString([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
			} {
				w.logf("%s", hexBytes)
				b, err := hex.DecodeString(hexBytes)
				if err != nil {
					panic(err)
				}
				c := w.dial("A")
				c.write(b)
				c.end("", readError(c))
			}
		}},
		{name: "connect: requests right behind", run: func(w *world) {
			c := w.dial("A")
			bytes := frame(connectRequest{timeout: 10000, passwd: zeros, readOnly: &no}.encode())
			for i, r := range []request{create("/behind", "x", 1), get("/behind"), del("/behind", 0)} {
				bytes = append(bytes, c.queue(int32(i+1), r)...)
			}
			c.write(bytes)
			c.handshake()
			c.drain()
		}},
		{name: "connect: one byte at a time", run: func(w *world) {
			c := w.dial("A")
			bytes := frame(connectRequest{timeout: 10000, passwd: zeros, readOnly: &no}.encode())
			bytes = append(bytes, c.queue(1, exists("/zookeeper"))...)
			for _, b := range bytes {
				c.write([]byte{b})
			}
			c.handshake()
			c.drain()
		}},
	}
}

// readError reads frames until something ends the reading.
func readError(c *conn) error {
	for {
		payload, err := c.readFrame()
		if err != nil {
			return err
		}
		c.w.logf("%s< %x", c.name, payload)
	}
}

// everyOp is one well-formed request of each kind, on nodes below /f.
func everyOp() []request {
	return []request{
		create("/f/new", "data", 0), create2("/f/new2", "data", 0), createContainer("/f/box"), createTTL("/f/ttl", 5, 60000),
		del("/f/gone", 3), exists("/f"), get("/f"), setData("/f", []byte("data"), -1), byPath(opGetACL, "/f"),
		setACL("/f", openACL, -1), read(opGetChildren, "/f", false), byPath(opSync, "/f"), children("/f"),
		multi(check("/f", -1), setData("/f", []byte("d"), -1)), multiOf(opMultiRead, raw(opGetData, "/f", get("/f").body)),
		watchOp(opCheckWatches, "/f", 3), watchOp(opRemoveWatches, "/f", 3),
		setWatches(0, "0", []string{"/f"}, nil, nil), setWatches(0, "0", nil, nil, nil, []string{"/f"}, nil),
		addWatch("/f/watched", 0), byPath(opGetEphemerals, "/f"), byPath(opGetAllChildrenNumber, "/f"),
		raw(opReconfig, "", enc(nil).str("a").str("b").str("c").i64(-1)),
	}
}

func frameScenarios() []scenario {
	list := []scenario{
		{name: "frame: short headers", run: func(w *world) {
			for n := range 8 {
				c := w.connect("A")
				w.logf("%d bytes", n)
				c.write(frame(make([]byte, n)))
				c.expectEnd()
			}
		}},
		{name: "frame: lengths", run: func(w *world) {
			for _, hexBytes := range []string{"ffffffff", "80000000", "00100000", "7fffffff"} {
				c := w.connect("A")
				w.logf("%s", hexBytes)
				b, _ := hex.DecodeString(hexBytes) // constants
				c.write(b)
				c.expectEnd()
			}
			c := w.connect("A")
			// 8 bytes of header, 4+4 of path, 4 of data length, 4 of version make 0xFFFFF.
			c.do(create("/big", "", 0), setData("/big", make([]byte, 0xFFFFF-24), -1), exists("/big"))
			c.do(setData("/big", make([]byte, 0xFFFFF-23), -1))
			c.expectEnd()
			d := w.connect("B")
			d.do(get("/big"), del("/big", -1))
		}},
		{name: "frame: unknown opcodes", run: func(w *world) {
			for _, op := range []int32{0, 10, -1, 23, 30, 99, 108, 1000, -2, -12, math.MaxInt32, math.MinInt32} {
				c := w.connect("A")
				c.do(raw(op, "", enc(nil).str("/").i32(-1)))
				c.expectEnd()
			}
		}},
		{name: "frame: empty bodies", run: func(w *world) {
			for _, r := range everyOp() {
				c := w.connect("A")
				c.do(raw(r.op, "", nil), exists("/zookeeper"))
				c.close()
			}
		}},
		{name: "frame: trailing bytes", run: func(w *world) {
			c := w.connect("A")
			c.do(create("/f", "", 0))
			for _, r := range everyOp() {
				if c.gone {
					c = w.connect("A")
				}
				c.do(raw(r.op, r.text+" and more", append(enc(r.body), 1, 2, 3)))
			}
			c = w.connect("B")
			c.do(raw(opPing, "with a body", enc(nil).i32(5)), raw(opWhoAmI, "with a body", enc(nil).i32(5)))
			c.tree("/f")
			c.removeAll("/f")
		}},
		{name: "frame: xids", run: func(w *world) {
			c := w.connect("A")
			for _, xid := range []int32{0, 1, 1, 5, 3, -3, -5, -8, -100, math.MaxInt32, math.MinInt32} {
				w.logf("xid %d", xid)
				c.sendAs(xid, exists("/zookeeper"))
				c.drain()
			}
			w.logf("ping with an ordinary xid, auth and setWatches too")
			c.sendAs(77, ping())
			c.drain()
			c.sendAs(78, auth("digest", "a:b"))
			c.drain()
			c.sendAs(79, setWatches(0, "0", nil, nil, nil))
			c.drain()
			c.sendAs(-1, exists("/none"))
			c.drain()
		}},
		{name: "frame: bad lengths inside", since39: true, run: func(w *world) {
			c := w.connect("A")
			for _, n := range []int32{-2, math.MinInt32, math.MaxInt32, 0x200000, 100} {
				for _, r := range []struct {
					op   int32
					body enc
				}{
					{opCreate, enc(nil).i32(n)},
					{opCreate, enc(nil).str("/x").i32(n)},
					{opCreate, enc(nil).str("/x").buf(nil).i32(n)},
					{opCreate, enc(nil).str("/x").buf(nil).i32(1).i32(31).i32(n)},
					{opGetData, enc(nil).i32(n).raw('/', 0)},
					{opExists, enc(nil).i32(n).raw('/', 0)},
					{opSetData, enc(nil).str("/zookeeper").i32(n)},
					{opSetACL, enc(nil).str("/zookeeper").i32(n).i32(-1)},
					{opDelete, enc(nil).i32(n)},
					{opSync, enc(nil).i32(n)},
					{opGetChildren2, enc(nil).i32(n).raw(0)},
					{opGetEphemerals, enc(nil).i32(n)},
					{opAddWatch, enc(nil).i32(n)},
					{opSetWatches, enc(nil).i64(0).i32(n)},
					{opRemoveWatches, enc(nil).i32(n)},
				} {
					c.do(raw(r.op, hex.EncodeToString(r.body), r.body))
				}
			}
		}},
		{name: "frame: null strings", run: func(w *world) {
			c := w.connect("A")
			null := slices.Clip(enc(nil).i32(-1))
			for _, r := range []request{
				raw(opDelete, "null", append(null, enc(nil).i32(-1)...)),
				raw(opExists, "null", append(null, 0)), raw(opExists, "null watch", append(null, 1)),
				raw(opGetData, "null", append(null, 0)), raw(opGetData, "null watch", append(null, 1)),
				raw(opGetChildren, "null", append(null, 0)), raw(opGetChildren2, "null", append(null, 0)),
				raw(opGetACL, "null", null), raw(opSync, "null", null), raw(opGetEphemerals, "null", null),
				raw(opGetAllChildrenNumber, "null", null),
				raw(opSetData, "null", append(null, enc(nil).buf(nil).i32(-1)...)),
				raw(opSetACL, "null", append(null, enc(nil).acls(openACL).i32(-1)...)),
				raw(opSetACL, "null list", enc(nil).str("/zookeeper").i32(-1).i32(-1)),
				raw(opCreate, "null path", append(null, enc(nil).buf(nil).acls(openACL).i32(0)...)),
				raw(opCreate, "null list", enc(nil).str("/n").buf(nil).i32(-1).i32(0)),
				raw(opCreate, "null scheme", enc(nil).str("/n").buf(nil).i32(1).i32(31).i32(-1).str("anyone").i32(0)),
				raw(opCreate, "null id", enc(nil).str("/n").buf(nil).i32(1).i32(31).str("world").i32(-1).i32(0)),
				raw(opCreate, "null digest id", enc(nil).str("/n").buf(nil).i32(1).i32(31).str("digest").i32(-1).i32(0)),
				raw(opSetWatches, "null list", enc(nil).i64(0).i32(-1).i32(-1).i32(-1)),
				raw(opReconfig, "null all", append(append(append(null, null...), null...), enc(nil).i64(-1)...)),
				raw(opRemoveWatches, "null", append(null, enc(nil).i32(3)...)),
			} {
				c.do(r)
			}
			w.patience = silence
			c.do(raw(opAuth, "null scheme", enc(nil).i32(0).i32(-1).buf([]byte("a:b"))))
			c.expectEnd()
			c = w.connect("B")
			c.do(raw(opAuth, "null auth", enc(nil).i32(0).str("digest").i32(-1)))
			c.expectEnd()
		}},
	}
	for _, r := range everyOp() {
		undecodable := slices.Contains([]int32{opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opSetACL}, r.op)
		list = append(list, scenario{name: "frame: truncated " + r.String(), since39: undecodable, run: func(w *world) { truncate(w, r) }})
	}
	return list
}

// truncate sends every proper prefix of a request's body.
func truncate(w *world, r request) {
	c := w.connect("A")
	c.do(create("/f", "", 0))
	for n := range len(r.body) {
		if c.gone {
			c = w.connect("A")
		}
		c.do(raw(r.op, hex.EncodeToString(r.body[:n]), r.body[:n]))
	}
	w.connect("B").tree("/f")
}

// removeAll deletes a node and all below it.
func (c *conn) removeAll(path string) {
	for _, name := range c.list(path) {
		c.removeAll(path + "/" + name)
	}
	c.do(del(path, -1))
}
