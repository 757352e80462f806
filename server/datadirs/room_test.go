package datadirs

import "testing"

// TestRoom decides how to make room with a tree of which a snapshot takes 100 bytes.
func TestRoom(t *testing.T) {
	base := Room{Shared: true, LogFree: 500, Free: 500, Next: 100, Last: 100, Old: 100, Applied: 7, Taken: 6}
	for _, tt := range []struct {
		name   string
		change func(*Room)
		keep   int64
		wants  bool
	}{
		{"much to be replaced", func(*Room) {}, 125, true},
		{"less than twice as much", func(r *Room) { r.Old = 99 }, 125, false},
		{"the same, and the log waits", func(r *Room) { r.Old, r.Waits = 99, true }, 125, true},
		{"a waiting log, and nothing to be replaced", func(r *Room) { r.Old, r.Waits = 0, true }, 125, false},
		{"a snapshot at this zxid", func(r *Room) { r.Taken = 7 }, 125, false},
		{"room for a snapshot alone", func(r *Room) { r.LogFree, r.Free = 110, 110 }, 110, true},
		{"no room for a snapshot", func(r *Room) { r.LogFree, r.Free = 100, 100 }, 0, false},
		{"another disk", func(r *Room) { r.Shared = false }, 0, true},
	} {
		r := base
		tt.change(&r)
		if keep, wants := r.Keep(), r.WantsSnapshot(); keep != tt.keep || wants != tt.wants {
			t.Errorf("%s: keeps %d, wants a snapshot %v", tt.name, keep, wants)
		}
	}
	if got := [...]Need{NeedOf(false, false), NeedOf(true, false), NeedOf(true, true)}; got != [...]Need{Routine, Tight, Full} {
		t.Errorf("needs %v", got)
	}
}
