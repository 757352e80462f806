package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/examples/internal/process"
	"github.com/zkd-project/zkd/recipes/queue"
)

func TestMain(m *testing.M) {
	process.Main(main)
	goleak.VerifyTestMain(m)
}

func TestSignals(t *testing.T) {
	process.EndsOnSignals(t, "working on", 0, func(servers string) []string {
		if err := run(t.Context(), []string{"-servers", servers, "offer", "item"}, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		return []string{"-servers", servers, "work"}
	})
}

// program runs the program with a separate root.
func program(t *testing.T, servers *zktest.Proxy) func(args ...string) (string, error) {
	t.Helper()
	root := fmt.Sprintf("/test-%d", time.Now().UnixNano())
	c := servers.Client(t)
	if _, err := c.Create(t.Context(), root, nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := tree.Delete(context.Background(), c, root, tree.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"-servers", servers.ConnectString() + root}, args...), &out, io.Discard)
		return out.String(), err
	}
}

// Three in, three out.
func TestDemo(t *testing.T) {
	queue := program(t, zktest.Target(t, 1))
	got, err := queue("demo")
	if err != nil {
		t.Fatal(err)
	}
	want := "offered first\noffered second\noffered third\ntook first\ntook second\ntook third\nthe queue is empty\n"
	if got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestOfferAndWork(t *testing.T) {
	queue := program(t, zktest.Target(t, 1))
	if _, err := queue("offer", "wash", "dry"); err != nil {
		t.Fatal(err)
	}
	got, err := queue("work", "-n", "2")
	if err != nil {
		t.Fatal(err)
	}
	if want := "working on wash, attempt 1\nworking on dry, attempt 1\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if _, err := queue("sleep"); err == nil || !strings.Contains(err.Error(), `"sleep" is no command`) {
		t.Errorf("an unknown command: %v", err)
	}
}

// While a worker dies with an item in its hands, and the leader is killed, and the next
// one, each item is worked on to its end by one.
func TestKills(t *testing.T) {
	ensemble := zktest.StartEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var items []string
	for i := range 20 {
		items = append(items, fmt.Sprintf("item-%02d", i))
	}
	if err := offer(ctx, ensemble.Client(t), items); err != nil {
		t.Fatal(err)
	}

	// The victim is at its first item when its session ends.
	victim := ensemble.Client(t)
	holding, lost := make(chan string, 1), make(chan error, 1)
	v := worker{out: io.Discard, do: func(ctx context.Context, l *queue.Lease) error {
		holding <- string(l.Data())
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	var workers sync.WaitGroup
	workers.Go(func() { lost <- v.work(ctx, victim) })
	held := <-holding

	var mu sync.Mutex
	var done []string
	attempts := make(map[string]int)
	enough := make(chan struct{})
	working, stop := context.WithCancel(ctx)
	for range 3 {
		c := ensemble.Client(t, func(o *client.Options) { o.RenewSession = true })
		w := worker{out: io.Discard, do: func(ctx context.Context, l *queue.Lease) error {
			mu.Lock()
			defer mu.Unlock()
			done = append(done, string(l.Data()))
			attempts[string(l.Data())] = l.Attempt()
			switch len(done) {
			case 5, 10:
				ensemble.Restart(ensemble.KillLeader())
			case 15:
				id := victim.Session().ID()
				ensemble.ExpireSession(id)
			case len(items):
				close(enough)
			}
			return nil
		}}
		workers.Go(func() {
			// Told to stop in an outage, it may end with the error of that.
			if err := w.work(working, c); working.Err() == nil {
				t.Errorf("a worker: %v", err)
			}
		})
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Error("not all is done in a minute")
	}
	stop()
	workers.Wait()
	if err := <-lost; !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("the victim: %v, want ErrSessionExpired", err)
	}
	slices.Sort(done)
	if !slices.Equal(done, items) {
		t.Errorf("done are %q, want each of %q once", done, items)
	}
	if attempts[held] != 2 {
		t.Errorf("%s, which the victim had, was done at attempt %d, want 2", held, attempts[held])
	}
}
