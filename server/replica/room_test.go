package replica

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

type fixedTree struct{ *datatree.Tree }

func (f fixedTree) RLock() *datatree.Tree                      { return f.Tree }
func (f fixedTree) RUnlock()                                   {}
func (f fixedTree) Applied() jute.Zxid                         { return 0 }
func (f fixedTree) DigestAt(jute.Zxid) (datatree.Digest, bool) { return datatree.Digest{}, false }

// TestLackOfRoomIsSaid: a leader says once that its tree has no room, and once that it has again; others say nothing.
func TestLackOfRoomIsSaid(t *testing.T) {
	tree := datatree.New()
	r := New(zab.New(zab.Options{ID: 1}, zab.Recovered{}), 0, Options{ID: 1, State: fixedTree{tree}})
	used := tree.Memory()
	for _, tt := range []struct {
		what string
		role zab.Role
		room int64
		said int
	}{
		{"a follower", zab.Following, used / 2, 0},
		{"a leader without a bound", zab.Leading, 0, 0},
		{"a leader with room", zab.Leading, 2 * used, 0},
		{"one without", zab.Leading, used / 2, 1},
		{"still without", zab.Leading, used / 2, 1},
		{"a little is free", zab.Leading, used + used/(2*roomAgain), 1},
		{"room again", zab.Leading, 2 * used, 2},
		{"without again", zab.Leading, used / 2, 3},
		{"it leads no more", zab.Following, used / 2, 4},
	} {
		r.status.Role, r.room.bytes = tt.role, tt.room
		if r.WatchRoom(); len(r.events) != tt.said {
			t.Errorf("%s: said %d times, want %d: %v", tt.what, len(r.events), tt.said, r.events)
		}
	}
}
