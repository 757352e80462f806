package watch

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestCatchUp goes through the table of setWatches in semantics.md section 9.
func TestCatchUp(t *testing.T) {
	const relative = 100
	var (
		absent  = Seen{}
		old     = Seen{Exists: true, Mzxid: 100, Pzxid: 100}
		written = Seen{Exists: true, Mzxid: 101, Pzxid: 100}
		peopled = Seen{Exists: true, Mzxid: 100, Pzxid: 101}
	)
	hidden := Seen{Exists: true, Mzxid: 101, Pzxid: 101, Hidden: true}
	const register = jute.EventType(0)
	tests := []struct {
		name  string
		list  List
		node  Seen
		event jute.EventType
		mode  Mode
	}{
		{"data, node gone", DataList, absent, jute.EventDeleted, 0},
		{"data, written since", DataList, written, jute.EventDataChanged, 0},
		{"data, child created since", DataList, peopled, register, Data},
		{"data, as it was", DataList, old, register, Data},
		{"exist, still absent", ExistList, absent, register, Data},
		{"exist, there now", ExistList, old, jute.EventCreated, 0},
		{"child, node gone", ChildList, absent, jute.EventDeleted, 0},
		{"child, child created since", ChildList, peopled, jute.EventChildrenChanged, 0},
		{"child, written since", ChildList, written, register, Child},
		{"child, as it was", ChildList, old, register, Child},
		{"data, hidden", DataList, hidden, register, Data},
		{"exist, hidden", ExistList, hidden, register, Data},
		{"child, hidden", ChildList, hidden, register, Child},
		{"persistent, node gone", PersistentList, absent, register, Persistent},
		{"persistent, written since", PersistentList, written, register, Persistent},
		{"recursive, node gone", RecursiveList, absent, register, PersistentRecursive},
		{"recursive, child created since", RecursiveList, peopled, register, PersistentRecursive},
	}
	for _, tt := range tests {
		event, mode, ok := tt.list.CatchUp(tt.node, relative)
		if event != tt.event || mode != tt.mode || ok != (tt.event != register) {
			t.Errorf("%s: got event %v (%v), mode %v; want %v, %v", tt.name, event, ok, mode, tt.event, tt.mode)
		}
	}
}

// Watches are restored in parts of a bounded length, each path once and in the order of the request, as the path is then.
func TestRestore(t *testing.T) {
	table := New()
	long := strings.Repeat("/x", 2*pathWork)
	paths := []string{"/0", "/1", "/2", "/3", "/4"}
	r := NewRestoration(&jute.SetWatchesRequest{RelativeZxid: 10, Data: paths, Child: append([]string{long}, paths...), PersistentRecursive: paths})
	var looked, missed []string
	state := Seen{Exists: true}
	parts := 0
	for more := true; more; parts++ {
		before := len(looked)
		more = table.Restore(1, r, 4, func(path string) Seen {
			looked = append(looked, path)
			return state
		}, func(_ jute.EventType, path string) { missed = append(missed, path) })
		if n := len(looked) - before; n > 4 {
			t.Errorf("%d paths in a part", n)
		}
		state.Mzxid = 11 // all nodes are changed after the first part
	}
	if want := slices.Concat(paths, []string{long}, paths, paths); !slices.Equal(looked, want) {
		t.Errorf("looked at %q", looked)
	}
	if !slices.Equal(missed, paths[4:]) || table.CountOf(1) != 4+6+5 {
		t.Errorf("%q were missed, and %d watches are set", missed, table.CountOf(1))
	}
	if parts != 5 {
		t.Errorf("%d parts", parts)
	}
}
