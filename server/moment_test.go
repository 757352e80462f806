package server

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/history"
)

// TestReadAt reads the states between some writes, by their zxids and by times, and is
// refused those that the history does not have.
func TestReadAt(t *testing.T) {
	dir := t.TempDir()
	s := startOn(t, fastFS{}, dir, "snapCount=20", "forceSync=no")
	c := s.connect(t)
	c.create("/a", "")
	type state struct {
		zxid   jute.Zxid
		at     time.Time
		digest datatree.Digest
	}
	var states []state
	for i := range 100 {
		zxid := c.set("/a", strconv.Itoa(i)).Zxid
		s.state.RLock()
		states = append(states, state{zxid, time.Now(), s.state.Tree.Digest()})
		s.state.RUnlock()
		for time.Now().UnixMilli() == states[i].at.UnixMilli() {
			runtime.Gosched() // the next write is to have another time
		}
	}
	check(t, s.Close())
	place := data.Place{DataDir: dir, LogDir: dir}
	reached := 0
	for i := 0; i < len(states); i += 9 {
		want := states[i]
		for _, at := range []history.Moment{{Zxid: want.zxid}, {Time: want.at}} {
			got, err := data.ReadAt(t.Context(), place, at)
			if err != nil && strings.Contains(err.Error(), "no snapshot is from before that moment") {
				continue // it was purged
			}
			check(t, err)
			if got.Tree.LastZxid() != want.zxid || got.Tree.Digest() != want.digest {
				t.Fatalf("%d, %+v: zxid %v, want %v", i, at, got.Tree.LastZxid(), want.zxid)
			}
			reached++
		}
	}
	if reached == 0 {
		t.Error("no state could be read")
	}
	for _, at := range []history.Moment{{Zxid: states[99].zxid + 1000}, {Time: states[0].at.Add(-time.Hour)}} {
		if got, err := data.ReadAt(t.Context(), place, at); err == nil {
			t.Errorf("%+v: zxid %v", at, got.Tree.LastZxid())
		}
	}
}
