package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/jute"
)

// gate is a handler that waits before it answers.
type gate struct {
	began chan string // the tasks' data, as they come
	open  chan struct{}
}

func newGate() *gate { return &gate{make(chan string, 100), make(chan struct{})} }

// do waits for the gate to open, whatever ctx says, and answers with the name.
func (g *gate) do(name string) Handler {
	return func(_ context.Context, data []byte) ([]byte, error) {
		g.began <- string(data)
		<-g.open
		return []byte(name + " did " + string(data)), nil
	}
}

// says is a handler that answers with the name.
func says(name string) Handler {
	return func(_ context.Context, data []byte) ([]byte, error) {
		return []byte(name + " did " + string(data)), nil
	}
}

func (w *world) equal(got []string, want ...string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("got %q, want %q", got, want)
	}
}

// Each task is done once, by either worker, and nothing is left; results that are
// fetched are not kept unless that was asked for.
func allIsDone(w *world) {
	w.master("m1", w.lane())
	w.worker("w1", w.lane(), Upper)
	w.worker("w2", w.lane(), Upper)
	got := make([]string, 4)
	queued := make([]string, 4)
	o := Submission{
		Tasks:  []Task{task("", "a"), task("", "b"), task("x", "c"), task("y", "d")},
		Queued: func(i int, name string) { queued[i] = name },
		Done: func(i int, name string, r layout.Result) {
			got[i] += string(r.Text)
			if name != queued[i] {
				w.Errorf("task %d is done as %s, and queued as %s", i, name, queued[i])
			}
		},
	}
	w.must(submit(w.ctx, w.lane().connect, o))
	w.equal(got, "A", "B", "C", "D")
	if s := w.settled(); len(s.Done) != 0 {
		w.Errorf("results are left: %q", s.Done)
	}
}

func adminSeesNothing(w *world) {
	s, err := look(w.ctx, w.lane().connect)
	w.must(err)
	var out strings.Builder
	s.Print(&out)
	if got := out.String(); got != "There is no master.\n0 tasks waiting, 0 done and not fetched.\n" {
		w.Errorf("an empty system is %s", got)
	}
}

// The administrator sees the master and since when, the workers and what they are
// at, and the tasks.
func adminSeesAll(w *world) {
	w.master("m1", w.lane())
	g := newGate()
	defer close(g.open)
	w.worker("w1", w.lane(), g.do("w1"))
	w.submit(w.lane(), task("a", "1"), task("b", "2"))
	w.await("two tasks assigned", func(s layout.State) bool {
		return len(find(s, "w1").Tasks) == 2 && find(s, "w1").Status != idle
	})
	s, err := look(w.ctx, w.lane().connect)
	w.must(err)
	node, err := w.look.Get(w.ctx, layout.Master)
	w.must(err)
	if s.Master != "m1" || !s.Since.Equal(time.UnixMilli(node.Stat.Ctime)) {
		w.Errorf("the master is %s since %v, want m1 since %d ms", s.Master, s.Since, node.Stat.Ctime)
	}
	one := find(s, "w1")
	if one.Status != "works on "+one.Tasks[0] || one.Since.IsZero() || len(one.Tasks) != 2 {
		w.Errorf("the worker is %+v", one)
	}
	if want := w.state(); len(s.Waiting) != len(want.Waiting) || len(s.Done) != len(want.Done) {
		w.Errorf("got %+v, want %+v", s, want)
	}
}

// When the master's session ends, the other candidate takes over, and the old master
// returns as a candidate.
func masterFailsOver(w *world) {
	one := w.master("m1", w.lane())
	w.await("the first master", masterIs("m1"))
	l := w.lane()
	rec := l.Record()
	w.master("m2", l)
	w.must(rec.Await(w.ctx, "m2 stands by", func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Master }))
	back := one.Record()
	one.Refuse() // otherwise it may be faster
	one.expire()
	w.await("the second master", masterIs("m2"))
	one.Accept()
	w.must(back.Await(w.ctx, "m1 stands by", func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Master }))
	w.worker("w1", w.lane(), says("w1"))
	w.equal(w.submit(w.lane(), task("a", "1")).wait(w), "done: w1 did 1")
	if s := w.settled(); s.Master != "m2" {
		w.Errorf("the master is %s", s.Master)
	}
	if node, err := w.look.Get(w.ctx, layout.Epoch); err != nil || node.Stat.Version != 2 {
		w.Errorf("the epoch is %d, want 2; %v", node.Stat.Version, err)
	}
}

// A new master assigns the tasks that are waiting, and those that were assigned to a worker
// that does not exist any more.
func halfDoneWorkIsTakenOver(w *world) {
	for _, path := range append(layout.Parents(), layout.Assignments("dead")) {
		_, err := w.look.Create(w.ctx, path, nil, client.CreateOptions{})
		w.must(err)
	}
	for _, path := range []string{layout.Assigned("dead", "task-0000001000"), layout.Queued("task-0000001001")} {
		_, err := w.look.Create(w.ctx, path, []byte(path), client.CreateOptions{})
		w.must(err)
	}
	w.worker("w1", w.lane(), Upper)
	w.master("m1", w.lane())
	w.await("both are done", func(s layout.State) bool { return len(s.Done) == 2 })
	w.equal(w.settled().Done, "task-0000001000", "task-0000001001")
}

// A worker dies over a task: another one does it. What the dead one has to say is
// not heard.
func deadWorkersTasksGoToOthers(w *world) {
	w.master("m1", w.lane())
	g := newGate()
	one := w.worker("w1", w.lane(), g.do("w1"))
	s := w.submit(w.lane(), task("a", "1"))
	<-g.began
	w.worker("w2", w.lane(), says("w2"))
	w.awaitWorker("w2", idle, 0)
	back := one.Record()
	one.expire()
	w.equal(s.wait(w), "done: w2 did 1")
	close(g.open)
	w.must(back.Await(w.ctx, "w1 is back", func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Assignments("w1") }))
	if s := w.settled(); len(s.Done) != 1 {
		w.Errorf("one task has the results %q", s.Done)
	}
}

// A worker whose node was deleted by hand is out of service: its tasks go to others. It
// is alive and late with its result, which is refused: the task is not its own any more.
func lateResultIsDropped(w *world) {
	w.master("m1", w.lane())
	g := newGate()
	l := w.lane()
	ended := make(chan error, 1)
	go func() { ended <- runWorker(w.ctx, l.connect, "w1", g.do("w1"), w.log()) }()
	s := w.submit(w.lane(), task("a", "1"))
	<-g.began
	w.worker("w2", w.lane(), says("w2"))
	w.awaitWorker("w2", idle, 0)
	w.must(w.look.Delete(w.ctx, layout.Worker("w1"), client.AnyVersion))
	w.equal(s.wait(w), "done: w2 did 1")
	close(g.open)
	if err := <-ended; !errors.Is(err, client.ErrNoNode) {
		w.Errorf("the worker ended with %v, want that his node is gone", err)
	}
	node, err := w.look.Get(w.ctx, layout.Done(w.settled().Done[0]))
	if string(node.Data) != "done: w2 did 1" || node.Stat.Version != 0 || err != nil {
		w.Errorf("the result is %q, version %d, %v", node.Data, node.Stat.Version, err)
	}
}

// Of two masters with the same name the second one stands by, too: it does not take the
// other's node for its own.
func twoMastersOfAName(w *world) {
	one := w.master("m", w.lane())
	w.await("the first", masterIs("m"))
	l := w.lane()
	rec := l.Record()
	w.master("m", l)
	watches := func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Master }
	w.must(rec.Await(w.ctx, "the second stands by", watches))
	w.worker("w1", w.lane(), says("w1"))
	w.equal(w.submit(w.lane(), task("a", "1")).wait(w), "done: w1 did 1")
	looks := slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return !watches(r) })
	if len(looks) != 1 {
		w.Errorf("the second was not content to stand by: %v", rec.All())
	}
	w.must(one.end())
	w.equal(w.submit(w.lane(), task("b", "2")).wait(w), "done: w1 did 2")
	if node, err := w.look.Get(w.ctx, layout.Epoch); err != nil || node.Stat.Version != 2 {
		w.Errorf("the epoch is %d, want 2; %v", node.Stat.Version, err)
	}
}

// A worker goes just as a task comes: the master learns of the task first, chooses
// the worker, and is about to assign the task when all tasks of the worker are taken back.
// The task must not stay with the worker.
func taskOfALeavingWorker(w *world) {
	for _, path := range append(layout.Parents(), layout.Assignments("w1"), layout.Worker("w1")) {
		_, err := w.look.Create(w.ctx, path, nil, client.CreateOptions{})
		w.must(err)
	}
	l := w.lane()
	rec := l.Record()
	m := w.master("m1", l)
	w.must(rec.Await(w.ctx, "the master waits for tasks", func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Tasks }))
	m.Stall()
	_, err := w.look.Create(w.ctx, layout.NewTask(""), []byte("1"), client.CreateOptions{Mode: client.PersistentSequential})
	w.must(err)
	w.must(w.look.Delete(w.ctx, layout.Worker("w1"), client.AnyVersion))
	m.Resume()
	w.worker("w2", w.lane(), says("w2"))
	w.await("it is done", func(s layout.State) bool { return len(s.Done) == 1 })
}

// A master is cut off when it is about to assign a task, and another becomes master. When
// the old master is connected again, the servers refuse the assignment.
func oldMasterIsFenced(w *world) {
	old := w.master("m1", w.lane())
	w.await("the first master", masterIs("m1"))
	cut := old.CutBefore(func(op client.OpCode, path string) bool {
		return op == jute.OpMulti && strings.HasPrefix(path, w.dir+layout.Tasks)
	})
	w.worker("w1", w.lane(), says("w1"))
	w.awaitWorker("w1", idle, 0)
	old.Refuse()
	s := w.submit(w.lane(), task("a", "1"))
	<-cut.Done()
	// This is no real master: it does nothing.
	w.must(w.look.Delete(w.ctx, layout.Master, client.AnyVersion))
	_, err := w.look.Multi(w.ctx, client.CreateOp(layout.Master, []byte("m2"), client.CreateOptions{Mode: client.Ephemeral}),
		client.SetOp(layout.Epoch, []byte("m2"), client.AnyVersion))
	w.must(err)
	rec := old.Record()
	old.Accept()
	w.must(rec.Await(w.ctx, "m1 stands by", func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Master }))
	tried := slices.ContainsFunc(rec.All(), func(r zktest.Traced) bool { return r.Op == jute.OpMulti })
	if now := w.state(); len(now.Waiting) != 1 || !tried {
		w.Errorf("the old master has tried: %v; what he has left is %+v", tried, now)
	}
	w.must(w.look.Delete(w.ctx, layout.Master, client.AnyVersion))
	w.equal(s.wait(w), "done: w1 did 1")
}

// once has the reply to the create of a task with an ID swallowed, and its client kept
// away until the task is as it should be. The client must find it there.
func (w *world) once(arrived func(s layout.State) bool, queue func(l *lane) *submission) *submission {
	l := w.lane()
	l.connected = l.Refuse
	cut := l.CutAfter(w.createsTask)
	s := queue(l)
	<-cut.Done()
	w.await("the task has arrived", arrived)
	l.connected = nil
	l.Accept()
	return s
}

func (w *world) createsTask(op client.OpCode, path string) bool {
	return (op == jute.OpCreate || op == jute.OpCreate2) && strings.HasPrefix(path, w.dir+layout.Tasks+"/")
}

// The task is not where it was created, when its client looks for it: a worker has it.
func onceWhileAssigned(w *world) {
	w.master("m1", w.lane())
	g := newGate()
	w.worker("w1", w.lane(), g.do("w1"))
	w.awaitWorker("w1", idle, 0)
	s := w.once(func(s layout.State) bool { return len(find(s, "w1").Tasks) == 1 },
		func(l *lane) *submission { return w.submit(l, task("a", "1")) })
	rec := s.Record()
	w.must(rec.Await(w.ctx, "the client waits", func(r zktest.Traced) bool { return r.Watch }))
	close(g.open)
	w.equal(s.wait(w), "done: w1 did 1")
	if now := w.settled(); len(now.Done) != 1 {
		w.Errorf("one task has the results %q", now.Done)
	}
}

// The task is done by the time that its client is back.
func onceWhileDone(w *world) {
	w.master("m1", w.lane())
	w.worker("w1", w.lane(), says("w1"))
	s := w.once(func(s layout.State) bool { return len(s.Done) == 1 },
		func(l *lane) *submission { return w.submit(l, task("a", "1")) })
	w.equal(s.wait(w), "done: w1 did 1")
	if now := w.settled(); len(now.Done) != 1 {
		w.Errorf("one task has the results %q", now.Done)
	}
}

// The client's session ends before it knows. It begins again with the same ID.
func onceInTwoSessions(w *world) {
	w.master("m1", w.lane())
	w.worker("w1", w.lane(), says("w1"))
	l := w.lane()
	cut := l.CutAfter(w.createsTask)
	s := w.submit(l, task("other", "0"), task("a", "1"))
	<-cut.Done()
	s.expire()
	w.equal(s.wait(w), "done: w1 did 0", "done: w1 did 1")
	if now := w.settled(); len(now.Done) != 2 {
		w.Errorf("two tasks have the results %q", now.Done)
	}
}

// Without an ID a task may be queued once more: this is what it looks like.
func withoutAnIDTwice(w *world) {
	l := w.lane()
	cut := l.CutAfter(w.createsTask)
	s := w.submit(l, task("", "1"))
	<-cut.Done()
	w.await("two tasks", func(s layout.State) bool { return len(s.Waiting) == 2 })
	w.master("m1", w.lane())
	w.worker("w1", w.lane(), says("w1"))
	w.equal(s.wait(w), "done: w1 did 1")
	w.await("two results", func(s layout.State) bool { return len(s.Done) == 2 })
}

func failedIsAResult(w *world) {
	w.master("m1", w.lane())
	w.worker("w1", w.lane(), func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no idea how") })
	w.equal(w.submit(w.lane(), task("a", "1")).wait(w), "failed: no idea how")
}

// A worker that is told to end finishes its current task. The others return to the queue,
// and go to another worker.
func workerEndsCleanly(w *world) {
	w.master("m1", w.lane())
	g := newGate()
	one := w.worker("w1", w.lane(), g.do("w1"))
	s := w.submit(w.lane(), task("a", "1"), task("b", "2"))
	first := <-g.began
	w.await("two tasks assigned", func(s layout.State) bool { return len(find(s, "w1").Tasks) == 2 })
	one.stop()
	close(g.open)
	w.must(one.end())
	w.worker("w2", w.lane(), says("w2"))
	want := []string{"done: w1 did 1", "done: w2 did 2"}
	if first == "2" {
		want = []string{"done: w2 did 1", "done: w1 did 2"}
	}
	w.equal(s.wait(w), want...)
	if gone := find(w.settled(), "w1"); gone.Status != "" {
		w.Errorf("the worker is still there: %+v", gone)
	}
}

func masterEndsCleanly(w *world) {
	m := w.master("m1", w.lane())
	w.await("the master", masterIs("m1"))
	w.must(m.end())
	if s := w.state(); s.Master != "" {
		w.Errorf("the master is still there: %+v", s)
	}
}

// Of two workers of one name the second waits until the first has gone, and then has
// the tasks of the name.
func oneOfAName(w *world) {
	w.master("m1", w.lane())
	one := w.worker("w", w.lane(), says("first"))
	w.awaitWorker("w", idle, 0)
	l := w.lane()
	rec := l.Record()
	w.worker("w", l, says("second"))
	w.must(rec.Await(w.ctx, "the second waits", func(r zktest.Traced) bool { return r.Watch && r.Path == w.dir+layout.Worker("w") }))
	w.equal(w.submit(w.lane(), task("a", "1")).wait(w), "done: first did 1")
	w.must(one.end())
	w.equal(w.submit(w.lane(), task("b", "2")).wait(w), "done: second did 2")
}

// Tasks wait as long as there are no workers.
func tasksWaitForWorkers(w *world) {
	w.master("m1", w.lane())
	var tasks []Task
	var want []string
	for i := range 200 {
		tasks = append(tasks, task("", fmt.Sprint(i)))
		want = append(want, fmt.Sprintf("done: w1 did %d", i))
	}
	s := w.submit(w.lane(), tasks...)
	w.await("all are queued", func(s layout.State) bool { return len(s.Waiting) == len(tasks) })
	w.worker("w1", w.lane(), says("w1"))
	w.equal(s.wait(w), want...)
	w.settled()
}

func badID(w *world) {
	err := submit(w.ctx, w.lane().connect, Submission{Tasks: []Task{task("a/b", "1")}})
	if err == nil || !strings.Contains(err.Error(), "slash") {
		w.Errorf("an id with a slash: %v", err)
	}
}
