package main

import (
	"log"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/jute"
)

// The hazard of re-ordering: an older status must not be written over a newer one.
// (1) A worker reports that he works; (2) the connection breaks before that reaches
// the servers; (3) his callback, which would report it again, has to wait its turn;
// (4) meanwhile he is done, and reports that he is idle, (5) which the servers get;
// (6) now the callback's turn has come. It must see that the news is old.
func TestOlderStatusIsNotWrittenOverNewer(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	for _, path := range []string{layout.Workers, layout.Worker("w1")} {
		if _, err := c.Create(t.Context(), path, nil, client.Persistent, nil); err != nil {
			t.Fatal(err)
		}
	}
	w := &worker{name: "w1", c: c, a: c.Async(), log: log.New(t.Output(), "", 0), end: newEnding(), status: idle}

	blocked, gate := make(chan struct{}), make(chan struct{})
	w.a.Exists("/", func(client.Presence, error) {
		close(blocked)
		<-gate
	})
	<-blocked
	cut := s.CutBefore(zktest.OpAt(jute.OpSetData, layout.Worker("w1")))
	w.setStatus("works on a task") // 1
	<-cut.Done()                   // 2
	if _, _, err := c.Steady().Exists(t.Context(), "/"); err != nil {
		t.Fatal(err) // there is another connection
	}
	w.setStatus(idle) // 4
	status := func() string {
		data, _, err := c.Get(t.Context(), layout.Worker("w1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got := status(); got != idle { // 5
		t.Fatalf("status is %q, want %q", got, idle)
	}
	close(gate) // 6
	turn := make(chan struct{})
	w.a.Exists("/", func(client.Presence, error) { close(turn) })
	<-turn // behind the callback, and whatever it has issued
	if got := status(); got != idle {
		t.Errorf("status is %q, want %q: the older one was written over the newer", got, idle)
	}
}
