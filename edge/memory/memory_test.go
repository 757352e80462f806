package memory

import (
	"slices"
	"testing"
)

func TestCovers(t *testing.T) {
	part, whole := newMemory(Options{Paths: []string{"/a"}}), newMemory(Options{Paths: []string{"/"}})
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
