//go:build compat

package compat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	quickSeeds, quickSteps = 6, 400
	fullSeeds, fullSteps   = 60, 1500
	// shownLines is how much of a transcript is shown around the first difference.
	shownLines = 12
)

// TestDifferentialRandom runs seeded random conversations with Apache and with
// the target: several sessions, pipelines, multis, every kind of watch and node,
// ACLs, reconnects with setWatches. A failure names its seed; -seed runs it alone.
func TestDifferentialRandom(t *testing.T) {
	p := startPair(t, apache, config{})
	compareRandom(t, apache, quickSeeds, p.hold)
}

// TestDifferentialRandom39 does that with Apache 3.9, and with what zkd has from 3.9:
// watches of all modes on the same paths, exists where READ is missing, creates of all
// kinds in a multi.
func TestDifferentialRandom39(t *testing.T) {
	t.Parallel()
	p := startPair(t, apache39, config{})
	compareRandom(t, apache39, quickSeeds, p.hold)
}

// amount is how many conversations are held, and of how many steps.
type amount struct{ seeds, steps int }

// compareRandom holds seeded random conversations of what the reference knows.
func compareRandom(t *testing.T, reference kind, seeds int, hold func(func(*world)) (a, b []string)) {
	n := amount{seeds, quickSteps}
	if *fullFlag {
		n = amount{fullSeeds, fullSteps}
	}
	compareSeeded(t, n, reference.converse, hold)
}

// compareSeeded holds seeded conversations; a full run has one with a new seed.
func compareSeeded(t *testing.T, n amount, converse func(*world, *rand.Rand, int), hold func(func(*world)) (a, b []string)) {
	list := []uint64{*seedFlag}
	if *seedFlag == 0 {
		list = nil
		for i := range n.seeds {
			list = append(list, uint64(i+1))
		}
		if *fullFlag {
			list = append(list, uint64(time.Now().UnixNano()))
		}
	}
	total, passed, replies, refused := 0, 0, 0, 0
	for _, seed := range list {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			talk := func(w *world) { converse(w, rand.New(rand.NewPCG(seed, 0)), n.steps) }
			left := attempts{hangs: maxHangs}
			a, b := hold(talk)
			for firstDifference(a, b) >= 0 && left.again(a) {
				t.Log("held again, as Apache left a request unanswered")
				a, b = hold(talk)
			}
			total += len(a)
			for _, line := range a {
				if strings.Contains(line, "< ") && strings.Contains(line, " zxid=") {
					replies++
					if !strings.Contains(line, " err=0") {
						refused++
					}
				}
			}
			if i := firstDifference(a, b); i >= 0 {
				name, _, _ := strings.Cut(t.Name(), "/")
				t.Errorf("apache and %s differ at line %d; to see it alone: -run '%s$' -seed %d\n%s",
					*targetFlag, i, name, seed, around(a, b, i))
			}
		})
		if ok {
			passed++
		}
	}
	summary(t, t.Name(), passed, len(list)-passed)
	t.Logf("%d seeds, %d steps each, %d lines compared, %d of %d replies are errors", len(list), n.steps, total, refused, replies)
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

func around(a, b []string, i int) string {
	text := ""
	for _, line := range a[max(0, i-shownLines):i] {
		text += "  " + line + "\n"
	}
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"-", a}, {"+", b}} {
		for _, line := range side.lines[min(i, len(side.lines)):min(i+shownLines/2, len(side.lines))] {
			text += side.sign + " " + line + "\n"
		}
	}
	return text
}

// talk is one random conversation. Everything that it draws comes from rng
// before an answer is looked at, so both servers are asked the same.
type talk struct {
	w     *world
	rng   *rand.Rand
	like  kind // the reference: what it does not know is not asked
	conns []*conn
	count int // connections so far
}

const talkers = 4

// converse has some sessions do random things below /r, one step at a time, and
// looks at the whole subtree in the end.
func (reference kind) converse(w *world, rng *rand.Rand, steps int) {
	t := &talk{w: w, rng: rng, like: reference}
	w.sortACL = true
	for range talkers {
		t.conns = append(t.conns, t.join())
	}
	t.conns[0].do(create("/r", "", 0))
	for range steps {
		t.step()
	}
	for _, c := range t.conns {
		c.do(byPath(opGetEphemerals, "/r"))
	}
	judge := w.connect("J")
	judge.do(auth("digest", "super:secret"))
	judge.tree("/r")
	w.hushed(func() { judge.removeAll("/r") })
}

func (t *talk) join() *conn {
	t.count++
	t.w.next(t.count)
	c := t.w.connectFor(fmt.Sprintf("c%d", t.count), longTimeout)
	if t.rng.IntN(2) == 0 {
		c.do(auth("digest", users[t.rng.IntN(len(users))]))
	}
	return c
}

var users = []string{"bob:pw", "amy:pw"}

// step is one thing that one session does: mostly a pipeline of requests.
func (t *talk) step() {
	i := t.rng.IntN(len(t.conns))
	c := t.conns[i]
	switch n := t.rng.IntN(100); {
	case n < 3:
		t.leave(i)
	case n < 7:
		t.conns[i] = t.reconnect(c)
	case n < 9:
		c.do(auth("digest", users[t.rng.IntN(len(users))]))
	default:
		var batch []request
		for range 1 + t.rng.IntN(6) {
			r := t.request()
			batch = append(batch, r)
			if r.op == opSetACL {
				break // Apache checks what follows at once against the old list
			}
		}
		c.do(batch...)
	}
}

// leave closes a session; others hear of its ephemerals in no defined order.
func (t *talk) leave(i int) {
	t.w.unsorted = true
	t.conns[i].do(closeSession())
	t.w.unsorted = false
	t.conns[i].close()
	t.conns[i] = t.join()
}

// reconnect resumes a session on a new connection, and sets some watches again
// as of a zxid that it had seen.
func (t *talk) reconnect(c *conn) *conn {
	back := t.rng.Int64N(20)
	var lists [][]string
	kinds := 3
	if t.like != apache && t.rng.IntN(2) == 0 {
		kinds = 5 // setWatches2
	}
	for range kinds {
		var list []string
		for range t.rng.IntN(3) {
			list = append(list, t.standardPath())
		}
		lists = append(lists, list)
	}
	zxid := t.w.before(c.zxid, int(back))
	if t.w.next(t.count) {
		c.close() // another server may not know at once that the session has left
	}
	t.count++
	d := t.w.connectWith(c.name+"'", resume(c.session, longTimeout))
	c.expectEnd()
	d.name = c.name
	for i := range lists { // of nodes that a client may not read, zkd tells nothing
		lists[i] = slices.DeleteFunc(lists[i], func(p string) bool { return !t.mayRead(d, p) })
	}
	d.do(setWatches(zxid, fmt.Sprintf("last-%d", back), lists...))
	return d
}

// mayRead reports whether a connection may read a node, or there is none.
func (t *talk) mayRead(c *conn, path string) bool {
	n := len(t.w.lines)
	c.do(get(path))
	return !slices.ContainsFunc(t.w.lines[n:], func(line string) bool {
		return strings.Contains(line, "< getData ") && strings.Contains(line, "err=-102")
	})
}

// Paths come from a small set, so that operations meet. With 3.8, names that start
// with p get persistent watches and all others standard ones: there a second mode on a
// path replaces the first.
var (
	standardNames   = []string{"a", "b", "q-0000000001", "q-0000000004"}
	persistentNames = []string{"p", "pp"}
)

func (t *talk) standardPath() string {
	p := "/r"
	for range t.rng.IntN(3) {
		p += "/" + standardNames[t.rng.IntN(len(standardNames))]
	}
	return p
}

func (t *talk) persistentPath() string {
	if t.like != apache && t.rng.IntN(2) == 0 {
		return t.standardPath()
	}
	return "/r/" + persistentNames[t.rng.IntN(len(persistentNames))]
}

// openPath is a path whose node always lets everyone read. With 3.8.0, exists looks only
// at these, as it needs READ from 3.8.4 on.
func (t *talk) openPath() string {
	if t.like != apache && t.rng.IntN(2) == 0 {
		return t.standardPath()
	}
	return []string{"/r/x", "/r/xx", "/r/x/x", "/r/a/x"}[t.rng.IntN(4)]
}

func (t *talk) path() string {
	switch n := t.rng.IntN(20); {
	case n < 3:
		return t.openPath()
	case n < 6:
		return t.persistentPath()
	case n < 7:
		return t.persistentPath() + "/" + standardNames[t.rng.IntN(len(standardNames))]
	case n < 8:
		return []string{"/r/", "/r//a", "r", "/r/a/..", "/", "/r/\x01"}[t.rng.IntN(6)]
	default:
		return t.standardPath()
	}
}

// version is mostly "any", else one that may be right.
func (t *talk) version() int32 {
	if t.rng.IntN(3) > 0 {
		return -1
	}
	return int32(t.rng.IntN(4))
}

func (t *talk) data() []byte {
	switch t.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte{}
	default:
		return fmt.Appendf(nil, "d%d", t.rng.IntN(1000))
	}
}

func (t *talk) acl(path string) []acl {
	if strings.Contains(path, "/x") {
		return openACL
	}
	switch t.rng.IntN(12) {
	case 0:
		return []acl{{31, "auth", ""}}
	case 1:
		return []acl{{int32(t.rng.IntN(32)), "world", "anyone"}, {31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}}
	case 2:
		return []acl{{int32(t.rng.IntN(32)), "ip", "127.0.0.0/8"}, {16, "world", "anyone"}}
	case 3:
		return []acl{{31, "digest", "broken"}}
	default:
		return openACL
	}
}

func (t *talk) create(op int32, path string, flags int32) request {
	return createACL(op, path, t.data(), t.acl(path), flags)
}

// write is a write that may also stand in a multi.
func (t *talk) write() request {
	switch n := t.rng.IntN(100); {
	case n < 15 && t.like != apache: // 3.8 answers create2 in a multi as create
		return t.create(opCreate2, t.path(), int32(t.rng.IntN(5)))
	case n < 35:
		return t.create(opCreate, t.path(), int32(t.rng.IntN(2)))
	case n < 45:
		return t.create(opCreate, t.standardPath()+"/q-", int32(2+t.rng.IntN(2)))
	case n < 48:
		return createContainer(t.path())
	case n < 51:
		return createTTL(t.path(), 5, 1e9)
	case n < 75:
		return del(t.path(), t.version())
	default:
		return setData(t.path(), t.data(), t.version())
	}
}

func (t *talk) request() request {
	switch n := t.rng.IntN(100); {
	case n < 35:
		return t.write()
	case n < 40:
		return t.create(opCreate2, t.path(), int32(t.rng.IntN(4)))
	case n < 46:
		p := t.path()
		return setACL(p, t.acl(p), t.version())
	case n < 58:
		return t.multi()
	case n < 88:
		return t.read()
	case n < 92 && t.like != apache:
		return addWatch(t.persistentPath(), int32(t.rng.IntN(2)))
	case n < 92:
		return addWatch(t.persistentPath(), 0)
	case n < 96 && t.like != apache:
		op := int32(opRemoveWatches)
		if t.rng.IntN(2) == 0 {
			op = opCheckWatches
		}
		return watchOp(op, t.persistentPath(), int32(1+t.rng.IntN(5)))
	case n < 96:
		return watchOp(opRemoveWatches, t.standardPath(), int32(1+t.rng.IntN(3)))
	case n < 97:
		return watchOp(opRemoveWatches, t.persistentPath(), 3)
	case n < 98:
		return byPath(opSync, t.path())
	default:
		return byPath(opGetEphemerals, t.standardPath())
	}
}

func (t *talk) read() request {
	p, watch := t.path(), false
	if t.rng.IntN(3) == 0 {
		p, watch = t.standardPath(), true
	}
	switch n := t.rng.IntN(12); {
	case n < 3:
		return read(opGetData, p, watch)
	case n < 6:
		return read(opGetChildren2, p, watch)
	case n < 8:
		return read(opExists, t.openPath(), watch)
	case n < 9:
		return read(opGetChildren, p, watch)
	case n < 10:
		return byPath(opGetACL, p)
	case n < 11:
		return byPath(opGetAllChildrenNumber, p)
	default:
		return multiOf(opMultiRead, get(t.path()), read(opGetChildren, t.path(), false), get(t.path()))
	}
}

func (t *talk) multi() request {
	var ops []request
	for range t.rng.IntN(5) {
		if t.rng.IntN(5) == 0 {
			ops = append(ops, check(t.path(), t.version()))
			continue
		}
		ops = append(ops, t.write())
	}
	return multi(ops...)
}
