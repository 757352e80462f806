package main

import (
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/jute"
)

// A worker leaves when the master has just chosen it for a task, and the connection breaks
// under the assignment. The repeated assignment is refused; it is not made and taken back.
func nothingForWhoIsGone(w *world) {
	l := w.lane()
	w.master("m1", l)
	w.await("the master", masterIs("m1"))
	for _, path := range []string{layout.Assignments("gone"), layout.Worker("gone")} {
		_, err := w.look.Create(w.ctx, path, []byte(idle), client.CreateOptions{})
		w.must(err)
	}
	l.Refuse() // until the worker is gone
	cut := l.CutBefore(func(op client.OpCode, path string) bool {
		return op == jute.OpMulti && strings.HasPrefix(path, w.dir+layout.Assignments("gone")+"/")
	})
	s := w.submit(w.lane(), task("a", "1"))
	<-cut.Done()
	w.must(w.look.Delete(w.ctx, layout.Worker("gone"), client.AnyVersion))
	l.Accept()
	w.worker("w1", w.lane(), says("w1"))
	w.equal(s.wait(w), "done: w1 did 1")
	node, err := w.look.Get(w.ctx, layout.Assignments("gone"))
	if err != nil || node.Stat.Cversion != 0 {
		w.Errorf("who was gone has been assigned something: his node has cversion %d, %v", node.Stat.Cversion, err)
	}
}
