package replica

import (
	"fmt"

	"github.com/zkd-project/zkd/server/zab"
)

// room is how much memory the trees of the members may take: a leader refuses writes that would make its
// own larger than that.
type room struct {
	bytes  int64   // 0 for no bound
	of     zab.SID // the member for which that holds
	used   int64   // by the tree
	scarce bool    // writes are refused
}

// roomAgain is the part of the room that must be free before a leader says that there is room again.
const roomAgain = 32

// updateRoom finds out how much room there is.
func (r *Replica) updateRoom() {
	if r.o.Room == nil {
		return
	}
	r.Core.SetRoom(uint64(r.o.Room()))
	least, of := r.Core.LeastRoom()
	r.room.bytes, r.room.of = int64(least), of
	leads := r.leading.evaluator != nil
	leads = leads && !roomIgnored.Planted()
	if leads {
		r.leading.evaluator.SetRoom(r.room.bytes)
	}
}

// WatchRoom looks whether the room is used up. It is to be called from time to time.
func (r *Replica) WatchRoom() {
	r.updateRoom()
	room := &r.room
	leads := r.status.Role == zab.Leading && room.bytes > 0
	if leads {
		room.used = r.o.State.RLock().Memory()
		r.o.State.RUnlock()
	}
	switch {
	case room.scarce && (!leads || room.used < room.bytes-room.bytes/roomAgain):
		room.scarce = false
		r.event(zab.Info, 0, "the tree has room to grow again")
	case leads && !room.scarce && room.used >= room.bytes:
		r.outOfRoom()
	}
}

// outOfRoom notes that the tree has no room for a write.
func (r *Replica) outOfRoom() {
	if !r.room.scarce {
		r.room.scarce = true
		r.event(zab.Error, 0, fmt.Sprintf("the tree has no room to grow: it takes %d bytes of memory, and on server %d it may take %d. "+
			"Writes that need more are refused until nodes are deleted, or that server has more memory", r.room.used, r.room.of, r.room.bytes))
	}
}

// OutOfRoom reports whether this server leads, and refuses writes with which the tree would grow.
func (r *Replica) OutOfRoom() bool { return r.room.scarce }

// Room returns how much memory the trees of the members may take, as far as this server knows, and the
// member that can hold no more; 0 for no bound.
func (r *Replica) Room() (bytes int64, of zab.SID) { return r.room.bytes, r.room.of }
