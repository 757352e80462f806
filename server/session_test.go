package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func TestSessionLifeCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		a := s.connectFor(t, 4000)
		a.create("/p", "x")
		a.ephemeral("/e")
		if data, ok := a.get("/p"); data != "x" || !ok {
			t.Errorf("got %q %v", data, ok)
		}
		b := s.connect(t)
		time.Sleep(4500 * time.Millisecond)
		if b.exists("/e") {
			t.Log("still there")
		}
		time.Sleep(time.Second)
		if b.exists("/e") {
			t.Error("ephemeral outlives its session")
		}
		if r := b.ok(jute.OpCloseSession, nil); r.Err != 0 {
			t.Error(r)
		}
		b.eof("closed session")
	})
}
