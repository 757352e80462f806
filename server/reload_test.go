package server

import (
	"testing"
	"testing/synctest"
)

// HandOver moves the lead, where there is one to move and a server to take it.
func TestHandOver(t *testing.T) {
	inBubble(t, 3, nil, func(t *testing.T, e *testEnsemble) {
		leader := e.leader()
		if e.servers[e.follower()].HandOver() {
			t.Error("a follower has handed over")
		}
		if !e.servers[leader].HandOver() {
			t.Error("the leader has not handed over")
		}
		e.settled()
		if now := e.leader(); now == leader {
			t.Errorf("server %d leads again", now)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if startServer(t).HandOver() {
			t.Error("a server alone has handed over")
		}
	})
}
