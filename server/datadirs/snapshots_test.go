package datadirs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
)

// TestNewestUsable chooses among snapshots, of which a letter says what is wrong with one.
func TestNewestUsable(t *testing.T) {
	kinds := map[rune]fault.Kind{'d': fault.Damaged, 'm': fault.Missing, 'u': fault.Unreadable, 'f': fault.Foreign, 'i': fault.Inconsistent, 'n': fault.Newer}
	for _, tt := range []struct {
		snaps, loaded string // what was tried, in order
		used          int
		failed        bool
	}{
		{"", "", -1, false},
		{"++", "+", 1, false},
		{"+d", "d+", 0, false},
		{"+mufi", "ifum+", 0, false},
		{"dm", "md", -1, false},
		{"+nd", "dn", -1, true}, // a later version has worked here
		{"+xd", "dx", -1, true}, // an error that says nothing about the file, such as an end of the context
	} {
		loaded := ""
		used, unusable, err := NewestUsable([]rune(tt.snaps), func(what rune) error {
			loaded += string(what)
			switch {
			case what == '+':
				return nil
			case kinds[what] == 0:
				return errors.New("canceled")
			}
			return fault.New(kinds[what], "snap", errors.New("bad"))
		})
		if used != tt.used || loaded != tt.loaded || (err != nil) != tt.failed {
			t.Errorf("%s: %d, tried %s, %v; want %d, %s", tt.snaps, used, loaded, err, tt.used, tt.loaded)
		}
		if n := len(loaded); err == nil && used >= 0 && len(unusable) != n-1 {
			t.Errorf("%s: %d are unusable, of %d", tt.snaps, len(unusable), n)
		}
	}
}

// TestFirstKept keeps snapshots at 10, 20, 30 and 40.
func TestFirstKept(t *testing.T) {
	snaps := []jute.Zxid{10, 20, 30, 40}
	for _, tt := range []struct {
		retain int
		needed jute.Zxid
		want   string // the first, and how many for learners alone
	}{
		{3, 100, "1 0"},
		{1, 100, "3 0"},
		{9, 100, "0 0"},
		{1, 40, "3 0"}, // what follows 40 is after the snapshot at 40
		{1, 39, "2 1"},
		{1, 20, "1 2"},
		{2, 5, "0 2"}, // nothing reaches so far: all stays
	} {
		first, held := FirstKept(snaps, func(z jute.Zxid) jute.Zxid { return z }, tt.retain, tt.needed)
		if got := fmt.Sprint(first, held); got != tt.want {
			t.Errorf("retain %d, needed after %v: %s, want %s", tt.retain, tt.needed, got, tt.want)
		}
	}
	if first, held := FirstKept(nil, func(z jute.Zxid) jute.Zxid { return z }, 3, 0); first != 0 || held != 0 {
		t.Errorf("of no snapshots: %d, %d", first, held)
	}
}
