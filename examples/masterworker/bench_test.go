package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// BenchmarkAssign measures how long a master takes to assign 10,000 tasks, on an
// ensemble of three in this process.
func BenchmarkAssign(b *testing.B) {
	const tasks = 10_000
	e := zktest.StartEnsemble(b, 3)
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, e.Proxy)
		w.fill(tasks)
		l := w.lane()
		given := &counter{left: tasks, done: make(chan struct{})}
		ctx, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 1)
		b.StartTimer()
		go func() { ended <- runMaster(ctx, l.connect, "m1", log.New(given, "", 0)) }()
		select {
		case <-given.done:
		case err := <-ended:
			b.Fatal(err)
		}
		b.StopTimer()
		if s := w.state(); len(s.Waiting) != 0 || len(find(s, "w1").Tasks) != tasks {
			b.Fatalf("%d tasks are waiting, %d assigned", len(s.Waiting), len(find(s, "w1").Tasks))
		}
		stop()
		w.must(<-ended)
		b.StartTimer()
	}
	b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// fill queues tasks, and registers a worker that does none.
func (w *world) fill(tasks int) {
	for _, path := range append(layout.Parents(), layout.Worker("w1"), layout.Assignments("w1")) {
		_, err := w.look.Create(w.ctx, path, []byte(idle), client.CreateOptions{})
		w.must(err)
	}
	var made []*client.Future[client.Created]
	for i := range tasks {
		made = append(made, w.look.Async().Create(layout.NewTask(""), fmt.Append(nil, i), client.CreateOptions{Mode: client.PersistentSequential}))
	}
	for _, f := range made {
		_, err := f.Wait(w.ctx)
		w.must(err)
	}
}

// counter is a log that tells when so many tasks have been given away. It is written
// to under the lock of its log.Logger.
type counter struct {
	left int
	done chan struct{}
}

func (c *counter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(" gives ")) {
		if c.left--; c.left == 0 {
			close(c.done)
		}
	}
	return len(line), nil
}
