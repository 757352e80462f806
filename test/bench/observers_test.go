package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParseObservers(t *testing.T) {
	if got, err := parseObservers("1,6,12"); err != nil || !slices.Equal(got, []int{1, 6, 12}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseObservers(""); err != nil || got != nil {
		t.Errorf("nothing: got %v, %v", got, err)
	}
	for _, bad := range []string{"0", "-1", "1,,3", "x", "101"} {
		if got, err := parseObservers(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v, %v, want an error that shows it", bad, got, err)
		}
	}
}

// All servers know who votes and who observes.
func TestObservers(t *testing.T) {
	e, err := newEnsemble("/bin/zkd", t.TempDir(), shape{servers: 3, observers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.remove()
	for _, s := range e.servers {
		text := read(t, s.argv[1])
		if voters, observers := strings.Count(text, ":participant\n"), strings.Count(text, ":observer\n"); voters != 3 || observers != 2 {
			t.Errorf("%d voters, %d observers:\n%s", voters, observers, text)
		}
	}
	if n := len(e.servers); n != 5 {
		t.Errorf("%d servers", n)
	}
}
