package zktest_test

import (
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"time"
)

func TestStart(t *testing.T) {
	t0 := time.Now()
	s := zktest.Start(t)
	t.Log("start", time.Since(t0))
	t0 = time.Now()
	c := s.Client(t)
	t.Log("client", time.Since(t0))
	if _, err := c.Create(t.Context(), "/a", nil, client.Ephemeral, nil); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if _, ok, err := c.Exists(t.Context(), "/a"); !ok || err != nil {
		t.Fatalf("exists = %v, %v", ok, err)
	}
	t.Log("restarted")
	id, _ := c.Session()
	s.ExpireSession(id)
	t.Log(c.Exists(t.Context(), "/a"))
	t.Log(c.State())
	t.Log(s.Requests())
}

func TestEnsemble(t *testing.T) {
	t0 := time.Now()
	s := zktest.StartEnsemble(t, 3)
	t.Log("start", time.Since(t0))
	t0 = time.Now()
	c := s.Client(t)
	t.Log("client", time.Since(t0))
	if _, err := c.Create(t.Context(), "/a", nil, client.Ephemeral, nil); err != nil {
		t.Fatal(err)
	}
	t0 = time.Now()
	id := s.KillLeader()
	t.Log("killed", time.Since(t0))
	t.Log(s.WaitLeader(t.Context()))
	t.Log("elected", time.Since(t0))
	t0 = time.Now()
	s.Restart(id)
	t.Log("restart", time.Since(t0))
	t.Log(c.Exists(t.Context(), "/a"))
}
