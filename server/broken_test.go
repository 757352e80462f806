package server

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
)

// A request whose evaluation panics is refused, and not done. The leader continues, with all requests before and after it,
// and says what it was.
func TestBrokenRequest(t *testing.T) {
	inBubble(t, 3, []string{"enforceQuota=true"}, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		s := e.servers[leader]
		c := e.servers[e.follower()].connect(t)
		c.create("/q", "")
		c.create("/zookeeper/quota/q", "")
		c.create("/zookeeper/quota/q/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=3;countHardLimit=-1")
		c.create("/zookeeper/quota/q/zookeeper_stats", "")
		e.settled()
		s.loop.replica.Tune(0, evaluate.Options{EnforceQuota: true, QuotaExceeded: func(string) { panic("a fault") }})
		release := e.stallDisks() // nothing is applied meanwhile
		var xids []int32
		send := func(op jute.OpCode, body record) { xids = append(xids, c.send(op, body)) }
		send(jute.OpCreate, create("/before", "", 0))
		send(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpDelete, Path: "/before", Version: -1}, {Type: jute.OpSetData, Path: "/q", Data: []byte("long"), Version: -1}}})
		send(jute.OpSetData, set("/q", "long"))
		send(jute.OpCreate, create("/before/after", "", 0))
		send(jute.OpExists, get("/before/after", false))
		release()
		want := []jute.Code{0, jute.ErrSystemError, jute.ErrSystemError, 0, 0}
		for i, xid := range xids {
			if r := c.must(); r.Xid != xid || r.Err != want[i] {
				t.Errorf("request %d: %v, want %v", i, r, want[i])
			}
		}
		if data, _ := c.get("/q"); data != "" {
			t.Errorf("a refused write is done: %q", data)
		}
		if now := e.leader(); now != leader {
			t.Errorf("server %d leads, after %d", now, leader)
		}
		if n, last := s.metrics.Broken.Load(), s.overview.troubles().BrokenRequest; n != 2 || last != "setData /q" {
			t.Errorf("%d requests were refused, the last one %q", n, last)
		}
		if where := callers(); !strings.HasPrefix(where, "server.TestBrokenRequest") {
			t.Errorf("the log would say that it was in %s", where)
		}
		e.idle()
	})
}
