//go:build compat

package compat

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The comparison has a separate codec: bytes that zkd's codec could not
// produce must go out too, and an error in that codec must not hide itself.

// Opcodes as they are on the wire.
const (
	opCreateSession        = -10
	opCloseSession         = -11
	opCreate               = 1
	opDelete               = 2
	opExists               = 3
	opGetData              = 4
	opSetData              = 5
	opGetACL               = 6
	opSetACL               = 7
	opGetChildren          = 8
	opSync                 = 9
	opPing                 = 11
	opGetChildren2         = 12
	opCheck                = 13
	opMulti                = 14
	opCreate2              = 15
	opReconfig             = 16
	opCheckWatches         = 17
	opRemoveWatches        = 18
	opCreateContainer      = 19
	opDeleteContainer      = 20
	opCreateTTL            = 21
	opMultiRead            = 22
	opAuth                 = 100
	opSetWatches           = 101
	opSASL                 = 102
	opGetEphemerals        = 103
	opGetAllChildrenNumber = 104
	opSetWatches2          = 105
	opAddWatch             = 106
	opWhoAmI               = 107
)

var opName = map[int32]string{
	opCreateSession: "createSession", opCloseSession: "closeSession", opCreate: "create", opDelete: "delete",
	opExists: "exists", opGetData: "getData", opSetData: "setData", opGetACL: "getACL", opSetACL: "setACL",
	opGetChildren: "getChildren", opSync: "sync", opPing: "ping", opGetChildren2: "getChildren2", opCheck: "check",
	opMulti: "multi", opCreate2: "create2", opReconfig: "reconfig", opCheckWatches: "checkWatches",
	opRemoveWatches: "removeWatches", opCreateContainer: "createContainer", opDeleteContainer: "deleteContainer",
	opCreateTTL: "createTTL", opMultiRead: "multiRead", opAuth: "auth", opSetWatches: "setWatches", opSASL: "sasl",
	opGetEphemerals: "getEphemerals", opGetAllChildrenNumber: "getAllChildrenNumber", opSetWatches2: "setWatches2",
	opAddWatch: "addWatch", opWhoAmI: "whoAmI",
}

func nameOfOp(op int32) string {
	if name := opName[op]; name != "" {
		return name
	}
	return fmt.Sprintf("op(%d)", op)
}

// enc builds a record, field by field.
type enc []byte

func (e enc) i32(v int32) enc   { return binary.BigEndian.AppendUint32(e, uint32(v)) }
func (e enc) i64(v int64) enc   { return binary.BigEndian.AppendUint64(e, uint64(v)) }
func (e enc) raw(b ...byte) enc { return append(e, b...) }
func (e enc) str(s string) enc  { return append(e.i32(int32(len(s))), s...) }

func (e enc) bool(v bool) enc {
	if v {
		return append(e, 1)
	}
	return append(e, 0)
}

// buf appends a buffer; nil is the null buffer.
func (e enc) buf(b []byte) enc {
	if b == nil {
		return e.i32(-1)
	}
	return append(e.i32(int32(len(b))), b...)
}

// strs appends a vector of strings; nil is the null vector.
func (e enc) strs(list []string) enc {
	if list == nil {
		return e.i32(-1)
	}
	e = e.i32(int32(len(list)))
	for _, s := range list {
		e = e.str(s)
	}
	return e
}

// acl is one entry of an access control list.
type acl struct {
	perms      int32
	scheme, id string
}

var openACL = []acl{{31, "world", "anyone"}}

// acls appends a vector of ACL entries; nil is the null vector.
func (e enc) acls(list []acl) enc {
	if list == nil {
		return e.i32(-1)
	}
	e = e.i32(int32(len(list)))
	for _, a := range list {
		e = e.i32(a.perms).str(a.scheme).str(a.id)
	}
	return e
}

func aclText(list []acl) string {
	if list == nil {
		return "null"
	}
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%s:%s:%d", a.scheme, a.id, a.perms))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// dec reads a record. After a read past the end short is set and every value is
// zero.
type dec struct {
	b     []byte
	short bool
}

func (d *dec) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.short = nil, true
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *dec) bool() bool {
	b := d.take(1)
	return len(b) == 1 && b[0] != 0
}

func (d *dec) i32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *dec) i64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// buf reads a buffer; null gives nil, empty gives an empty slice.
func (d *dec) buf() []byte {
	n := d.i32()
	if n == -1 {
		return nil
	}
	return append([]byte{}, d.take(int(n))...)
}

func (d *dec) str() string { return string(d.buf()) }

func (d *dec) strs() []string {
	n := d.i32()
	var list []string
	for i := int32(0); i < n && !d.short; i++ {
		list = append(list, d.str())
	}
	return list
}

func (d *dec) acls() []acl {
	n := d.i32()
	var list []acl
	for i := int32(0); i < n && !d.short; i++ {
		list = append(list, acl{d.i32(), d.str(), d.str()})
	}
	return list
}

type stat struct {
	czxid, mzxid, ctime, mtime  int64
	version, cversion, aversion int32
	owner                       int64
	dataLength, numChildren     int32
	pzxid                       int64
}

func (d *dec) stat() stat {
	return stat{
		czxid: d.i64(), mzxid: d.i64(), ctime: d.i64(), mtime: d.i64(),
		version: d.i32(), cversion: d.i32(), aversion: d.i32(),
		owner: d.i64(), dataLength: d.i32(), numChildren: d.i32(), pzxid: d.i64(),
	}
}

// request is one client request: what goes out, and how it reads in a
// transcript.
type request struct {
	op   int32
	text string
	body []byte
}

func (r request) String() string { return strings.TrimSpace(nameOfOp(r.op) + " " + r.text) }

// raw is a request with any body.
func raw(op int32, text string, body []byte) request { return request{op, text, body} }

func create(path, data string, flags int32) request {
	return createACL(opCreate, path, []byte(data), openACL, flags)
}

func create2(path, data string, flags int32) request {
	return createACL(opCreate2, path, []byte(data), openACL, flags)
}

func createACL(op int32, path string, data []byte, list []acl, flags int32) request {
	text := fmt.Sprintf("%q data=%s flags=%d", path, dataText(data), flags)
	if len(list) != 1 || list[0] != openACL[0] {
		text += " acl=" + aclText(list)
	}
	return request{op, text, enc(nil).str(path).buf(data).acls(list).i32(flags)}
}

func createTTL(path string, flags int32, ttl int64) request {
	r := createACL(opCreateTTL, path, nil, openACL, flags)
	return request{opCreateTTL, fmt.Sprintf("%s ttl=%d", r.text, ttl), enc(r.body).i64(ttl)}
}

func createContainer(path string) request {
	return createACL(opCreateContainer, path, nil, openACL, 4)
}

func del(path string, version int32) request {
	return request{opDelete, fmt.Sprintf("%q v=%d", path, version), enc(nil).str(path).i32(version)}
}

func check(path string, version int32) request {
	return request{opCheck, fmt.Sprintf("%q v=%d", path, version), enc(nil).str(path).i32(version)}
}

func setData(path string, data []byte, version int32) request {
	return request{opSetData, fmt.Sprintf("%q data=%s v=%d", path, dataText(data), version), enc(nil).str(path).buf(data).i32(version)}
}

func set(path, data string) request { return setData(path, []byte(data), -1) }

func setACL(path string, list []acl, version int32) request {
	return request{opSetACL, fmt.Sprintf("%q acl=%s v=%d", path, aclText(list), version), enc(nil).str(path).acls(list).i32(version)}
}

// read is exists, getData, getChildren or getChildren2.
func read(op int32, path string, watch bool) request {
	text := fmt.Sprintf("%q", path)
	if watch {
		text += " watch"
	}
	return request{op, text, enc(nil).str(path).bool(watch)}
}

func get(path string) request       { return read(opGetData, path, false) }
func getW(path string) request      { return read(opGetData, path, true) }
func exists(path string) request    { return read(opExists, path, false) }
func existsW(path string) request   { return read(opExists, path, true) }
func children(path string) request  { return read(opGetChildren2, path, false) }
func childrenW(path string) request { return read(opGetChildren2, path, true) }

// byPath is a request whose record is one string.
func byPath(op int32, path string) request {
	return request{op, fmt.Sprintf("%q", path), enc(nil).str(path)}
}

func ping() request         { return request{op: opPing} }
func closeSession() request { return request{op: opCloseSession} }
func whoAmI() request       { return request{op: opWhoAmI} }

func addWatch(path string, mode int32) request {
	return request{opAddWatch, fmt.Sprintf("%q mode=%d", path, mode), enc(nil).str(path).i32(mode)}
}

// watchOp is removeWatches or checkWatches.
func watchOp(op int32, path string, typ int32) request {
	return request{op, fmt.Sprintf("%q type=%d", path, typ), enc(nil).str(path).i32(typ)}
}

func auth(scheme, data string) request {
	return request{opAuth, fmt.Sprintf("%s %q", scheme, data), enc(nil).i32(0).str(scheme).buf([]byte(data))}
}

// setWatches has three lists (data, exist, child) and becomes setWatches2 with
// five (persistent, recursive). The relative zxid is absolute here: the world
// that sends it knows its own.
func setWatches(zxid int64, text string, lists ...[]string) request {
	op := int32(opSetWatches)
	if len(lists) == 5 {
		op = opSetWatches2
	}
	body := enc(nil).i64(zxid)
	for _, l := range lists {
		if l == nil {
			l = []string{}
		}
		body = body.strs(l)
	}
	return request{op, fmt.Sprintf("%s %q", text, lists), body}
}

// multi is a multi or multiRead of the given operations.
func multi(ops ...request) request { return multiOf(opMulti, ops...) }

func multiOf(op int32, ops ...request) request {
	var body enc
	var texts []string
	for _, o := range ops {
		body = body.i32(o.op).bool(false).i32(-1).raw(o.body...)
		texts = append(texts, o.String())
	}
	return request{op, "[" + strings.Join(texts, "; ") + "]", body.i32(-1).bool(true).i32(-1)}
}

func dataText(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 64:
		return fmt.Sprintf("(%d bytes)", len(b))
	default:
		return fmt.Sprintf("%q", b)
	}
}
