package snapshot

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestPathKeyOrder checks that the order of keys is that of a walk through the
// tree: by the names along the path, a parent before its children.
func TestPathKeyOrder(t *testing.T) {
	names := []string{"a", "a-b", "a.b", "ab", "b", "\u00e9", "Z", "-", "~", "!"}
	r := rand.New(rand.NewPCG(1, 2))
	paths := []string{"/"}
	for range 500 {
		p := ""
		for range 1 + r.IntN(4) {
			p += "/" + names[r.IntN(len(names))]
		}
		paths = append(paths, p)
	}
	byNames := func(a, b string) int {
		if a == "/" || b == "/" {
			return len(a) - len(b)
		}
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	}
	byKeys := func(a, b string) int { return bytes.Compare(AppendPathKey(nil, a), AppendPathKey(nil, b)) }
	want, got := slices.Clone(paths), slices.Clone(paths)
	slices.SortFunc(want, byNames)
	slices.SortFunc(got, byKeys)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, p := range paths {
		key := AppendPathKey([]byte("x"), p)
		if back := AppendKeyPath([]byte("y"), key[1:]); string(back) != "y"+p {
			t.Errorf("%q comes back as %q", p, back[1:])
		}
	}
}
