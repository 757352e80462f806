package line_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

var readWrite = &line.Layout{Labels: []string{"read-", "write-"}}

func TestParse(t *testing.T) {
	for _, x := range []struct {
		name string
		kind int
		n    int32
	}{
		{"read-0000000000", 0, 0},
		{"_c_5f1d3c7a-5a7e-4d0c-9a5e-1f5c8f0a7b11-write-0000000042", 1, 42},
		{"read-2147483647", 0, math.MaxInt32},
		{"read--2147483648", 0, math.MinInt32},
		{"read--1000000000", 0, -1000000000},
		{"read--999999999", 0, -999999999},
		{"write--000000001", 1, -1},
	} {
		if got, ok := readWrite.Parse(x.name); !ok || got != (line.Entry{Name: x.name, Kind: x.kind, Number: x.n}) {
			t.Errorf("Parse(%q) = %+v, %v", x.name, got, ok)
		}
	}
	for _, name := range []string{
		"", "read-", "readme", "0000000000", "lock-0000000000", "read-000000000", "read-00000000x0",
		"read-2147483648", "read--2147483649", "read--0000000001", "read-+000000001", "read- 000000001", "read--000000000",
	} {
		if got, ok := readWrite.Parse(name); ok {
			t.Errorf("Parse(%q) = %+v, want none", name, got)
		}
	}
}

// The order continues where the numbers wrap around, and after that.
func TestBefore(t *testing.T) {
	names := []string{
		"read-2147483646", "write-2147483647", "read--2147483648", "read--2147483647",
	}
	var entries []line.Entry
	for _, name := range slices.Backward(names) {
		e, ok := readWrite.Parse(name)
		if !ok {
			t.Fatalf("%s is none", name)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, line.Compare)
	for i, e := range entries {
		if e.Name != names[i] {
			t.Errorf("%d is %s, want %s", i, e.Name, names[i])
		}
	}
	a, b := line.Entry{Number: -1}, line.Entry{Number: 0}
	if !a.Before(b) || b.Before(a) || a.Before(a) || line.Compare(a, a) != 0 {
		t.Error("-1 is not before 0")
	}
}

func TestNumber(t *testing.T) {
	for _, x := range []struct {
		name, stem string
		want       int32
		ok         bool
	}{
		{"n_0000000007", "n_", 7, true},
		{"n_-000000007", "n_", -7, true},
		{"n_-2147483648", "n_", math.MinInt32, true},
		{"m_0000000007", "n_", 0, false},
		{"n_00000000070", "n_", 0, false},
		{"n_2147483648", "n_", 0, false},
		{"n_7", "n_", 0, false},
		{"n_", "n_", 0, false},
	} {
		if got, ok := line.Number(x.name, x.stem); ok != x.ok || ok && got != x.want {
			t.Errorf("Number(%q, %q) = %d, %v", x.name, x.stem, got, ok)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, x := range []struct{ dir, name, path string }{{"/", "a", "/a"}, {"/a", "b", "/a/b"}, {"/a/b", "c", "/a/b/c"}} {
		if got := line.Join(x.dir, x.name); got != x.path {
			t.Errorf("Join(%q, %q) = %q", x.dir, x.name, got)
		}
		if dir, name := line.Parent(x.path), line.Base(x.path); dir != x.dir || name != x.name {
			t.Errorf("%q is %q and %q", x.path, dir, name)
		}
	}
	if a, b := line.NewID(), line.NewID(); a == b || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Errorf("the ids are %s and %s", a, b)
	}
}

// A name that is a place consists of a stem of the layout's and the number, written as the
// servers do; and what they write is a place, whatever the stem.
func FuzzParse(f *testing.F) {
	f.Add("_c_5f1d3c7a-5a7e-4d0c-9a5e-1f5c8f0a7b11-lock-0000000042", "", int32(0))
	f.Add("lock--2147483648", "a-lock-", int32(math.MinInt32))
	f.Add("lock--000000001", "-", int32(-1))
	f.Add("0123456789", "x", int32(math.MaxInt32))
	layout := &line.Layout{Labels: []string{"lock-", "__lock__"}}
	f.Fuzz(func(t *testing.T, name, stem string, n int32) {
		if e, ok := layout.Parse(name); ok {
			stem, ok := strings.CutSuffix(name, fmt.Sprintf("%010d", e.Number))
			if !ok || e.Name != name || !strings.HasSuffix(stem, layout.Labels[e.Kind]) {
				t.Errorf("Parse(%q) = %+v", name, e)
			}
		}
		for kind, label := range layout.Labels {
			name := stem + label + fmt.Sprintf("%010d", n)
			if e, ok := layout.Parse(name); !ok || e != (line.Entry{Name: name, Kind: kind, Number: n}) {
				t.Errorf("Parse(%q) = %+v, %v", name, e, ok)
			}
		}
	})
}

// The names that a layout makes are its places.
func TestStems(t *testing.T) {
	for name, l := range map[string]*line.Layout{
		"default": readWrite,
		"own": {Labels: readWrite.Labels, Stem: func(label, id string, session client.SessionID) string {
			return fmt.Sprintf("%d %s %s", session, id, label)
		}},
	} {
		a, b := line.Stem(l, 1, 7), line.Stem(l, 1, 7)
		e, ok := l.Parse(a + "0000000003")
		if a == b || !ok || e.Kind != 1 || e.Number != 3 {
			t.Errorf("%s: %q and %q, %+v", name, a, b, e)
		}
	}
}
