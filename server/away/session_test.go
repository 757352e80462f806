package away

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// history is what an ensemble has committed. What is known of it is a beginning for each subtree.
type history []change

type change struct {
	zxid jute.Zxid
	typ  jute.EventType
	path string
}

// at returns a node as of a zxid, and whether there is one.
func (h history) at(path string, zxid jute.Zxid) (s jute.Stat, exists bool) {
	for _, c := range h {
		if c.zxid > zxid {
			break
		}
		switch {
		case c.path == path && c.typ == jute.EventCreated:
			s, exists = jute.Stat{Czxid: c.zxid, Mzxid: c.zxid, Pzxid: c.zxid}, true
		case c.path == path && c.typ == jute.EventDeleted:
			exists = false
		case c.path == path:
			s.Mzxid = c.zxid
			s.Version++
		case jute.Parent(c.path) == path && c.typ == jute.EventCreated:
			s.Pzxid = c.zxid
			s.NumChildren++
		case jute.Parent(c.path) == path && c.typ == jute.EventDeleted:
			s.Pzxid = c.zxid
			s.NumChildren--
		}
	}
	return s, exists
}

var paths = []string{"/a", "/a/x", "/a/y", "/b", "/b/x", "/o"}

func randomHistory(r *rand.Rand) (h history) {
	for zxid := jute.Zxid(1); zxid <= 60; zxid++ {
		path := paths[r.IntN(len(paths))]
		_, exists := h.at(path, zxid)
		parent, above := h.at(jute.Parent(path), zxid)
		if above = above || jute.Parent(path) == "/"; !above {
			path, exists = jute.Parent(path), false
		}
		parent, _ = h.at(path, zxid)
		typ := jute.EventDataChanged
		switch {
		case !exists:
			typ = jute.EventCreated
		case parent.NumChildren == 0 && r.IntN(3) == 0:
			typ = jute.EventDeleted
		}
		h = append(h, change{zxid, typ, path})
	}
	return h
}

// run is a session, with what it is to be like.
type run struct {
	Session
	h      history
	seen   jute.Zxid            // what the client has seen
	known  map[string]jute.Zxid // up to when each subtree is
	hidden string               // a node that can't be read
	armed  []armed              // the watches that the client has

	wrong       []string
	right, told int // answers and events
}

// armed is a watch: 0 is of data, 1 of a node that is to come, and 2 of children.
type armed struct {
	list  int
	path  string
	since jute.Zxid // the state in which the client has set it
}

// change returns the first change that fires the watch, or 0.
func (r *run) change(w armed) jute.Zxid {
	for _, c := range r.h {
		child := jute.Parent(c.path) == w.path && c.typ != jute.EventDataChanged || c.path == w.path && c.typ == jute.EventDeleted
		if c.zxid > w.since && (w.list == 2 && child || w.list != 2 && c.path == w.path) {
			return c.zxid
		}
	}
	return 0
}

// missed notes if the client has seen what fires a watch that has told nothing: its next server takes that for known.
func (r *run) missed() {
	for _, w := range r.armed {
		if z := r.change(w); z > 0 && z <= r.seen {
			r.fails("the session has seen %d, and its watch of %v since %d misses %d", r.seen, w, w.since, z)
		}
	}
}

// bounded reports whether a watch keeps the session from what has been since a zxid.
func (r *run) bounded(since jute.Zxid) bool {
	return slices.ContainsFunc(r.armed, func(w armed) bool { return r.upTo(w.path) < since || w.since < since && r.change(w) > 0 })
}

func (r *run) fails(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// upTo returns up to when a node is known, or 0.
func (r *run) upTo(path string) jute.Zxid {
	if path == r.hidden {
		return 0
	}
	return r.known[path[:2]]
}

func (r *run) look(path string, take func(*resume.Remembered)) bool {
	upTo := r.upTo(path)
	if upTo == 0 {
		return false
	}
	s, exists := r.h.at(path, upTo)
	whole := jute.Parent(r.hidden) != path
	take(&resume.Remembered{
		Exists: exists, Data: fmt.Append(nil, s.Version), Stat: s, Whole: whole, Since: r.since(path, upTo), Zxid: upTo,
		Names: func(to []string) []string { return append(to, fmt.Sprint(s.NumChildren)) },
	})
	return true
}

// since returns since when a node is as it was at a zxid.
func (r *run) since(path string, upTo jute.Zxid) jute.Zxid {
	s, exists := r.h.at(path, upTo)
	since := max(s.Czxid, s.Mzxid, s.Pzxid)
	if !exists { // what is left above has changed last, or nothing is known
		above, there := r.h.at(path[:2], upTo)
		if !there {
			since = 0
			for _, c := range r.h {
				if c.zxid <= upTo && c.path[:2] == path[:2] {
					since = c.zxid
				}
			}
		} else {
			since = max(above.Czxid, above.Mzxid, above.Pzxid)
		}
	}
	return since
}

// frames returns what a request gets: the zxids of events do not count.
func (r *run) frames(op jute.OpCode, body []byte) (events []string, h jute.ReplyHeader, rest []byte) {
	b, ends := r.Answer(nil, jute.RequestHeader{Xid: 7, Type: op}, body)
	if ends {
		r.fails("%v ends the session", op)
	}
	for len(b) > 0 {
		d := jute.NewDecoder(b)
		frame := d.Buffer()
		b = d.Rest()
		in := jute.NewDecoder(frame)
		h.Decode(&in)
		if h.Xid == jute.XidNotification {
			var ev jute.WatcherEvent
			ev.Decode(&in)
			events = append(events, fmt.Sprint(ev.Type, " ", ev.Path))
			continue
		}
		rest = in.Rest()
	}
	if h.Xid != 7 {
		r.fails("the last frame is the reply to %d", h.Xid)
	}
	return events, h, rest
}

func (r *run) read(op jute.OpCode, path string, watch bool) {
	before := r.seen
	_, h, body := r.frames(op, jute.AppendBool(jute.AppendString(nil, path), watch))
	r.seen = max(r.seen, h.Zxid)
	upTo := r.upTo(path)
	lists := op == jute.OpGetChildren2
	stat, exists := r.h.at(path, h.Zxid)
	part := lists && r.hidden != "" && jute.Parent(r.hidden) == path
	switch {
	case h.Zxid < before:
		r.fails("%v of %s is of %d, and the session has seen %d", op, path, h.Zxid, before)
	case h.Err == jute.ErrNotReadOnly:
		if since := r.since(path, upTo); upTo >= before && upTo > 0 && !part && (since <= before || !r.bounded(since)) {
			r.fails("%v of %s is refused, which is known up to %d after %d", op, path, upTo, before)
		}
	case upTo == 0:
		r.fails("%v of %s, which is not known: %v", op, path, h.Err)
	case h.Err == jute.ErrNoNode:
		if exists {
			r.fails("%s is missing at %d", path, h.Zxid)
		}
		r.right++
	case h.Err != 0 || !exists:
		r.fails("%v of %s at %d: %v, and it is there: %v", op, path, h.Zxid, h.Err, exists)
	case part:
		r.fails("a part of the children of %s is listed", path)
	default:
		d := jute.NewDecoder(body)
		switch op {
		case jute.OpGetData:
			d.Buffer()
		case jute.OpGetChildren2:
			d.Strings()
		}
		var got jute.Stat
		if got.Decode(&d); d.Err() != nil || len(d.Rest()) > 0 || got != stat {
			r.fails("%v of %s at %d: %+v, want %+v", op, path, h.Zxid, got, stat)
		}
		r.right++
	}
	if watch && h.Err == 0 {
		list := 0
		if lists {
			list = 2
		}
		r.armed = append(r.armed, armed{list, path, h.Zxid})
	}
	if watch && op == jute.OpExists && h.Err == jute.ErrNoNode {
		r.armed = append(r.armed, armed{1, path, h.Zxid})
	}
	r.missed()
}

// setWatches sets watches again that the client has had since it had seen relative.
func (r *run) setWatches(rng *rand.Rand) {
	q := jute.SetWatchesRequest{RelativeZxid: r.seen}
	var want []string
	lists := [][]string{nil, nil, nil}
	for _, path := range paths {
		list := rng.IntN(3)
		before, was := r.h.at(path, r.seen)
		if (list == 1) == was {
			continue
		}
		lists[list] = append(lists[list], path)
		r.armed = append(r.armed, armed{list, path, r.seen})
		upTo := r.upTo(path)
		if upTo == 0 || upTo < r.seen {
			continue
		}
		switch now, is := r.h.at(path, upTo); {
		case list == 1 && is:
			want = append(want, "1NodeCreated "+path)
		case list != 1 && !is:
			want = append(want, fmt.Sprint(list, "NodeDeleted ", path))
		case list == 0 && now.Mzxid > before.Mzxid:
			want = append(want, "0NodeDataChanged "+path)
		case list == 2 && now.Pzxid > before.Pzxid:
			want = append(want, "2NodeChildrenChanged "+path)
		}
	}
	q.Data, q.Exist, q.Child = lists[0], lists[1], lists[2]
	slices.Sort(want)
	for i := range want {
		want[i] = want[i][1:]
	}
	before := r.seen
	got, h, _ := r.frames(jute.OpSetWatches, q.Append(nil))
	r.seen = max(r.seen, h.Zxid)
	for i, w := range r.armed {
		if _, is := r.h.at(w.path, r.upTo(w.path)); w.list == 1 && !is && r.upTo(w.path) >= before { // that a node came and went is no event
			r.armed[i].since = r.upTo(w.path)
		}
	}
	for _, ev := range got {
		typ, path, _ := strings.Cut(ev, " ")
		list := map[string]int{"NodeDataChanged": 0, "NodeCreated": 1, "NodeChildrenChanged": 2}
		r.armed = slices.DeleteFunc(r.armed, func(w armed) bool { return w.path == path && (typ == "NodeDeleted" || w.list == list[typ]) })
		if i := slices.Index(want, ev); i >= 0 {
			want = slices.Delete(want, i, i+1)
			r.told++
			continue
		}
		r.fails("after %d: %s is told", q.RelativeZxid, ev)
	}
	for _, ev := range want { // unless another watch would miss something
		if path := ev[strings.Index(ev, "/"):]; !r.bounded(r.since(path, r.upTo(path))) {
			r.fails("after %d: %s is not told", q.RelativeZxid, ev)
		}
	}
	if h.Err != 0 || h.Zxid < before {
		r.fails("setWatches: %v at %d, after %d", h.Err, h.Zxid, before)
	}
	r.missed()
}

// randomRun has a client ask at random.
func randomRun(seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &run{h: randomHistory(rng), known: map[string]jute.Zxid{"/a": 20 + jute.Zxid(rng.IntN(40)), "/b": 20 + jute.Zxid(rng.IntN(40))}}
	if rng.IntN(3) == 0 {
		r.hidden = "/a/x"
	}
	r.Look, r.seen = r.look, jute.Zxid(rng.IntN(50))
	r.Seen = r.seen
	if rng.IntN(2) == 0 {
		r.setWatches(rng)
	}
	for range 20 {
		path := paths[rng.IntN(len(paths))]
		switch rng.IntN(6) {
		case 0:
			q := jute.SetDataRequest{Path: path, Version: -1}
			if _, h, _ := r.frames(jute.OpSetData, q.Append(nil)); h.Err != jute.ErrNotReadOnly || h.Zxid != r.seen {
				r.fails("a set: %v at %d", h.Err, h.Zxid)
			}
		case 1:
			for _, op := range []jute.OpCode{jute.OpSync, jute.OpGetACL, jute.OpMulti, jute.OpCreate, jute.OpReconfig, jute.OpGetEphemerals} {
				if _, h, _ := r.frames(op, jute.AppendString(nil, path)); h.Err != jute.ErrNotReadOnly {
					r.fails("%v: %v", op, h.Err)
				}
			}
		default:
			r.read([]jute.OpCode{jute.OpGetData, jute.OpExists, jute.OpGetChildren2}[rng.IntN(3)], path, rng.IntN(4) == 0)
		}
	}
	return r
}

// TestSessions: sessions over subtrees that are known up to different zxids see no state older than what they have seen, and none that their watches would miss the
// change to, and no write is done.
func TestSessions(t *testing.T) {
	first := seeds.First(t)
	right, told := 0, 0
	for seed := first; seed < first+500; seed++ {
		r := randomRun(seed)
		for _, w := range r.wrong {
			t.Errorf("seed %d: %s", seed, w)
		}
		right, told = right+r.right, told+r.told
	}
	if right < 1000 || told < 100 {
		t.Errorf("%d reads are answered, and %d events told", right, told)
	}
}

// TestOtherRequests asks for what is neither a read of a node nor a write.
func TestOtherRequests(t *testing.T) {
	known := func(path string, take func(*resume.Remembered)) bool {
		if path != "/a" {
			return false
		}
		take(&resume.Remembered{Exists: true, Since: 3, Zxid: 5})
		return true
	}
	watches := jute.SetWatchesRequest{RelativeZxid: 3, Persistent: []string{"/o"}, PersistentRecursive: []string{"/a"}}
	for _, tt := range []struct {
		op   jute.OpCode
		body []byte
		want jute.Code
		ends bool
	}{
		{jute.OpPing, nil, 0, false},
		{jute.OpAuth, nil, 0, false},
		{jute.OpRemoveWatches, nil, 0, false},
		{jute.OpSetWatches2, watches.Append2(nil), 0, false},
		{jute.OpSetWatches, []byte{1}, jute.ErrMarshalling, false},
		{jute.OpAddWatch, jute.AppendInt32(jute.AppendString(nil, "/a"), int32(1)), 0, false},
		{jute.OpAddWatch, jute.AppendInt32(jute.AppendString(nil, "/o"), int32(0)), jute.ErrNotReadOnly, false},
		{jute.OpAddWatch, jute.AppendInt32(jute.AppendString(nil, "/a"), int32(9)), jute.ErrMarshalling, false},
		{jute.OpGetData, []byte{1}, jute.ErrMarshalling, false},
		{jute.OpGetData, jute.AppendBool(jute.AppendString(nil, "a"), false), jute.ErrBadArguments, false},
		{jute.OpCloseSession, nil, 0, true},
		{jute.OpSASL, nil, jute.ErrUnimplemented, true},
		{jute.OpSubscribe, nil, jute.ErrUnimplemented, true},
		{jute.OpCode(77), nil, jute.ErrUnimplemented, true},
	} {
		s := Session{Look: known, Seen: 3}
		b, ends := s.Answer(nil, jute.RequestHeader{Xid: 9, Type: tt.op}, tt.body)
		d := jute.NewDecoder(b)
		d = jute.NewDecoder(d.Buffer())
		var h jute.ReplyHeader
		h.Decode(&d)
		if want := (jute.ReplyHeader{Xid: 9, Zxid: 3, Err: tt.want}); h != want || ends != tt.ends {
			t.Errorf("%v: %+v, the end: %v; want %+v, %v", tt.op, h, ends, want, tt.ends)
		}
	}
}
