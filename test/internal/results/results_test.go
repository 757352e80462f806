package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCounts(t *testing.T) {
	var sum Counts
	for _, line := range []string{"rounds=2 acknowledged=999", "acknowledged=1000001 lost=0", "rounds=-1000"} {
		n, err := ParseCounts(line)
		if err != nil || n.String() != line {
			t.Errorf("%s: %v, %v", line, n, err)
		}
		sum.Add(n)
	}
	if got, want := sum.Prose(), "rounds -998, acknowledged 1,001,000, lost 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n, ok := sum.Get("lost"); n != 0 || !ok {
		t.Errorf("lost: %d, %v", n, ok)
	}
	if _, ok := sum.Get("found"); ok {
		t.Error("found was not counted")
	}
	for _, line := range []string{"", "done", "lost=no", "=7"} {
		if n, err := ParseCounts(line); err == nil {
			t.Errorf("%q: %v, want an error", line, n)
		}
	}
}

func TestEachLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("# a comment\n\nname  a name\nbad\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := EachLine(file, func(key, value string) error {
		switch {
		case key == "bad":
			return errors.New("unknown key")
		case key != "name" || value != "a name":
			t.Errorf("%q is %q", key, value)
		}
		return nil
	})
	if err == nil || !strings.HasSuffix(err.Error(), "a.txt:4: unknown key") {
		t.Error(err)
	}
}

func TestReplace(t *testing.T) {
	got, err := Replace([]byte("head\n<b>\nold\n<e>\ntail\n"), "<b>\n", "<e>\n", "new\n")
	if want := "head\n<b>\nnew\n<e>\ntail\n"; string(got) != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Replace([]byte("head\n<e>\n<b>\n"), "<b>\n", "<e>\n", ""); err == nil {
		t.Error("the lines are in the wrong order")
	}
}
