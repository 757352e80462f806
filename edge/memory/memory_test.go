package memory

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// heard is a watcher that notes what it hears.
type heard struct{ list []string }

func (h *heard) Heard(zxid client.Zxid, ev jute.WatcherEvent) {
	text := "upstream"
	if ev.Type != 0 {
		text = fmt.Sprintf("%v %v %s", int64(zxid), ev.Type, ev.Path)
	}
	h.list = append(h.list, text)
}

func (h *heard) TellHeard() {}

// bare is a memory without caches.
func bare(paths ...string) *Memory {
	m := &Memory{
		o: Options{Told: new(atomic.Int64)}, tell: make(chan struct{}, 1), behind: make(chan struct{}, 1),
		paths: map[string]map[watcher]client.WatchSet{}, relays: map[watcher]map[string]bool{},
	}
	for _, path := range paths {
		m.trees = append(m.trees, &tree{m: m, path: path, reads: true})
	}
	return m
}

// step is what caches tell a memory.
type step struct {
	tree    int
	zxid    client.Zxid // 0: the tree is reset
	changes []client.Change
}

func change(zxid client.Zxid, kind client.ChangeKind, path string) client.Change {
	return client.Change{Zxid: zxid, Kind: kind, Path: path}
}

// cases are what a client with watches of all kinds on /a, /a/x and /b/y hears.
var cases = []struct {
	name  string
	steps []step
	want  string
}{
	{"data", []step{{0, 1, nil}, {1, 1, nil}, {0, 5, []client.Change{change(5, client.ChangeData, "/a/x")}}, {1, 5, nil}}, "5 NodeDataChanged /a/x"},
	{"a child", []step{
		{0, 1, nil}, {1, 9, nil}, {0, 5, []client.Change{change(5, client.ChangeCreated, "/a/new"), change(5, jute.ChangeChildren, "/a")}},
	}, "5 NodeChildrenChanged /a"},
	{"once", []step{
		{0, 1, nil}, {1, 9, nil}, {0, 5, []client.Change{change(5, client.ChangeData, "/a/x")}}, {0, 6, []client.Change{change(6, client.ChangeData, "/a/x")}},
	}, "5 NodeDataChanged /a/x"},
	{"each kind once", []step{
		{0, 1, nil}, {1, 9, nil}, {0, 5, []client.Change{change(5, client.ChangeData, "/a/x"), change(6, client.ChangeDeleted, "/a/x"), change(7, client.ChangeDeleted, "/a/x")}}, {0, 7, nil},
	}, "5 NodeDataChanged /a/x, 6 NodeDeleted /a/x"},
	{"in the order of both subtrees", []step{
		{0, 1, nil}, {1, 1, nil}, {0, 5, []client.Change{change(5, client.ChangeData, "/a/x")}}, {1, 4, []client.Change{change(4, client.ChangeData, "/b/y")}}, {1, 5, nil},
	}, "4 NodeDataChanged /b/y, 5 NodeDataChanged /a/x"},
	{"a part of a transaction", []step{{0, 1, nil}, {1, 9, nil}, {0, 4, []client.Change{change(5, client.ChangeData, "/a/x")}}}, ""},
	{"a reset", []step{{0, 1, nil}, {1, 9, nil}, {0, 0, nil}}, "upstream, upstream"},
	{"a reset of the other", []step{{0, 1, nil}, {1, 1, nil}, {1, 4, []client.Change{change(4, client.ChangeData, "/b/y")}}, {0, 5, []client.Change{change(5, client.ChangeData, "/a")}}, {1, 0, nil}},
		"4 NodeDataChanged /b/y, upstream, 5 NodeDataChanged /a"},
	{"rights", []step{{0, 1, nil}, {1, 9, nil}, {0, 5, []client.Change{change(5, client.ChangeACL, "/a/x")}}}, "upstream"},
	{"rights of another node", []step{{0, 1, nil}, {1, 9, nil}, {0, 5, []client.Change{change(5, client.ChangeACL, "/a/z")}}}, ""},
}

// wrongCases returns what is wrong.
func wrongCases() (wrong []string) {
	for _, c := range cases {
		m, h := bare("/a", "/b"), &heard{}
		for _, path := range []string{"/a", "/a/x", "/b/y"} {
			m.watchLocked(h, path, client.WatchesData|client.WatchesChildren)
		}
		for _, s := range c.steps {
			if t := m.trees[s.tree]; s.zxid == 0 {
				t.Reset()
			} else {
				t.Changed(s.changes, s.zxid)
			}
		}
		if got := strings.Join(h.list, ", "); got != c.want {
			wrong = append(wrong, fmt.Sprintf("%s: %s, want %s", c.name, got, c.want))
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

// TestVersion: clients are shown what all subtrees have that are live, and one that is behind is asked to catch up.
func TestVersion(t *testing.T) {
	m := bare("/a", "/b")
	for i, s := range []struct {
		step
		version, wanted client.Zxid
	}{
		{step{0, 7, nil}, 7, 0}, {step{1, 5, nil}, 5, 7}, {step{1, 8, nil}, 7, 8}, {step{0, 0, nil}, 8, 8}, {step{0, 9, nil}, 8, 9},
	} {
		if t := m.trees[s.tree]; s.zxid == 0 {
			t.Reset()
		} else {
			t.Changed(nil, s.zxid)
		}
		if m.version != s.version || client.Zxid(m.wanted.Load()) != s.wanted {
			t.Errorf("step %d: version %v, wanted %v; want %v and %v", i, m.version, m.wanted.Load(), s.version, s.wanted)
		}
	}
}

// TestForget: a watcher that is forgotten hears nothing, and leaves nothing.
func TestForget(t *testing.T) {
	m, h := bare("/a"), &heard{}
	m.watchLocked(h, "/a/x", client.WatchesData)
	m.watchLocked(h, "/a/y", client.WatchesChildren)
	for path := range m.relays[h] {
		m.unwatchLocked(h, path)
	}
	m.trees[0].Changed([]client.Change{change(5, client.ChangeData, "/a/x")}, 5)
	if len(h.list) != 0 || len(m.paths) != 0 || len(m.relays) != 0 {
		t.Errorf("%q, %v, %v", h.list, m.paths, m.relays)
	}
}

func TestCovers(t *testing.T) {
	part, whole := bare("/a"), bare("/")
	var got []string
	for _, path := range []string{"/", "/a", "/a/b", "/ab", "/b"} {
		if part.Covers(path) {
			got = append(got, path)
		}
		if !whole.Covers(path) {
			t.Errorf("a memory of / does not cover %s", path)
		}
	}
	if !slices.Equal(got, []string{"/a", "/a/b"}) {
		t.Errorf("a memory of /a covers %q", got)
	}
}
