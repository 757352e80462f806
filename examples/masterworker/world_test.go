package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// patience ends what hangs; nothing is decided by it otherwise.
const patience = 5 * time.Minute

// world is a system with a part of the tree to itself.
type world struct {
	testing.TB
	ctx     context.Context // ends what hangs
	servers *zktest.Proxy
	dir     string         // the clients' "/"
	look    *client.Client // which has no faults
}

func newWorld(t testing.TB, servers *zktest.Proxy) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{TB: t, ctx: ctx, servers: servers}
	c := servers.Client(t).WithRetry(quick())
	dir, err := settle.Create(ctx, c, "/mwtest", nil, settle.CreateOptions{By: settle.ByGUID})
	w.must(err)
	w.dir, w.look = dir.Path, c.Namespace(dir.Path)
	if zktest.External() {
		t.Cleanup(func() { tree.Delete(context.WithoutCancel(ctx), c, dir.Path, tree.DeleteOptions{}) })
	}
	return w
}

// quick is a retry policy that is patient, but makes no long pauses.
func quick() *client.RetryPolicy {
	return &client.RetryPolicy{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// lane is the way to the servers of one
type lane struct {
	*zktest.Proxy
	dir string
	// connected, if not nil, is called when there is a session.
	connected func()

	mu      sync.Mutex
	current *client.Client
}

// lane makes one. Of several addresses a client tries the next one without a pause.
func (w *world) lane() *lane {
	servers := strings.Split(w.servers.ConnectString(), ",")
	for len(servers) < 4 {
		servers = append(servers, servers...)
	}
	return &lane{Proxy: zktest.NewProxy(w, servers...), dir: w.dir}
}

// calm returns a lane without faults: other tests use it, too.
func (w *world) calm() *lane { return &lane{Proxy: w.servers, dir: w.dir} }

func (l *lane) connect(ctx context.Context, o client.Options) (*client.Client, error) {
	o.Logger, o.PlainSession = client.NoLog, true // a write whose connection is lost is in doubt
	c, err := client.Connect(ctx, l.ConnectString()+l.dir, o)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.current = c
	l.mu.Unlock()
	if l.connected != nil {
		l.connected()
	}
	return c.WithRetry(quick()), nil
}

// session returns that of the program at the moment, or 0.
func (l *lane) session() client.SessionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil || l.current.State().Final() {
		return 0
	}
	id := l.current.Session().ID()
	return id
}

// expire ends the session, as if nothing had been heard of the program for long.
func (l *lane) expire() {
	if id := l.session(); id != 0 {
		l.ExpireSession(id)
	}
}

// role is a program that runs.
type role struct {
	*lane
	stop func()        // tells it to end
	done chan struct{} // closed when it has
	err  error
}

// start runs a program, and again when its session ends. It is stopped with the test.
func (w *world) start(l *lane, fn func(ctx context.Context) error) *role {
	ctx, stop := context.WithCancel(w.ctx)
	r := &role{lane: l, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			r.err = fn(ctx)
			if ctx.Err() != nil || !errors.Is(r.err, client.ErrSessionExpired) {
				return
			}
		}
	}()
	w.Cleanup(func() {
		if err := r.end(); err != nil && w.ctx.Err() == nil {
			w.Errorf("a role ended with: %v", err)
		}
	})
	return r
}

// end tells it to end, and returns how it did.
func (r *role) end() error {
	r.stop()
	<-r.done
	return r.err
}

func (w *world) log() *log.Logger { return log.New(w.Output(), "", log.Ltime|log.Lmicroseconds) }

func (w *world) master(name string, l *lane) *role {
	return w.start(l, func(ctx context.Context) error { return runMaster(ctx, l.connect, name, w.log()) })
}

func (w *world) worker(name string, l *lane, do Handler) *role {
	return w.start(l, func(ctx context.Context) error { return runWorker(ctx, l.connect, name, do, w.log()) })
}

// submission is one that runs.
type submission struct {
	*role
	mu      sync.Mutex
	names   map[int]string
	results map[int]layout.Result
}

// submit queues tasks, and leaves the results on the servers.
func (w *world) submit(l *lane, tasks ...Task) *submission {
	s := &submission{names: make(map[int]string), results: make(map[int]layout.Result)}
	o := Submission{Tasks: tasks, Keep: true, Done: func(i int, task string, r layout.Result) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if before, ok := s.names[i]; ok && before != task && tasks[i].ID != "" {
			w.Errorf("the task with the id %s is done as %s, and was as %s", tasks[i].ID, task, before)
		}
		s.names[i], s.results[i] = task, r
	}}
	s.role = w.start(l, func(ctx context.Context) error { return submit(ctx, l.connect, o) })
	return s
}

// wait returns the results, once all are there.
func (s *submission) wait(w *world) []string {
	w.Helper()
	<-s.done
	w.must(s.err)
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for i := range len(s.results) {
		texts = append(texts, string(s.results[i].Encode()))
	}
	return texts
}

// state reads the state of the system without the code under test. It includes all that any
// server has acknowledged.
func (w *world) state() layout.State {
	w.Helper()
	w.must(w.look.Sync(w.ctx, "/"))
	workers, err := w.look.Children(w.ctx, layout.Assign)
	if errors.Is(err, client.ErrNoNode) {
		return layout.State{}
	}
	w.must(err)
	results, err := w.look.MultiRead(w.ctx, layout.StateOps(workers.Names)...)
	w.must(err)
	state, err := layout.ReadState(workers.Names, results)
	w.must(err)
	return state
}

// await returns when the state is as it should be.
func (w *world) await(what string, fits func(s layout.State) bool) layout.State {
	w.Helper()
	watch, err := w.look.AddWatch(w.ctx, "/", client.WatchRecursive)
	w.must(err)
	defer watch.Close(w.ctx)
	for {
		s := w.state()
		if fits(s) {
			return s
		}
		if _, err := watch.Next(w.ctx); err != nil {
			w.Fatalf("%s: it never came to that, but to %+v: %v", what, s, err)
		}
	}
}

// find returns a worker of the state.
func find(s layout.State, worker string) layout.WorkerState {
	for _, w := range s.Workers {
		if w.Name == worker {
			return w
		}
	}
	return layout.WorkerState{}
}

func masterIs(name string) func(layout.State) bool {
	return func(s layout.State) bool { return s.Master == name }
}

// awaitWorker waits until a worker has n tasks and that status.
func (w *world) awaitWorker(name, status string, n int) {
	w.Helper()
	w.await(fmt.Sprintf("worker %s is %q with %d tasks", name, status, n), func(s layout.State) bool {
		found := find(s, name)
		return found.Status == status && len(found.Tasks) == n
	})
}

// settled waits until there is nothing left to be done, and checks that.
func (w *world) settled() layout.State {
	w.Helper()
	return w.await("nothing is left", func(s layout.State) bool {
		for _, worker := range s.Workers {
			if len(worker.Tasks) > 0 || worker.Status != "" && worker.Status != idle {
				return false
			}
		}
		return len(s.Waiting) == 0
	})
}

// task makes one; an empty id is for one that may be queued twice.
func task(id, text string) Task { return Task{ID: id, Data: []byte(text)} }
