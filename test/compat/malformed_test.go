//go:build compat

package compat

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"
)

const (
	quickMalformedSeeds, quickMalformedSteps = 3, 500
	fullMalformedSeeds, fullMalformedSteps   = 60, 3000
)

// TestMalformed39 sends seeded malformed requests and requests with values at the edge of
// what is allowed, of every opcode, to Apache 3.9 and to the target. A failure names its seed;
// -seed runs it alone.
//
// Left out is what docs/dev/compat.md lists: nulls inside ACLs and setWatches and as the path of
// addWatch, strings that are no UTF-8, and the requests that kill Apache or that it leaves
// unanswered.
func TestMalformed39(t *testing.T) {
	t.Parallel()
	p := startPair(t, apache39, config{})
	n := amount{quickMalformedSeeds, quickMalformedSteps}
	if *fullFlag {
		n = amount{fullMalformedSeeds, fullMalformedSteps}
	}
	compareSeeded(t, n, mangle, p.hold)
}

// mangle has one session send mangled requests below /m, and looks at the subtree in the end.
func mangle(w *world, rng *rand.Rand, steps int) {
	w.sortACL = true
	m := &mangler{rng: rng}
	c := w.connectFor("A", longTimeout)
	c.do(auth("digest", "bob:pw"))
	c.do(create("/m", "", 0), create("/m/a", "x", 0), create("/m/e", "", 1), createContainer("/m/box"))
	for range steps {
		c.do(m.request())
		if c.gone {
			c = w.connectWith("A", resume(c.session, longTimeout))
			c.do(auth("digest", "bob:pw"))
		}
	}
	judge := w.connect("J")
	judge.do(auth("digest", "super:secret"))
	judge.tree("/m")
}

// mangler makes requests. What it draws does not depend on answers.
type mangler struct{ rng *rand.Rand }

// fieldKind says what the values of a field can be.
type fieldKind int

const (
	pathKind      fieldKind = iota
	watchPathKind           // never null, which is "" here and another path than "" there
	dataKind
	aclKind
	boolKind
	smallKind // versions, modes, types
	ttlKind
	anyTTLKind // negative, too
	zxidKind
	pathsKind
	textKind
)

// records are the fields of each request's record.
var records = map[int32][]fieldKind{
	opCreate:               {pathKind, dataKind, aclKind, smallKind},
	opCreate2:              {pathKind, dataKind, aclKind, smallKind},
	opCreateContainer:      {pathKind, dataKind, aclKind, smallKind},
	opCreateTTL:            {pathKind, dataKind, aclKind, smallKind, ttlKind},
	opDelete:               {pathKind, smallKind},
	opSetData:              {pathKind, dataKind, smallKind},
	opSetACL:               {pathKind, aclKind, smallKind},
	opExists:               {pathKind, boolKind},
	opGetData:              {pathKind, boolKind},
	opGetChildren:          {pathKind, boolKind},
	opGetChildren2:         {pathKind, boolKind},
	opGetACL:               {pathKind},
	opSync:                 {pathKind},
	opGetEphemerals:        {pathKind},
	opGetAllChildrenNumber: {pathKind},
	opCheckWatches:         {watchPathKind, smallKind},
	opRemoveWatches:        {watchPathKind, smallKind},
	opAddWatch:             {watchPathKind, smallKind},
	opSetWatches:           {zxidKind, pathsKind, pathsKind, pathsKind},
	opSetWatches2:          {zxidKind, pathsKind, pathsKind, pathsKind, pathsKind, pathsKind},
	opReconfig:             {textKind, textKind, textKind, zxidKind},
	opAuth:                 {smallKind, textKind, dataKind},
	opSASL:                 {dataKind},
	opWhoAmI:               {},
}

// multiRecords are those that only a multi may have, or that differ there.
var multiRecords = map[int32][]fieldKind{
	opCheck:     {pathKind, smallKind},
	opCreateTTL: {pathKind, dataKind, aclKind, smallKind, anyTTLKind},
}

// The opcodes in the order in which they are drawn from. Unknown ones end the connection.
var (
	singleOps = []int32{opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opSetACL, opExists, opGetData,
		opGetChildren, opGetChildren2, opGetACL, opSync, opGetEphemerals, opGetAllChildrenNumber, opCheckWatches, opRemoveWatches,
		opAddWatch, opSetWatches, opSetWatches2, opReconfig, opAuth, opSASL, opWhoAmI}
	multiWrites = []int32{opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opCheck}
	multiReads  = []int32{opGetData, opGetChildren}
	unknownOps  = []int32{-2, 0, 10, 23, 99, 108, math.MaxInt32, math.MinInt32}
)

func pick[T any](m *mangler, list ...T) T { return list[m.rng.IntN(len(list))] }

func (m *mangler) oneIn(n int) bool { return m.rng.IntN(n) == 0 }

func (m *mangler) request() request {
	var op int32
	var body enc
	switch n := m.rng.IntN(100); {
	case n < 30:
		op, body = m.multi()
	case n < 32:
		op, body = pick(m, unknownOps...), m.record(records[opGetData])
	default:
		op = pick(m, singleOps...)
		body = m.record(records[op])
		for op == opCreateTTL && poisonous(body) {
			body = m.record(records[op])
		}
	}
	switch m.rng.IntN(12) {
	case 0:
		body = body[:m.rng.IntN(len(body)+1)]
	case 1:
		body = body.raw(1, 2, 3)
	}
	return raw(op, hex.EncodeToString(body), body)
}

// poisonous reports whether a createTTL would be accepted by Apache and kill it.
func poisonous(createTTL []byte) bool {
	d := dec{b: createTTL}
	d.buf()
	d.buf()
	d.acls()
	mode, ttl := d.i32(), d.i64()
	return !d.short && mode >= 0 && mode <= 4 && ttl < 0
}

// multi is a multi or multiRead, at times of operations that it can't have or with
// headers that should not be.
func (m *mangler) multi() (op int32, body enc) {
	op, kinds := int32(opMulti), multiWrites
	if m.oneIn(3) {
		op, kinds = opMultiRead, multiReads
	}
	for range m.rng.IntN(5) {
		typ := pick(m, kinds...)
		if m.oneIn(20) {
			typ = pick(m, singleOps...)
		}
		fields, special := multiRecords[typ]
		if !special {
			fields = records[typ]
		}
		if m.oneIn(40) {
			typ = pick[int32](m, -1, 0, opDeleteContainer, opMulti, pick(m, unknownOps...))
		}
		body = body.i32(typ).bool(m.oneIn(60)).i32(pick[int32](m, -1, -1, 0, 7)).raw(m.record(fields)...)
	}
	switch m.rng.IntN(20) {
	case 0:
		return op, body
	case 1:
		return op, body.i32(5).bool(true).i32(0)
	}
	return op, body.i32(-1).bool(true).i32(-1)
}

// record is a record of these fields, at times with a field that is null or whose
// length is wrong.
func (m *mangler) record(fields []fieldKind) enc {
	var b enc
	broken := -1
	if len(fields) > 0 && m.oneIn(8) {
		broken = m.rng.IntN(len(fields))
	}
	for i, kind := range fields {
		start := len(b)
		b = m.value(b, kind)
		if i != broken || len(b)-start < 4 || kind == pathsKind {
			continue
		}
		length := int32(binary.BigEndian.Uint32(b[start:]))
		length = pick[int32](m, -1, -2, math.MinInt32, math.MaxInt32, 0x100000, length+1, length-1)
		switch {
		case length == -1 && kind == watchPathKind:
			length = -2
		case length == -1:
			b = b[:start].i32(-1)
			continue
		}
		binary.BigEndian.PutUint32(b[start:], uint32(length))
	}
	return b
}

func (m *mangler) value(b enc, kind fieldKind) enc {
	switch kind {
	case pathKind, watchPathKind:
		if m.oneIn(12) {
			return b.str(pick(m, "", " "))
		}
		return b.str(m.path())
	case dataKind:
		return b.buf(pick(m, nil, []byte{}, []byte("d"), []byte("bob:pw"), []byte("a:b:c")))
	case aclKind:
		return m.acl(b)
	case boolKind:
		return b.raw(pick[byte](m, 0, 1, 2, 255))
	case smallKind:
		return b.i32(pick[int32](m, -1, -1, -1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, -2, math.MaxInt32, math.MinInt32))
	case ttlKind:
		return b.i64(pick[int64](m, 0, 1, 1e9, 1<<40-1, 1<<40, math.MaxInt64))
	case anyTTLKind:
		return b.i64(pick[int64](m, math.MinInt64, -1, 0, 1, 1e9, 1<<40-1, 1<<40, math.MaxInt64))
	case zxidKind:
		return b.i64(pick[int64](m, math.MinInt64, -1, 0, math.MaxInt64))
	case pathsKind:
		return b.strs(pick(m, []string{}, []string{m.path()}, []string{m.path(), m.path()}))
	default:
		return b.str(pick(m, "digest", "digest", "digest", "ip", "world", "auth", "super", "sasl", "nosuch", ""))
	}
}

func (m *mangler) path() string {
	if m.oneIn(4) {
		return pick(m, "/", "m", "/m/", "//", "/m//a", "/m/.", "/m/a/..", "/m/\x00", "/m/\x01", "/m/a ", "/none/x", "/zookeeper", "/zookeeper/config")
	}
	return pick(m, "/m/a", "/m/b", "/m/c", "/m/e", "/m/box", "/m/box/x", "/m/q-", "/m/a/x", "/m/b/y")
}

// acl appends a list that does not shut the session out, or one that is refused.
func (m *mangler) acl(b enc) enc {
	open := enc(nil).i32(31).str("world").str("anyone")
	entries := []enc{open}
	for range m.rng.IntN(2) {
		e := enc(nil).i32(pick[int32](m, 0, 1, 31, 32, -1))
		switch m.rng.IntN(8) {
		case 0:
			return b.i32(1).raw(e.i32(-1).str("x")...) // a null scheme; with others it is a null pointer
		case 1:
			e = e.str("auth").i32(-1) // the id of auth means nothing
		default:
			e = e.str(pick(m, "world", "digest", "ip", "super", "nosuch", "")).
				str(pick(m, "", "anyone", "bob:pw", ":", "a:b:c", "127.0.0.1", "127.0.0.0/8", "127.0.0.1/33", "::1", "::ffff:127.0.0.1",
					"1::/0", "::1/129", "1:2:3", "1.2.3", "/8", "::1/", "x"))
		}
		entries = append(entries, e)
	}
	switch m.rng.IntN(10) {
	case 0:
		return b.i32(-1)
	case 1:
		entries = nil
	}
	b = b.i32(int32(len(entries)))
	for _, e := range entries {
		b = b.raw(e...)
	}
	return b
}
