package datadirs

import (
	"errors"
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

// TestPlanPurge purges snapshots at 10, 20, 30 and 40.
func TestPlanPurge(t *testing.T) {
	all := []jute.Zxid{10, 20, 30, 40}
	zxid := func(z jute.Zxid) jute.Zxid { return z }
	for _, tt := range []struct {
		snaps  []jute.Zxid
		retain int
		needed jute.Zxid
		need   Need
		want   Purge
	}{
		{all, 3, 100, Routine, Purge{Drop: 1, Log: 20}},
		{all, 1, 100, Routine, Purge{Drop: 3, Log: 40}},
		{all, 9, 100, Routine, Purge{}},
		{all, 1, 40, Routine, Purge{Drop: 3, Log: 40}}, // what follows 40 is after the snapshot at 40
		{all, 1, 39, Routine, Purge{Drop: 2, Held: 1, Log: 30}},
		{all, 1, 20, Routine, Purge{Drop: 1, Held: 2, Log: 20}},
		{all, 2, 5, Routine, Purge{Held: 2}}, // nothing reaches so far: all stays
		{all, 1, 20, Tight, Purge{Drop: 3, Held: 2, Log: 40}},
		{all, 3, 100, Tight, Purge{Drop: 1, Log: 20}},
		{all, 3, 5, Full, Purge{Drop: 3, Held: 1, Log: 40}},
		{all[:1], 1, 5, Full, Purge{Log: 10}},
		{nil, 3, 0, Full, Purge{}},
	} {
		if got := PlanPurge(tt.snaps, zxid, tt.retain, tt.needed, tt.need); got != tt.want {
			t.Errorf("%v, retain %d, needed after %v, need %d: %+v, want %+v", tt.snaps, tt.retain, tt.needed, tt.need, got, tt.want)
		}
	}
}

// TestPlanHistory tests which snapshots are kept for those who look at the past. Each has 10 bytes, with the log up to the next one.
func TestPlanHistory(t *testing.T) {
	snaps := []int{10, 20, 30, 40, 50} // zxids, and times
	for _, tt := range []struct {
		moment, room int
		want         jute.Zxid
	}{
		{35, 100, 30}, {40, 100, 40}, {60, 100, 50}, // the newest that is as old
		{5, 100, 10},                                       // none is
		{15, 50, 10}, {15, 49, 20}, {15, 9, 0}, {60, 9, 0}, // there is no room
	} {
		got := PlanHistory(snaps, func(s int) jute.Zxid { return jute.Zxid(s) }, func(s int) bool { return s <= tt.moment }, func(int) int64 { return 10 }, int64(tt.room))
		if got != tt.want {
			t.Errorf("since %d, with room for %d bytes: from %v on, want %v", tt.moment, tt.room, got, tt.want)
		}
	}
}
