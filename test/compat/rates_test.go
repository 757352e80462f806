//go:build compat

package compat

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/queue"
)

// BenchmarkRecipes holds our recipes beside Curator's and kazoo's, on one server, in
// turn:
//
//	go test -tags compat -run '^$' -bench Recipes -benchtime 1x -count 5 ./test/compat
//
// Each sub-benchmark does one thing of a fixed size for each iteration, and reports
//
//	wakeups/op, requests/op  of each hand-over or item, counted on the wire
//	us/op                    of each hand-over or item, without the start of the program
//
// herd is 100 contenders of one session who are all in the line before the first
// one unlocks, and naive the lock that each beginner writes, in which everybody watches
// the children of the path (a session each: of one session they would share one watch);
// handover two sessions that want the same lock over and over; the queues
// are one producer, and then one consumer.
func BenchmarkRecipes(b *testing.B) {
	needKazoo(b)
	needRecipes(b)
	curator := javaCommand(b, "contend", "RateProgram", recipeJars()...)
	kazoo := []string{python, filepath.Join("python", "zkd_rate.py")}
	addr := start(b, target(b), config{}).addr
	const herd, turns, items = 100, 300, 2000
	for _, m := range []struct {
		name string
		n    int
		run  func(b *testing.B, r *rate)
	}{
		{"herd/zkd", herd, ourHerd},
		{"herd/curator", herd, program(curator, "herd")},
		{"herd/kazoo", herd, program(kazoo, "herd")},
		{"herd/naive", herd, naiveHerd},
		{"handover/zkd", turns, ourHandover},
		{"handover/curator", turns, program(curator, "handover")},
		{"handover/kazoo", turns, program(kazoo, "handover")},
		{"queue/zkd", items, ourQueue},
		{"queue/zkd-batches", items, ourBatches},
		{"queue/curator", items, program(curator, "queue")},
		{"queue/curator-background", items, program(curator, "background-queue")},
		{"queue/kazoo", items, program(kazoo, "queue")},
		{"leased-queue/zkd", items, ourLeased},
		{"leased-queue/kazoo", items, program(kazoo, "locking-queue")},
	} {
		b.Run(m.name, func(b *testing.B) {
			for range b.N {
				p := zktest.NewProxy(b, addr)
				r := &rate{p: p, path: "/rates/" + strconv.FormatInt(time.Now().UnixNano(), 36), n: m.n, took: map[string]float64{}}
				m.run(b, r)
				r.report(b, strings.HasPrefix(m.name, "handover"))
			}
		})
	}
}

// rate is one thing that is measured.
type rate struct {
	p    *zktest.Proxy
	path string
	n    int
	took map[string]float64 // seconds, by part
}

func (r *rate) report(b *testing.B, pair bool) {
	n := float64(r.n)
	if pair {
		n *= 2
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(r.p.Requests().Total())/n, "requests/op")
	b.ReportMetric(float64(r.p.Notifications())/n, "wakeups/op")
	for part, seconds := range r.took {
		b.ReportMetric(seconds*1e6/n, part+"-us/op")
	}
}

// measured notes how long fn takes.
func (r *rate) measured(b *testing.B, part string, fn func() error) {
	b.Helper()
	began := time.Now()
	if err := fn(); err != nil {
		b.Fatal(err)
	}
	r.took[part] = time.Since(began).Seconds()
}

// program runs another language's, which measures by itself.
func program(command []string, what string) func(b *testing.B, r *rate) {
	return func(b *testing.B, r *rate) {
		ctx, cancel := context.WithTimeout(b.Context(), programDeadline)
		defer cancel()
		args := append(command[1:], r.p.ConnectString(), what, r.path, strconv.Itoa(r.n))
		out, err := exec.CommandContext(ctx, command[0], args...).CombinedOutput()
		if err != nil {
			b.Fatalf("%s: %v\n%s", command[0], err, lastLines(string(out), 30))
		}
		for line := range strings.Lines(string(out)) {
			var part string
			var seconds float64
			if n, _ := fmt.Sscanf(line, "SECONDS %s %g", &part, &seconds); n == 2 {
				r.took[part] = seconds
			}
		}
	}
}

// naiveHerd has everybody look again at each change.
func naiveHerd(b *testing.B, r *rate) {
	clients := make([]*client.Client, r.n)
	for i := range clients {
		clients[i] = r.p.Client(b)
	}
	if err := settle.Ensure(b.Context(), clients[0], r.path, client.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	var places sync.WaitGroup
	places.Add(r.n)
	r.measured(b, "herd", func() error {
		return together(r.n, func(i int) error {
			own, err := clients[i].Create(b.Context(), r.path+"/n-", nil, client.CreateOptions{Mode: client.EphemeralSequential})
			places.Done()
			if err != nil {
				return err
			}
			places.Wait()
			for {
				list, err := clients[i].ChildrenW(b.Context(), r.path)
				if err != nil {
					return err
				}
				if slices.Min(list.Names) == own.Path[len(r.path)+1:] {
					return clients[i].Delete(b.Context(), own.Path, client.AnyVersion)
				}
				if _, err := list.Watch.Next(b.Context()); err != nil {
					return err
				}
			}
		})
	})
}

func ourHerd(b *testing.B, r *rate) {
	c := r.p.Client(b)
	m, err := lock.NewMutex(c, r.path, lock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	first := sync.OnceValue(func() error { // all are in the line
		for {
			list, err := c.ChildrenW(b.Context(), r.path)
			if err != nil || len(list.Names) == r.n {
				return err
			}
			if _, err := list.Watch.Next(b.Context()); err != nil {
				return err
			}
		}
	})
	r.measured(b, "herd", func() error {
		return together(r.n, func(int) error {
			held, err := m.Lock(b.Context())
			if err != nil {
				return err
			}
			if err := first(); err != nil {
				return err
			}
			return held.Release(b.Context())
		})
	})
}

func ourHandover(b *testing.B, r *rate) {
	clients := []*client.Client{r.p.Client(b), r.p.Client(b)}
	r.measured(b, "handover", func() error {
		return together(len(clients), func(i int) error {
			m, err := lock.NewMutex(clients[i], r.path, lock.Options{})
			for range r.n {
				if err != nil {
					return err
				}
				var held *hold.Held
				if held, err = m.Lock(b.Context()); err == nil {
					err = held.Release(b.Context())
				}
			}
			return err
		})
	})
}

// together runs fn n times at once, and returns one error of those that fail.
func together(n int, fn func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- fn(i) }()
	}
	var failed error
	for range n {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

var item = []byte(strings.Repeat("x", 100))

func ourQueue(b *testing.B, r *rate) {
	q, err := queue.New(r.p.Client(b), r.path, queue.Options{})
	if err != nil {
		b.Fatal(err)
	}
	r.measured(b, "offer", func() error {
		return repeat(r.n, func() error { return q.Offer(b.Context(), item) })
	})
	r.measured(b, "take", func() error {
		return repeat(r.n, func() error {
			_, err := q.Take(b.Context())
			return err
		})
	})
	if err := q.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func ourBatches(b *testing.B, r *rate) {
	q, err := queue.New(r.p.Client(b), r.path, queue.Options{})
	if err != nil {
		b.Fatal(err)
	}
	items := make([][]byte, r.n)
	for i := range items {
		items[i] = item
	}
	r.measured(b, "offer", func() error { return q.OfferAll(b.Context(), items) })
	r.measured(b, "take", func() error {
		for got := 0; got < r.n; {
			batch, err := q.TakeAll(b.Context(), r.n)
			if err != nil {
				return err
			}
			got += len(batch)
		}
		return nil
	})
	if err := q.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func ourLeased(b *testing.B, r *rate) {
	q, err := queue.NewLeased(r.p.Client(b), r.path, queue.Options{})
	if err != nil {
		b.Fatal(err)
	}
	items := make([][]byte, r.n)
	for i := range items {
		items[i] = item
	}
	r.measured(b, "offer", func() error { return q.OfferAll(b.Context(), items, queue.DefaultPriority) })
	r.measured(b, "take", func() error {
		return repeat(r.n, func() error {
			l, err := q.Take(b.Context())
			if err != nil {
				return err
			}
			return l.Ack(b.Context())
		})
	})
	if err := q.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// repeat does fn n times, one after the other.
func repeat(n int, fn func() error) error {
	for range n {
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}
