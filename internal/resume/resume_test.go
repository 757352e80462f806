package resume

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
)

// TestQueue: answers that come early are told after those before them.
func TestQueue(t *testing.T) {
	for _, tt := range []struct{ answers, told string }{
		{"1 2 3", "1 2 3"},
		{"2 1 3", "1 2 3"},
		{"3 2 1", "1 2 3"},
		{"2 3", ""},
		{"3 1", "1"},
	} {
		var q Queue[string]
		places := map[string]*Place[string]{"1": {}, "2": {}, "3": {}}
		for _, name := range []string{"1", "2", "3"} {
			q.Push(places[name])
		}
		var told []string
		for answer := range strings.FieldsSeq(tt.answers) {
			p := places[answer]
			if q.Waits(p) {
				q.Keep(p, &answer)
				continue
			}
			told = append(told, answer)
			for _, held := range q.Pop(p) {
				told = append(told, *held)
			}
		}
		if got := strings.Join(told, " "); got != tt.told {
			t.Errorf("answers %s: told %q, want %q", tt.answers, got, tt.told)
		}
	}
}

// TestOvertakesMulti: a multi is about the nodes of its operations, and with deleteTree about those below, too.
func TestOvertakesMulti(t *testing.T) {
	for op, want := range map[jute.OpCode]bool{jute.OpDelete: false, jute.OpDeleteTree: true} {
		s, write := New(0, 0, nil), new(Request)
		s.Connected(jute.FeatureExactlyOnce)
		s.Sent(request(jute.OpGetData, "/a/x/y"))
		write.Of(jute.OpMulti, (&jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpCheck, Path: "/b"}, {Type: op, Path: "/a"}}}).Append(nil))
		if got := s.Overtakes(write); got != want {
			t.Errorf("multi with %v of /a, while /a/x/y is read: waits %v, want %v", op, got, want)
		}
	}
}

func request(op jute.OpCode, path string) *Request {
	q := new(Request)
	q.Of(op, (&jute.PathWatchRequest{Path: path}).Append(nil))
	return q
}

// TestOvertakes: a write waits for reads of what it changes.
func TestOvertakes(t *testing.T) {
	const covered = jute.OpDelete
	for _, tt := range []struct {
		read, path string
		write      string
		want       bool
	}{
		{"get", "/a", "/a", true},
		{"get", "/a", "/b", false},
		{"list", "/a", "/a/x", true},
		{"list", "/a/x", "/a", false},
		{"all", "", "/b", true},
		{"none", "", "/b", false},
	} {
		s := New(0, 0, nil)
		s.Connected(jute.FeatureExactlyOnce)
		op := map[string]jute.OpCode{"get": jute.OpGetData, "list": jute.OpGetChildren, "all": jute.OpGetEphemerals, "none": jute.OpSync}[tt.read]
		read, write := request(op, tt.path), request(covered, tt.write)
		s.Sent(read)
		if got := s.Overtakes(write); got != tt.want {
			t.Errorf("%s of %q, then a change of %s: waits %v, want %v", tt.read, tt.path, tt.write, got, tt.want)
		}
		if s.Done(read); s.Overtakes(write) {
			t.Errorf("%s of %q has its reply, and a change of %s waits", tt.read, tt.path, tt.write)
		}
	}
}

// TestFate: what is no write is asked again, and each write is done once.
func TestFate(t *testing.T) {
	for _, tt := range []struct {
		op      jute.OpCode
		number  int64
		replied bool
		want    exact.Fate
	}{
		{jute.OpGetData, 3, false, exact.Again},
		{jute.OpSetData, 3, false, exact.Refused},
		{jute.OpSetData, 3, true, exact.Answered},
		{jute.OpSetData, 6, false, exact.Again},
	} {
		if got := Fate(tt.number, tt.op, 5, tt.replied); got != tt.want {
			t.Errorf("%v %d, the last done is 5: %v, want %v", tt.op, tt.number, got, tt.want)
		}
	}
}

func event(zxid jute.Zxid, typ jute.EventType, path string) Event {
	return Event{zxid, jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}}
}

func change(zxid jute.Zxid, kind jute.ChangeKind, path string) jute.Change {
	return jute.Change{Zxid: zxid, Kind: kind, Path: path}
}

// TestReplay: a persistent watch has each event once, of a client that has seen 5 by a reply, and of 7 one event of two.
func TestReplay(t *testing.T) {
	s := New(5, 0, nil)
	s.Watches.Set(Recursive, "/a")
	s.Watches.Set(Data, "/a/x")
	s.Told(event(7, jute.EventCreated, "/a/y"))
	s.Connected(jute.FeatureExactlyOnce | jute.FeatureFeed)
	if all := s.RestoreWatches(1000, false); len(all) != 1 || all[0].RelativeZxid != 5 || !slices.Equal(all[0].Data, []string{"/a/x"}) {
		t.Fatalf("sets the watches %+v", all)
	}
	q, begins, err := s.Replay()
	if err != nil || !begins || q.Path != "/a" || q.After != 6 {
		t.Fatalf("begins %v: %+v, %v", begins, q, err)
	}
	for _, e := range []Event{event(-1, jute.EventDataChanged, "/a/x"), event(9, jute.EventDeleted, "/a/x")} {
		if s.Hears(e) {
			t.Errorf("%+v is told before the replay", e)
		}
	}
	s.Restored(8)
	if s.Shown() != 5 || !s.Holds() {
		t.Errorf("shown %v while there is a replay, which holds requests: %v", s.Shown(), s.Holds())
	}
	fed := jute.FeedEvent{Level: true, Changes: []jute.Change{
		change(7, jute.ChangeCreated, "/a/y"), change(7, jute.ChangeCreated, "/a/z"), change(8, jute.ChangeData, "/a/x"), change(9, jute.ChangeDeleted, "/a/x"),
	}}
	if _, all, err := s.Fed(&fed, 100); !all || err != nil {
		t.Fatalf("all %v, %v", all, err)
	}
	want := []Event{event(7, jute.EventCreated, "/a/z"), event(8, jute.EventDataChanged, "/a/x"), event(9, jute.EventDeleted, "/a/x")}
	if got := s.Replayed(); !slices.Equal(got, want) {
		t.Errorf("the replay tells %+v, want %+v", got, want)
	}
	for _, e := range want {
		s.Told(e)
	}
	s.Resumed()
	if s.Shown() != 8 || s.Seen() != 9 || s.Holds() || s.Watches.Armed(Data, "/a/x") {
		t.Errorf("after it: shown %v, seen %v, holds %v, watched %v", s.Shown(), s.Seen(), s.Holds(), s.Watches.Armed(Data, "/a/x"))
	}
}

// TestMissed: what one-shot watches have missed is told with the reply to setWatches, whose zxid then counts.
func TestMissed(t *testing.T) {
	s := New(5, 0, nil)
	s.Watches.Set(Data, "/a")
	s.Connected(jute.FeatureExactlyOnce)
	missed, later := event(-1, jute.EventDataChanged, "/a"), event(9, jute.EventCreated, "/b")
	if s.Hears(missed) || s.Hears(later) || s.Seen() != 5 {
		t.Error("an event is told before it is known as of when")
	}
	if s.Restored(8); s.Seen() != 8 {
		t.Errorf("seen %v", s.Seen())
	}
	if got := s.Missed(); !slices.Equal(got, []Event{missed, later}) || len(s.Missed()) > 0 {
		t.Errorf("then are told %+v", got)
	}
}

// TestRecallsBetweenEvents: a memory answers nothing between two events of a transaction, of which a client has watches at its server: its answer would
// have a zxid up to which the client takes all events for told.
func TestRecallsBetweenEvents(t *testing.T) {
	s := New(5, 0, nil)
	s.Connected(jute.FeatureExactlyOnce)
	s.Watches.Set(Persistent, "/")
	q, n := jute.PathWatchRequest{Path: "/b"}, Remembered{Exists: true, Since: 5, Zxid: 9}
	if r := s.Recalls(jute.OpExists, &q, &n); !r.Answered || r.Zxid != 5 {
		t.Errorf("before: %+v", r)
	}
	first := event(9, jute.EventCreated, "/")
	if s.Hears(first) {
		s.Told(first)
	}
	if r := s.Recalls(jute.OpExists, &q, &n); r.Answered || s.Seen() != 9 {
		t.Errorf("between two events: %+v, seen %v", r, s.Seen())
	}
	s.Replied(9)
	if r := s.Recalls(jute.OpExists, &q, &n); !r.Answered || r.Zxid != 9 {
		t.Errorf("after a reply: %+v", r)
	}
}

// TestAsksWatches: each request that sets watches sets those that it names, once it has a reply without an error.
func TestAsksWatches(t *testing.T) {
	all := jute.SetWatchesRequest{Data: []string{"/data"}, Exist: []string{"/exist"}, Child: []string{"/child"}, Persistent: []string{"/persistent"}, PersistentRecursive: []string{"/recursive"}}
	watched := jute.PathWatchRequest{Path: "/a", Watch: true}
	added := jute.AddWatchRequest{Path: "/a", Mode: jute.AddPersistentRecursive}
	for _, tt := range []struct {
		op   jute.OpCode
		body []byte
		code jute.Code
		want string
	}{
		{jute.OpGetData, watched.Append(nil), 0, "0 /a"},
		{jute.OpGetData, watched.Append(nil), jute.ErrNoNode, ""},
		{jute.OpExists, watched.Append(nil), 0, "0 /a"},
		{jute.OpExists, watched.Append(nil), jute.ErrNoNode, "1 /a"},
		{jute.OpExists, watched.Append(nil), jute.ErrNoAuth, ""},
		{jute.OpGetChildren, watched.Append(nil), 0, "2 /a"},
		{jute.OpGetChildren2, watched.Append(nil), 0, "2 /a"},
		{jute.OpGetData, (&jute.PathWatchRequest{Path: "/a"}).Append(nil), 0, ""},
		{jute.OpAddWatch, added.Append(nil), 0, "4 /a"},
		{jute.OpSetWatches, all.Append(nil), 0, "0 /data 1 /exist 2 /child"},
		{jute.OpSetWatches2, all.Append2(nil), 0, "0 /data 1 /exist 2 /child 3 /persistent 4 /recursive"},
		{jute.OpSetWatches2, all.Append2(nil), jute.ErrNoAuth, ""},
		{jute.OpSetWatches2, all.Append(nil), 0, ""}, // it lacks two lists
	} {
		s, q := New(0, 0, nil), new(Request)
		q.Of(tt.op, tt.body)
		s.Asks(q, tt.body)
		if set := armed(s); set != "" {
			t.Errorf("%v: watches %q before there is a reply", tt.op, set)
		}
		s.Answered(q, tt.code)
		if got := armed(s); got != tt.want {
			t.Errorf("%v answered with %v: watches %q, want %q", tt.op, tt.code, got, tt.want)
		}
	}
}

// TestWatchesLeaveNothing: a path whose last watch has gone takes no room.
func TestWatchesLeaveNothing(t *testing.T) {
	s, q := New(0, 0, nil), new(Request)
	body := (&jute.PathWatchRequest{Path: "/a", Watch: true}).Append(nil)
	q.Of(jute.OpGetData, body)
	s.Asks(q, body)
	s.Answered(q, 0)
	s.Watches.byPath.Take("/a", jute.WatchAny)
	for k, paths := range s.Watches.byPath {
		if len(paths) > 0 {
			t.Errorf("kind %d has %d paths", k, len(paths))
		}
	}
}

// armed returns the watches that are set.
func armed(s *Session) string {
	var set []string
	for k, paths := range s.Watches.byPath {
		for path := range paths {
			if s.Watches.Armed(Kind(k), path) {
				set = append(set, fmt.Sprint(k, " ", path))
			}
		}
	}
	return strings.Join(set, " ")
}

// TestTail: events of a transaction that a reply has shown are not told again, so nothing needs to remember them.
func TestTail(t *testing.T) {
	told := []Event{event(5, jute.EventCreated, "/a")}
	for shown, want := range map[jute.Zxid]int{4: 1, 5: 0, 6: 0} {
		if last, tail := New(shown, 5, told).Tail(); last != 5 || len(tail) != want {
			t.Errorf("shown %v: the tail of %v is %v, want %d events of 5", shown, last, tail, want)
		}
	}
}

// TestLook: a relay has another server before its client gives up, and is patient while nothing is asked.
func TestLook(t *testing.T) {
	const begin, timeout = time.Minute, 18 * time.Second
	for _, tt := range []struct {
		what         string
		heard, asked time.Duration // after the begin; 0 for never
		waits        bool
		want         time.Duration // given up, after the begin
	}{
		{"nothing is asked", 0, 0, false, 18 * time.Second},
		{"nothing is asked after an answer", 5 * time.Second, time.Second, false, 23 * time.Second},
		{"asked at once", 0, time.Millisecond, true, 9 * time.Second},
		{"asked later", 0, 8 * time.Second, true, 11 * time.Second},
		{"one of two answered", 2 * time.Second, time.Second, true, 11 * time.Second},
	} {
		var s Signs
		s.Begins(begin)
		if tt.asked > 0 {
			s.Writes(begin + tt.asked)
		}
		if tt.heard > 0 {
			s.Hears(begin + tt.heard)
		}
		now := begin + max(tt.heard, tt.asked)
		for silent, next := s.LookForRelay(now, timeout, tt.waits); !silent; silent, next = s.LookForRelay(now, timeout, tt.waits) {
			if next <= 0 || next > timeout/6 {
				t.Fatalf("%s: it looks again after %v", tt.what, next)
			}
			now += next
		}
		if now -= begin; now != tt.want {
			t.Errorf("%s: given up after %v, want %v", tt.what, now, tt.want)
		}
	}
	var s Signs
	s.Begins(begin)
	for _, tt := range []struct {
		now           time.Duration
		silent, pings bool
		next          time.Duration
	}{
		{0, false, false, 6 * time.Second},
		{2 * time.Second, false, false, 4 * time.Second},
		{6 * time.Second, false, true, 6 * time.Second},
		{8 * time.Second, false, true, 4 * time.Second},
		{12 * time.Second, true, true, time.Millisecond},
	} {
		if silent, pings, next := s.Look(begin+tt.now, timeout); silent != tt.silent || pings != tt.pings || next != tt.next {
			t.Errorf("after %v: silent %v, pings %v, again after %v; want %+v", tt.now, silent, pings, next, tt)
		}
	}
}
