package replica

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

type fixedDisk struct{ full, deletes bool }

func (d fixedDisk) Full() bool           { return d.full }
func (d fixedDisk) RoomForDeletes() bool { return d.deletes }

// TestRefusedByDisk: a leader without room for writes evaluates what frees room, as long as there is room for that.
func TestRefusedByDisk(t *testing.T) {
	multi := func(ops ...jute.OpCode) []byte {
		var m jute.MultiRequest
		for _, op := range ops {
			m.Ops = append(m.Ops, jute.MultiOp{Type: op, Path: "/n", Version: -1})
		}
		return m.Append(nil)
	}
	const busy, moved = jute.ErrNotReadOnly, jute.ErrSessionMoved
	for _, tt := range []struct {
		name                    string
		req                     evaluate.Request
		full, deletes, ofOthers jute.Code // with no room at all, with room for deletes, and if the others' disks are full
	}{
		{"set", evaluate.Request{Op: jute.OpSetData}, busy, busy, busy},
		{"delete", evaluate.Request{Op: jute.OpDelete}, busy, 0, 0},
		{"delete of a container", evaluate.Request{Op: jute.OpDeleteContainer}, busy, 0, 0},
		{"multi of deletes", evaluate.Request{Op: jute.OpMulti, Body: multi(jute.OpDelete, jute.OpDelete)}, busy, 0, 0},
		{"multi with a set", evaluate.Request{Op: jute.OpMulti, Body: multi(jute.OpDelete, jute.OpSetData)}, busy, busy, busy},
		{"a session ends", evaluate.Request{Op: jute.OpCloseSession}, 0, 0, 0},
		{"a session begins", evaluate.Request{Op: jute.OpCreateSession}, moved, moved, busy},
		{"a local session becomes global", evaluate.Request{Op: jute.OpCreateSession, Cxid: UpgradeXid}, busy, busy, busy},
	} {
		for _, now := range []struct {
			disk     fixedDisk
			ofOthers bool
			want     jute.Code
		}{
			{fixedDisk{}, false, 0},
			{fixedDisk{full: true}, false, tt.full},
			{fixedDisk{full: true, deletes: true}, false, tt.deletes},
			{fixedDisk{deletes: true}, true, tt.ofOthers},
		} {
			r := Replica{o: Options{Ensemble: true, Disk: now.disk}, fullDisk: now.ofOthers, status: zab.Status{Role: zab.Leading}}
			if got := r.refusedByDisk(&tt.req); got != now.want {
				t.Errorf("%s, with %+v, and others without room %v: %v, want %v", tt.name, now.disk, now.ofOthers, got, now.want)
			}
			if r.status.Role = zab.Following; r.refusedByDisk(&tt.req) != 0 {
				t.Errorf("%s: a follower refuses by its disk", tt.name)
			}
		}
	}
}

// TestRoomOfANewEvaluator: the evaluator of a new leader knows how much memory trees may take, which was learned before.
func TestRoomOfANewEvaluator(t *testing.T) {
	schemes, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		room int64
		want jute.Code
	}{{0, 0}, {1 << 40, 0}, {datatree.New().Memory() + 1<<18, jute.ErrNotReadOnly}} {
		r := New(zab.New(zab.Options{ID: 1}, zab.Recovered{}), 0, Options{ID: 1, Schemes: schemes})
		r.room.bytes = tt.room
		r.newEvaluator(datatree.New())
		var txn datatree.Txn
		create := jute.CreateRequest{Path: "/n", Data: make([]byte, 1<<20), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
		r.leading.evaluator.Evaluate(&evaluate.Request{Op: jute.OpCreateSession, Session: 1, TimeoutMs: 1000}, 1, 1, &txn)
		r.leading.evaluator.Evaluate(&evaluate.Request{Op: jute.OpCreate, Session: 1, Body: create.Append(nil)}, 2, 1, &txn)
		if txn.Err != tt.want {
			t.Errorf("1 MiB with room for %d bytes: %v, want %v", tt.room, txn.Err, tt.want)
		}
	}
}
