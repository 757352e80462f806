package subtrees

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// heard is a watcher that notes what it hears.
type heard struct{ list []string }

func (h *heard) Heard(zxid jute.Zxid, ev jute.WatcherEvent) {
	text := "upstream"
	if ev.Type != 0 {
		text = fmt.Sprintf("%v %v %s", int64(zxid), ev.Type, ev.Path)
	}
	h.list = append(h.list, text)
}

// step is what becomes of a subtree.
type step struct {
	tree    int
	zxid    jute.Zxid // 0: the tree is reset
	changes []jute.Change
}

func change(zxid jute.Zxid, kind jute.ChangeKind, path string) jute.Change {
	return jute.Change{Zxid: zxid, Kind: kind, Path: path}
}

// cases are what a client with watches of all kinds on /a, /a/x and /b/y hears.
var cases = []struct {
	name  string
	steps []step
	want  string
}{
	{"data", []step{{0, 1, nil}, {1, 1, nil}, {0, 5, []jute.Change{change(5, jute.ChangeData, "/a/x")}}, {1, 5, nil}}, "5 NodeDataChanged /a/x"},
	{"a child", []step{
		{0, 1, nil}, {1, 9, nil}, {0, 5, []jute.Change{change(5, jute.ChangeCreated, "/a/new"), change(5, jute.ChangeChildren, "/a")}},
	}, "5 NodeChildrenChanged /a"},
	{"once", []step{
		{0, 1, nil}, {1, 9, nil}, {0, 5, []jute.Change{change(5, jute.ChangeData, "/a/x")}}, {0, 6, []jute.Change{change(6, jute.ChangeData, "/a/x")}},
	}, "5 NodeDataChanged /a/x"},
	{"each kind once", []step{
		{0, 1, nil}, {1, 9, nil}, {0, 5, []jute.Change{change(5, jute.ChangeData, "/a/x"), change(6, jute.ChangeDeleted, "/a/x"), change(7, jute.ChangeDeleted, "/a/x")}}, {0, 7, nil},
	}, "5 NodeDataChanged /a/x, 6 NodeDeleted /a/x"},
	{"in the order of both subtrees", []step{
		{0, 1, nil}, {1, 1, nil}, {0, 5, []jute.Change{change(5, jute.ChangeData, "/a/x")}}, {1, 4, []jute.Change{change(4, jute.ChangeData, "/b/y")}}, {1, 5, nil},
	}, "4 NodeDataChanged /b/y, 5 NodeDataChanged /a/x"},
	{"a part of a transaction", []step{{0, 1, nil}, {1, 9, nil}, {0, 4, []jute.Change{change(5, jute.ChangeData, "/a/x")}}}, ""},
	{"a reset", []step{{0, 1, nil}, {1, 9, nil}, {0, 0, nil}}, "upstream, upstream"},
	{"a reset of the other", []step{{0, 1, nil}, {1, 1, nil}, {1, 4, []jute.Change{change(4, jute.ChangeData, "/b/y")}}, {0, 5, []jute.Change{change(5, jute.ChangeData, "/a")}}, {1, 0, nil}},
		"4 NodeDataChanged /b/y, upstream, 5 NodeDataChanged /a"},
	{"rights", []step{{0, 1, nil}, {1, 9, nil}, {0, 5, []jute.Change{change(5, jute.ChangeACL, "/a/x")}}}, "upstream"},
	{"rights of another node", []step{{0, 1, nil}, {1, 9, nil}, {0, 5, []jute.Change{change(5, jute.ChangeACL, "/a/z")}}}, ""},
}

// table is a table of /a and /b.
type table struct{ *Table[*heard] }

func newTable() table { return table{New[*heard](&Tree{Path: "/a"}, &Tree{Path: "/b"})} }

func (m table) do(s step) {
	t := m.trees[s.tree]
	if s.zxid == 0 {
		m.Reset(t)
		return
	}
	for _, c := range s.changes {
		m.Changed(c.Zxid, c.Kind, c.Path)
	}
	m.Complete(t, s.zxid)
}

// wrongCases returns what is wrong.
func wrongCases() (wrong []string) {
	for _, c := range cases {
		m, h := newTable(), &heard{}
		for _, path := range []string{"/a", "/a/x", "/b/y"} {
			m.Watch(h, path, resume.WatchesData|resume.WatchesChildren)
		}
		for _, s := range c.steps {
			m.do(s)
		}
		if got := strings.Join(h.list, ", "); got != c.want {
			wrong = append(wrong, fmt.Sprintf("%s: %s, want %s", c.name, got, c.want))
		}
		if told, _ := m.Told(); len(told) != len(h.list) || m.Tells() {
			wrong = append(wrong, fmt.Sprintf("%s: %d are to tell %q", c.name, len(told), h.list))
		}
	}
	return wrong
}

// TestEvents has the events that a client hears, in their order: those of all subtrees up to what each has.
func TestEvents(t *testing.T) {
	for _, w := range wrongCases() {
		t.Error(w)
	}
}

// TestVersion: sessions are shown what all subtrees have that are live, and one that is behind is asked to catch up.
func TestVersion(t *testing.T) {
	m := newTable()
	for i, s := range []struct {
		step
		version jute.Zxid
		lags    string
	}{
		{step{0, 7, nil}, 7, ""}, {step{1, 5, nil}, 5, "/b"}, {step{1, 8, nil}, 7, "/a"}, {step{0, 0, nil}, 8, ""}, {step{0, 9, nil}, 8, "/b"},
	} {
		m.do(s.step)
		lags := ""
		for _, t := range m.trees {
			if m.Lags(t) {
				lags += t.Path
			}
		}
		if version, _ := m.Version(m.trees[0]); version != s.version || lags != s.lags || m.Lag() != (lags != "") {
			t.Errorf("step %d: version %v, %q lags; want %v and %q", i, version, lags, s.version, s.lags)
		}
	}
	if m.Behind(12); !m.Lags(m.trees[0]) || !m.Lags(m.trees[1]) {
		t.Error("no subtree catches up with a session")
	}
}

// TestForget: a session that is forgotten hears nothing, and leaves nothing.
func TestForget(t *testing.T) {
	m, h := newTable(), &heard{}
	m.Watch(h, "/a/x", resume.WatchesData)
	m.Watch(h, "/a/y", resume.WatchesChildren)
	m.Forget(h)
	m.do(step{0, 5, []jute.Change{change(5, jute.ChangeData, "/a/x")}})
	if len(h.list) != 0 || len(m.paths) != 0 || len(m.watched) != 0 {
		t.Errorf("%q, %v, %v", h.list, m.paths, m.watched)
	}
}
